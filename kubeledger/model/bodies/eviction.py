"""Who gives way: decisions of the eviction manager and of preemption, and kills by the kernel.

Its signals are ``images.EvictionSignalObserved``, the pods that it evicted
``lifecycle.PodEvicted``, the images that it deleted first ``images.ImageDeleted``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation, OfPod, OfSomePod

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


class PodUsageObserved(Observation, frozen=True, kw_only=True):
    """What every pod used, as one reading of ``/stats/summary`` gave it, in its order."""

    kind: ClassVar[str] = "eviction.PodUsageObserved"
    pods: tuple[PodUsage, ...]


class NodeConditionsChanged(Decision, frozen=True, kw_only=True):
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


class ReclaimAttempted(Decision, frozen=True, kw_only=True):
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


class PodSpared(OfPod, Decision, frozen=True, kw_only=True):
    """It was a pod's turn, and it was left alone because it is critical."""

    kind: ClassVar[str] = "eviction.PodSpared"


# Decisions of the critical pod admission failure handler (pkg/kubelet/preemption).


class InsufficientResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An amount that was missing when the preemptor was to be admitted.

    Attributes:
        resource: resource name, e.g. ``cpu``.
        quantity: amount missing: millicores for cpu, bytes for memory, else units.
    """

    resource: str
    quantity: int


class PodPreempted(Decision, frozen=True, kw_only=True):
    """One victim of one preemption, in the order they are killed.

    Attributes:
        insufficient: (n,) what was missing; empty when no source says.
        evicted: the kill succeeded; False when it failed, None when not known.
        cut: the line that names the victims is cut short, so there may have been more.
        preemptor_*: None when no source names it.
        preemptor_inferred: the preemptor is not named by the line; it follows from order.
    """

    kind: ClassVar[str] = "preemption.PodPreempted"
    victim_namespace: str
    victim_pod: str
    victim_uid: str | None
    preemptor_namespace: str | None
    preemptor_pod: str | None
    preemptor_uid: str | None
    preemptor_inferred: bool = False
    insufficient: tuple[InsufficientResource, ...]
    evicted: bool | None
    cut: bool = False


class PreemptionFailed(Decision, frozen=True, kw_only=True):
    """A critical pod did not fit and no set of victims would have helped.

    Attributes:
        error: the kubelet's error text.
    """

    kind: ClassVar[str] = "preemption.PreemptionFailed"
    preemptor_namespace: str
    preemptor_pod: str
    preemptor_uid: str | None
    insufficient: tuple[InsufficientResource, ...]
    error: str


# What the kernel's OOM killer saw and whom it killed.
#
# The kernel decides here, not the kubelet; but it decides by limits and ``oom_score_adj``
# that the kubelet gave. Paths of cgroups are below the controller, without a leading slash.
# Which pod and container a cgroup belongs to is None where no source says, and for
# processes outside of pods.

Reason = Literal["container_limit", "pod_limit", "node"]
"""Whose memory was used up: the container's limit, the pod's, or the node's own."""


REASON_OF_LEVEL: Mapping[str, Reason] = {"container": "container_limit", "pod": "pod_limit"}
"""Level of the cgroup that was out of memory -> reason; those above are neither the node's memory
nor one pod's: their path says what it was."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the kernel's task table: a process that could be killed.

    Attributes:
        process: its name, cut to 15 characters.
        rss_pages: pages in memory, of all kinds.
        swap_pages: pages in swap.
        page_table_bytes: size of its page tables.
    """

    pid: int
    process: str
    rss_pages: int
    swap_pages: int
    page_table_bytes: int
    oom_score_adj: int


class OutOfMemory(OfSomePod, Observation, frozen=True, kw_only=True):
    """The kernel ran out of memory, as its report shows it.

    Attributes:
        namespace, pod, pod_uid, container: whose limit it was; the container is None for a
            pod's limit.
        cgroup: whose limit it was; None for the node's memory, and when not known.
        constraint: ``memcg`` (a cgroup's limit), ``none``, ``cpuset``, ``memory_policy``.
        invoked_by: name of the process that asked for memory.
        usage_bytes, limit_bytes: of the cgroup's memory.
        swap_limit_bytes: how much it may swap; None when not known.
        total_bytes: RAM and swap of the node, for its own shortage.
        at_limit: one of the usages that the report shows (memory, with swap, kernel) had come
            to its limit; None when it shows none.
        page_bytes: size of a page.
        tasks: (n,) all processes that could be killed, in the kernel's order; None when the
            table is missing or not whole.
    """

    kind: ClassVar[str] = "oom.OutOfMemory"
    container: str | None
    cgroup: str | None
    constraint: Literal["memcg", "none", "cpuset", "memory_policy"] | None
    invoked_by: str | None
    usage_bytes: int | None
    limit_bytes: int | None
    swap_limit_bytes: int | None
    total_bytes: int | None
    at_limit: bool | None
    page_bytes: int
    tasks: tuple[Task, ...] | None


class ProcessKilled(OfSomePod, Decision, frozen=True, kw_only=True):
    """The kernel killed a process to get memory back.

    Where a container's status is all that shows it (``OOMKilled``), its time is that of
    the container's end, and what is not in a status is None.

    Attributes:
        namespace, pod, pod_uid, container, container_id: where the process ran.
        cgroup: whose limit was reached; None for the node's memory, and when not known.
        task_cgroup: where the process ran.
        reason: see :data:`Reason`; None when not known, and for a limit of no pod: that of all
            pods (node allocatable) or of a QoS class, or that of something else on the node.
        process: its name, cut to 15 characters by the kernel.
        pid: as the node sees it.
        rss_bytes: memory it had when it was killed.
        limit_bytes: of ``cgroup``, as the kernel's report shows it.
        oom_score_adj: its adjustment, -1000 to 1000.
        chosen_pid: the process that was chosen, where an old kernel killed a child of it
            instead; None otherwise.
        also_killed: process IDs of those killed with it (``memory.oom.group``).
        allocating_task: the kernel was set (``vm.oom_kill_allocating_task``) to kill
            the process that asked for memory.
    """

    kind: ClassVar[str] = "oom.ProcessKilled"
    container: str | None
    container_id: str | None
    cgroup: str | None = None
    task_cgroup: str | None = None
    reason: Reason | None = None
    process: str | None = None
    pid: int | None = None
    rss_bytes: int | None = None
    limit_bytes: int | None = None
    oom_score_adj: int | None = None
    chosen_pid: int | None = None
    also_killed: tuple[int, ...] = ()
    allocating_task: bool = False
