"""Of which times the log tells, found in the first reading."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted
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

    def foresee(self, record: Record) -> None:
        """Take in a record that only a line of the log gives; each kind comes in order."""
        self._note(record.ts_ns)

    def started(self, record: Record) -> None:
        """A kubelet process starts: what came right before is told only where nothing is lost.

        A process that stood still writes nothing, nor does one whose lines are lost.
        """
        body, ts_ns = record.body, record.ts_ns
        assert isinstance(body, KubeletStarted)
        last_ns = self._last_ns if self._alive_ns is None else self._alive_ns
        lost = not body.from_start or ts_ns - last_ns > _SILENT_NS
        if self._first_ns is not None and lost:
            self._silent_from.append(last_ns)
            self._silent_to.append(ts_ns)
        self._alive_ns = None
        self._note(ts_ns)

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
        silent = bisect_right(self._silent_to, start)
        return silent == len(self._silent_to) or self._silent_from[silent] >= end
