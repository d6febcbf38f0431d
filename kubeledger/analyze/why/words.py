"""Short words for amounts, times and lists."""

from __future__ import annotations

import re

from kubeledger.model.units import NS_PER_S, format_ts

__all__ = ["HEADLINE_MAX", "ended", "seconds", "size", "time", "times"]

HEADLINE_MAX = 200
_FRACTION = re.compile(r"(T\d\d:\d\d:\d\d)\.\d+Z")
_UNITS = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def ended(text: str) -> str:
    """The text with a full stop, unless it ends with an ellipsis."""
    return text if text.endswith("…") else f"{text}."


def seconds(text: str) -> str:
    """The text with its times to the second."""
    return _FRACTION.sub(r"\1Z", text)


def size(count: int) -> str:
    """Bytes in the largest unit that leaves no fraction worth showing: ``80Mi``, ``1443Mi``."""
    for unit, name in _UNITS:
        if count >= unit and (count % unit == 0 or count >= 10 * unit):
            return f"{round(count / unit)}{name}"
    return f"{count} bytes"


def time(ts_ns: int) -> str:
    """A time to the second."""
    return format_ts(ts_ns // NS_PER_S * NS_PER_S)


def times(first_ts_ns: int, last_ts_ns: int, count: int) -> str:
    """``at T``, or how often between the first and the last time."""
    if count <= 1:
        return f"at {time(last_ts_ns)}"
    begin, end = time(first_ts_ns), time(last_ts_ns)
    if begin[:10] == end[:10]:
        end = end[11:]
    return f"{count} times between {begin} and {end}"
