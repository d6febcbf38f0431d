"""What agents read beside the log: pods' usage of ``/stats/summary``, and the pod-resources API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, takes
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import PodResources, StatsSummary
from kubeledger.ingest.sources.plain import object_of
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.model.bodies.devicemanager import AllocatableResourcesListed, PodResourcesListed
from kubeledger.model.bodies.eviction import ContainerUsage, PodUsage, PodUsageObserved, VolumeUsage
from kubeledger.model.units import integer, parse_api_ts


class ReadingsAssembler(Assembler):
    """One record a summary, and one for each answer that differs from the one before."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._last: dict[str, PodResourcesListed | AllocatableResourcesListed] = {}

    @takes(StatsSummary)
    def _stats(self, item: StatsSummary) -> None:
        """What the eviction manager reads of the summary's pods."""
        rows = tuple(row for pod in objects_of(item.data.get("pods")) for row in _pod(pod))
        if rows:
            self.queue.add(shown(item, PodUsageObserved(pods=rows)))

    @takes(PodResources)
    def _listed(self, item: PodResources) -> None:
        """What containers have for themselves, with the UIDs of their pods."""
        body = item.body
        if isinstance(body, PodResourcesListed):
            body = self._named(body, item.ts_ns)
        if self._last.get(body.kind) != body:
            self._last[body.kind] = body
            self.queue.add(shown(item, body))

    def _named(self, body: PodResourcesListed, ts_ns: int) -> PodResourcesListed:
        containers = tuple(
            msgspec.structs.replace(
                each, pod_uid=self.context.uid_of(each.namespace, each.pod, ts_ns)
            )
            for each in body.containers
        )
        return PodResourcesListed(containers=containers)


def _pod(stats: dict[str, Any]) -> Iterator[PodUsage]:
    ref, memory = object_of(stats.get("podRef")), object_of(stats.get("memory"))
    namespace, name, uid = ref.get("namespace"), ref.get("name"), ref.get("uid")
    if not isinstance(namespace, str) or not isinstance(name, str):
        return
    yield PodUsage(
        namespace=namespace,
        pod=name,
        pod_uid=uid if isinstance(uid, str) else None,
        memory_bytes=integer(memory.get("workingSetBytes")),
        memory_ts_ns=_time(memory),
        processes=integer(object_of(stats.get("process_stats")).get("process_count")),
        storage_bytes=integer(object_of(stats.get("ephemeral-storage")).get("usedBytes")),
        containers=tuple(_container(each) for each in objects_of(stats.get("containers"))),
        volumes=tuple(
            VolumeUsage(
                name=str(each.get("name")),
                used_bytes=integer(each.get("usedBytes")),
                used_inodes=integer(each.get("inodesUsed")),
            )
            for each in objects_of(stats.get("volume"))
        ),
    )


def _container(stats: dict[str, Any]) -> ContainerUsage:
    memory, rootfs, logs = (object_of(stats.get(key)) for key in ("memory", "rootfs", "logs"))
    return ContainerUsage(
        name=str(stats.get("name")),
        memory_bytes=integer(memory.get("workingSetBytes")),
        memory_ts_ns=_time(memory),
        rootfs_bytes=integer(rootfs.get("usedBytes")),
        rootfs_inodes=integer(rootfs.get("inodesUsed")),
        logs_bytes=integer(logs.get("usedBytes")),
        logs_inodes=integer(logs.get("inodesUsed")),
    )


def _time(stats: dict[str, Any]) -> int | None:
    """When it was sampled; None where that is not reported."""
    text = stats.get("time")
    try:
        return parse_api_ts(text) if isinstance(text, str) else None
    except ValueError:
        return None
