"""Cases of the memory manager: a machine, a state file, and calls of the kubelet in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import check_amounts, check_uint64, node_set, walked
from kubeledger.kubelet.cases.hints import Hint
from kubeledger.kubelet.cases.managers import NODES_MAX, ManagerCase, ManagerWalk, Op, StepCase
from kubeledger.kubelet.kube.containermanager import ContainerRef
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.memorymanager.checkpoint import restore_state
from kubeledger.kubelet.memorymanager.machine import (
    Block,
    MemoryManagerError,
    MemoryReservation,
    MemoryTable,
    NUMANode,
    State,
)
from kubeledger.kubelet.memorymanager.memory_manager import (
    MachineSettings,
    Manager,
    default_machine,
)
from kubeledger.model.errors import BadInputError

Blocks = list[tuple[str, list[int], int]]
"""Type, NUMA nodes, bytes."""


class MemoryHeld(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """NUMA node -> assignments, cells, memory; containers -> blocks, a set; pods -> blocks."""

    machine_state: dict[str, dict[str, Any]] | UnsetType = UNSET
    entries: dict[str, dict[str, Blocks]] | UnsetType = UNSET
    pod_entries: dict[str, Blocks] | UnsetType = UNSET


def sort_blocks(claimed: Iterable[MemoryHeld]) -> None:
    """Sort the sets of blocks, as they are shown."""
    for each in claimed:
        for containers in (each.entries or {}).values():
            for blocks in containers.values():
                blocks.sort()
        for blocks in (each.pod_entries or {}).values():
            blocks.sort()


def memory_held(state: State, *, with_pods: bool, whole: bool = False) -> dict[str, Any]:
    """Fields of ``MemoryHeld``; ``whole``: with the columns of a memory table that stay."""
    held: dict[str, Any] = {
        "machine_state": {
            str(node): {
                "assignments": of.assignments,
                "cells": list(of.cells),
                "memory": {name: _columns(table, whole) for name, table in of.memory.items()},
            }
            for node, of in state.machine.items()
        },
        "entries": {
            uid: {name: _blocks(blocks) for name, blocks in containers.items()}
            for uid, containers in state.entries.items()
        },
    }
    if with_pods:
        pods = state.pod_entries.items()
        held["pod_entries"] = {uid: _blocks(blocks) for uid, blocks in pods}
    return held


def _columns(table: MemoryTable, whole: bool) -> list[int]:
    columns = msgspec.structs.astuple(table) if whole else (table.reserved_bytes, table.free_bytes)
    return list(columns)


def _blocks(blocks: Sequence[Block]) -> Blocks:
    return sorted((block.type, block.numa_nodes, block.size_bytes) for block in blocks)


def settings_of(
    path: str,
    nodes: Sequence[NUMANode] | None,
    reservation: ResourceList | None,
    reserved: Sequence[MemoryReservation] | None,
    before: MachineSettings | None = None,
) -> MachineSettings:
    """The settings of a process, which stand at ``path``; what is not given stays as before."""
    listed = nodes or ()
    if len(listed) > NODES_MAX:
        raise BadInputError(f"{path}.nodes: more than {NODES_MAX} nodes")
    node_set(f"{path}.nodes", [node.id for node in listed])
    for index, node in enumerate(listed):
        check_uint64(f"{path}.nodes[{index}].memory", node.memory_bytes)
        for at, (_, pages) in enumerate(node.hugepages or ()):
            check_uint64(f"{path}.nodes[{index}].hugepages[{at}]", pages)
    check_amounts(f"{path}.nodeAllocatableReservation", reservation)
    for at, entry in enumerate(reserved or ()):
        check_amounts(f"{path}.reservedMemory[{at}].limits", entry.limits)
    before = before or MachineSettings(nodes=listed, reservation={}, reserved=())
    return MachineSettings(
        nodes=before.nodes if nodes is None else nodes,
        reservation=before.reservation if reservation is None else reservation,
        reserved=before.reserved if reserved is None else reserved,
    )


class MemoryStep(StepCase, frozen=True, kw_only=True):
    """A step; what a restart is given is new from then on."""

    op: Op
    nodes: tuple[NUMANode, ...] | None = None
    node_allocatable_reservation: ResourceList | None = None
    reserved_memory: tuple[MemoryReservation, ...] | None = None


class MemoryCase(ManagerCase, frozen=True, kw_only=True):
    """Input: the machine, its settings, the pods, and what happens."""

    nodes: tuple[NUMANode, ...]
    node_allocatable_reservation: ResourceList | None = None
    reserved_memory: tuple[MemoryReservation, ...] | None = None
    steps: tuple[MemoryStep, ...] = ()


class StepOutcome(MemoryHeld, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a call returned, and the state after it; of a start that failed only the error."""

    error: str | UnsetType = UNSET
    numa_nodes: list[int] | UnsetType | None = UNSET
    hints: dict[str, list[Hint]] | UnsetType | None = UNSET


class MemoryOutcome(MemoryHeld, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The start, and what came of each step."""

    start_error: str
    steps: list[StepOutcome]


class MemoryWalk(ManagerWalk):
    """A case in one order of the kubelet's maps."""

    manager: Manager
    outcome_of = StepOutcome
    _settings: MachineSettings | None = None

    @property
    def stored(self) -> State:
        """The state as the file gives it back: maps by key."""
        state = self.manager.state
        entries = {uid: dict(sorted(of.items())) for uid, of in sorted(state.entries.items())}
        return State(state.machine, entries, dict(sorted(state.pod_entries.items())))

    def start(
        self,
        path: str,
        given: MemoryCase | MemoryStep,
        stored: State | str | None,
        containers: dict[str, ContainerRef],
    ) -> str:
        """Start with what is given from now on."""
        if not self.profile.resourcemanagers.memory_manager_gate_on:
            version = self.profile.version
            raise BadInputError(f"kubelet {version} has no memory manager that is on")
        reservation, reserved = given.node_allocatable_reservation, given.reserved_memory
        self._settings = settings_of(path, given.nodes, reservation, reserved, self._settings)
        self.manager = Manager(self.profile)
        self.manager.order = self.order
        try:
            machine = default_machine(self._settings, self.order)
            if isinstance(stored, str):
                stored = restore_state(stored, self.manager.facts)
            self.manager.start(machine, stored, containers)
        except MemoryManagerError as error:
            return str(error)
        return ""

    def told(self, step: MemoryStep) -> dict[str, Any]:
        """The nodes of a container's memory."""
        return {"numa_nodes": self.manager.get_memory_numa_nodes(step.pod, step.container)}

    def shown(self, *, whole: bool) -> dict[str, Any]:
        """Who has which memory."""
        with_pods = self.manager.facts.pod_level_managers
        return memory_held(self.manager.state, with_pods=with_pods, whole=whole)

    def outcome(self, steps: list[StepOutcome]) -> MemoryOutcome:
        return MemoryOutcome(start_error=self.start_error, **self.begun, steps=steps)


def _sort(claimed: MemoryOutcome) -> None:
    sort_blocks((claimed, *claimed.steps))


MEMORYMANAGER = walked(MemoryCase, MemoryOutcome, MemoryWalk, sort=_sort)
