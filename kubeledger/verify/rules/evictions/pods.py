"""What pods request, may use and used, for the ranking."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from kubeledger.errors import KubeledgerError
from kubeledger.eviction.local_storage import LocalStorageExcess, excesses
from kubeledger.eviction.records import PodSpared, PodUsage, PodUsageObserved, RankedPod
from kubeledger.eviction.signals import RESOURCE_OF, DiskLayout
from kubeledger.eviction.summary import (
    ContainerStats,
    FsStats,
    MemoryStats,
    PodReference,
    PodStats,
    ProcessStats,
    VolumeStats,
)
from kubeledger.eviction.usage import (
    disk_usage,
    measured_parts,
    pod_request_nanos,
    process_count,
)
from kubeledger.kube.pod import Pod
from kubeledger.kube.quantity import QuantityError, value_of
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.evictions.places import Place
from kubeledger.verify.rules.evictions.usage import Bounds, Sample, usage_at

__all__ = ["PodUsages", "key_of", "unsure"]

_READINGS: Final = 6
_GONE_NS: Final = 600 * NS_PER_S
_STORAGE_NS: Final = 60 * NS_PER_S
"""Volumes are measured once a minute."""
_STEADY_NS: Final = 30 * NS_PER_S
"""A container that runs for so long has statistics."""


class _Row(NamedTuple):
    """A pod's row of a reading."""

    ts_ns: int
    seq: int
    usage: PodUsage


def key_of(who: RankedPod | PodUsage | PodEvicted | PodSpared) -> str:
    """The name under which a pod is kept."""
    return who.pod_uid or f"{who.namespace}/{who.pod}"


class PodUsages:
    """The last readings of every pod; as long as it is told of, and a little longer."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._rows: dict[str, list[_Row]] = {}
        self._told: dict[str, tuple[str, int, int]] = {}
        self._gone_ns = 0

    def tell(self, ts_ns: int, body: PodEvicted, used: int | None) -> None:
        """What the message of an eviction tells of the containers of its pod, if anything."""
        if used is not None and body.resource is not None:
            self._told[key_of(body)] = (body.resource, ts_ns, used)

    def read(self, record: Record, body: PodUsageObserved) -> None:
        """Take in a reading."""
        for usage in body.pods:
            rows = self._rows.setdefault(key_of(usage), [])
            rows.append(_Row(record.ts_ns, record.seq, usage))
            del rows[:-_READINGS]
        if record.ts_ns - self._gone_ns > _GONE_NS:
            self._gone_ns = record.ts_ns
            for key in [
                k for k, rows in self._rows.items() if rows[-1].ts_ns < self._gone_ns - _GONE_NS
            ]:
                del self._rows[key]
                self._told.pop(key, None)

    def spec(
        self, ts_ns: int, pod: RankedPod | PodEvicted | PodSpared
    ) -> tuple[Pod | None, int | None]:
        """The pod's spec then, and the record that tells it."""
        listed = self._bench.pods.at(ts_ns, pod.pod_uid, pod.namespace, pod.pod)
        if listed is None:
            return None, None
        try:
            return listed.as_(Pod), listed.seq
        except msgspec.ValidationError:
            return None, None

    def latest(self, ts_ns: int) -> list[RankedPod]:
        """Pods that the last reading before a time tells of."""
        known = [row for rows in self._rows.values() for row in rows if row.ts_ns <= ts_ns]
        last = max((row.ts_ns for row in known), default=0)
        return [
            RankedPod(namespace=row.usage.namespace, pod=row.usage.pod, pod_uid=row.usage.pod_uid)
            for row in known
            if row.ts_ns == last
        ]

    def places(
        self,
        ts_ns: int,
        ranked: Sequence[RankedPod],
        signal: str,
        layout: DiskLayout,
        unsure: Container[RankedPod] = (),
        idle: Container[RankedPod] = (),
    ) -> list[Place]:
        """The pods of a ranking for a signal.

        Those ``unsure`` may have had no statistics, unless the kubelet told of their usage. The
        ``idle`` of them had none, as no container of theirs ran.
        """
        resource = RESOURCE_OF[signal]
        return [
            place.anywhere(ran=pod not in idle)
            if pod in unsure and self._told_of(pod, resource, ts_ns) is None
            else place
            for pod in ranked
            for place in (self._place(ts_ns, pod, signal, layout),)
        ]

    def excess(
        self, ts_ns: int, body: PodEvicted, pod: Pod, layout: DiskLayout
    ) -> tuple[LocalStorageExcess, int] | None:
        """The pod's limit of local storage that the reading nearest shows exceeded, and its seq."""
        profile = self._bench.profile
        assert profile is not None
        rows = [r for r in self._rows.get(key_of(body), ()) if abs(r.ts_ns - ts_ns) <= _STORAGE_NS]
        for row in sorted(rows, key=lambda each: abs(each.ts_ns - ts_ns)):
            for excess in excesses(pod, _stats_of(row.usage), layout, profile):
                if excess.limit == body.signal and body.message in (None, excess.message):
                    return excess, row.seq
        return None

    def _told_of(self, who: RankedPod, resource: str, ts_ns: int) -> int | None:
        """What the kubelet said just then that the pod's containers used."""
        told = self._told.get(key_of(who))
        if told is None or told[0] != resource or abs(told[1] - ts_ns) > NS_PER_S:
            return None
        return told[2]

    def _place(self, ts_ns: int, who: RankedPod, signal: str, layout: DiskLayout) -> Place:
        name, resource = f"{who.namespace}/{who.pod}", RESOURCE_OF[signal]
        pod, listed = self.spec(ts_ns, who)
        rows = self._rows.get(key_of(who), [])
        inputs = (listed or 0, *_around(rows, ts_ns))
        if pod is None:
            return Place(name, None, inputs)
        profile = self._bench.profile
        assert profile is not None
        request, deducted = -1, 0
        try:
            if resource != "pids":
                request = deducted = pod_request_nanos(pod, resource, profile)
            if resource == "inodes":
                deducted = pod_request_nanos(pod, "ephemeral-storage", profile)
            samples = self._samples(rows, pod, signal, layout)
            most = _most_memory(pod) if resource == "memory" else None
        except (KubeledgerError, QuantityError):
            return Place(name, pod, inputs)
        place = Place(name, pod, inputs, pod.spec.priority or 0, request, deducted)
        told = self._told_of(who, resource, ts_ns)
        if not samples and told is not None:
            samples = [Sample(ts_ns, told)]
        if not samples:
            return place
        others = _of_containers(rows, ts_ns) if resource == "memory" else []
        sampled = resource == "memory"
        likely, possible = usage_at(samples, ts_ns, most, sampled=sampled, others=others)
        if told is not None and likely != possible:
            # A pod uses what its containers do, and its sandbox and volumes besides.
            likely = Bounds(max(likely.least, told), max(likely.most or 0, told))
        # Before the first sample there may have been no statistics: such pods go first.
        known = samples[0].ts_ns + NS_PER_S <= ts_ns or told is not None
        return msgspec.structs.replace(place, likely=likely, possible=possible, known=known)

    def _samples(self, rows: list[_Row], pod: Pod, signal: str, layout: DiskLayout) -> list[Sample]:
        assert self._bench.profile is not None
        facts = self._bench.profile.eviction
        resource = RESOURCE_OF[signal]
        found: dict[int, int] = {}
        for at, _, usage in rows:
            if resource == "memory":
                if usage.memory_bytes is not None:
                    found[usage.memory_ts_ns or at] = usage.memory_bytes
            elif resource == "pids":
                found[at] = process_count(_stats_of(usage))
            else:
                parts = measured_parts(signal, layout, facts) or frozenset()
                inodes = resource == "inodes"
                found[at] = disk_usage(pod, _stats_of(usage), parts, facts, inodes=inodes)
        return [Sample(at, value) for at, value in sorted(found.items())]


def unsure(
    state: NodeState, ts_ns: int, ranked: Iterable[RankedPod], steady_ns: int = _STEADY_NS
) -> frozenset[RankedPod]:
    """Pods of which there may be no statistics: no container ran for a while.

    With the state of a later time and ``steady_ns`` 0: none runs that did so already then.
    One that nothing names may be the sandbox, whose statistics do not count.

    Source: v1.30.1 pkg/kubelet/stats/cri_stats_provider.go removeTerminatedContainers
    """

    def is_steady(who: RankedPod) -> bool:
        pod = state.lifecycle.pods.get(key_of(who))
        return pod is not None and any(
            each.running
            and each.started_ts_ns is not None
            and ts_ns - each.started_ts_ns > steady_ns
            for each in pod.containers.values()
        )

    return frozenset(who for who in ranked if not is_steady(who))


def _of_containers(rows: list[_Row], ts_ns: int) -> list[int]:
    """What a pod's containers used together, as sampled last before and first after."""
    found: dict[int, int] = {}
    for row in rows:
        sampled = [each for each in row.usage.containers if each.memory_ts_ns is not None]
        if sampled and all(each.memory_bytes is not None for each in sampled):
            at = max(each.memory_ts_ns or 0 for each in sampled)
            found[at] = sum(each.memory_bytes or 0 for each in sampled)
    before = [found[at] for at in sorted(found) if at <= ts_ns][-1:]
    return before + [found[at] for at in sorted(found) if at > ts_ns][:1]


def _around(rows: list[_Row], ts_ns: int) -> list[int]:
    """Seqs of the last reading before and the first after."""
    before = [row.seq for row in rows if row.ts_ns <= ts_ns][-1:]
    return before + [row.seq for row in rows if row.ts_ns > ts_ns][:1]


def _most_memory(pod: Pod) -> int | None:
    """What the pod's cgroup lets it use; None where a container has no limit."""
    limits = [
        container.limits.get("memory")
        for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    ]
    told = [limit for limit in limits if limit is not None]
    return sum(map(value_of, told)) if len(told) == len(limits) else None


def _stats_of(row: PodUsage) -> PodStats:
    """A recorded row as the decider reads it."""
    return PodStats(
        pod_ref=PodReference(row.pod, row.namespace, row.pod_uid),
        containers=tuple(
            ContainerStats(
                each.name,
                memory=MemoryStats(working_set_bytes=each.memory_bytes),
                rootfs=FsStats(used_bytes=each.rootfs_bytes, inodes_used=each.rootfs_inodes),
                logs=FsStats(used_bytes=each.logs_bytes, inodes_used=each.logs_inodes),
            )
            for each in row.containers
        ),
        memory=MemoryStats(working_set_bytes=row.memory_bytes),
        process_stats=ProcessStats(row.processes),
        ephemeral_storage=FsStats(used_bytes=row.storage_bytes),
        volumes=tuple(
            VolumeStats(name=each.name, used_bytes=each.used_bytes, inodes_used=each.used_inodes)
            for each in row.volumes
        ),
    )
