"""One klog entry in either form, text or JSON, to a log line; and single values of such lines."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from kubeledger.ingest.klog.router import PREFIX_LENGTH
from kubeledger.ingest.klog.values import json_values
from kubeledger.ingest.sources.items import TEXT_HELD, LogLine
from kubeledger.ingest.sources.plain import normal_message

_POD_TEXT = re.compile(r"(?P<name>[^_()\s]+)_(?P<namespace>[^_()\s]+)\((?P<uid>[^()\s]*)\)")


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


_JSON = msgspec.json.Decoder(dict[str, Any])
_CALLER = re.compile(r"(?:.*/)?([^/:]+):(\d{1,9})\Z")
_SEVERITIES = {b"I": "I", b"W": "W", b"E": "E", b"F": "F"}


class Place(msgspec.Struct):
    """A physical line: raw, without its carrier's prefix, and where it stands.

    Attributes:
        number: 1-based line; ``offset`` of its first byte in the decompressed file.
    """

    raw: bytes
    body: bytes
    number: int
    offset: int

    @property
    def text(self) -> str:
        """The raw line without blanks at its end, decoded; bytes that are no UTF-8 replaced."""
        return self.raw.rstrip().decode("utf-8", "replace")


def text_line(place: Place, header: re.Match[bytes], ts_ns: int, source: str) -> LogLine:
    """An entry in text form; all after the header is its message for now."""
    severity, _, pid, file, caller_line = header.groups()
    text, begin = place.text, header.end()
    if place.body is place.raw and text.isascii():  # letters and bytes are one
        message = text[begin:]
    else:
        message = place.body[begin:].rstrip().decode("utf-8", "replace")
    return LogLine(
        ts_ns=ts_ns,
        severity=_SEVERITIES[severity],
        pid=int(pid),
        file=_file_name(file),
        caller_line=int(caller_line),
        message=message,
        values=None,
        source=source,
        line=place.number,
        offset=place.offset,
        text=text[:TEXT_HELD],
    )


@lru_cache(4096)
def _file_name(caller: bytes) -> str:
    """The last part of a caller's path; callers are few."""
    return caller.decode("utf-8", "replace").rpartition("/")[2]


def json_stamp(body: bytes) -> bytes:
    """The digits of an entry's ``ts``."""
    return body[6 : body.find(b",", 6)]


def json_line(place: Place, ts_ns: int, source: str) -> LogLine | None:
    """An entry in JSON form; None when the line is not a JSON object (cut short)."""
    try:
        entry = _JSON.decode(place.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    caller = _CALLER.match(str(entry.get("caller", "")))
    return LogLine(
        ts_ns=ts_ns,
        severity="I" if "v" in entry else "E",
        pid=None,
        file=caller[1] if caller else "",
        caller_line=int(caller[2]) if caller else 0,
        message=normal_message(str(entry.get("msg", ""))),
        values=json_values(entry),
        source=source,
        line=place.number,
        offset=place.offset,
        text=place.text[:TEXT_HELD],
    )


def plain_evidence_line(place: Place, ts_ns: int, source: str) -> LogLine:
    """A line that klog did not write, so that it can be shown as evidence."""
    return LogLine(
        ts_ns=ts_ns,
        severity="I",
        pid=None,
        file="",
        caller_line=0,
        message=place.body.decode("utf-8", "replace"),
        values=None,
        source=source,
        line=place.number,
        offset=place.offset,
        text=place.text[:TEXT_HELD],
    )


def message_key(body: bytes) -> bytes | None:
    """The key the loop looks up; None where an escaped quote would cut it short."""
    close = body.find(b'"', body.find(b"] ", 22, 200) + 3)
    return body[21:close] if body[close - 1 : close] != b"\\" else None


def json_keys(body: bytes) -> tuple[bytes, bytes, bytes]:
    """Keys of a JSON entry's verdicts; empty where there is none.

    Of its caller, of caller and message, and of caller and the message's first letters.
    """
    begin = body.find(b",", 6)
    message = body.find(b'"msg":"', begin, begin + 300)
    if message < 0:
        return b"", b"", b""
    close = body.find(b'"', message + 7)
    whole = body[begin:close] if body[close - 1 : close] != b"\\" else b""
    caller = body[begin:message]
    if b'"caller"' not in caller:
        return b"", whole, b""
    return caller, whole, body[begin : message + 7 + PREFIX_LENGTH]
