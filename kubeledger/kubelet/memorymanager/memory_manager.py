"""The memory manager around its policy: its start, calls of the kubelet, what it cleans up.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go
Differs: a kubelet before 1.25 (1.24 in its first releases) left containers without memory in its
    container map, which cannot show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from kubeledger.kubelet.kube.containermanager import ContainerMap, ContainerRef
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.quantity import Format, Quantity
from kubeledger.kubelet.kube.resources import HUGE_PAGES, ResourceList
from kubeledger.kubelet.memorymanager.machine import (
    MEMORY,
    UINT64,
    Block,
    KubeletPanicError,
    MemoryManagerError,
    MemoryReservation,
    MemoryTable,
    NUMANode,
    NUMANodeMap,
    NUMANodeState,
    State,
    SystemReserved,
    clone,
    get_system_reserved_memory,
)
from kubeledger.kubelet.memorymanager.policy_static import StaticPolicy
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.policy import TopologyHint
from kubeledger.kubelet.topologymanager.resource_manager import ResourceManager, runs_on

# The static policy's start: the machine by its settings, and whether a state file fits it.
#
# Source: v1.36.2 pkg/kubelet/cm/memorymanager/policy_static.go

_RUNS_MAX: Final = 512
"""Orders that are tried."""


def get_default_machine_state(nodes: Iterable[NUMANode], reserved: SystemReserved) -> NUMANodeMap:
    """The machine with nothing given to containers.

    Huge pages are no regular memory; a reserve beyond what is there wraps around.
    """
    machine: NUMANodeMap = {}
    for node in nodes:
        kept = reserved.get(node.id) or {}
        tables = {}
        allocatable = node.memory_bytes
        for size_kib, pages in node.hugepages or ():
            name = _huge_pages(size_kib)
            total = pages * size_kib * 1024 & UINT64
            tables[name] = _table(total, total, kept.get(name, 0))
            allocatable -= total
        tables[MEMORY] = _table(node.memory_bytes, allocatable, kept.get(MEMORY, 0))
        machine[node.id] = NUMANodeState(assignments=0, memory=tables, cells=[node.id])
    return machine


def validate_state(
    state: State, default: NUMANodeMap, facts: ResourceManagerFacts, order: MapOrder = FIRST_ORDER
) -> None:
    """Make sure that the entries of a state file on this machine give the file's machine.

    A file without a machine gets the default one. Groups of nodes in the entries come out sorted
    where the kubelet compares them.

    Args:
        default: the machine by its settings; entries are counted on it.

    Raises:
        MemoryManagerError: it does not fit.
        KubeletPanicError: the kubelet crashes.
    """
    if not state.machine:
        if state.entries:
            raise MemoryManagerError(
                "[memorymanager] machine state can not be empty when it has memory assignments"
            )
        state.machine = default
        return
    for uid in order.of(state.entries):
        whole = state.pod_entries.get(uid)
        if whole:
            _update_expected_machine_state(default, whole, uid, "")
            continue
        for name in order.of(state.entries[uid]):
            _update_expected_machine_state(default, state.entries[uid][name], uid, name)
    if not are_machine_states_equal(state.machine, default, facts):
        raise MemoryManagerError(
            "[memorymanager] the expected machine state is different from the real one"
        )


def restarts(state: State, facts: ResourceManagerFacts) -> frozenset[bool]:
    """Whether a kubelet starts with a state on a machine that has not changed.

    Returns:
        both, where it depends on the order in which Go walks its map of entries: the last entry
        that is on a NUMA node says which group the node is in.

    Raises:
        KubeletPanicError: it crashes.
    """
    groups = {
        frozenset(block.numa_nodes)
        for blocks in (*state.pod_entries.values(), *_all_blocks(state))
        for block in blocks
    }
    apart = sum(map(len, groups)) == len(frozenset().union(*groups))
    found: set[bool] = set()
    for fits in explore(lambda order: _fits(state, facts, order), 1 if apart else _RUNS_MAX):
        found.add(fits)
        if len(found) == 2:
            break
    return frozenset(found)


def are_machine_states_equal(
    one: NUMANodeMap, other: NUMANodeMap, facts: ResourceManagerFacts
) -> bool:
    """Whether all nodes have the same groups, assignments and tables.

    Raises:
        KubeletPanicError: a group has a node that is not there, or has no such type.
    """
    if len(one) != len(other):
        return False
    for node, state in one.items():
        found = other.get(node)
        if found is None or state.assignments != found.assignments:
            return False
        # The second group may be a block's own, which is sorted as well.
        found.cells.sort()
        if sorted(state.cells) != found.cells or state.memory.keys() != found.memory.keys():
            return False
        for name, table in state.memory.items():
            if not facts.groups_compared_by_sums:
                if table != found.memory[name]:
                    return False
            elif _fixed(table) != _fixed(found.memory[name]) or (
                _sums(one, state.cells, name) != _sums(other, state.cells, name)
            ):
                return False
    return True


@lru_cache(maxsize=64)
def _huge_pages(size_kib: int) -> str:
    return f"{HUGE_PAGES}{Quantity.of(size_kib * 1024, Format.BINARY_SI).canonical()}"


def _fits(state: State, facts: ResourceManagerFacts, order: MapOrder) -> bool:
    machine = clone(state.machine)
    for node, of in machine.items():
        of.assignments, of.cells = 0, [node]
        for table in of.memory.values():
            table.free_bytes, table.reserved_bytes = table.allocatable_bytes, 0
    try:
        validate_state(state.clone(), machine, facts, order)
    except MemoryManagerError:
        return False
    return True


def _all_blocks(state: State) -> Iterator[list[Block]]:
    return (blocks for containers in state.entries.values() for blocks in containers.values())


def _table(total: int, usable: int, reserved: int) -> MemoryTable:
    allocatable = usable - reserved & UINT64
    return MemoryTable(total, reserved, allocatable, 0, allocatable)


def _update_expected_machine_state(
    machine: NUMANodeMap, blocks: Sequence[Block], uid: str, name: str
) -> None:
    for block in blocks:
        rest = block.size_bytes
        for node in block.numa_nodes:
            state = machine.get(node)
            if state is None:
                raise _unusable(uid, name, "the NUMA")
            state.assignments += 1
            state.cells = block.numa_nodes
            table = state.memory.get(block.type)
            if table is None:
                raise _unusable(uid, name, "memory resource")
            rest = table.take(rest)


def _unusable(uid: str, name: str, what: str) -> MemoryManagerError:
    return MemoryManagerError(
        f"[memorymanager] (pod: {uid}, container: {name}) the memory assignment uses {what} that "
        "does not exist"
    )


def _fixed(table: MemoryTable) -> tuple[int, int, int]:
    return table.total_bytes, table.system_reserved_bytes, table.allocatable_bytes


def _sums(machine: NUMANodeMap, cells: Iterable[int], name: str) -> tuple[int, int]:
    free = reserved = 0
    for node in cells:
        table = machine[node].memory.get(name) if node in machine else None
        if table is None:
            raise KubeletPanicError(f"NUMA node {node} of a group has no {name}")
        free += table.free_bytes
        reserved += table.reserved_bytes
    return free & UINT64, reserved & UINT64


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet process knows of its memory before it looks at a state file."""

    nodes: Sequence[NUMANode]
    reservation: ResourceList
    reserved: Sequence[MemoryReservation]


class Manager(ResourceManager):
    """One kubelet process's memory manager."""

    policy: StaticPolicy
    state: State

    def __init__(self, profile: KubeletProfile) -> None:
        self.policy = StaticPolicy(profile)
        super().__init__(self.policy.requested)
        self.state = State()

    def start(
        self, machine: NUMANodeMap, stored: State | None, initial: Mapping[str, ContainerRef]
    ) -> None:
        """Start from what the state file holds.

        Args:
            machine: by the settings, with nothing given to containers.
            stored: None: there is no file.
            initial: ID -> pod UID and container, of what the runtime lists.

        Raises:
            MemoryManagerError: the file does not fit the machine.
            KubeletPanicError: the kubelet crashes over it.
        """
        self.containers = ContainerMap(initial)
        self.state = State() if stored is None else stored
        validate_state(self.state, machine, self.facts, self.order)

    def copy(self) -> Manager:
        """A manager of the same memory."""
        other = Manager(self.policy.profile)
        other.policy.reusable = {
            uid: {mask: dict(sizes) for mask, sizes in by_mask.items()}
            for uid, by_mask in self.policy.reusable.items()
        }
        other.state = self.state.clone()
        other.active_pods, other.sources_ready = self.active_pods, self.sources_ready
        other.containers, other.pending = ContainerMap(self.containers), self.pending
        return other

    def memory(self) -> tuple[object, ...]:
        """All that later calls depend on."""
        return self.state, self.policy.reusable, self.containers, self.pending

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        self.remove_stale_state()
        self.policy.allocate_pod(self.state, pod, affinity, self.order)

    def get_memory_numa_nodes(self, pod: str, container: str) -> list[int] | None:
        """The nodes of a container's memory; None where it has none."""
        blocks = self.state.blocks(pod, container) or ()
        return sorted({node for block in blocks for node in block.numa_nodes}) or None

    def add_container(self, pod: Pod, container: Container, container_id: str) -> None:
        """A container is created: init containers before it are done, but for sidecars."""
        uid = pod.metadata.uid or ""
        self.containers[container_id] = (uid, container.name or "")
        if not self.facts.init_memory_reused:
            return
        for init in pod.spec.init_containers or ():
            if init.name == container.name:
                break
            if not runs_on(init, self.facts):
                self.forget((uid, init.name or ""))

    def remove_container(self, container_id: str) -> None:
        """A container is removed; an ID that is not known does nothing."""
        if container_id in self.containers:
            self.forget(self.containers[container_id])

    @property
    def held(self) -> dict[str, dict[str, list[Block]]]:
        """Blocks by pod UID and container."""
        return self.state.entries

    def in_order(self, stale: list[ContainerRef]) -> Sequence[ContainerRef]:
        """Go's order of maps, where it can show.

        It cannot unless groups of nodes overlap: what one gives back is then counted on nodes that
        the other would have had it counted on.
        """
        blocks = (each for ref in stale for each in self.state.blocks(*ref) or ())
        groups = {frozenset(block.numa_nodes) for block in blocks}
        apart = sum(map(len, groups)) == len(frozenset().union(*groups))
        return stale if apart else self.order.of(stale)


def default_machine(settings: MachineSettings, order: MapOrder = FIRST_ORDER) -> NUMANodeMap:
    """The machine of a new manager, with nothing given to containers.

    Raises:
        MemoryManagerError: the settings do not fit the machine.

    Source: v1.36.2 memory_manager.go NewManager
    """
    nodes = [node.id for node in settings.nodes]
    kept = get_system_reserved_memory(nodes, settings.reservation, settings.reserved, order)
    return get_default_machine_state(settings.nodes, kept)
