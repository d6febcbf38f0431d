"""What later records show of devices: checkpoints, NUMA nodes, and grants that were seen late.

The log names the devices that are taken, not those that were there. The checkpoint lists
those, but it is read at some later instant. So all checkpoints are looked at first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kubeledger.kubelet.topologymanager.policy import BITS_MAX
from kubeledger.model.bodies import devicemanager, resourcemanagers
from kubeledger.model.bodies.lifecycle import PodConfigChanged
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.record import Body, Record
from kubeledger.model.units import whole_number
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.rules.activity import lived
from kubeledger.verify.rules.devices.lists import DeviceLists, When

Holder = tuple[str, str, str]
"""Pod UID (or ``namespace/name``), container, resource."""


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

    @property
    def ids(self) -> frozenset[str]:
        return all_ids(self.numa)


def when_of(record: Record) -> When:
    """Place of a record in the order of replay."""
    return record.ts_ns, record.seq


def all_ids(numa: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """The devices of all nodes, each once."""
    return frozenset(device for ids in numa.values() for device in ids)


def nodes_by_device(numa: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    """Device -> sorted NUMA nodes; empty where a checkpoint does not show them."""
    nodes: dict[str, list[int]] = {}
    for node, ids in numa.items():
        number = whole_number(node)
        if number is None or not -1 <= number < BITS_MAX:
            return {}
        for device in ids:
            nodes.setdefault(device, []).append(number)
    return {device: tuple(sorted(on)) for device, on in nodes.items()}


class FirstPass:
    """All that a first reading finds; bounded by the pods and changes of device lists.

    Attributes:
        entries: holder -> (n,) what checkpoints hold for it, in order, changes only.
        late: pod -> holder -> (n,) grants that only a checkpoint shows, in order.
        asked: holder -> times at which it asked.
        added: pod -> first time that it was added.
        numa_nodes: of the machine, where records agree on them; None when not known.
        nodes_with_cpus: those NUMA nodes that hints of CPUs name.
    """

    kinds: tuple[type[Body], ...] = (
        resourcemanagers.AffinityDecided,
        devicemanager.AllocationRequested,
        devicemanager.CheckpointRead,
        devicemanager.DevicesAllocated,
        devicemanager.DevicesReleased,
        devicemanager.DevicesReported,
        devicemanager.EndpointStopped,
        resourcemanagers.HintsGenerated,
        KubeletStarted,
        resourcemanagers.MemoryManagerStateRead,
        NodeObserved,
        PodConfigChanged,
    )

    def __init__(self, context: VerifyContext) -> None:
        self.lists = DeviceLists(context)
        self.entries: dict[Holder, list[Entry]] = {}
        self.late: dict[str, dict[Holder, list[tuple[When, devicemanager.DevicesAllocated]]]] = {}
        self.asked: dict[Holder, list[When]] = {}
        self.added: dict[str, When] = {}
        self.numa_nodes: tuple[int, ...] | None = None
        self.nodes_with_cpus: tuple[int, ...] = ()
        self._context = context
        self._let_go: dict[str, list[When]] = {}
        self._machines: set[tuple[int, ...]] = set()
        self._nodes: dict[tuple[str, str], set[tuple[int, ...]]] = {}
        self._unhinted: Counter[tuple[int, ...]] = Counter()
        self._without_hints: set[int] = set()
        self._writes: list[When] = []

    def note(self, record: Record, body: Body) -> None:
        when = when_of(record)
        names = (getattr(body, name, None) or "" for name in ("namespace", "pod"))
        pod = getattr(body, "pod_uid", None) or "/".join(names)
        match body:
            case devicemanager.CheckpointRead():
                self._checkpoint(when, body)
            case devicemanager.DevicesReported():
                self._writes.append(when)
                self.lists.reported(when, body)
            case devicemanager.EndpointStopped():
                self.lists.stopped(when, body.resource)
            case KubeletStarted():
                self.lists.started(when, from_start=body.from_start)
            case devicemanager.AllocationRequested():
                self.lists.asked.append(when)
                holder = (pod, body.container, body.resource)
                self.asked.setdefault(holder, []).append(when)
            case devicemanager.DevicesReleased():
                if not body.inferred:
                    self.lists.asked.append(when)
                self._let_go.setdefault(body.pod_uid, []).append(when)
            case devicemanager.DevicesAllocated(told_by="checkpoint"):
                holder = (pod, body.container, body.resource)
                self.late.setdefault(pod, {}).setdefault(holder, []).append((when, body))
            case devicemanager.DevicesAllocated():
                self._writes.append(when)
            case NodeObserved():
                self._machines.update([body.numa_nodes] if body.numa_nodes else [])
            case resourcemanagers.MemoryManagerStateRead(checksum_ok=True) if body.machine:
                self._machines.add(tuple(sorted(map(int, body.machine))))
            case PodConfigChanged(operation="ADD"):
                self.added[pod] = min(self.added.get(pod, when), when)
            case resourcemanagers.HintsGenerated():
                if not any(hints is not None for hints in body.hints.values()):
                    self._without_hints.add(record.seq)
                named = {n for hint in body.hints.get("cpu") or () for n in hint.numa_nodes or ()}
                named &= set(range(BITS_MAX))
                self.nodes_with_cpus = tuple(sorted(named.union(self.nodes_with_cpus)))
            case resourcemanagers.AffinityDecided():
                if body.hint.numa_nodes and record.cause in self._without_hints:
                    self._unhinted[body.hint.numa_nodes] += 1

    def _checkpoint(self, when: When, body: devicemanager.CheckpointRead) -> None:
        if body.checksum_ok is False:
            return
        for entry in body.entries:
            seen = self.entries.setdefault((entry.pod_uid, entry.container, entry.resource), [])
            if seen and seen[-1].numa == entry.numa and seen[-1].last < when:
                seen[-1] = seen[-1]._replace(last=when)
            else:
                seen.append(Entry(when, when, entry.numa))
            for device, nodes in nodes_by_device(entry.numa).items():
                self._nodes.setdefault((entry.resource, device), set()).add(nodes)
            self.lists.exists(entry.resource, all_ids(entry.numa))
        self.lists.listed(when, body.registered)

    def settle(self) -> None:
        self.lists.settle()
        self._writes.sort()
        for entries in self.entries.values():
            entries.sort(key=lambda entry: entry.when)
        for late in self.late.values():
            for grants in late.values():
                grants.sort(key=lambda grant: grant[0])
        self.numa_nodes = next(iter(self._machines)) if len(self._machines) == 1 else None

    def is_reported(self, holder: Holder, when: When) -> bool:
        """Whether a record shows the grant that a checkpoint shows, or its release."""
        late = any(at > when for at, _ in self.late.get(holder[0], {}).get(holder, ()))
        return late or any(at < when for at in self._let_go.get(holder[0], ()))

    def shows_all(self, when: When) -> When | None:
        """The checkpoint that shows, with what the log says, all that was held when it begins.

        It does if it follows in the same process, whose grants and releases are reported, and until
        then no pod was released. None: there is none.
        """
        reads = (at for at in self.lists.read_logged() if at > when)
        read = next((at for at in reads if not self.lists.restarted(when, at)), None)
        if read is None or not self.lists.logs_requests(when):
            return None
        let_go = (at for times in self._let_go.values() for at in times)
        return None if any(when < at < read for at in let_go) else read

    def still_holds(self, holder: Holder, devices: frozenset[str] | None, when: When) -> bool:
        """Whether a later checkpoint holds just these devices for a container.

        It was written after that time: what is given back stays in the file until the next
        grant, or the next report of a plugin.
        """
        index = bisect_left(self._writes, when)  # a grant is written down itself
        if index == len(self._writes):
            return False
        written, entries = self._writes[index], self.entries.get(holder, ())
        return any(entry.last > written and entry.ids == devices for entry in entries)

    def surely_holds(self, holder: Holder, devices: frozenset[str] | None, when: When) -> bool:
        """Whether something later shows that a container held its devices still.

        A checkpoint does, and so does what its containers did: that a pod was released may
        stand in a line that was lost.
        """
        return lived(self._context, holder[0], when[0]) or self.still_holds(holder, devices, when)

    def may_change(self, pod: str, when: When, until: When) -> bool:
        """Whether what a pod holds may have changed in between: it was released, or a restart."""
        let_go = any(when < at <= until for at in self._let_go.get(pod, ()))
        return let_go or self.lists.restarted(when, until)

    def voted(self, own: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """Nodes of the machine, which a merge without any hint yields: most say so, but ``own``."""
        votes = self._unhinted - Counter([own] if own else [])
        (nodes, most), *others = votes.most_common(2) or [((), 0)]
        return nodes if most > max(1, *(count for _, count in others), 1) else None

    def nodes_of(self, resource: str, device: str) -> tuple[int, ...] | None:
        """NUMA nodes under which checkpoints hold a device (-1: without topology).

        None when none holds it, or they differ.
        """
        found = self._nodes.get((resource, device))
        return next(iter(found)) if found is not None and len(found) == 1 else None
