"""What agents read beside the log: pods' usage of ``/stats/summary``, and the pod-resources API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, takes
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.klog.forms import integer
from kubeledger.ingest.sources.items import PodResources, StatsSummary
from kubeledger.model.bodies.devicemanager import AllocatableResourcesListed, PodResourcesListed
from kubeledger.model.bodies.eviction import ContainerUsage, PodUsage, PodUsageObserved, VolumeUsage
from kubeledger.model.units import parse_api_ts


class ReadingsAssembler(Assembler):
    """One record a summary, and one for each answer that differs from the one before."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._last: dict[str, PodResourcesListed | AllocatableResourcesListed] = {}

    @takes(StatsSummary)
    def _stats(self, item: StatsSummary) -> None:
        """What the eviction manager reads of the summary's pods."""
        rows = tuple(row for pod in _objects(item.data.get("pods")) for row in _pod(pod))
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
    ref, memory = _object(stats.get("podRef")), _object(stats.get("memory"))
    namespace, name, uid = ref.get("namespace"), ref.get("name"), ref.get("uid")
    if not isinstance(namespace, str) or not isinstance(name, str):
        return
    yield PodUsage(
        namespace=namespace,
        pod=name,
        pod_uid=uid if isinstance(uid, str) else None,
        memory_bytes=integer(memory.get("workingSetBytes")),
        memory_ts_ns=_time(memory),
        processes=integer(_object(stats.get("process_stats")).get("process_count")),
        storage_bytes=integer(_object(stats.get("ephemeral-storage")).get("usedBytes")),
        containers=tuple(_container(each) for each in _objects(stats.get("containers"))),
        volumes=tuple(
            VolumeUsage(
                name=str(each.get("name")),
                used_bytes=integer(each.get("usedBytes")),
                used_inodes=integer(each.get("inodesUsed")),
            )
            for each in _objects(stats.get("volume"))
        ),
    )


def _container(stats: dict[str, Any]) -> ContainerUsage:
    memory, rootfs, logs = (_object(stats.get(key)) for key in ("memory", "rootfs", "logs"))
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


def _objects(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 # any decoded value
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 # any decoded value
    return value if isinstance(value, dict) else {}
