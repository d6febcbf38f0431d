"""Of which times the log tells, found in the first reading."""

from __future__ import annotations

from typing import Final

from kubeledger.images.records import EvictionSignalObserved
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted
from kubeledger.units import NS_PER_S

__all__ = ["Coverage"]

_SILENT_NS: Final = 25 * NS_PER_S
"""The eviction manager tells of its signals every ten seconds, where that is logged."""


class Coverage:
    """Begin, end and holes of a log; what other sources tell does not fill a hole."""

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._last_ns = 0
        self._alive_ns: int | None = None
        self._silent: list[tuple[int, int]] = []
        self._starts: list[int] = []

    def foresee(self, record: Record) -> None:
        """Take in a record that only a line of the log gives; each kind comes in order."""
        ts_ns = record.ts_ns
        if self._first_ns is None or ts_ns < self._first_ns:
            self._first_ns = ts_ns
        self._last_ns = max(self._last_ns, ts_ns)
        if isinstance(record.body, KubeletStarted):
            self._starts.append(ts_ns)
        elif isinstance(record.body, EvictionSignalObserved):
            alive_ns = self._alive_ns
            if alive_ns is not None and ts_ns - alive_ns > _SILENT_NS:
                self._silent.append((alive_ns, ts_ns))
            self._alive_ns = ts_ns if alive_ns is None else max(alive_ns, ts_ns)

    def told(self, start: int, end: int) -> bool:
        """Whether the log tells of all of a span, and of what comes right after it."""
        if self._first_ns is None or not (self._first_ns <= start and end <= self._last_ns):
            return False
        return not any(
            begin < end and start < over and not any(begin < at <= over for at in self._starts)
            for begin, over in self._silent
        )
