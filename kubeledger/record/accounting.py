"""What a recorder's steps come to, in numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from kubeledger.ledger.tail import Draft
from kubeledger.model.units import NS_PER_S
from kubeledger.record.metrics import (
    BYTES_READ,
    BYTES_WRITTEN,
    GAPS,
    NEWEST,
    OBSERVED,
    READ,
    READY,
    RECORDS,
    SETTLED,
    SUCCESS,
    UP,
    Metrics,
)
from kubeledger.record.observations import Gap, Lines, Mark, Observation, size_of

_NUMBER = re.compile(r"\d+")


class Accounting:
    """Turns what sources gave, and what was appended, into numbers.

    A source whose poll ends is up; what a gap that lasts names is down, until all of its gaps have
    ended. A log of which not all can be read lags since then.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._open: dict[tuple[str, str], str] = {}
        self._logs: set[str] = set()

    def polled(self, source: str, given: Sequence[Observation | Mark], now_ns: int) -> None:
        """What one poll of a source gave."""
        for each in given:
            if isinstance(each, Gap):
                self._gap(source, each)
            elif isinstance(each, Lines):
                self._logs.add(each.stream)
            elif isinstance(each, Mark):
                self._logs.add(source)
                self._open |= {(gap.stream, gap.reason): source for gap in each.gaps}
        self._metrics.set(UP, 1, source)
        self._metrics.set(SUCCESS, now_ns / NS_PER_S, source)
        observed = [each for each in given if not isinstance(each, Mark)]
        self._metrics.add(BYTES_READ, size_of(observed), source)
        for (stream, _), of_source in self._open.items():
            if of_source == source:
                self._metrics.set(UP, 0, stream)

    def stepped(self, now_ns: int, *, given: bool, more: bool) -> None:
        """A step is done: whether sources gave something, and may have more at once."""
        lacks = any(stream in self._logs for stream, _ in self._open)
        if given or lacks:
            self._metrics.raise_to(OBSERVED, now_ns / NS_PER_S)
        if not more and not lacks:
            self._metrics.raise_to(SETTLED, now_ns / NS_PER_S)
            self._metrics.set(READY, 1)
        self._metrics.loop_turned()

    def read(self, captured_ns: int) -> None:
        """What had been captured by then is read."""
        self._metrics.raise_to(READ, captured_ns / NS_PER_S)

    def appended(self, drafts: Sequence[Draft], size_bytes: int) -> None:
        """Records of these drafts were appended; ``size_bytes`` of lines."""
        if drafts:
            self.imported(Counter(draft.body.kind for draft in drafts), size_bytes)
            self._metrics.raise_to(NEWEST, max(draft.ts_ns for draft in drafts) / NS_PER_S)

    def imported(self, kinds: Mapping[str, int], size_bytes: int) -> None:
        """As :meth:`appended`, of times that were recorded before: kind -> how many."""
        for kind, count in kinds.items():
            self._metrics.add(RECORDS, count, kind)
        self._metrics.add(BYTES_WRITTEN, size_bytes, "ledger")

    def _gap(self, source: str, gap: Gap) -> None:
        at = gap.stream, gap.reason
        if at not in self._open:  # else it is the end of one that was counted
            # Numbers in a reason make no series of their own.
            self._metrics.add(GAPS, 1, gap.stream, _NUMBER.sub("N", gap.reason))
        if gap.until_ns is None:
            self._open[at] = source
        elif self._open.pop(at, None) and all(gap.stream != stream for stream, _ in self._open):
            self._metrics.drop(UP, gap.stream)
