"""Observations and decisions of the CPU manager (pkg/kubelet/cm/cpumanager).

Sets of CPUs are text in the kubelet's notation (``0-3,7``), see ``kubelet.kube.cpuset``.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = [
    "CpuAllocationFailed",
    "CpuManagerStarted",
    "CpuManagerStateRead",
    "CpuPlace",
    "CpuStateRefused",
    "CpusAllocated",
    "CpusReleased",
]


class CpuPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a CPU is; CPUs of one core are its threads.

    Attributes:
        uncore_cache: the last-level cache that it shares; None when no line says.
    """

    numa_node: int
    socket: int
    core: int
    uncore_cache: int | None = None


class CpuManagerStarted(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kubelet process started its CPU manager.

    Attributes:
        policy: ``none`` or ``static``.
        reserved_cpu_set: CPUs that no container gets alone; None when no line says.
        cpus: CPU (decimal text) -> its place; None when no line says.
        options: policy options that are on, sorted; None when no line says.
        default_cpu_set: the shared pool at the start; None when no line says.
        restored: assignments came from ``cpu_manager_state``; False: there was no such file,
            so there are none; None when no line says.
    """

    kind: ClassVar[str] = "cpumanager.CpuManagerStarted"
    v: ClassVar[int] = 2  # v1 had no uncore caches
    policy: str
    reserved_cpu_set: str | None = None
    cpus: dict[str, CpuPlace] | None = None
    options: tuple[str, ...] | None = None
    default_cpu_set: str | None = None
    restored: bool | None = None


class CpusAllocated(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container got CPUs of its own.

    Attributes:
        cpu_set: those CPUs.
        requested: how many it asked for, as logged; None when no line says.
        numa_nodes: NUMA nodes of the topology manager's affinity, sorted; None: any, or not
            known.
        default_cpu_set: the shared pool after it; None when no line says.
        told_by: ``log``: lines of that moment; ``state_file``: only ``cpu_manager_state``
            shows it, which was read later.
    """

    kind: ClassVar[str] = "cpumanager.CpusAllocated"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str
    cpu_set: str
    requested: int | None = None
    numa_nodes: tuple[int, ...] | None = None
    default_cpu_set: str | None = None
    told_by: Literal["log", "state_file"] = "log"


class CpusReleased(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The CPUs of a container went back to the shared pool.

    Attributes:
        cpu_set: what it had; None when no source says.
        default_cpu_set: the shared pool after it; None when no line says.
        inferred: seen only as an entry missing in a later ``cpu_manager_state``.
    """

    kind: ClassVar[str] = "cpumanager.CpusReleased"
    namespace: str | None
    pod: str | None
    pod_uid: str
    container: str
    cpu_set: str | None
    default_cpu_set: str | None = None
    inferred: bool = False


class CpuAllocationFailed(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The static policy had no CPUs for a container; its pod is refused.

    Attributes:
        container: None when no line names it.
        requested: CPUs it asked for; None when no line says.
        numa_nodes: as for ``CpusAllocated``.
        error: the CPU manager's error text.
    """

    kind: ClassVar[str] = "cpumanager.CpuAllocationFailed"
    v: ClassVar[int] = 2  # v1 had no NUMA nodes
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    requested: int | None
    numa_nodes: tuple[int, ...] | None = None
    error: str


class CpuStateRefused(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``cpu_manager_state`` could not be read, or does not fit: that kubelet process ends.

    Attributes:
        error: the CPU manager's error text.
    """

    kind: ClassVar[str] = "cpumanager.CpuStateRefused"
    error: str


class CpuManagerStateRead(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``cpu_manager_state`` as it was on disk, recorded when it changed.

    Attributes:
        assignments: pod UID -> container -> CPU set in the kubelet's notation.
        pod_assignments: pod UID -> CPU set of the pod as a whole.
        checksum: as stored; ``checksum_ok`` says whether it fits the data, None when the
            form of the file is one whose checksum cannot be computed.
    """

    kind: ClassVar[str] = "devicemanager.CpuManagerStateRead"
    v: ClassVar[int] = 2  # v1 had no CPUs of pods as a whole
    policy: str
    default_cpu_set: str
    assignments: dict[str, dict[str, str]] = {}
    pod_assignments: dict[str, str] = {}
    checksum: int
    checksum_ok: bool | None
