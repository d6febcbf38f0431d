"""What pods request, may use and used, for the ranking."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from kubeledger.errors import KubeledgerError
from kubeledger.eviction.local_storage import excesses
from kubeledger.eviction.records import PodUsage, PodUsageObserved, RankedPod
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
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.evictions.ranking import Ranked
from kubeledger.verify.evictions.usage import Sample, Span, usage_at

__all__ = ["Place", "PodUsages", "stats_of"]

_READINGS = 6
_GONE_NS = 600 * NS_PER_S
_STORAGE_NS = 60 * NS_PER_S
"""Volumes are measured once a minute."""


class Place(msgspec.Struct, frozen=True):
    """A pod's place in a recorded ranking, as far as it can be judged.

    Attributes:
        name: ``namespace/name``.
        pod: its spec; None when no list shows it.
        likely, possible: it with the bounds of usage that are likely, and that are possible.
        used: (n,) what samples around tell of its usage, in order of time.
        inputs: seqs of records: its spec (0 where none tells it), then its usage around.
    """

    name: str
    pod: Pod | None
    likely: Ranked
    possible: Ranked
    used: Span | None
    inputs: tuple[int, ...]


class PodUsages:
    """The last readings of every pod; as long as it is told of, and a little longer."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._rows: dict[str, list[tuple[int, int, PodUsage]]] = {}
        self._told: dict[str, tuple[str, int, int]] = {}
        self._gone_ns = 0

    def tell(self, key: str, resource: str, ts_ns: int, used: int) -> None:
        """What the message of an eviction tells of the containers of its pod."""
        self._told[key] = (resource, ts_ns, used)

    def read(self, record: Record, body: PodUsageObserved) -> None:
        """Take in a reading."""
        for row in body.pods:
            rows = self._rows.setdefault(row.pod_uid or f"{row.namespace}/{row.pod}", [])
            rows.append((record.ts_ns, record.seq, row))
            del rows[:-_READINGS]
        if record.ts_ns - self._gone_ns > _GONE_NS:
            self._gone_ns = record.ts_ns
            for key in [
                k for k, rows in self._rows.items() if rows[-1][0] < self._gone_ns - _GONE_NS
            ]:
                del self._rows[key]
                self._told.pop(key, None)

    def spec(self, ts_ns: int, pod: RankedPod) -> tuple[Pod | None, int | None]:
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
        last = max((r[0] for rows in self._rows.values() for r in rows if r[0] <= ts_ns), default=0)
        return [
            RankedPod(namespace=row.namespace, pod=row.pod, pod_uid=row.pod_uid)
            for rows in self._rows.values()
            for at, _, row in rows
            if at == last
        ]

    def places(
        self,
        ts_ns: int,
        ranked: Sequence[RankedPod],
        signal: str,
        layout: DiskLayout,
        unsure: Container[RankedPod] = (),
    ) -> list[Place]:
        """The pods of a ranking for a signal; ``unsure`` may have had no statistics."""
        places = [self._place(ts_ns, pod, signal, layout) for pod in ranked]
        return [
            _anywhere(place) if pod in unsure else place
            for pod, place in zip(ranked, places, strict=True)
        ]

    def exceeded(self, ts_ns: int, body: PodEvicted, pod: Pod, layout: DiskLayout) -> bool:
        """Whether a reading around shows the pod above its limit of local storage."""
        profile = self._bench.profile
        assert profile is not None
        rows = self._rows.get(body.pod_uid or f"{body.namespace}/{body.pod}", [])
        return any(
            excess.limit == body.signal
            for at, _, row in rows
            if abs(at - ts_ns) <= _STORAGE_NS
            for excess in excesses(pod, stats_of(row), layout, profile)
        )

    def _place(self, ts_ns: int, who: RankedPod, signal: str, layout: DiskLayout) -> Place:
        name = f"{who.namespace}/{who.pod}"
        pod, listed = self.spec(ts_ns, who)
        rows = self._rows.get(who.pod_uid or name, [])
        inputs = (listed or 0, *_around(rows, ts_ns))
        unknown = Ranked(0, 0, None, known=False)
        if pod is None:
            return Place(name, None, unknown, unknown, None, inputs)
        profile = self._bench.profile
        assert profile is not None
        resource = RESOURCE_OF[signal]
        try:
            request = deducted = 0
            if resource != "pids":
                request = deducted = pod_request_nanos(pod, resource, profile)
            if resource == "inodes":
                deducted = pod_request_nanos(pod, "ephemeral-storage", profile)
            samples = self._samples(rows, pod, signal, layout)
            most = _most_memory(pod) if resource == "memory" else None
        except (KubeledgerError, QuantityError):
            return Place(name, pod, unknown, unknown, None, inputs)
        others = _of_containers(rows, ts_ns) if resource == "memory" else []
        told = self._told.get(who.pod_uid or name)
        if told is not None and told[0] == resource and abs(told[1] - ts_ns) <= NS_PER_S:
            others.append(told[2])
        span = usage_at(samples, ts_ns, most, sampled=resource == "memory", others=others)
        priority = pod.spec.priority or 0
        if span is None or samples[0].ts_ns > ts_ns:
            # Statistics may not have been there yet: such pods go first.
            anywhere = Ranked(priority, 0, most, request, deducted, known=False)
            return Place(name, pod, anywhere, anywhere, span, inputs)
        return Place(
            name,
            pod,
            Ranked(priority, span.likely_least, span.likely_most, request, deducted),
            Ranked(priority, span.least, span.most, request, deducted),
            span,
            inputs,
        )

    def _samples(
        self, rows: list[tuple[int, int, PodUsage]], pod: Pod, signal: str, layout: DiskLayout
    ) -> list[Sample]:
        assert self._bench.profile is not None
        facts = self._bench.profile.eviction
        resource = RESOURCE_OF[signal]
        found: dict[int, int] = {}
        for at, _, row in rows:
            if resource == "memory":
                if row.memory_bytes is not None:
                    found[row.memory_ts_ns or at] = row.memory_bytes
            elif resource == "pids":
                found[at] = process_count(stats_of(row))
            else:
                parts = measured_parts(signal, layout, facts) or frozenset()
                inodes = resource == "inodes"
                found[at] = disk_usage(pod, stats_of(row), parts, facts, inodes=inodes)
        return [Sample(at, value) for at, value in sorted(found.items())]


def _anywhere(place: Place) -> Place:
    """It goes first without statistics, else where they put it."""
    return msgspec.structs.replace(
        place,
        likely=msgspec.structs.replace(place.likely, known=False),
        possible=msgspec.structs.replace(place.possible, known=False),
    )


def _of_containers(rows: list[tuple[int, int, PodUsage]], ts_ns: int) -> list[int]:
    """What a pod's containers used together, as sampled last before and first after."""
    found: dict[int, int] = {}
    for _, _, row in rows:
        sampled = [each for each in row.containers if each.memory_ts_ns is not None]
        if sampled and all(each.memory_bytes is not None for each in sampled):
            at = max(each.memory_ts_ns or 0 for each in sampled)
            found[at] = sum(each.memory_bytes or 0 for each in sampled)
    before = max((at for at in found if at <= ts_ns), default=None)
    after = min((at for at in found if at > ts_ns), default=None)
    return [found[at] for at in (before, after) if at is not None]


def _around(rows: list[tuple[int, int, PodUsage]], ts_ns: int) -> list[int]:
    """Seqs of the last reading before and the first after."""
    before = [seq for at, seq, _ in rows if at <= ts_ns][-1:]
    return before + [seq for at, seq, _ in rows if at > ts_ns][:1]


def _most_memory(pod: Pod) -> int | None:
    """What the pod's cgroup lets it use; None where a container has no limit."""
    total = 0
    for container in pod.spec.containers or ():
        limit = container.limits.get("memory")
        if limit is None:
            return None
        total += value_of(limit)
    for container in pod.spec.init_containers or ():
        limit = container.limits.get("memory")
        if limit is None:
            return None
        total += value_of(limit)
    return total


def stats_of(row: PodUsage) -> PodStats:
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
