"""Observations and decisions of the eviction manager (pkg/kubelet/eviction).

Its signals are ``images.EvictionSignalObserved``, the pods that it evicted
``lifecycle.PodEvicted``, the images that it deleted first ``images.ImageDeleted``.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = [
    "ContainerUsage",
    "NodeCondition",
    "NodeConditionsChanged",
    "PodSpared",
    "PodUsage",
    "PodUsageObserved",
    "RankedPod",
    "ReclaimAttempted",
    "VolumeUsage",
]

NodeCondition = Literal["DiskPressure", "MemoryPressure", "PIDPressure"]


class ContainerUsage(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a container used; None where the source does not hold it.

    Attributes:
        memory_bytes: its working set, sampled at ``memory_ts_ns``.
        rootfs_bytes, rootfs_inodes: of its writable layer.
        logs_bytes, logs_inodes: of its log files.
    """

    name: str
    memory_bytes: int | None = None
    memory_ts_ns: int | None = None
    rootfs_bytes: int | None = None
    rootfs_inodes: int | None = None
    logs_bytes: int | None = None
    logs_inodes: int | None = None


class VolumeUsage(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a pod's volume held; None where the source does not hold it."""

    name: str
    used_bytes: int | None = None
    used_inodes: int | None = None


class PodUsage(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a pod used, a row of the summary; None where the source does not hold it.

    Attributes:
        memory_bytes: working set of the pod's cgroup, sampled at ``memory_ts_ns``.
        processes: how many ran in it.
        storage_bytes: its local storage together (``ephemeral-storage`` of the summary).
    """

    namespace: str
    pod: str
    pod_uid: str | None
    memory_bytes: int | None = None
    memory_ts_ns: int | None = None
    processes: int | None = None
    storage_bytes: int | None = None
    containers: tuple[ContainerUsage, ...] = ()
    volumes: tuple[VolumeUsage, ...] = ()


class PodUsageObserved(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every pod used, as one reading of ``/stats/summary`` gave it, in its order."""

    kind: ClassVar[str] = "eviction.PodUsageObserved"
    pods: tuple[PodUsage, ...]


class NodeConditionsChanged(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pressure conditions that the node reports are others than before.

    Attributes:
        conditions: that it reports from now on, sorted; a new kubelet process reports none.
        observed: those of them whose threshold is met now; the others stay until the
            transition period is over.
    """

    kind: ClassVar[str] = "eviction.NodeConditionsChanged"
    conditions: tuple[NodeCondition, ...]
    observed: tuple[NodeCondition, ...]


class RankedPod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place in the ranking."""

    namespace: str
    pod: str
    pod_uid: str | None


class ReclaimAttempted(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A threshold was met, so the node's resources are reclaimed: unused ones, then pods.

    Attributes:
        resource: that is short, e.g. ``memory``.
        signal: whose threshold it is; None where the source leaves several open.
        threshold, observed: of the signal, in bytes, inodes or processes.
        threshold_kind: ``hard``, ``soft`` (after its grace period) or ``allocatable``.
        since_ts_ns: when the threshold was first seen to be met.
        ranked: the active pods, first to go first; None where no ranking is known.
        outcome: ``node_level`` (what was unused sufficed), ``evicting`` (a pod was chosen,
            see the ``lifecycle.PodEvicted`` it caused) or ``nothing`` (no pod could be
            evicted); None where the source ends before that.
    """

    kind: ClassVar[str] = "eviction.ReclaimAttempted"
    resource: str | None
    signal: str | None = None
    threshold: int | None = None
    threshold_kind: Literal["hard", "soft", "allocatable"] | None = None
    since_ts_ns: int | None = None
    observed: int | None = None
    ranked: tuple[RankedPod, ...] | None = None
    outcome: Literal["node_level", "evicting", "nothing"] | None = None


class PodSpared(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It was a pod's turn, and it was left alone because it is critical."""

    kind: ClassVar[str] = "eviction.PodSpared"
    namespace: str
    pod: str
    pod_uid: str | None
