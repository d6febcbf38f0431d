"""Texts as integers: RFC 3339, Go's layouts, durations to nanoseconds and back; sizes, numbers."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
GO_DURATION_MAX_NS = (1 << 63) - 1
"""What Go's ``time.Since`` of the zero time gives: longer ago than it can say."""
_DAY_S = 86_400
_EPOCH = date(1970, 1, 1).toordinal()

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?"
    r"\s?(Z|z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_API_TIME = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,6})?) ?(?:([KMGT])(I?))?B?", re.ASCII | re.IGNORECASE)
_SIZE_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_DURATION_LENGTH_MAX = 256
_BINARY = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_DIGITS_MAX = 4
_WHOLE = re.compile(r"-?0*\d{1,19}", re.ASCII)
_DURATION_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}


@lru_cache(maxsize=1 << 12)  # snapshots show the same times again and again
def parse_ts(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time; no zone means UTC.

    Raises:
        ValueError: the text is no such time.
    """
    match = _RFC3339.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    return _from_match(match)


def parse_api_ts(text: str) -> int:
    """Nanoseconds since the epoch of a time as objects of the API hold it.

    Stricter than ``parse_ts``: a ``T`` between, and a zone.

    Raises:
        ValueError: the text is no such time.
    """
    if _API_TIME.fullmatch(text) is None:
        raise ValueError("not an RFC 3339 time")
    return parse_ts(text)


def parse_go_time(text: str) -> int:
    """Nanoseconds of Go's ``time.Time.String()`` (``2026-11-21 02:52:42.07 +0000 UTC m=+0.8``).

    Raises:
        ValueError: the text is no such time.
    """
    match = _RFC3339.match(text)
    if match is None:
        raise ValueError(f"not a Go time: {text!r}")
    return _from_match(match)


def _from_match(match: re.Match[str]) -> int:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if hour > "23" or minute > "59" or second > "59":
        raise ValueError(f"not an RFC 3339 time: {match[0]!r}")
    seconds = _day_s(int(year), int(month), int(day))
    seconds += int(hour) * 3600 + int(minute) * 60 + int(second)
    ts_ns = seconds * NS_PER_S + (int(fraction.ljust(9, "0")) if fraction else 0)
    if zone and zone not in "Zz":
        offset_s = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        ts_ns -= offset_s * NS_PER_S if zone[0] == "+" else -offset_s * NS_PER_S
        if not _day_s(1, 1, 1) <= ts_ns // NS_PER_S < _day_s(9999, 12, 31) + _DAY_S:
            raise ValueError(f"in UTC not a time of the years 1 to 9999: {match[0]!r}")
    return ts_ns


@lru_cache(maxsize=256)
def _day_s(year: int, month: int, day: int) -> int:
    """Seconds from the epoch to the beginning of a day."""
    return (date(year, month, day).toordinal() - _EPOCH) * _DAY_S


@lru_cache(maxsize=256)
def _day_text(days: int) -> str:
    return date.fromordinal(days + _EPOCH).isoformat()


@lru_cache(maxsize=1 << 6)  # one record and the next are of one second, or of a few
def _second_text(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY_S)
    return f"{_day_text(days)}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def format_ts(ts_ns: int) -> str:
    """RFC 3339 in UTC with as many of nine decimals as are needed (Go's RFC3339Nano)."""
    seconds, fraction = divmod(ts_ns, NS_PER_S)
    if not fraction:
        return f"{_second_text(seconds)}Z"
    return f"{_second_text(seconds)}.{fraction:09d}".rstrip("0") + "Z"


def parse_go_duration(text: str) -> int:
    """Nanoseconds of a duration in Go's notation (``2m0s``, ``1h30m``, ``-1.5s``, ``0``).

    Raises:
        ValueError: the text is no such duration.
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, position = 0, 0
    if len(rest) > _DURATION_LENGTH_MAX:
        raise ValueError("not a Go duration: it is too long")
    while match := _DURATION_PART.match(rest, position):
        number, _, fraction = match[1].partition(".")
        unit = _DURATION_NS[match[2]]
        total += int(number or "0") * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        position = match.end()
    if not rest or position != len(rest):
        raise ValueError(f"not a Go duration: {text!r}")
    return sign * total


@lru_cache(maxsize=1 << 10)
def format_go_duration(nanoseconds: int) -> str:
    """Go's ``time.Duration.String()``: ``1m0s``, ``100ms``, ``0s``."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < NS_PER_S:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
        return "0s"
    minutes, rest = divmod(rest, 60 * NS_PER_S)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, NS_PER_S)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(number: int, unit: int) -> str:
    whole, fraction = divmod(number, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def parse_size(text: str) -> int:
    """Bytes of a size as users write it: ``500MB`` (millions), ``20GiB``, ``1000``.

    Raises:
        ValueError: it is none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    number, unit, binary = match.groups(default="")
    return int(float(number) * (1024 if binary else 1000) ** _SIZE_POWERS[unit.upper()])


def whole_number(text: object) -> int | None:
    """The integer that a text of plain digits writes; None for any other text or value.

    Other scripts' digits are no number here, and neither is what has more than 19 of them
    after its zeros: Python would refuse to read thousands, and no amount of a kubelet's has
    so many.
    """
    return int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None


def integer(value: object) -> int | None:
    """The value as a whole number, None when it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return whole_number(value)


def sizes_text(*counts: int) -> tuple[str, ...]:
    """Bytes for people: ``64Mi``, ``9001Mi``, ``13.5Gi``; several so that they can be compared.

    What is whole in a unit, in at most four digits, is shown exactly. Other amounts stand in the
    largest unit, and those near the largest of them in its unit, with as many decimals, up to
    three, as tell them apart; as bytes if none do.
    """
    whole = [_whole_size(count) for count in counts]
    if None not in whole:
        return tuple(text for text in whole if text is not None)
    largest = max(counts)
    unit = _rounded_size(largest, largest, 0)[-2:]
    for decimals in range(1, 4):
        texts = tuple(
            text
            if text is not None and (count * 10 < largest or text.endswith(unit))
            else _rounded_size(count, largest if count * 10 >= largest else count, decimals)
            for count, text in zip(counts, whole, strict=True)
        )
        alike = {n: float(t[:-2]) for n, t in zip(counts, texts, strict=True) if t.endswith(unit)}
        if len(set(alike.values())) == len(alike):
            return texts
    return tuple(str(count) for count in counts)


def _whole_size(count: int) -> str | None:
    for size, unit in (*_BINARY, (1, "")):
        if count % size == 0 and (count or size == 1) and count // size < 10**_DIGITS_MAX:
            return f"{count // size}{unit}"
    return None


def _rounded_size(count: int, like: int, decimals: int) -> str:
    size, unit = next(each for each in (*_BINARY, (1, "")) if like >= each[0])
    return f"{count / size:.{decimals}f}{unit}"
