"""What the parts of the device assembler share: the queue, who holds what, the open requests."""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.ingest.correlate.context import PodName, Subject
from kubeledger.ingest.correlate.holdback import Holdback, Seen, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import Fact
from kubeledger.model.bodies.devicemanager import AllocationRequested, DevicesAllocated
from kubeledger.model.record import Evidence

Holder = tuple[str, str, str]
"""Pod UID (or ``namespace/name`` where no source shows the UID), container, resource."""
Numa = dict[str, tuple[str, ...]]
"""NUMA node (as decimal text) -> sorted device IDs."""


def all_ids(numa: Numa) -> tuple[str, ...]:
    """The devices of all nodes, sorted; a device on several nodes counts once."""
    return tuple(sorted({device for ids in numa.values() for device in ids}))


class Holding(msgspec.Struct):
    """Devices of one resource in the hands of one container.

    Attributes:
        device_ids: sorted.
        since_ns: when it was seen first.
        confirmed_ns: when a line of the log reported it last; 0 when none did again.
        in_checkpoint: a checkpoint agreed.
        disputed: device IDs that a checkpoint held instead, once that has been reported.
    """

    device_ids: tuple[str, ...]
    since_ns: int
    evidence: Evidence
    confirmed_ns: int = 0
    in_checkpoint: bool = False
    disputed: tuple[str, ...] | None = None


class Holdings:
    """All holdings of a node."""

    def __init__(self) -> None:
        self.held: dict[Holder, Holding] = {}
        self._gone: dict[Holder, tuple[str, ...]] = {}
        self._gone_pods: set[str] = set()

    def take(self, holder: Holder, holding: Holding) -> None:
        """A container got devices."""
        self.held[holder] = holding
        self._gone.pop(holder, None)
        self._gone_pods.discard(holder[0])

    def undo(self, holder: Holder) -> None:
        """It did not get them after all."""
        self.held.pop(holder, None)

    def of_pod(self, pod: str) -> list[Holder]:
        """What the pod holds, in sorted order."""
        return sorted(holder for holder in self.held if holder[0] == pod)

    def release(self, holder: Holder) -> None:
        """A container lost its devices of one resource."""
        self._gone[holder] = self.held.pop(holder).device_ids

    def release_pod(self, pod: str) -> bool:
        """A pod lost all devices; False when that was known before."""
        holders = self.of_pod(pod)
        for holder in holders:
            self.release(holder)
        if not holders and pod in self._gone_pods:
            return False
        self._gone_pods.add(pod)
        return True

    def is_stale(self, holder: Holder, device_ids: tuple[str, ...]) -> bool:
        """An entry that has outlived the release of its devices."""
        if holder[0] in self._gone_pods and holder not in self._gone:
            return True
        return self._gone.get(holder) == device_ids


class DeviceManagerModel:
    """Shared by the readers of one bundle's device lines.

    Attributes:
        requests: the newest request of a holder that nothing has answered yet.
        asking: the holder whose request came last, by pod.
    """

    def __init__(self, registers: Registers, queue: Holdback) -> None:
        self.context = registers.context
        self.queue = queue
        self.pods = registers.pods
        self.sync_loop = registers.sync_loop
        self.holdings = Holdings()
        self.requests: dict[Holder, Fact] = {}
        self.asking: dict[str, Holder] = {}

    def ask(self, holder: Holder, needed: int, seen: Seen) -> None:
        """A container asks for devices; a request for none is only remembered."""
        uid, container, resource = holder
        self.asking[uid] = holder
        self.requests.pop(holder, None)
        if needed > 0:
            who = Subject(*self.context.name_of(uid), uid, container)
            body = AllocationRequested(**who.names, resource=resource, needed=needed)
            self.requests[holder] = self.queue.add(shown(seen, body))

    def checkpointed(
        self, holder: Holder, device_ids: tuple[str, ...]
    ) -> tuple[Numa | None, tuple[Evidence, ...]]:
        """NUMA nodes and evidence of a checkpoint entry with just these devices, if any."""
        entry = self.context.allocations.get(holder)
        if entry is None or all_ids(entry.numa) != device_ids:
            return None, ()
        return (None if "" in entry.numa else entry.numa), (entry.evidence,)

    def grant(
        self,
        holder: Holder,
        device_ids: tuple[str, ...],
        ts_ns: int,
        evidence: tuple[Evidence, ...],
        numa: Numa | None = None,
        name: PodName = (None, None),
        told_by: Literal["call", "checkpoint", "restore"] = "call",
    ) -> Fact:
        """The fact that a container got devices; the caller queues it.

        Args:
            evidence: (n,) the first stands for the holding.
            numa: nodes, where the source shows them.
            name: namespace and name of the pod, where the source shows them.
            told_by: as in ``DevicesAllocated``.
        """
        pod, container, resource = holder
        uid = None if "/" in pod else pod
        who = Subject(
            *(name if name != (None, None) else self.context.name_of(uid)), uid, container
        )
        body = DevicesAllocated(
            **who.names, resource=resource, device_ids=device_ids, numa=numa, told_by=told_by
        )
        self.holdings.take(holder, Holding(device_ids, ts_ns, evidence[0]))
        return Fact(ts_ns, body, evidence, self.requests.pop(holder, None))
