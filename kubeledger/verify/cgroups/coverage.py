"""Of which times the log tells, found in the first reading."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from kubeledger.machine import Record
from kubeledger.units import NS_PER_S

__all__ = ["Coverage"]

_SILENT_NS: Final = 25 * NS_PER_S
"""The eviction manager tells of its signals every ten seconds, where that is logged."""


_ROUND_NS: Final = NS_PER_S
"""All signals of one round are told within this time."""


class Coverage:
    """Begin, end and holes of a log; what other sources tell does not fill a hole."""

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._last_ns = 0
        self._alive_ns: int | None = None
        self._silent_from: list[int] = []
        self._silent_to: list[int] = []
        self._starts: list[int] = []

    def foresee(self, record: Record) -> None:
        """Take in a record that only a line of the log gives; each kind comes in order."""
        self._note(record.ts_ns)

    def started(self, record: Record) -> None:
        """A kubelet process starts: it was silent before."""
        self._note(record.ts_ns)
        self._starts.append(record.ts_ns)

    def signal(self, ts_ns: int) -> None:
        """The eviction manager tells of a signal."""
        alive_ns = self._alive_ns
        if alive_ns is not None:
            since = ts_ns - alive_ns
            if since < _ROUND_NS:
                self._last_ns = max(self._last_ns, ts_ns)
                return
            if since > _SILENT_NS:
                self._silent_from.append(alive_ns)
                self._silent_to.append(ts_ns)
        self._alive_ns = ts_ns
        self._note(ts_ns)

    def _note(self, ts_ns: int) -> None:
        if self._first_ns is None or ts_ns < self._first_ns:
            self._first_ns = ts_ns
        if ts_ns > self._last_ns:
            self._last_ns = ts_ns

    def told(self, start: int, end: int) -> bool:
        """Whether the log tells of all of a span, and of what comes right after it."""
        if self._first_ns is None or not (self._first_ns <= start and end <= self._last_ns):
            return False
        first = bisect_right(self._silent_to, start)
        behind = bisect_left(self._silent_from, end)
        return all(
            self._started_in(self._silent_from[n], self._silent_to[n]) for n in range(first, behind)
        )

    def _started_in(self, begin: int, end: int) -> bool:
        at = bisect_right(self._starts, begin)
        return at < len(self._starts) and self._starts[at] <= end
