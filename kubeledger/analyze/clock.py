"""TIME as users write it, on the command line and in Python: here the clock is read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from kubeledger.model.errors import BadQuestionError
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S, parse_go_duration, parse_ts

Span = Callable[[], tuple[int, int]]
"""Gives the first and the last time of the records, ns; called only by the forms that need it."""

TIME_HELP = (
    "2026-11-21T03:07:53Z, 03:07 (that time of the recorded day), +5m (after the first record), "
    "-2h (before now) or now"
)
"""The forms of a TIME, for help texts and hints."""

_DAYS = regex(r"(\d{1,6})d", re.ASCII)
_TO_THE_MINUTE = regex(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d)(\s?(?:[Zz]|[+-]\d\d:?\d\d))?", re.ASCII)
_OF_A_DAY = regex(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s?[Zz]?", re.ASCII)
_NS_PER_DAY = 24 * 3600 * NS_PER_S
_FIRST_NS = -62_135_596_800 * NS_PER_S  # of the year 1
_END_NS = 253_402_300_800 * NS_PER_S  # of the year 9999


def parse_time(text: str, span: Span | None = None) -> int:
    """Nanoseconds since the epoch of a TIME as users write it.

    Args:
        text: RFC 3339, of which seconds and zone may be left out (no zone means UTC); ``now``;
            a duration before now (``-2h``, ``-1h30m``, ``-3d``) or after the first record
            (``+5m``); or a time of day (``03:17``, ``03:17:32.5``, UTC): the latest one that
            lies between the first and the last record, else that of the last record's day.
        span: of the records in question; None where there are none to count from.

    Raises:
        BadQuestionError: it is none of these, or it counts from records and there are none.
    """
    try:
        ts_ns = _parse(text, span)
        if not _FIRST_NS <= ts_ns < _END_NS:
            raise ValueError("a year of other than four digits")
    except ValueError:
        raise BadQuestionError(
            f"{text!r} is not a valid time", advice=f"write {TIME_HELP}"
        ) from None
    return ts_ns


def _parse(text: str, span: Span | None) -> int:
    word = text.strip()
    if word == "now":
        return time.time_ns()
    if word.startswith("-"):
        return time.time_ns() - _duration(word[1:])
    if word.startswith("+"):
        duration_ns = _duration(word[1:])
        return _records(text, span)[0] + duration_ns
    if match := _OF_A_DAY.fullmatch(word):
        time_of_day_ns = _time_of_day(match)
        return _on_a_recorded_day(time_of_day_ns, *_records(text, span))
    if match := _TO_THE_MINUTE.fullmatch(word):
        word = f"{match[1]}:00{match[2] or ''}"
    return parse_ts(word)


def _duration(text: str) -> int:
    """As ``parse_go_duration``, without a sign; days may stand before."""
    days = _DAYS.match(text)
    rest = text[days.end() :] if days else text
    if rest.startswith(("+", "-")):
        raise ValueError("two signs")
    days_ns = int(days[1]) * _NS_PER_DAY if days else 0
    return days_ns + (parse_go_duration(rest) if rest or not days else 0)


def _time_of_day(match: re.Match[str]) -> int:
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("no time of a day")
    fraction_ns = int((match[4] or "").ljust(9, "0"))
    return (hours * 3600 + minutes * 60 + seconds) * NS_PER_S + fraction_ns


def _on_a_recorded_day(time_of_day_ns: int, first_ns: int, last_ns: int) -> int:
    on_last_day = last_ns - last_ns % _NS_PER_DAY + time_of_day_ns
    latest = on_last_day if on_last_day <= last_ns else on_last_day - _NS_PER_DAY
    return latest if first_ns <= latest else on_last_day


def _records(text: str, span: Span | None) -> tuple[int, int]:
    if span is None:
        raise BadQuestionError(
            f"{text!r} counts from the records, and there are none here",
            advice="write 2026-11-21T03:07:53Z, now, or -2h (before now)",
        )
    return span()
