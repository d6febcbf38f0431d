"""State files of the memory manager that show what cannot be, or what no kubelet starts with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.model.bodies.resourcemanagers import MemoryBlock, MemoryManagerStateRead

if TYPE_CHECKING:
    from kubeledger.kubelet.memorymanager.machine import State

MemoryInvariant = Literal["memory_in_two_lives", "memory_groups_overlap", "memory_state_refused"]


class MemoryFlaw(NamedTuple):
    """What is wrong with a file; ``key`` is the same for what was said before."""

    invariant: MemoryInvariant
    key: object
    message: str


class MemoryStates:
    """The state files of a node, one after the other."""

    def __init__(self) -> None:
        self._unfit = False

    def look(
        self, body: MemoryManagerStateRead, facts: ResourceManagerFacts
    ) -> Iterator[MemoryFlaw]:
        """What is wrong with a file whose checksum is right."""
        yield from _more_than_there_is(body)
        if body.policy == "Static" and body.machine:
            from kubeledger.kubelet.memorymanager.checkpoint import recorded_state
            from kubeledger.kubelet.memorymanager.machine import KubeletPanicError

            with suppress(KubeletPanicError):
                state = recorded_state(body)
                fits = _restarts(state, facts)
                # A file is written twice for a change: what one shows may be half of it.
                twice, self._unfit = self._unfit and fits == {False}, fits == {False}
                if fits != {True} and (overlap := _overlap(body)):
                    yield overlap
                elif self._unfit and _is_whole(state, facts):
                    yield MemoryFlaw(
                        "memory_state_refused",
                        "memory_state_refused",
                        "memory_manager_state shows memory of a group of NUMA nodes on another of "
                        "its nodes than the entries, counted anew, would have it: the next start "
                        "of the kubelet refuses it",
                    )
                elif twice:
                    yield MemoryFlaw(
                        "memory_state_refused",
                        "memory_state_refused",
                        "memory_manager_state shows other memory reserved on its NUMA nodes than "
                        "its entries give: the next start of the kubelet refuses it",
                    )


def _restarts(state: State, facts: ResourceManagerFacts) -> frozenset[bool]:
    from kubeledger.kubelet.memorymanager.memory_manager import restarts  # few files need it

    return restarts(state, facts)


def _is_whole(state: State, facts: ResourceManagerFacts) -> bool:
    """Whether a file that is refused shows all of a change: its groups of nodes, as sums, fit."""
    by_sums = msgspec.structs.replace(facts, groups_compared_by_sums=True)
    return not facts.groups_compared_by_sums and _restarts(state, by_sums) == {True}


def _more_than_there_is(body: MemoryManagerStateRead) -> Iterator[MemoryFlaw]:
    """More than all the memory of a group of NUMA nodes is given away."""
    given: Counter[tuple[tuple[int, ...], str]] = Counter()
    for block in _blocks(body):
        given[block.numa_nodes, block.type] += block.size_bytes
    for (nodes, type_), bytes_ in sorted(given.items()):
        tables = [body.machine.get(str(node)) for node in nodes]
        known = [each.memory[type_] for each in tables if each and type_ in each.memory]
        there = sum(each.allocatable_bytes for each in known)
        if len(known) == len(nodes) and bytes_ > there >= 0:
            places = ", ".join(map(str, nodes))
            message = (
                f"{bytes_} bytes of {type_} of NUMA node {places} are given away, of {there} that "
                "containers may have"
            )
            key = "memory_in_two_lives", nodes, type_, bytes_
            yield MemoryFlaw("memory_in_two_lives", key, message)


def _overlap(body: MemoryManagerStateRead) -> MemoryFlaw | None:
    """A NUMA node that is in two groups, or used alone as well."""
    groups: dict[int, set[tuple[int, ...]]] = {}
    for block in _blocks(body):
        for node in block.numa_nodes:
            groups.setdefault(node, set()).add(block.numa_nodes)
    shared = {node: of for node, of in groups.items() if len(of) > 1}
    if not shared:
        return None
    node, of = min(shared.items())
    used = " and ".join(
        f"in a group with {', '.join(str(other) for other in group if other != node)}"
        if len(group) > 1
        else "alone"
        for group in sorted(of)
    )
    message = (
        f"memory_manager_state has NUMA node {node} used {used}: the next start of the kubelet may "
        "refuse it, by the order in which it reads the entries"
    )
    return MemoryFlaw("memory_groups_overlap", ("memory_groups_overlap", *sorted(shared)), message)


def _blocks(body: MemoryManagerStateRead) -> Iterator[MemoryBlock]:
    """Blocks of pods that have memory as a whole, and of the containers of others."""
    for blocks in body.pods.values():
        yield from blocks
    for uid, containers in body.assignments.items():
        if uid not in body.pods:
            for blocks in containers.values():
                yield from blocks
