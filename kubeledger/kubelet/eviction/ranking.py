"""Which pod goes first when something is short, by what pods use, request and may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from kubeledger.kubelet.eviction.signals import RESOURCE_OF, DiskLayout, FsStats, PodStats, int64
from kubeledger.kubelet.kube.pod import Container, Pod, Volume, is_sidecar
from kubeledger.kubelet.kube.podtotals import freed_total
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.resources import NANOS
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile

FsPart = Literal["root", "logs", "volumes"]
"""Writable layers of containers, their logs, local volumes of the pod."""

_ALL: Final[frozenset[FsPart]] = frozenset({"root", "logs", "volumes"})
_NO_LAYERS: Final[frozenset[FsPart]] = frozenset({"logs", "volumes"})
_LAYERS: Final[frozenset[FsPart]] = frozenset({"root"})
_STORAGE: Final = "ephemeral-storage"

_PARTS: Final[dict[DiskLayout, dict[str, frozenset[FsPart]]]] = {
    "shared": {"nodefs": _ALL, "imagefs": _ALL, "containerfs": _ALL},
    "containers": {"nodefs": _ALL, "imagefs": _ALL, "containerfs": _ALL},
    "dedicated": {"nodefs": _NO_LAYERS, "imagefs": _LAYERS, "containerfs": _LAYERS},
    # Image layers are nobody's usage, so that there priority and requests alone decide.
    "split": {"nodefs": _ALL, "imagefs": frozenset(), "containerfs": _ALL},
}


def measured_parts(
    signal: str, layout: DiskLayout, facts: EvictionFacts
) -> frozenset[FsPart] | None:
    """What of a pod's files counts when a disk signal is short; None for other signals.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go buildSignalToRankFunc; v1.28.0
    """
    if not facts.split_disk_known:
        layout = {"split": "dedicated", "containers": "shared"}.get(layout, layout)  # type: ignore[assignment] # a layout of the table
    return _PARTS[layout].get(signal.partition(".")[0])


def memory_usage(stats: PodStats) -> int:
    """Working set of a pod in bytes; 0 where it is not given."""
    memory = stats.memory
    return (
        0 if memory is None or memory.working_set_bytes is None else int64(memory.working_set_bytes)
    )


def process_count(stats: PodStats) -> int:
    """Processes of a pod; 0 where they are not given."""
    processes = stats.process_stats
    return (
        0
        if processes is None or processes.process_count is None
        else int64(processes.process_count)
    )


def disk_usage(
    pod: Pod,
    stats: PodStats,
    parts: Iterable[FsPart],
    facts: EvictionFacts,
    *,
    inodes: bool = False,
    host_paths: bool = True,
) -> int:
    """Bytes, or inodes, of the parts of a pod's files.

    Args:
        inodes: inodes instead of bytes.
        host_paths: whether volumes of the host count as local ones.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go podDiskUsage; v1.20.2
        podLocalEphemeralStorageUsage
    """
    total = 0
    for container in stats.containers or ():
        if "root" in parts:
            total += _used(container.rootfs, inodes=inodes)
        if "logs" in parts:
            total += _used(container.logs, inodes=inodes)
    if "volumes" in parts and stats.volumes:
        # The first of several statistics of one name counts.
        by_name = {volume.name: volume for volume in reversed(stats.volumes)}
        for volume in local_volumes(pod, facts, host_paths=host_paths):
            total += _used(by_name.get(volume.name), inodes=inodes)
    return total


def local_volumes(pod: Pod, facts: EvictionFacts, *, host_paths: bool) -> list[Volume]:
    """Volumes of a pod on the node's own disk.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go localVolumeNames, pkg/volume/util
        IsLocalEphemeralVolume; v1.20.2
    """
    return [
        volume
        for volume in pod.spec.volumes or ()
        if (host_paths and volume.host_path is not None) or _is_local_ephemeral(volume, facts)
    ]


def pod_request_nanos(pod: Pod, resource: str, profile: KubeletProfile) -> int:
    """What the ranking compares a pod's usage with, in billionths.

    Source: v1.36.2 pkg/api/v1/resource/helpers.go GetResourceRequestQuantity; v1.33.1
    """
    facts = profile.admission
    with_sidecars = facts.victims_counted_with_sidecars
    return freed_total(
        pod.spec,
        resource,
        NANOS,
        sidecars=with_sidecars,
        pod_level=with_sidecars and facts.pod_level_resources,
    )


def storage_limit(pod: Pod, profile: KubeletProfile) -> Quantity | None:
    """How much local storage a pod may use; None where no container has a limit.

    A quantity, because its notation is in the message of the eviction.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go PodLimits; v1.26.7
        pkg/api/v1/resource/helpers.go PodRequestsAndLimits
    """
    spec = pod.spec
    total: Quantity | None = None
    for container in spec.containers or ():
        total = _sum(total, _limit(container))
    beside: Quantity | None = None
    most: Quantity | None = None
    for container in spec.init_containers or ():
        own = _limit(container)
        if profile.cgroups.sidecars_run_alongside and is_sidecar(container):
            total = _sum(total, own)
            beside = own = _sum(beside, own)
        elif beside is not None:
            own = _sum(own, beside)
        most = _larger(most, own)
    total = _larger(total, most)
    if total is not None and not total.is_zero and spec.overhead and _STORAGE in spec.overhead:
        total = total.add(Quantity.from_api(spec.overhead[_STORAGE]))
    return total


def _used(stats: FsStats | None, *, inodes: bool) -> int:
    if stats is None:
        return 0
    used = stats.inodes_used if inodes else stats.used_bytes
    return 0 if used is None else int64(used)


def _is_local_ephemeral(volume: Volume, facts: EvictionFacts) -> bool:
    if volume.config_map is not None or volume.git_repo is not None:
        return True
    if volume.empty_dir is None:
        return False
    medium = volume.empty_dir.medium or ""
    return not medium if facts.local_volumes_on_default_medium else medium != "Memory"


def _limit(container: Container) -> Quantity | None:
    limits = container.limits
    return Quantity.from_api(limits[_STORAGE]) if _STORAGE in limits else None


def _sum(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    if left is None or right is None:
        return right if left is None else left
    return left.add(right)


def _larger(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    """The left one, unless the right one is larger."""
    if left is None or right is None:
        return right if left is None else left
    return right if right > left else left


_NANOS: Final = 10**9
_ORDERED_MAX: Final = 12
_ORDERED_MAX_OF_OLD_SORT: Final = 6


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """What of one pod its rank depends on.

    Attributes:
        priority: its priority; 0 where it has none.
        usage: bytes, inodes or processes; None where there are no statistics of the pod.
        request_nanos: what usage is compared with, in billionths; 0 of process IDs.
        deducted_nanos: what is taken off the usage: the request, of inodes that of bytes,
            of process IDs nothing.
    """

    uid: str
    priority: int
    usage: int | None
    request_nanos: int = 0
    deducted_nanos: int = 0


def candidates(
    pods: Iterable[Pod],
    stats: Mapping[str, PodStats],
    signal: str,
    layout: DiskLayout,
    profile: KubeletProfile,
) -> list[Candidate]:
    """What the ranking for a signal reads of pods.

    Args:
        stats: pod's UID -> statistics.

    Raises:
        BadInputError: an amount cannot be asked for, or a number does not fit.
    """
    resource = RESOURCE_OF[signal]
    parts = measured_parts(signal, layout, profile.eviction)
    inodes = resource == "inodes"
    found: list[Candidate] = []
    for pod in pods:
        uid, priority = pod.metadata.uid or "", pod.spec.priority or 0
        known = stats.get(uid)
        if resource == "pids":
            usage = None if known is None else process_count(known)
            found.append(Candidate(uid, priority, usage))
            continue
        request = pod_request_nanos(pod, resource, profile)
        deducted = pod_request_nanos(pod, "ephemeral-storage", profile) if inodes else request
        if known is None:
            usage = None
        elif parts is None:
            usage = memory_usage(known)
        else:
            usage = disk_usage(pod, known, parts, profile.eviction, inodes=inodes)
        found.append(Candidate(uid, priority, usage, request, deducted))
    return found


def rank(pods: Iterable[Candidate], signal: str) -> tuple[tuple[Candidate, ...], ...]:
    """Groups of pods in the order of their eviction.

    Returns:
        (n,) groups, the first to be evicted first; those of one group are equal to the
        kubelet and stay in the order of ``pods``.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankPIDPressure,
        rankDiskPressureFunc; v1.19
    Differs: process counts that are 2**63 apart are not compared in a circle.
    """
    key = rank_key(signal)
    groups: dict[tuple[int, ...], list[Candidate]] = {}
    for pod in pods:
        groups.setdefault(key(pod), []).append(pod)
    return tuple(tuple(groups[each]) for each in sorted(groups))


def rank_key(signal: str) -> Callable[[Candidate], tuple[int, ...]]:
    """What sorts candidates for a signal: less goes first."""
    return _by_processes if RESOURCE_OF[signal] == "pids" else _by_usage


def ties_are_ordered(pods: Sequence[object], facts: EvictionFacts) -> bool:
    """Whether equals among so many pods are evicted in the order of the kubelet's list.

    Go's sort leaves equals alone in short lists only; see the fact ``ties_keep_their_order``.
    """
    most = _ORDERED_MAX if facts.ties_keep_their_order else _ORDERED_MAX_OF_OLD_SORT
    return len(pods) <= most


def _by_usage(pod: Candidate) -> tuple[int, ...]:
    if pod.usage is None:
        return (0, 0, pod.priority, 0)
    used = pod.usage * _NANOS
    return (1, used <= pod.request_nanos, pod.priority, pod.deducted_nanos - used)


def _by_processes(pod: Candidate) -> tuple[int, ...]:
    return (pod.priority, 0, 0) if pod.usage is None else (pod.priority, 1, -pod.usage)
