"""What the kernel's OOM killer saw and whom it killed.

The kernel decides here, not the kubelet; but it decides by limits and ``oom_score_adj``
that the kubelet gave. Paths of cgroups are below the controller, without a leading slash.
Which pod and container a cgroup belongs to is None where no source says, and for
processes outside of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = ["REASON_OF_LEVEL", "OutOfMemory", "ProcessKilled", "Reason", "Task"]

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


class OutOfMemory(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    namespace: str | None
    pod: str | None
    pod_uid: str | None
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


class ProcessKilled(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    namespace: str | None
    pod: str | None
    pod_uid: str | None
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
