"""Which year klog's stamps are of, by full times that lines hold near to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from kubeledger.ingest.klog.stamps import stamp_ns
from kubeledger.ingest.sources.times import api_time, go_date
from kubeledger.model.units import NS_PER_S

EVENT_TIME = b"LastTimestamp:"
"""Of an event that was not sent, which client-go writes out (``sent_events``)."""

_EVENT_LONG = 90
"""So long are its name and a time at most; another's time does not follow as soon."""
_PAST = re.compile(
    rb"(?:[tT]imestamp|[tT]ime|started[aA]t|finished[aA]t|seen|ts|begin at \w+|end at \w+)\W{1,6}"
    rb"(20\d\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)"
)
"""Full times at which something had happened when the line was written."""
_DAY_NS = 86_400 * NS_PER_S


class YearVotes:
    """A full time that is a day from a stamp at most is for its own year.

    Statuses, events that were not sent, and journald's banner hold such; which zone they are in
    does not matter.
    """

    def __init__(self) -> None:
        self._votes: dict[int, list[int]] = {}

    def take_line(self, line: bytes, stamps: Sequence[bytes]) -> None:
        """What a line shows, given the stamps it may be near to."""
        for day, clock in _PAST.findall(line):
            with suppress(ValueError):
                ts_ns = api_time(f"{day.decode()}T{clock.decode()}Z") or 0
                self._vote(int(day[:4]), ts_ns, stamps)

    def take_event(self, text: bytes, stamp: bytes) -> None:
        """What an event shows that was not sent.

        Args:
            text: from ``EVENT_TIME`` on.
            stamp: that of its line.
        """
        text = text[:_EVENT_LONG]
        self.take_line(text, (stamp,))
        if (date := go_date(text.decode("utf-8", "replace"))) is not None:
            self._vote(*date, (stamp,))

    def _vote(self, year: int, ts_ns: int, stamps: Sequence[bytes]) -> None:
        with suppress(ValueError):
            if any(abs(stamp_ns(stamp, year) - ts_ns) <= _DAY_NS for stamp in stamps):
                self._votes.setdefault(year, []).append(ts_ns)

    def reference_ns(self) -> int | None:
        """A full time of the year that most are for; None where none is."""
        return max(self._votes.values(), key=len)[0] if self._votes else None
