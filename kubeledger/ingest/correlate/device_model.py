"""What the parts of the device assembler share: the queue, the holdings, the open requests."""

from __future__ import annotations

from typing import Literal

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.device_holdings import Holder, Holding, Holdings
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.pods import Pods
from kubeledger.ingest.correlate.sync_loop import SyncLoop
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.devicemanager import AllocationRequested, DevicesAllocated
from kubeledger.model.record import Evidence

__all__ = ["DeviceManagerModel", "Numa", "all_ids"]

Numa = dict[str, tuple[str, ...]]
"""NUMA node (as decimal text) -> sorted device IDs."""


def all_ids(numa: Numa) -> tuple[str, ...]:
    """The devices of all nodes, sorted; a device on several nodes counts once."""
    return tuple(sorted({device for ids in numa.values() for device in ids}))


class DeviceManagerModel:
    """Shared by the readers of one bundle's device lines.

    Attributes:
        queue: where their facts wait.
        holdings: who holds what.
        requests: the newest request of a holder that nothing has answered yet.
        asking: the holder whose request came last, by pod.
    """

    def __init__(
        self, context: BundleContext, queue: Holdback, pods: Pods, sync_loop: SyncLoop
    ) -> None:
        self.context = context
        self.queue = queue
        self.pods = pods
        self.sync_loop = sync_loop
        self.holdings = Holdings()
        self.requests: dict[Holder, Fact] = {}
        self.asking: dict[str, Holder] = {}

    def name_of(self, uid: str | None) -> tuple[str | None, str | None]:
        """Namespace and name of a pod; (None, None) when no source shows it."""
        pod = self.context.pods.get(uid or "")
        return (pod.namespace, pod.name) if pod is not None else (None, None)

    def ask(self, holder: Holder, needed: int, ts_ns: int, evidence: Evidence) -> None:
        """A container asks for devices; a request for none is only remembered."""
        uid, container, resource = holder
        self.asking[uid] = holder
        self.requests.pop(holder, None)
        if needed <= 0:
            return
        namespace, name = self.name_of(uid)
        body = AllocationRequested(
            namespace=namespace,
            pod=name,
            pod_uid=uid,
            container=container,
            resource=resource,
            needed=needed,
        )
        self.requests[holder] = self.queue.add(Fact(ts_ns, body, (evidence,)))

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
        name: tuple[str | None, str | None] = (None, None),
        told_by: Literal["call", "checkpoint", "restore"] = "call",
    ) -> Fact:
        """The fact that a container got devices; the caller queues it.

        Args:
            holder: who got them.
            device_ids: (n,) sorted.
            ts_ns: when.
            evidence: (n,) the first stands for the holding.
            numa: nodes, where the source shows them.
            name: namespace and name of the pod, where the source shows them.
            told_by: as in ``DevicesAllocated``.
        """
        pod, container, resource = holder
        uid = None if "/" in pod else pod
        namespace, pod_name = name if name != (None, None) else self.name_of(uid)
        body = DevicesAllocated(
            namespace=namespace,
            pod=pod_name,
            pod_uid=uid,
            container=container,
            resource=resource,
            device_ids=device_ids,
            numa=numa,
            told_by=told_by,
        )
        self.holdings.take(holder, Holding(device_ids, ts_ns, evidence[0]))
        return Fact(ts_ns, body, evidence, self.requests.pop(holder, None))
