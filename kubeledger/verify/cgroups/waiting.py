"""A sync loop that waits until a preemption is over, and tells late of what happens meanwhile.

While the victims of a critical pod are killed nothing else is admitted, synced for the first
time or told: a container that dies then is told to have died only behind that. Its pod's own
worker has known it long before.

Source: v1.36.2 pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests; v1.20.2
"""

from __future__ import annotations

from typing import Final

from kubeledger.units import NS_PER_S

__all__ = ["UNTOLD", "SyncLoop"]

UNTOLD: Final = "what the sync loop tells behind the preemption that it waits for"

_BURST_NS: Final = 2 * NS_PER_S
"""So long after a wait it tells of what happened meanwhile."""
_JUDGED_NS: Final = 62 * NS_PER_S
"""So long after that a beat of the minute timer has come."""


class SyncLoop:
    """What the records show of one process's sync loop.

    Attributes:
        waits: it waits for a preemption.
    """

    def __init__(self) -> None:
        self.waits = False
        self._told_ns: int | None = None
        self._since_ns = 0
        self._until_ns = 0

    def preempts(self, ts_ns: int) -> None:
        """A victim is chosen; the loop waits since the last that it told."""
        if not self.waits:
            self.waits = True
            if ts_ns > self._until_ns:  # it has told all of the last wait
                self._since_ns = ts_ns if self._told_ns is None else min(self._told_ns, ts_ns)

    def tells(self, ts_ns: int) -> None:
        """A record of what only the loop tells."""
        self._told_ns = ts_ns
        if self.waits:
            self.waits, self._until_ns = False, ts_ns + _BURST_NS

    def is_behind(self, ts_ns: int) -> bool:
        """Whether more may still be told of what happened before a time."""
        return self.waits or ts_ns <= self._until_ns

    def waited(self, ts_ns: int) -> bool:
        """Whether it waits, or something may still be judged by what it told behind that."""
        return self.waits or ts_ns <= self._until_ns + _JUDGED_NS

    def earliest(self, ts_ns: int) -> int:
        """When that may have happened at the earliest which is told at a time."""
        return min(self._since_ns, ts_ns) if ts_ns <= self._until_ns else ts_ns
