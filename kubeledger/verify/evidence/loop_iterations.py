"""The iterations of a kubelet's sync loop: which pods one line adds, and when the loop continues.

The loop takes one thing after the other. While the victims of a critical pod are killed nothing
else is admitted, synced for the first time or logged: the death of a container in that time is
logged only after it, though the pod's own worker has known it long before.

Source: v1.36.2 pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests; v1.20.2
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodRejected,
)
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.times import Times

SETTLING_NS: Final = 30 * NS_PER_S
"""After this long the kubelet has handled every pod that a config source added."""
_BURST_NS: Final = 2 * NS_PER_S
"""So long after a wait the loop shows what happened meanwhile."""


class LoopIterations:
    """The sync loops of a node, from the first reading."""

    def __init__(self, times: Times) -> None:
        """None is known yet."""
        self._times = times
        self._config: set[int] | list[int] = set()
        self._relists: set[int] | list[int] = set()
        self._preempted: set[int] | list[int] = set()
        self._waits: list[tuple[int, int]] = []
        self._waits_on_ns: int | None = None
        self._unbroken_from: Callable[[int], int] = lambda _: 0

    KINDS: tuple[type[Body], ...] = (
        ContainerDied,
        ContainerStarted,
        PodAdmitted,
        PodConfigChanged,
        PodPreempted,
        PodRejected,
    )
    """Kinds of the records that this needs."""

    def note(self, record: Record) -> None:
        """Take in a record; one of another kind changes nothing."""
        body = record.body
        assert isinstance(self._config, set)
        assert isinstance(self._relists, set)
        assert isinstance(self._preempted, set)
        if isinstance(body, PodConfigChanged):
            self._config.add(record.ts_ns)
            self._relists.add(record.ts_ns)
        elif isinstance(body, PodPreempted):
            self._preempted.add(record.ts_ns)
        elif isinstance(body, self.KINDS) and not (isinstance(body, PodAdmitted) and body.inferred):
            self._relists.add(record.ts_ns)

    def settle(self, unbroken_from: Callable[[int], int]) -> None:
        """The first reading is over; see :meth:`Coverage.unbroken_from`."""
        self._unbroken_from = unbroken_from
        self._config = sorted(self._config)
        self._relists = sorted(self._relists)
        self._preempted = sorted(self._preempted)
        for ts_ns in self._preempted:
            if self._waits and ts_ns <= self._waits[-1][1]:
                continue
            before = bisect_left(self._relists, ts_ns)
            after = bisect_right(self._relists, ts_ns)
            since_ns = self._relists[before - 1] if before else ts_ns
            until_ns = self._relists[after] if after < len(self._relists) else ts_ns
            if after == len(self._relists) and self._waits_on_ns is None:
                self._waits_on_ns = since_ns
            self._waits.append((since_ns, until_ns + _BURST_NS))

    def over_by(self, ts_ns: int) -> int | None:
        """When the turn that begins at a time was surely over; None when nothing says.

        The next config line is another turn. Without one, half a minute is enough, unless
        victims are killed meanwhile.
        """
        assert isinstance(self._config, list)
        index = bisect_right(self._config, ts_ns)
        next_ns = self._config[index] if index < len(self._config) else None
        latest_ns = ts_ns + SETTLING_NS
        if next_ns is not None and next_ns <= latest_ns:
            return next_ns
        return next_ns if self.waits_in(ts_ns, latest_ns) else latest_ns

    def waits_in(self, start_ns: int, end_ns: int) -> bool:
        """Whether the loop waits for a preemption at some time of a span."""
        assert isinstance(self._preempted, list)
        index = bisect_left(self._preempted, start_ns)
        return index < len(self._preempted) and self._preempted[index] <= end_ns

    def waits_on(self, ts_ns: int) -> bool:
        """Whether the loop waits at a time, and the log ends before it says what it missed."""
        return self._waits_on_ns is not None and ts_ns >= self._waits_on_ns

    def earliest(self, ts_ns: int) -> int:
        """When that can have happened at the earliest which the loop shows at a time."""
        for since_ns, until_ns in self._waits:
            if since_ns <= ts_ns <= until_ns:
                ts_ns = since_ns
                break
        return 0 if self._is_first(ts_ns) else self._times.told(ts_ns).from_ns

    def _is_first(self, ts_ns: int) -> bool:
        """Whether the loop shows nothing before it since lines are missing: it may have waited."""
        assert isinstance(self._relists, list)
        from_ns = self._unbroken_from(ts_ns)
        index = bisect_left(self._relists, from_ns)
        shown = index < len(self._relists) and self._relists[index] < ts_ns - _BURST_NS
        return from_ns > 0 and not shown
