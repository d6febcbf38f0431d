"""Memory tables of NUMA nodes and blocks of containers, and what is reserved of them.

Amounts are the kubelet's unsigned 64 bits: below zero they wrap around.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/state/state.go, state_mem.go
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Int32, NotNegative
from kubeledger.kubelet.kube.quantity import ZERO, Quantity
from kubeledger.kubelet.kube.resources import HUGE_PAGES, Amount, ResourceList

UINT64: Final = 2**64 - 1
MEMORY: Final = "memory"


class MemoryManagerError(ValueError):
    """What the memory manager does not start with; the text is the kubelet's."""


class KubeletPanicError(Exception):
    """The kubelet crashes here; the text says of what."""


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

    page_size_kib: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
    pages: NotNegative


class NUMANode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A NUMA node as cAdvisor reports it."""

    id: int
    memory_bytes: NotNegative = msgspec.field(name="memory")
    hugepages: tuple[HugePages, ...] | None = None


SystemReserved = Mapping[int, Mapping[str, int]]
"""NUMA node -> type of memory -> bytes."""


def clone(machine: NUMANodeMap) -> NUMANodeMap:
    """A copy whose tables and groups can be changed."""
    return {
        node: NUMANodeState(
            state.assignments,
            {name: copy(table) for name, table in state.memory.items()},
            list(state.cells),
        )
        for node, state in machine.items()
    }


# ``reservedMemory``: what the node keeps of each NUMA node, and whether it adds up.
#
# Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go


class MemoryReservation(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One entry of ``reservedMemory``."""

    numa_node: Int32
    limits: ResourceList


def get_system_reserved_memory(
    nodes: Collection[int],
    reservation: ResourceList,
    reserved: Sequence[MemoryReservation],
    order: MapOrder = FIRST_ORDER,
) -> dict[int, dict[str, int]]:
    """NUMA node -> type -> bytes; of two entries for one node and type the later one stands.

    Args:
        reservation: what the node keeps by Node Allocatable.
        order: of the types, of which the first that does not add up is reported.

    Raises:
        MemoryManagerError: the kubelet does not start with it.
    """
    _validate_reserved_memory(nodes, reservation, reserved, order)
    converted: dict[int, dict[str, int]] = {node: {} for node in nodes}
    for entry in reserved:
        for name, amount in entry.limits.items():
            size = _quantity(amount).as_int64()
            if size is None:
                raise MemoryManagerError(
                    "could not covert a variable of type Quantity to int64"  # the kubelet's text
                )
            converted[entry.numa_node][name] = size & UINT64
    if not sum(types.get(MEMORY, 0) for types in converted.values()) & UINT64:
        raise MemoryManagerError("[memorymanager] you should specify the system reserved memory")
    return converted


def _validate_reserved_memory(
    nodes: Collection[int],
    reservation: ResourceList,
    reserved: Sequence[MemoryReservation],
    order: MapOrder,
) -> None:
    """By type, all NUMA nodes together keep what Node Allocatable keeps."""
    total: dict[str, Quantity] = {}
    for entry in reserved:
        if entry.numa_node not in nodes:
            raise MemoryManagerError(
                "the reserved memory configuration references a NUMA node "
                f"{entry.numa_node} that does not exist on this machine"
            )
        for name, amount in entry.limits.items():
            quantity = _quantity(amount)
            total[name] = quantity.add(total[name]) if name in total else quantity
    wanted = {
        name: _quantity(amount)
        for name, amount in reservation.items()
        if name == MEMORY or name.startswith(HUGE_PAGES)
    }
    sums = {
        name: (ZERO.add(total.get(name, ZERO)), ZERO.add(wanted.get(name, ZERO)))
        for name in {**total, **wanted}
    }
    wrong = [name for name, (given, needed) in sums.items() if given != needed]
    if wrong:
        name = order.of(wrong)[0]
        given, needed = sums[name]
        raise MemoryManagerError(
            f'the total amount "{given}" of type "{name}" is not equal to the value "{needed}" '
            "determined by Node Allocatable feature"
        )


@lru_cache(maxsize=1 << 12)
def _quantity(amount: Amount) -> Quantity:
    return Quantity.from_api(amount)
