"""What the eviction manager tries before it evicts pods: which signal reclaims what.

This is the other caller of image GC. It knows no thresholds of the image GC policy, so that images
go even with a high threshold of 100, and it asks for *everything* unused to be
removed; the minimum age still protects.
"""

from __future__ import annotations

from enum import StrEnum

from kubeledger.kubelet.eviction.signals import DiskLayout
from kubeledger.kubelet.profile.eviction import EvictionFacts


class ReclaimFunction(StrEnum):
    """A function of the container GC or the image GC, by its Go name."""

    CONTAINERS = "DeleteAllUnusedContainers"
    IMAGES = "DeleteUnusedImages"


SPLIT_DISK_ERROR = "KubeletSeparateDiskGC is turned off but we still have a split filesystem"

_BOTH = (ReclaimFunction.CONTAINERS, ReclaimFunction.IMAGES)
_CONTAINERS = (ReclaimFunction.CONTAINERS,)
_IMAGES = (ReclaimFunction.IMAGES,)

_BY_DISK: dict[DiskLayout, dict[str, tuple[ReclaimFunction, ...]]] = {
    "shared": {"nodefs": _BOTH, "imagefs": _BOTH, "containerfs": _BOTH},
    "containers": {"nodefs": _BOTH, "imagefs": _BOTH, "containerfs": _BOTH},
    # The kubelet's own disk then holds logs and volumes only, which no function removes.
    "dedicated": {"nodefs": (), "imagefs": _BOTH, "containerfs": _BOTH},
    "split": {"nodefs": _CONTAINERS, "imagefs": _IMAGES, "containerfs": _CONTAINERS},
}


def reclaim_functions(
    signal: str, layout: DiskLayout, facts: EvictionFacts
) -> tuple[ReclaimFunction, ...]:
    """What is called, in this order, when a threshold of ``signal`` is met.

    Args:
        signal: e.g. ``nodefs.available``; memory and process signals reclaim nothing.
        layout: as the disks are; a kubelet that does not know split disks takes
            them for dedicated ones.

    Returns:
        Empty when there is nothing to try and a pod is evicted at once.

    Source: v1.20.2 pkg/kubelet/eviction/helpers.go:1019 buildSignalToNodeReclaimFuncs;
        v1.36.2 the same
    Differs: one row a disk, as space and inodes of a disk always reclaim alike.
    """
    disk, _, amount = signal.partition(".")
    if amount not in ("available", "inodesFree"):
        return ()
    if disk == "containerfs" and not facts.containerfs_reclaims:
        return ()
    if layout == "split" and not facts.split_disk_known:
        layout = "dedicated"
    return _BY_DISK[layout].get(disk, ())


def split_disk_error(layout: DiskLayout, facts: EvictionFacts) -> str:
    """Why the eviction manager does nothing at all on this node; empty when it works.

    Source: v1.29.0 pkg/kubelet/eviction/eviction_manager.go:263 synchronize
    Differs: nothing.
    """
    refused = (
        layout in ("split", "containers")
        and facts.split_disk_known
        and not facts.split_disk_gate_on
    )
    return SPLIT_DISK_ERROR if refused else ""
