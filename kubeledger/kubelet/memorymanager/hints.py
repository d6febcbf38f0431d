"""What pods request of each type of memory, and on which groups of NUMA nodes that fits.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/policy_static.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from kubeledger.kubelet.kube.containermanager import EMPTY_POOL_REASON, AllocationError
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of, is_sidecar
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.resources import HUGE_PAGES, Amount, ResourceList
from kubeledger.kubelet.memorymanager.machine import (
    MEMORY,
    UINT64,
    Block,
    KubeletPanicError,
    MemoryTable,
    NUMANodeMap,
    NUMANodeState,
)
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.policy import (
    Hints,
    TopologyHint,
    bits_of,
    iterate_bit_masks,
    mask_of,
    narrowest,
)
from kubeledger.kubelet.topologymanager.resource_manager import PodAmounts, runs_on

# What containers and pods request of each type of memory, as the static policy counts it.
#
# Source: v1.36.2 pkg/kubelet/cm/memorymanager/policy_static.go

Requested = dict[str, int]
"""Type of memory -> bytes."""


class RequestedMemory(PodAmounts[Requested]):
    """What containers and pods request; it is not changed."""

    def count(self, pod: Pod, container: Container) -> Requested:
        """What a container requests; in a pod with resources of its own only if it is exclusive.

        Raises:
            AllocationError: an amount is no integer.

        Source: v1.36.2 policy_static.go getContainerRequestedResources
        """
        return _sizes(self.amounts_of(pod, container))

    def count_pod(self, pod: Pod) -> Requested:
        """What a pod requests at most at once; not what only its init containers do.

        Source: v1.36.2 policy_static.go getPodRequestedResources
        """
        whole = pod.spec.resources
        if whole is not None and self.is_managed_as_a_whole(pod):
            return {name: size for name, size in _sizes(whole.requests).items() if 0 < size < 2**63}
        by_init: Requested = {}
        by_sidecars: Requested = {}
        for container in pod.spec.init_containers or ():
            for name, size in self.of_container(pod, container).items():
                beside = by_sidecars.get(name, 0) + size & UINT64
                if runs_on(container, self.facts):
                    by_sidecars[name] = beside
                else:
                    by_init[name] = max(by_init.get(name, 0), beside)
        total: Requested = {}
        for container in pod.spec.containers or ():
            _add(total, self.of_container(pod, container))
        return {
            name: max(size + by_sidecars.get(name, 0) & UINT64, by_init.get(name, 0))
            for name, size in total.items()
        }

    def gets(self, pod: Pod) -> bool:
        """Whether containers of the pod get memory of NUMA nodes.

        Source: v1.36.2 policy_static.go Allocate
        """
        return self.is_guaranteed(pod) and not self.is_skipped(pod)

    def sizes_after_reuse(self, pod: Pod, container: str, memory_type: str) -> frozenset[int]:
        """Sizes in bytes that a block may show at any time.

        That of an init container shrinks by what each later container takes of it.

        Source: v1.36.2 policy_static.go updateInitContainersMemoryBlocks
        Differs: all blocks of the pod are taken to be on the same NUMA nodes.
        """
        init, sizes, sizes_used = pod.spec.init_containers or (), dict[str, int](), set[int]()
        for current in containers_of(pod):
            asked = self.of_container(pod, current).get(memory_type)
            if asked is None:
                continue
            rest = asked if self.facts.init_memory_reused else 0
            for earlier in init:
                name = earlier.name or ""
                if earlier is current:
                    break
                kept = runs_on(earlier, self.facts)
                taken = 0 if kept else min(rest, sizes.get(name, 0))
                rest -= taken
                if name in sizes:
                    sizes[name] -= taken
            sizes[current.name or ""] = asked
            if container in sizes:
                sizes_used.add(sizes[container])
        return frozenset(sizes_used)

    def validate_pod_scope_resources(self, pod: Pod, order: MapOrder = FIRST_ORDER) -> None:
        """Make sure that exclusive containers leave something for the others.

        Raises:
            AllocationError: they do not, or an amount is no integer.
        """
        budget = self.of_pod(pod)
        exclusive: Requested = {}
        shares = False
        for container in pod.spec.init_containers or ():
            asked = self.of_container(pod, container)
            if is_sidecar(container):
                shares = shares or not asked
                _add(exclusive, asked)
            elif not asked and (short := _exhausted(budget, exclusive, order)):
                raise AllocationError(
                    f"pod rejected, pod has shared init containers but no {short} available for "
                    "them",
                    EMPTY_POOL_REASON,
                )
        for container in pod.spec.containers or ():
            asked = self.of_container(pod, container)
            shares = shares or not asked
            _add(exclusive, asked)
        if shares and (short := _exhausted(budget, exclusive, order)):
            raise AllocationError(
                f"pod rejected, sum of exclusive container {short} requests equals pod budget, "
                "leaving no memory for shared containers",
                EMPTY_POOL_REASON,
            )


def _sizes(amounts: ResourceList | None) -> Requested:
    if not amounts:
        return {}
    return {
        name: _size(amount)
        for name, amount in amounts.items()
        if name == MEMORY or name.startswith(HUGE_PAGES)
    }


@lru_cache(maxsize=1 << 14)
def _size(amount: Amount) -> int:
    size = Quantity.from_api(amount).as_int64()
    if size is None:
        raise AllocationError("[memorymanager] failed to represent quantity as int64")
    return size & UINT64


def _add(total: Requested, asked: Requested) -> None:
    for name, size in asked.items():
        total[name] = total.get(name, 0) + size & UINT64


def _exhausted(budget: Requested, exclusive: Requested, order: MapOrder) -> str:
    """A type of which nothing is left of the budget; "" where some of each is."""
    short = [name for name, size in budget.items() if exclusive.get(name, 0) >= size]
    return order.of(short)[0] if short else ""


Reusable = Mapping[int, Mapping[str, int]]
"""Mask of NUMA nodes -> type of memory -> bytes that init containers left to reuse."""

_Group = tuple[int, tuple[int, ...], TopologyHint, TopologyHint]
"""Mask, nodes, a hint not preferred, one that is."""


def calculate_hints(
    machine: NUMANodeMap, requested: Requested, reusable: Reusable, facts: ResourceManagerFacts
) -> Hints:
    """The groups of nodes that hold a request, the same for each of its types.

    A group is preferred if no smaller one could ever hold it. A node that is used alone is in no
    group of several, one that is in such a group is in that one only.

    Raises:
        KubeletPanicError: a node has no table of a type that is requested.

    Differs: nothing requested gives no hints, as in the kubelet, without a look at any node.
    """
    if not requested:
        return ()
    nodes = tuple(sorted(machine))
    groups, shape = _groups(nodes)
    wanted = []
    for name, size in requested.items():
        tables = [table_of(machine[node], name, node) for node in nodes]
        allocatable = _sums(shape, [table.allocatable_bytes for table in tables])
        wanted.append((size, allocatable, _sums(shape, [t.free_bytes for t in tables]), name))
    busy = mask_of([node for node, state in machine.items() if state.assignments])
    sized_first, fewest = facts.sized_before_groups, len(nodes)
    found: list[tuple[int, TopologyHint, TopologyHint]] = []
    for at, (mask, group, no, yes) in enumerate(groups, start=1):
        if not sized_first and is_taken(machine, mask, group, busy):
            continue
        for size, allocatable, _, _ in wanted:
            if allocatable[at] & UINT64 < size:
                break
        else:
            if len(group) < fewest:
                fewest = len(group)
            if sized_first and is_taken(machine, mask, group, busy):
                continue
            left = reusable.get(mask) if reusable else None
            for size, _, free, name in wanted:
                reused = left.get(name, 0) if left else 0
                if free[at] + reused & UINT64 < size:
                    break
            else:
                found.append((len(group), no, yes))
    return tuple([yes if size == fewest else no for size, no, yes in found])


def is_taken(machine: NUMANodeMap, mask: int, group: Sequence[int], busy: int) -> bool:
    """Whether a group cannot be used for what nodes of it, those that are busy, are used for.

    Source: v1.36.2 policy_static.go calculateHints, isAffinityViolatingNUMAAllocations
    """
    if len(group) == 1:
        return len(machine[group[0]].cells) > 1
    return bool(mask & busy) and violates_numa_allocations(machine, group)


def violates_numa_allocations(machine: NUMANodeMap, group: Sequence[int]) -> bool:
    """Whether one of several nodes is used alone, or in another group.

    Source: v1.36.2 policy_static.go isAffinityViolatingNUMAAllocations
    """
    return len(group) > 1 and any(
        state.assignments != 0
        and (len(state.cells) == 1 or not are_groups_equal(state.cells, group))
        for state in map(machine.__getitem__, group)
    )


def are_groups_equal(one: list[int], other: Sequence[int]) -> bool:
    """Whether two groups have the same nodes; sorts the first, as the kubelet does both."""
    one.sort()
    return one == sorted(other)


def regenerate_hints(blocks: Iterable[Block], requested: Requested) -> dict[str, Hints] | None:
    """The hints of a container that has memory already; None where it is not what it requests."""
    hints: dict[str, Hints] = dict.fromkeys(requested, ())
    held = list(blocks)
    if len(held) != len(requested):
        return None
    for block in held:
        if requested.get(block.type) != block.size_bytes:
            return None
        hints[block.type] += (TopologyHint(mask_of(block.numa_nodes), preferred=True),)
    return hints


def find_best_hint(hints: Iterable[TopologyHint]) -> TopologyHint:
    """The narrowest of the preferred hints, or of all; of none the kubelet has the zero hint."""
    return min(
        hints,
        key=lambda hint: (not hint.preferred, narrowest(hint.affinity or 0)),
        default=TopologyHint(None, preferred=False),
    )


def is_affinity_satisfying(machine: NUMANodeMap, affinity: int, requested: Requested) -> bool:
    """Whether nodes have enough free for a request.

    Source: v1.36.2 policy_static.go isAffinitySatisfyRequest
    """
    nodes = bits_of(affinity)
    return all(
        sum(table_of(node_of(machine, n), name, n).free_bytes for n in nodes) & UINT64 >= size
        for name, size in requested.items()
    )


def best_affinity(
    machine: NUMANodeMap,
    hint: TopologyHint,
    requested: Requested,
    reusable: Reusable,
    facts: ResourceManagerFacts,
) -> int:
    """The nodes that memory is taken of: those of the topology manager's hint, or more.

    Raises:
        AllocationError: there are none.
        KubeletPanicError: as for ``calculate_hints``.

    Source: v1.36.2 policy_static.go Allocate, getDefaultHint, extendTopologyManagerHint
    """
    best = hint
    if best.affinity is None:
        hints = calculate_hints(machine, requested, reusable, facts)
        if not hints:
            raise AllocationError(
                "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with "
                "enough memory is available"
            )
        best = find_best_hint(hints if "memory" in requested else ())
        if hint.preferred and not best.preferred:
            raise AllocationError("[memorymanager] failed to find the default preferred hint")
    if best.affinity is None:
        raise KubeletPanicError("a container that requests no memory has no NUMA affinity")
    affinity = best.affinity
    if not is_affinity_satisfying(machine, affinity, requested):
        hints = calculate_hints(machine, requested, reusable, facts)
        wider = [each for each in hints if _extends(each.affinity or 0, affinity, facts)]
        if not wider or "memory" not in requested:
            raise AllocationError(
                "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
            )
        extended = find_best_hint(wider)
        if best.preferred and not extended.preferred:
            raise AllocationError("[memorymanager] failed to find the extended preferred hint")
        affinity = extended.affinity or 0
    if facts.groups_guarded and violates_numa_allocations(machine, bits_of(affinity)):
        raise AllocationError("[memorymanager] preferred hint violates NUMA node allocation")
    return affinity


def node_of(machine: NUMANodeMap, node: int) -> NUMANodeState:
    """The state of a node.

    Raises:
        KubeletPanicError: the machine has no such node.
    """
    if node not in machine:
        raise KubeletPanicError(f"the machine has no NUMA node {node}")
    return machine[node]


def table_of(state: NUMANodeState, name: str, node: int) -> MemoryTable:
    """The table of a type of memory."""
    table = state.memory.get(name)
    if table is None:
        raise KubeletPanicError(f"NUMA node {node} has no {name}")
    return table


def _sums(shape: Iterable[tuple[int, int]], of_nodes: Sequence[int]) -> list[int]:
    """0, then what all nodes of a group have together, group by group."""
    sums = [0]
    for rest, last in shape:
        sums.append(sums[rest] + of_nodes[last])
    return sums


@lru_cache(maxsize=64)
def _groups(nodes: tuple[int, ...]) -> tuple[tuple[_Group, ...], tuple[tuple[int, int], ...]]:
    """Every group of nodes, by size, then by position; and of what each is made.

    That is another group (counted from 1; 0: none) and a node (counted from 0) beside it.
    """
    groups: list[_Group] = []
    shape: list[tuple[int, int]] = []
    numbers = {0: 0}
    for mask in iterate_bit_masks(nodes):
        last = mask.bit_length() - 1
        hints = TopologyHint(mask, preferred=False), TopologyHint(mask, preferred=True)
        groups.append((mask, tuple(bits_of(mask)), *hints))
        shape.append((numbers[mask ^ (1 << last)], nodes.index(last)))
        numbers[mask] = len(groups)
    return tuple(groups), tuple(shape)


def _extends(group: int, affinity: int, facts: ResourceManagerFacts) -> bool:
    """Whether a group has all nodes of an affinity.

    Source: v1.36.2 policy_static.go isHintInGroup
    """
    if group & affinity != affinity:
        return False
    return facts.hints_extend_to_the_last_node or group.bit_length() > affinity.bit_length()
