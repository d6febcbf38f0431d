"""Single values of log lines, whatever version and form of klog wrote them."""

from __future__ import annotations

import re
from typing import Any

from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.units import whole_number

_POD_TEXT = re.compile(r"(?P<name>[^_()\s]+)_(?P<namespace>[^_()\s]+)\((?P<uid>[^()\s]*)\)")


def text_of(line: LogLine, *keys: str) -> str | None:
    """The first of these keys that the line has, as text; None when it has none of them."""
    values = line.values or {}
    for key in keys:
        value = values.get(key)
        if value is not None:
            return go_text(value)
    return None


def go_text(value: Any) -> str:  # noqa: ANN401 - any decoded value
    """A value as Go's ``%v`` prints it: ``[a b]``, ``map[k:v]``, ``true``.

    klog writes ``["a","b"]`` where the kubelet's own texts hold ``[a b]`` of the same list.
    """
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case None:
            return "<nil>"
        case list() | tuple():
            return f"[{' '.join(map(go_text, value))}]"
        case dict():
            members = (f"{key}:{go_text(value[key])}" for key in sorted(value))
            return f"map[{' '.join(members)}]"
        case _:
            return str(value)


def integer(value: Any) -> int | None:  # noqa: ANN401 - any decoded value
    """The value as a whole number, None when it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return whole_number(value)


def strings_of(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any decoded value
    """A list of strings, from JSON or from Go's ``[a b]`` and ``map[a:{} b:{}]``, sorted."""
    if isinstance(value, list | tuple | dict):
        return tuple(sorted(str(item) for item in value))
    return go_list(str(value)) if value is not None else ()


def go_list(text: str) -> tuple[str, ...]:
    """The items of Go's ``[a b]``, or the keys of ``map[a:{} b:{}]``, sorted."""
    keys_only = text.startswith("map[")
    inner = text.removeprefix("map").removeprefix("[").removesuffix("]")
    items = (item.removesuffix(":{}") if keys_only else item for item in inner.split())
    return tuple(sorted(item.strip('",') for item in items))


def split_pod(reference: str | None) -> tuple[str | None, str | None]:
    """``namespace/name`` of a structured line as a pair; (None, None) when it is no such thing."""
    namespace, slash, name = (reference or "").partition("/")
    return (namespace, name) if slash and namespace and name else (None, None)


def split_pod_text(text: str) -> tuple[str | None, str | None, str | None]:
    """Namespace, name and UID of free text's ``name_namespace(uid)``; None for what is missing."""
    match = _POD_TEXT.fullmatch(text)
    if match is None:
        return None, None, None
    return match["namespace"], match["name"], match["uid"] or None
