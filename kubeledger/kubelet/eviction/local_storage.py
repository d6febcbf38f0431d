"""Pods that use more local storage than they may: no ranking, no threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from kubeledger.kubelet.eviction.messages import (
    container_limit_message,
    empty_dir_message,
    pod_limit_message,
)
from kubeledger.kubelet.eviction.ranking import FsPart, disk_usage, storage_limit
from kubeledger.kubelet.eviction.signals import DiskLayout, FsStats, PodStats, int64
from kubeledger.kubelet.kube.pod import SIDECAR, Pod
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile

Limit = Literal["emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit"]
"""What is exceeded, as the kubelet's metric of evictions names it."""

_STORAGE = "ephemeral-storage"
_NANOS = 10**9


class LocalStorageExcess(msgspec.Struct, frozen=True):
    """A limit of local storage that a pod exceeds.

    Attributes:
        name: volume or container; empty for the pod's.
    """

    limit: Limit
    name: str
    used_bytes: int
    allowed: Quantity
    message: str


def excesses(
    pod: Pod, stats: PodStats, layout: DiskLayout, profile: KubeletProfile
) -> Iterator[LocalStorageExcess]:
    """Limits that a pod exceeds, in the order in which the kubelet looks at them.

    It evicts for the first one, and looks at no further volume, or container, than the first
    of its kind.

    Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go localStorageEviction; v1.20.2
    Differs: a volume whose statistics have no bytes is skipped; the kubelet crashes.
    """
    yield from _empty_dir(pod, stats)
    yield from _pod(pod, stats, layout, profile)
    yield from _container(pod, stats, layout, profile.eviction)


def _empty_dir(pod: Pod, stats: PodStats) -> Iterator[LocalStorageExcess]:
    volumes = [v for v in pod.spec.volumes or () if v.empty_dir is not None]
    if not volumes or not stats.volumes:
        return
    # The last of several statistics of one name counts, other than in the ranking.
    used = {seen.name or "": seen.used_bytes for seen in stats.volumes}
    for volume in volumes:
        size = volume.empty_dir.size_limit if volume.empty_dir is not None else None
        name, used_bytes = volume.name or "", used.get(volume.name or "")
        if size is None or used_bytes is None:
            continue
        allowed = Quantity.from_api(size)
        if allowed.sign == 1 and int64(used_bytes) * _NANOS > allowed.nanos():
            message = empty_dir_message(name, allowed)
            yield LocalStorageExcess("emptydirfs.limit", name, int64(used_bytes), allowed, message)
            return


def _pod(
    pod: Pod, stats: PodStats, layout: DiskLayout, profile: KubeletProfile
) -> Iterator[LocalStorageExcess]:
    allowed = storage_limit(pod, profile)
    if allowed is None:
        return
    if profile.eviction.summary_has_pod_storage:
        used_bytes = _used(stats.ephemeral_storage)
    else:
        used_bytes = _added_up(pod, stats, layout, profile.eviction)
    if used_bytes * _NANOS > allowed.nanos():
        yield LocalStorageExcess(
            "ephemeralpodfs.limit", "", used_bytes, allowed, pod_limit_message(allowed)
        )


def _container(
    pod: Pod, stats: PodStats, layout: DiskLayout, facts: EvictionFacts
) -> Iterator[LocalStorageExcess]:
    sidecars = (each for each in pod.spec.init_containers or () if each.restart_policy == SIDECAR)
    limits = {
        container.name or "": Quantity.from_api(container.limits[_STORAGE])
        for container in (
            *(pod.spec.containers or ()),
            *(sidecars if facts.sidecar_storage_limits_evict else ()),
        )
        if _STORAGE in container.limits
    }
    for seen in stats.containers or () if limits else ():
        name = seen.name or ""
        allowed = limits.get(name)
        if allowed is None or not allowed.value():
            continue
        used_bytes = _used(seen.logs)
        if _on_nodefs(layout):
            used_bytes += _used(seen.rootfs)
        if used_bytes * _NANOS > allowed.nanos():
            message = container_limit_message(name, allowed)
            yield LocalStorageExcess(
                "ephemeralcontainerfs.limit", name, used_bytes, allowed, message
            )
            return


def _added_up(pod: Pod, stats: PodStats, layout: DiskLayout, facts: EvictionFacts) -> int:
    """What a pod used before the summary had it; its hosts file is not known here."""
    parts: set[FsPart] = {"logs", "volumes"}
    if _on_nodefs(layout):
        parts.add("root")
    return disk_usage(pod, stats, parts, facts, host_paths=False)


def _on_nodefs(layout: DiskLayout) -> bool:
    """Whether writable layers count: not, where images have a disk of their own."""
    return layout in ("shared", "containers")


def _used(stats: FsStats | None) -> int:
    return 0 if stats is None or stats.used_bytes is None else int64(stats.used_bytes)
