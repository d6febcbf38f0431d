"""Classes of a kubelet's lines, and which processes are seen to log them.

A log may have been filtered, by message, by source file, by severity, or written at a low
verbosity: whole classes of lines are missing then, and nothing else shows it. So a line that is
not there proves nothing unless the same process, in the same log, is seen to log its class. A
history that no log was read for (a simulation, a recording made by hand) was told as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kubeledger.model.bodies.cpumanager import CpusReleased
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
)
from kubeledger.model.bodies.ledger import ImportCompleted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodRejected,
    PodResized,
)
from kubeledger.model.bodies.memorymanager import MemoryAllocated, MemoryReleased
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.line_texts import EVENT_SENT


class LineClass(NamedTuple):
    """Lines that a filter lets through or holds back together.

    Attributes:
        phrase: what is missing without them.
        kinds: records that stand on such a line.
    """

    phrase: str
    kinds: tuple[type[Body], ...]


PODS: Final = LineClass("the sync loop's lines about pods", (PodConfigChanged,))
RUNS: Final = LineClass("the sync loop's lines about containers", (ContainerStarted, ContainerDied))
KILLS: Final = LineClass("the lines about kills of containers", (ContainerKilled,))
CPUS: Final = LineClass("the lines with which CPUs are given back", (CpusReleased,))
MEMORY: Final = LineClass("the lines with which memory is given back", (MemoryReleased,))
MEMORY_GIVEN: Final = LineClass("the lines with which memory is given", (MemoryAllocated,))
DEVICES: Final = LineClass("the lines with which devices are given", (DevicesAllocated,))
RESIZES: Final = LineClass("the lines about resizes in place", (PodResized,))
REFUSALS: Final = LineClass("the lines about refused pods", (PodRejected,))
SIGNALS: Final = LineClass("the eviction manager's signals", (EvictionSignalObserved,))
CONDITIONS: Final = LineClass("the lines about conditions of the node", (NodeConditionsChanged,))
COLLECTIONS: Final = (
    LineClass("the lines with which image collections begin", (GarbageCollectionStarted,)),
    LineClass("the lines with which image collections end", (GarbageCollected,)),
)
_CLASSES: Final = (PODS, RUNS, KILLS, RESIZES, REFUSALS, CPUS, DEVICES, MEMORY, MEMORY_GIVEN,
                   SIGNALS, CONDITIONS, *COLLECTIONS)  # fmt: skip

_PODS: Final = (PODS, RUNS)
RESTS_ON: Final[Mapping[str, tuple[LineClass, ...]]] = {
    "lifecycle.ContainerStarted": (PODS, RUNS),
    "lifecycle.PodTerminating": (PODS,),
    "cgroups.CgroupRemoved": _PODS,
    "cgroups.CgroupUpdated": _PODS,
    "cgroups.QOSCgroupsUpdated": _PODS,
    "cpumanager.CpuAllocationFailed": (*_PODS, CPUS),
    "cpumanager.CpusAllocated": (*_PODS, CPUS),
    "cpumanager.CpusReleased": _PODS,
    "topologymanager.HintsGenerated": (*_PODS, MEMORY, MEMORY_GIVEN),
    "devicemanager.AllocationFailed": _PODS,
    "devicemanager.DevicesAllocated": _PODS,
    "devicemanager.DevicesReleased": (*_PODS, DEVICES),
    "eviction.NodeConditionsChanged": (SIGNALS,),
    "eviction.PodSpared": (*_PODS, SIGNALS),
    "eviction.ReclaimAttempted": (*_PODS, SIGNALS),
    "images.GarbageCollected": COLLECTIONS,
    "images.GarbageCollectionStarted": COLLECTIONS,
    "images.ImageDeleted": (*_PODS, *COLLECTIONS),
    "lifecycle.ContainerKilled": _PODS,
    "lifecycle.ContainerRestarted": (*_PODS, KILLS),
    "lifecycle.PodAdmitted": _PODS,
    "lifecycle.PodEvicted": (*_PODS, SIGNALS),
    "lifecycle.PodRejected": _PODS,
    "lifecycle.PodResized": (*_PODS, RESIZES),
    "lifecycle.RestartBackedOff": (*_PODS, KILLS),
    "memorymanager.MemoryAllocated": (*_PODS, MEMORY),
    "memorymanager.MemoryAllocationFailed": (*_PODS, MEMORY),
    "memorymanager.MemoryReleased": _PODS,
    "preemption.PodPreempted": _PODS,
    "preemption.PreemptionFailed": _PODS,
    "prober.ProbeTransitioned": _PODS,
}
"""Kind of decision -> classes of which a line that is not there may make it impossible."""
OWED: Final[Mapping[str, tuple[LineClass, ...]]] = {
    "eviction.NodeConditionsChanged": (CONDITIONS,),
    "lifecycle.ContainerKilled": (KILLS,),
    "lifecycle.PodRejected": (REFUSALS,),
}
"""Kind of decision -> classes of its own lines, which it is missed in besides."""


_LOOP: Final = "SyncLoop"


def _is_own_line(piece: Evidence, of: LineClass) -> bool:
    """Not a list or another file that shows the same, nor the event that went with it.

    Nor the line that handed over a pod which a list shows refused.
    """
    others = (EVENT_SENT, _LOOP) if of is REFUSALS else (EVENT_SENT,)
    return piece.line is not None and not any(each in (piece.text or "") for each in others)


class LoggedClasses:
    """Which process logs which classes, from the first reading.

    Attributes:
        is_read: files were imported: the history was not told as a whole.
    """

    KINDS: tuple[type[Body], ...] = (ImportCompleted, *(k for c in _CLASSES for k in c.kinds))
    """Kinds of the records that this needs."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.is_read = False
        # class -> minute -> the first and the last such line in it
        self._seen: dict[LineClass, dict[int, tuple[int, int]]] = {c: {} for c in _CLASSES}
        self._of_kind = {kind: each for each in _CLASSES for kind in each.kinds}
        self._bounds: list[int] = []
        self._logged: dict[LineClass, list[bool]] = {}

    def note(self, record: Record) -> None:
        """Take in a record; one of another kind changes nothing."""
        of = self._of_kind.get(type(record.body))
        if of is None:
            self.is_read = self.is_read or isinstance(record.body, ImportCompleted)
            return
        if record.evidence and not any(_is_own_line(piece, of) for piece in record.evidence):
            return
        minutes, ts_ns = self._seen[of], record.ts_ns
        first_ns, last_ns = minutes.get(ts_ns // (60 * NS_PER_S), (ts_ns, ts_ns))
        minutes[ts_ns // (60 * NS_PER_S)] = min(first_ns, ts_ns), max(last_ns, ts_ns)

    def settle(self, starts: Sequence[int]) -> None:
        """The first reading is over; ``starts``: when processes began, ascending."""
        self._bounds = list(starts)
        for of, minutes in self._seen.items():
            times = sorted(ns for ends in minutes.values() for ns in ends)
            at = [0, *(bisect_right(times, start - 1) for start in starts), len(times)]
            self._logged[of] = [until > since for since, until in pairwise(at)]

    def unlogged(self, ts_ns: int, classes: Iterable[LineClass]) -> LineClass | None:
        """The first of some classes that the process of a time is not seen to log."""
        if not self.is_read:
            return None
        process = bisect_right(self._bounds, ts_ns)
        return next((each for each in classes if not self._logged[each][process]), None)
