"""Values in a row: by their path, as text, as a time."""

from __future__ import annotations

from typing import Any

from kubeledger.ingest.sources.times import api_time
from kubeledger.model.units import NS_PER_S
from kubeledger.model.wire.instants import is_storable

Path = tuple[str, ...]

_SCALES = ((10**17, 1), (10**14, 1000), (10**11, 10**6))
"""From which number on a time counts nanoseconds, microseconds, milliseconds; then seconds."""


def path(text: str) -> Path:
    """Keys, one behind the other, written with spaces between."""
    return tuple(text.split())


def at_path(value: Any, keys: Path) -> Any:  # noqa: ANN401 - any JSON value
    """What stands at a path; None for nothing.

    A key may hold several of the path, joined by dots, and a list of one stands for its member.
    """
    if len(keys) == 1 and type(value) is dict:
        value = value.get(keys[0])
        return value[0] if type(value) is list and len(value) == 1 else value
    for index, key in enumerate(keys):
        if type(value) is list and len(value) == 1:
            value = value[0]
        if type(value) is not dict:
            return None
        if key not in value:
            for end in range(index + 2, len(keys) + 1):
                dotted = ".".join(keys[index:end])
                if dotted in value:
                    return at_path(value[dotted], keys[end:])
            return None
        value = value[key]
    return value[0] if type(value) is list and len(value) == 1 else value


def first_text(row: dict[str, Any], paths: tuple[Path, ...]) -> str:
    """The first text at one of the paths that is not empty; empty for none."""
    for keys in paths:
        value = at_path(row, keys)
        if type(value) is bytes:
            value = value.decode("utf-8", "replace")
        if type(value) is str and value:
            return value
    return ""


def first_bytes(row: dict[str, Any], paths: tuple[Path, ...]) -> bytes | None:
    """The first message at one of the paths: a text, or the list of its bytes."""
    for keys in paths:
        value = at_path(row, keys)
        if type(value) is str:
            return value.encode("utf-8", "replace")
        if type(value) is bytes:
            return value
        if type(value) is list and value:
            try:
                if type(value[0]) is int:
                    return bytes(value)
                return "\n".join(value).encode("utf-8", "replace")
            except (TypeError, ValueError):  # a list of other things
                continue
    return None


def first_time(row: dict[str, Any], paths: tuple[Path, ...]) -> int | None:
    """The first time at one of the paths, in nanoseconds.

    Texts are RFC 3339 times; of numbers, and texts of digits, the size tells the unit.
    """
    for keys in paths:
        ts_ns = _time(at_path(row, keys))
        if ts_ns is not None:
            return ts_ns
    return None


def _time(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    if type(value) is bytes:
        value = value.decode("utf-8", "replace")
    ts_ns: int | None = None
    if type(value) is str:
        if not value.isdecimal():
            return _of_text(value)
        value = int(value) if len(value) < 20 else 0
    if type(value) is int and value > 0:
        scale = next((scale for floor, scale in _SCALES if value >= floor), NS_PER_S)
        ts_ns = value * scale
    elif type(value) is float and 0 < value < 10**18:
        whole = int(value)
        scale = next((scale for floor, scale in _SCALES if whole >= floor), NS_PER_S)
        ts_ns = whole * scale + round((value - whole) * scale)
    return ts_ns if ts_ns is not None and is_storable(ts_ns) else None


def _of_text(text: str) -> int | None:
    try:
        return api_time(text)
    except ValueError:
        pass
    whole, point, fraction = text.partition(".")
    if point and whole.isdecimal() and fraction.isdecimal() and len(text) < 40:
        scale = next((scale for floor, scale in _SCALES if int(whole) >= floor), NS_PER_S)
        ts_ns = int(whole) * scale + int(fraction[:9].ljust(9, "0")) * scale // NS_PER_S
        return ts_ns if is_storable(ts_ns) else None
    return None
