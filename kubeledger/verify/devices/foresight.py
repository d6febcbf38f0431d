"""What later records tell of devices: lists, NUMA nodes, and grants that were seen late.

The log names the devices that are taken, not those that were there. The checkpoint lists
those, but it is read at some later instant. So all checkpoints are looked at first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from kubeledger.devicemanager.records import (
    AllocationRequested,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
)
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerStarted,
    PodConfigChanged,
    PodRejected,
)
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted, NodeObserved
from kubeledger.topologymanager.bitmask import BITS_MAX
from kubeledger.topologymanager.records import AffinityDecided, HintsGenerated
from kubeledger.units import NS_PER_S, whole_number
from kubeledger.verify.devices.lists import DeviceLists

__all__ = ["Entry", "Foresight", "Holder", "When", "all_ids", "nodes_by_device"]

Holder = tuple[str, str, str]
"""Pod UID (or ``namespace/name``), container, resource."""

When = tuple[int, int]
"""Time and seq of a record: the order of replay."""

Late = dict[Holder, list[tuple[When, DevicesAllocated]]]

_TOLD_LATE_NS = 2 * NS_PER_S
"""A container's death is told, and its devices are given back meanwhile."""

_OPEN_MAX = 64
_TOLD_MAX = 16


class Entry(NamedTuple):
    """What sound checkpoints hold for a container, from one reading to another.

    Attributes:
        when: of the first reading.
        last: of the last one without a change between.
        numa: NUMA node (decimal text) -> sorted IDs.
    """

    when: When
    last: When
    numa: dict[str, tuple[str, ...]]


def all_ids(numa: dict[str, tuple[str, ...]]) -> frozenset[str]:
    """The devices of all nodes, each once."""
    return frozenset(device for ids in numa.values() for device in ids)


def nodes_by_device(numa: dict[str, tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    """Device -> sorted NUMA nodes; empty where a checkpoint does not tell them."""
    nodes: dict[str, list[int]] = {}
    for node, ids in numa.items():
        number = whole_number(node)
        if number is None or not -1 <= number < BITS_MAX:
            return {}
        for device in ids:
            nodes.setdefault(device, []).append(number)
    return {device: tuple(sorted(on)) for device, on in nodes.items()}


class Foresight:
    """All that a first reading finds; bounded by the pods and changes of device lists.

    Attributes:
        lists: device lists over time.
        entries: holder -> (n,) what checkpoints hold for it, in order, changes only.
        late: pod -> holder -> (n,) grants that only a checkpoint shows, in order.
        granted: pods that got devices as the log, or a restore, tells.
        let_go: pod -> (n,) when its devices were given back.
        added: pod -> first time that it was added.
        rejections: pod -> seq and message of refusals for what a manager could not allocate.
        numa_nodes: of the machine, where records agree on them; None when not known.
        alive: pod -> last time that a container of it was started, or died.
        unhinted: merged nodes -> how many decisions without any hint came to them.
    """

    def __init__(self) -> None:
        self.lists = DeviceLists()
        self.entries: dict[Holder, list[Entry]] = {}
        self.late: dict[str, Late] = {}
        self.granted: set[str] = set()
        self.let_go: dict[str, list[When]] = {}
        self.added: dict[str, When] = {}
        self.rejections: dict[str, list[tuple[int, str]]] = {}
        self.numa_nodes: tuple[int, ...] | None = None
        self.alive: dict[str, int] = {}
        self.unhinted: Counter[tuple[int, ...]] = Counter()
        self._machines: set[tuple[int, ...]] = set()
        self._nodes: dict[tuple[str, str], set[tuple[int, ...]]] = {}
        self._open_hints: dict[int, None] = {}
        self._settled = False
        self._writes: list[When] = []

    def note(self, record: Record) -> None:
        """Take in one record of the first reading; they come in any order."""
        body, when = record.body, (record.ts_ns, record.seq)
        if isinstance(body, CheckpointRead):
            self._checkpoint(when, body)
        elif isinstance(body, DevicesReported):
            self._writes.append(when)
            self.lists.reported(when, body)
        elif isinstance(body, EndpointStopped):
            self.lists.stopped(when, body.resource)
        elif isinstance(body, EvictionSignalObserved):
            self.lists.beat(record.ts_ns)
        elif isinstance(body, KubeletStarted):
            self.lists.started(when, from_start=body.from_start)
        elif isinstance(body, ContainerStarted | ContainerDied):
            self.lists.logged(when[0])
            pod = body.pod_uid or f"{body.namespace}/{body.pod}"
            self.alive[pod] = max(self.alive.get(pod, when[0]), when[0])
        elif isinstance(body, AllocationRequested):
            self.lists.asked(when)
        elif isinstance(body, DevicesReleased):
            if not body.inferred:
                self.lists.asked(when)
            self.let_go.setdefault(body.pod_uid, []).append(when)
        elif isinstance(body, DevicesAllocated):
            self._allocated(when, body)
        elif isinstance(body, NodeObserved):
            if body.numa_nodes:
                self._machines.add(body.numa_nodes)
        else:
            self._of_pods(record, when)

    def _allocated(self, when: When, body: DevicesAllocated) -> None:
        pod = body.pod_uid or f"{body.namespace}/{body.pod}"
        if body.told_by == "checkpoint":
            holder = (pod, body.container, body.resource)
            self.late.setdefault(pod, {}).setdefault(holder, []).append((when, body))
        else:
            self._writes.append(when)
            self.granted.add(pod)

    def is_told(self, holder: Holder, when: When) -> bool:
        """Whether a record behind a checkpoint tells of the grant that only it shows."""
        return any(at > when for at, _ in self.late_of(holder[0]).get(holder, ()))

    def shows_all(self, when: When) -> When | None:
        """The checkpoint that shows, with what the log tells, all that was held when it begins.

        It does if it follows in the same process, whose grants and releases are told, and until
        then no pod was let go of that nothing else tells of. None: there is none.
        """
        read = self.lists.next_reading(when)
        if read is None or not self.lists.tells_requests(when):
            return None
        known = self.late.keys() | self.granted
        untold = any(
            pod not in known and any(when < at < read for at in times)
            for pod, times in self.let_go.items()
        )
        return None if untold else read

    def still_holds(self, holder: Holder, devices: frozenset[str] | None, when: When) -> bool:
        """Whether a later checkpoint holds just these devices for a container.

        It was written behind that time: what is given back stays in the file until the next
        grant, or the next report of a plugin.
        """
        index = bisect_left(self._writes, when)  # a grant is written down itself
        if index == len(self._writes):
            return False
        written, entries = self._writes[index], self.entries.get(holder, ())
        return any(entry.last > written and all_ids(entry.numa) == devices for entry in entries)

    def surely_holds(self, holder: Holder, devices: frozenset[str] | None, when: When) -> bool:
        """Whether something later shows that a container held its devices still.

        A checkpoint does, and so does what its containers did: that a pod was let go of may
        stand in a line that was lost.
        """
        return self.lived(holder[0], when) or self.still_holds(holder, devices, when)

    def lived(self, pod: str, when: When) -> bool:
        """Whether a container of the pod started, or died, at some later time."""
        return self.alive.get(pod, 0) > when[0] + _TOLD_LATE_NS

    def may_change(self, pod: str, when: When, until: When) -> bool:
        """Whether what a pod holds may have changed in between: it was let go of, or a restart."""
        let_go = any(when < at <= until for at in self.let_go.get(pod, ()))
        return let_go or self.lists.restarted(when, until)

    def _of_pods(self, record: Record, when: When) -> None:
        body = record.body
        self.lists.logged(when[0])
        if isinstance(body, PodConfigChanged):
            if body.operation == "ADD":
                pod = body.pod_uid or f"{body.namespace}/{body.pod}"
                self.added[pod] = min(self.added.get(pod, when), when)
        elif isinstance(body, PodRejected):
            told = self.rejections.setdefault(body.pod_uid or f"{body.namespace}/{body.pod}", [])
            if "which is unexpected" in body.message and len(told) < _TOLD_MAX:
                told.append((record.seq, body.message))
        elif isinstance(body, HintsGenerated):
            if not any(hints is not None for hints in body.hints.values()):
                self._open_hints[record.seq] = None
                if len(self._open_hints) > _OPEN_MAX:
                    del self._open_hints[next(iter(self._open_hints))]
        elif (
            isinstance(body, AffinityDecided)
            and record.cause in self._open_hints
            and body.hint.numa_nodes
        ):
            self.unhinted[body.hint.numa_nodes] += 1

    def _checkpoint(self, when: When, body: CheckpointRead) -> None:
        if body.checksum_ok is False:
            return
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            seen = self.entries.setdefault(holder, [])
            if seen and seen[-1].numa == entry.numa and seen[-1].last < when:
                seen[-1] = seen[-1]._replace(last=when)
            else:
                seen.append(Entry(when, when, entry.numa))
            self._numa(entry.resource, entry.numa)
            self.lists.exists(entry.resource, all_ids(entry.numa))
        self.lists.listed(when, body.registered)

    def _numa(self, resource: str, numa: dict[str, tuple[str, ...]]) -> None:
        for device, nodes in nodes_by_device(numa).items():
            self._nodes.setdefault((resource, device), set()).add(nodes)

    def settle(self) -> None:
        """The first reading ended; once."""
        if self._settled:
            return
        self._settled = True
        self.lists.settle()
        self._writes.sort()
        for entries in self.entries.values():
            entries.sort(key=lambda entry: entry.when)
        for late in self.late.values():
            for grants in late.values():
                grants.sort(key=lambda grant: grant[0])
        if len(self._machines) == 1:
            self.numa_nodes = next(iter(self._machines))
        self._open_hints.clear()

    def voted(self, own: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """Nodes of the machine, which a merge without any hint comes to: those of most of them.

        Args:
            own: what one decision came to that shall not count for itself.
        """
        votes = Counter(self.unhinted)
        if own:
            votes[own] -= 1
        ranked = votes.most_common(2)
        if not ranked or ranked[0][1] < 2:
            return None
        return ranked[0][0] if len(ranked) == 1 or ranked[0][1] > ranked[1][1] else None

    def late_of(self, pod: str) -> Late:
        """Grants to a pod that only a checkpoint shows."""
        return self.late.get(pod, {})

    def nodes_of(self, resource: str, device: str) -> tuple[int, ...] | None:
        """NUMA nodes under which checkpoints hold a device (-1: without topology).

        None when none holds it, or they differ.
        """
        found = self._nodes.get((resource, device))
        return next(iter(found)) if found is not None and len(found) == 1 else None

    def nodes_elsewhere(self, holder: Holder, device: str) -> tuple[tuple[int, ...] | None, int]:
        """The same, by entries of other containers alone, and of how many; -1 does not count."""
        if len(self._nodes.get((holder[2], device), ())) < 2:
            return None, 0  # all entries agree
        found = Counter(
            nodes
            for other, entries in self.entries.items()
            if other[2] == holder[2] and other != holder
            for nodes in {nodes_by_device(entry.numa).get(device) for entry in entries}
            if nodes is not None and nodes != (-1,)
        )
        return next(iter(found.items())) if len(found) == 1 else (None, 0)
