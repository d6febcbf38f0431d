"""Observations and decisions of the memory manager (pkg/kubelet/cm/memorymanager).

NUMA nodes are integers, sorted; sizes are bytes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = [
    "MemoryAllocated",
    "MemoryAllocationFailed",
    "MemoryBlock",
    "MemoryManagerStarted",
    "MemoryManagerStateRead",
    "MemoryReleased",
    "MemoryStateRefused",
    "MemoryTable",
    "NUMANodeMemory",
]


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


class MemoryManagerStarted(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kubelet process started its memory manager.

    Attributes:
        policy: ``None``, ``Static`` or ``BestEffort``.
        restored: assignments came from ``memory_manager_state``; False: there was no such file,
            so there are none; None when no line says.
    """

    kind: ClassVar[str] = "memorymanager.MemoryManagerStarted"
    policy: str
    restored: bool | None = None


class MemoryAllocated(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container of a Guaranteed pod got memory of NUMA nodes.

    Attributes:
        affinity: NUMA nodes of the topology manager's hint; None: any, or not known.
        blocks: what it got, by type, from the first ``memory_manager_state`` that shows it;
            None when none does.
        told_by: ``log``: lines of that moment; ``state_file``: only ``memory_manager_state``
            shows it, which was read later.
    """

    kind: ClassVar[str] = "memorymanager.MemoryAllocated"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str
    affinity: tuple[int, ...] | None = None
    blocks: tuple[MemoryBlock, ...] | None = None
    told_by: Literal["log", "state_file"] = "log"


class MemoryReleased(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class MemoryAllocationFailed(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The static policy found no NUMA nodes for a container; its pod is refused.

    Attributes:
        container: None when no line names it.
        error: the memory manager's error text.
    """

    kind: ClassVar[str] = "memorymanager.MemoryAllocationFailed"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    error: str


class MemoryStateRefused(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class MemoryManagerStateRead(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
