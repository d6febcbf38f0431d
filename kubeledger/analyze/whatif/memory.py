"""Whether the node had memory to spare for pods that would be there besides."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY, MEMORY
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Reader, Variant
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.processes import Processes
from kubeledger.verify.rules.evictions.thresholds import configured

_GRID_NS = 30 * NS_PER_S
"""Signals are read every ten seconds; a longer hole between them shows nothing."""


class SpareMemory:
    """By how much the signals of memory were over every threshold of a variant, when read."""

    def __init__(self, read: Reader, variant: Variant) -> None:
        """Two readings, of settings and of signals."""
        context = VerifyContext(variant)
        self._known = True
        thresholds: set[Threshold] = set()
        for record in read({kind.kind for kind in Processes.KINDS}):
            context.prescan(record)
        context.settle()
        starts = sorted(read({KubeletStarted.kind, SettingsObserved.kind}), key=lambda r: r.seq)
        for record in starts:
            context.observe(record)
            if isinstance(record.body, SettingsObserved):
                found, missing = configured(context.settings, context.profile, None)
                self._known &= not missing
                thresholds |= set(found)
        self._read_ns: list[int] = []
        self._spare: list[int] = []
        for record in read({EvictionSignalObserved.kind}):
            body = record.body
            assert isinstance(body, EvictionSignalObserved)
            if body.signal in (MEMORY, ALLOCATABLE_MEMORY):
                short = [_bytes(t, body.capacity) for t in thresholds if t.signal == body.signal]
                self._read_ns.append(record.ts_ns)
                self._spare.append(body.available - max(short, default=0))

    def holds(self, more_bytes: int, since_ns: int, until_ns: int) -> bool:
        """Whether no threshold would have been met with so much more in use, as far as is known."""
        first = max(bisect_left(self._read_ns, since_ns) - 1, 0)
        last = bisect_right(self._read_ns, until_ns)
        times = self._read_ns[first:last]
        if not self._known or not times or times[0] > since_ns:
            return False
        ends = [*times[1:], until_ns]
        if any(after - before > _GRID_NS for before, after in zip(times, ends, strict=True)):
            return False
        return min(self._spare[first:last]) > more_bytes


def _bytes(threshold: Threshold, capacity: int) -> int:
    """With what is to be reclaimed on top, so that a condition would not stay either."""
    more = threshold.minimum
    least = 0 if more is None else threshold_quantity(more, capacity).value()
    return threshold_quantity(threshold.value, capacity).value() + least
