"""TIME as users write it, for the command line and the Python door: here the clock is read."""

from __future__ import annotations

import re
import time

from kubeledger.errors import BadQuestionError
from kubeledger.units import parse_go_duration, parse_ts

__all__ = ["parse_time"]

_DAYS = re.compile(r"-(\d{1,6})d")
_NS_PER_DAY = 24 * 3600 * 1_000_000_000


def parse_time(text: str) -> int:
    """Nanoseconds since the epoch of a TIME as users write it.

    Args:
        text: RFC 3339 (no zone means UTC), ``now``, or a span before now: ``-2h``,
            ``-1h30m``, ``-3d``.

    Raises:
        BadQuestionError: it is none of these.
    """
    word = text.strip()
    if word == "now":
        return time.time_ns()
    try:
        if word.startswith("-"):
            days = _DAYS.match(word)
            span_ns = -int(days[1]) * _NS_PER_DAY if days else 0
            rest = word[days.end() :] if days else word[1:]
            if rest or not days:
                span_ns -= parse_go_duration(rest)
            return time.time_ns() + span_ns
        return parse_ts(word)
    except ValueError:
        raise BadQuestionError(
            f"{text!r} is no time",
            advice="give RFC 3339 (2026-11-21T03:07:53Z), `now`, or a span before now (-2h)",
        ) from None
