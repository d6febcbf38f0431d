"""What the memory manager's policy holds: memory tables of NUMA nodes, and blocks of containers.

Amounts are the kubelet's unsigned 64 bits: below zero they wrap around.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/state/state.go, state_mem.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

UINT64: Final = 2**64 - 1
MEMORY: Final = "memory"


class MemoryManagerError(ValueError):
    """What the memory manager does not start with; the text is the kubelet's."""


class MemoryTable(msgspec.Struct):
    """Memory of one type on one NUMA node."""

    total_bytes: int
    system_reserved_bytes: int
    allocatable_bytes: int
    reserved_bytes: int
    free_bytes: int

    def take(self, size_bytes: int) -> int:
        """Reserve as much of a size as is free; what is left of it."""
        taken = min(self.free_bytes, size_bytes)
        self.reserved_bytes = self.reserved_bytes + taken & UINT64
        self.free_bytes -= taken
        return size_bytes - taken

    def give_back(self, size_bytes: int) -> int:
        """Free as much of a size as is reserved; what is left of it."""
        given = min(self.reserved_bytes, size_bytes)
        self.reserved_bytes -= given
        self.free_bytes = self.free_bytes + given & UINT64
        return size_bytes - given


class NUMANodeState(msgspec.Struct):
    """One NUMA node.

    Attributes:
        assignments: blocks that lie on it.
        memory: type -> table.
        cells: nodes that are in a group with it, itself included.
    """

    assignments: int
    memory: dict[str, MemoryTable]
    cells: list[int]


NUMANodeMap = dict[int, NUMANodeState]


class Block(NamedTuple):
    """Memory of one type that a container has on NUMA nodes."""

    numa_nodes: list[int]
    type: str
    size_bytes: int


class State(msgspec.Struct):
    """What ``memory_manager_state`` keeps.

    Attributes:
        machine: NUMA node -> its state.
        entries: pod UID -> container -> blocks; one with an empty list has its entry, too.
        pod_entries: pod UID -> blocks of the pod as a whole.
    """

    machine: NUMANodeMap = {}
    entries: dict[str, dict[str, list[Block]]] = {}
    pod_entries: dict[str, list[Block]] = {}

    def blocks(self, pod: str, container: str) -> list[Block] | None:
        """Blocks of a container; None where it has no entry."""
        return self.entries.get(pod, {}).get(container)

    def set_blocks(self, pod: str, container: str, blocks: list[Block]) -> None:
        """Make or replace the entry of a container."""
        self.entries.setdefault(pod, {})[container] = blocks

    def delete(self, pod: str, container: str) -> None:
        """Drop the entry of a container."""
        containers = self.entries.get(pod)
        if containers is not None:
            containers.pop(container, None)
            if not containers:
                del self.entries[pod]

    def clone(self) -> State:
        """A copy that shares nothing that changes."""
        return State(
            machine=clone(self.machine),
            entries={
                pod: {name: list(blocks) for name, blocks in containers.items()}
                for pod, containers in self.entries.items()
            },
            pod_entries=dict(self.pod_entries),
        )


class HugePages(NamedTuple):
    """Huge pages of one size on a NUMA node."""

    page_size_kib: int
    pages: int


class NUMANode(NamedTuple):
    """A NUMA node as cAdvisor reports it."""

    id: int
    memory_bytes: int
    hugepages: tuple[HugePages, ...]


SystemReserved = Mapping[int, Mapping[str, int]]
"""NUMA node -> type of memory -> bytes."""


def clone(machine: NUMANodeMap) -> NUMANodeMap:
    """A copy whose tables and groups can be changed."""
    return {
        node: NUMANodeState(
            state.assignments,
            {
                name: MemoryTable(
                    table.total_bytes,
                    table.system_reserved_bytes,
                    table.allocatable_bytes,
                    table.reserved_bytes,
                    table.free_bytes,
                )
                for name, table in state.memory.items()
            },
            list(state.cells),
        )
        for node, state in machine.items()
    }
