"""Observations and decisions of the topology, the CPU and the memory manager (pkg/kubelet/cm)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation, OfSomePod


class Hint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TopologyHint.

    Attributes:
        numa_nodes: sorted NUMA nodes; None means any.
    """

    numa_nodes: tuple[int, ...] | None
    preferred: bool


class HintsGenerated(OfSomePod, Observation, frozen=True, kw_only=True):
    """What the hint providers offered for a container (or a pod, in pod scope).

    Attributes:
        container: None in pod scope.
        hints: resource -> hints in the order generated; None = no preference,
            empty = no possible affinity.
    """

    kind: ClassVar[str] = "topologymanager.HintsGenerated"
    container: str | None
    hints: dict[str, tuple[Hint, ...] | None]


class AffinityDecided(OfSomePod, Decision, frozen=True, kw_only=True):
    """The merged hint the topology manager settled on.

    Attributes:
        container: None in pod scope.
        admit: None when the source does not say.
        disputed: another hint, that a further line about the same decision holds; None when
            all lines agree.
    """

    kind: ClassVar[str] = "topologymanager.AffinityDecided"
    container: str | None
    hint: Hint
    policy: str | None = None
    admit: bool | None = None
    disputed: Hint | None = None


# Observations and decisions of the CPU manager (pkg/kubelet/cm/cpumanager).
#
# Sets of CPUs are text in the kubelet's notation (``0-3,7``), see
# ``kubelet.kube.containermanager``.


class CpuPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a CPU is; CPUs of one core are its threads.

    Attributes:
        uncore_cache: the last-level cache that it shares; None when no line says.
    """

    numa_node: int
    socket: int
    core: int
    uncore_cache: int | None = None


class CpuManagerStarted(Observation, frozen=True, kw_only=True):
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


class CpusAllocated(OfSomePod, Decision, frozen=True, kw_only=True):
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
    container: str
    cpu_set: str
    requested: int | None = None
    numa_nodes: tuple[int, ...] | None = None
    default_cpu_set: str | None = None
    told_by: Literal["log", "state_file"] = "log"


class CpusReleased(Decision, frozen=True, kw_only=True):
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


class CpuAllocationFailed(OfSomePod, Decision, frozen=True, kw_only=True):
    """The static policy had no CPUs for a container; its pod is refused.

    Attributes:
        container: None when no line names it.
        requested: CPUs it asked for; None when no line says.
        numa_nodes: as for ``CpusAllocated``.
        error: the CPU manager's error text.
    """

    kind: ClassVar[str] = "cpumanager.CpuAllocationFailed"
    v: ClassVar[int] = 2  # v1 had no NUMA nodes
    container: str | None
    requested: int | None
    numa_nodes: tuple[int, ...] | None = None
    error: str


class CpuStateRefused(Decision, frozen=True, kw_only=True):
    """``cpu_manager_state`` could not be read, or does not fit: that kubelet process ends.

    Attributes:
        error: the CPU manager's error text.
    """

    kind: ClassVar[str] = "cpumanager.CpuStateRefused"
    error: str


class CpuManagerStateRead(Observation, frozen=True, kw_only=True):
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


# Observations and decisions of the memory manager (pkg/kubelet/cm/memorymanager).
#
# NUMA nodes are integers, sorted; sizes are bytes.


class MemoryBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of one type that a container has on a group of NUMA nodes.

    Attributes:
        type: ``memory`` or ``hugepages-SIZE``.
        size_bytes: of an init container 0 or more: what later containers did not use again.
    """

    numa_nodes: tuple[int, ...]
    type: str
    size_bytes: int


class MemoryTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of one type on one NUMA node, as the kubelet counts it.

    Attributes:
        allocatable_bytes, free_bytes: negative where the reserve is greater than the total; the
            kubelet, whose numbers are unsigned, takes that for nearly 2^64.
        reserved_bytes: given to containers.
    """

    total_bytes: int
    system_reserved_bytes: int
    allocatable_bytes: int
    reserved_bytes: int
    free_bytes: int


class NUMANodeMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One NUMA node.

    Attributes:
        assignments: blocks that lie on it.
        group: nodes that share assignments with it, itself included.
        memory: type -> table.
    """

    assignments: int
    group: tuple[int, ...]
    memory: dict[str, MemoryTable]


class MemoryManagerStarted(Observation, frozen=True, kw_only=True):
    """A kubelet process started its memory manager.

    Attributes:
        policy: ``None``, ``Static`` or ``BestEffort``.
        restored: assignments came from ``memory_manager_state``; False: there was no such file,
            so there are none; None when no line says.
    """

    kind: ClassVar[str] = "memorymanager.MemoryManagerStarted"
    policy: str
    restored: bool | None = None


class MemoryAllocated(OfSomePod, Decision, frozen=True, kw_only=True):
    """A container of a Guaranteed pod got memory of NUMA nodes.

    Attributes:
        affinity: NUMA nodes of the topology manager's hint; None: any, or not known.
        blocks: what it got, by type, from the first ``memory_manager_state`` that shows it;
            None when none does.
        told_by: ``log``: lines of that moment; ``state_file``: only ``memory_manager_state``
            shows it, which was read later.
    """

    kind: ClassVar[str] = "memorymanager.MemoryAllocated"
    container: str
    affinity: tuple[int, ...] | None = None
    blocks: tuple[MemoryBlock, ...] | None = None
    told_by: Literal["log", "state_file"] = "log"


class MemoryReleased(Decision, frozen=True, kw_only=True):
    """The memory of a container was given back.

    Attributes:
        inferred: seen only as an entry missing in a later ``memory_manager_state``.
    """

    kind: ClassVar[str] = "memorymanager.MemoryReleased"
    namespace: str | None
    pod: str | None
    pod_uid: str
    container: str
    inferred: bool = False


class MemoryAllocationFailed(OfSomePod, Decision, frozen=True, kw_only=True):
    """The static policy found no NUMA nodes for a container; its pod is refused.

    Attributes:
        container: None when no line names it.
        error: the memory manager's error text.
    """

    kind: ClassVar[str] = "memorymanager.MemoryAllocationFailed"
    container: str | None
    error: str


class MemoryStateRefused(Decision, frozen=True, kw_only=True):
    """The static policy did not accept ``memory_manager_state``: that kubelet process ends.

    Attributes:
        error: the memory manager's error text.
        numa_node, type: where the first difference lies; None when no line says.
        stored, expected: what the file holds, and what the machine and the settings of this
            process give with the same assignments; None when no line says.
    """

    kind: ClassVar[str] = "memorymanager.MemoryStateRefused"
    error: str
    numa_node: int | None = None
    type: str | None = None
    stored: MemoryTable | None = None
    expected: MemoryTable | None = None


class MemoryManagerStateRead(Observation, frozen=True, kw_only=True):
    """``memory_manager_state`` as it was on disk, recorded when it changed.

    Attributes:
        machine: NUMA node (decimal text) -> its memory.
        assignments: pod UID -> container -> blocks, by type.
        pods: pod UID -> blocks of a pod that has memory as a whole, of which its containers have
            parts (1.36); empty where no pod does.
        checksum: as stored; ``checksum_ok`` says whether it fits the data, None when the
            form of the file is one whose checksum cannot be computed.
    """

    kind: ClassVar[str] = "memorymanager.MemoryManagerStateRead"
    v: ClassVar[int] = 2  # v1 had no pods
    policy: str
    machine: dict[str, NUMANodeMemory] = {}
    assignments: dict[str, dict[str, tuple[MemoryBlock, ...]]] = {}
    pods: dict[str, tuple[MemoryBlock, ...]] = {}
    checksum: int
    checksum_ok: bool | None
