"""The kubelet process that writes the log, and the turns of its sync loop."""

from __future__ import annotations

from kubeledger.ingest.correlate.holdback import Waiting

__all__ = ["SyncLoop"]


class SyncLoop:
    """Which kubelet process runs.

    Attributes:
        process: kubelet processes seen so far; 0 when the log begins inside one.
        started_ns: when the present one entered its sync loop; None when that is not known.
    """

    def __init__(self) -> None:
        self.process = 0
        self.started_ns: int | None = None
        self._blocked_by: list[Waiting] = []

    def start(self, ts_ns: int) -> None:
        """Another kubelet process entered its sync loop: what was open stays as it is."""
        self.process += 1
        self.started_ns = ts_ns
        self.iterated()

    def await_iteration(self, blocking: Waiting) -> None:
        """The loop takes no turn before the outcome of this is known."""
        self._blocked_by.append(blocking)

    def iterated(self) -> None:
        """The loop took its next turn, so nothing blocks it any more."""
        for blocking in self._blocked_by:
            blocking.settle()
        self._blocked_by.clear()
