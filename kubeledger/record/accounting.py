"""What a recorder's steps come to, in its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kubeledger.ledger.batch import Draft
from kubeledger.record.metrics import Metrics
from kubeledger.record.observations import Gap, Lines, Observation, size_of

__all__ = ["Accounting"]


class Accounting:
    """Turns what sources gave, and what was appended, into numbers.

    A source whose poll ends is up; what a gap that lasts says is down, until its end or until
    lines come again.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._down: dict[str, str] = {}

    def polled(self, source: str, given: Sequence[Observation], now_ns: int) -> None:
        """What one poll of a source gave."""
        for each in given:
            if isinstance(each, Gap):
                self._gap(source, each)
            elif isinstance(each, Lines):
                self._over(each.stream)
        self._metrics.source_read(source, now_ns, size_of(given))
        for stream, of_source in self._down.items():
            if of_source == source:
                self._metrics.source_failed(stream)

    def stepped(self, now_ns: int, *, given: bool, more: bool) -> None:
        """A step is done: whether sources gave something, and may have more at once."""
        if given:
            self._metrics.observed(now_ns)
        if not more:
            self._metrics.settled(now_ns)
        self._metrics.loop_turned()

    def appended(self, drafts: Sequence[Draft], size_bytes: int) -> None:
        """Records of these drafts were appended; ``size_bytes`` of lines."""
        if drafts:
            kinds = Counter(draft.body.kind for draft in drafts)
            self._metrics.appended(kinds, size_bytes, max(draft.ts_ns for draft in drafts))

    def _gap(self, source: str, gap: Gap) -> None:
        if gap.stream not in self._down:  # else it is the end of one that was counted
            self._metrics.gap(gap.stream, gap.reason)
        if gap.until_ns is None:
            self._down[gap.stream] = source
        else:
            self._over(gap.stream)

    def _over(self, stream: str) -> None:
        if self._down.pop(stream, None) is not None:
            self._metrics.outage_over(stream)
