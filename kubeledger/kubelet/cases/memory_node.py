"""The memory of a machine in cases: its nodes, what is reserved, and how a state is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from kubeledger.kubelet.cases.fields import Strict, check_amounts, node_set
from kubeledger.kubelet.kube.pod import Int32
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.memorymanager.machine import (
    UINT64,
    Block,
    HugePages,
    MemoryReservation,
    NUMANode,
    NUMANodeMap,
    State,
)
from kubeledger.model.errors import BadInputError

Uint64 = Annotated[int, msgspec.Meta(ge=0)]
PageSizeKiB = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
HugePagesCase = tuple[tuple[PageSizeKiB, Uint64], ...]
"""Page size in KiB and number of pages."""

NODES_MAX: Final = 16
"""More nodes than this are refused: the kubelet would look at 2**n groups and hang."""


class ReservationCase(Strict, frozen=True, kw_only=True):
    """An entry of ``reservedMemory``."""

    numa_node: Int32
    limits: ResourceList


Blocks = list[tuple[str, list[int], int]]
"""Type, NUMA nodes, bytes."""
Entries = dict[str, dict[str, Blocks]]
Machine = dict[str, dict[str, Any]]


def node_of(path: str, node: int, memory: int, hugepages: HugePagesCase | None) -> NUMANode:
    """A NUMA node."""
    if memory > UINT64:
        raise BadInputError(f"{path}.memory: it does not fit 64 bits")
    for at, (_, pages) in enumerate(hugepages or ()):
        if pages > UINT64:
            raise BadInputError(f"{path}.hugepages[{at}]: it does not fit 64 bits")
    return NUMANode(node, memory, tuple(HugePages(*each) for each in hugepages or ()))


def check_nodes(path: str, nodes: Sequence[int]) -> None:
    """Make sure that a machine has these nodes."""
    if len(nodes) > NODES_MAX:
        raise BadInputError(f"{path}: more than {NODES_MAX} nodes")
    node_set(path, nodes)


def reservations_of(path: str, listed: Sequence[ReservationCase]) -> tuple[MemoryReservation, ...]:
    """``reservedMemory``."""
    for index, entry in enumerate(listed):
        check_amounts(f"{path}[{index}].limits", entry.limits)
    return tuple(MemoryReservation(entry.numa_node, entry.limits) for entry in listed)


def machine_shown(machine: NUMANodeMap, *, whole: bool = False) -> Machine:
    """NUMA nodes with what is reserved and free; ``whole``: and with what stays as it is."""
    return {
        str(node): {
            "assignments": of.assignments,
            "cells": list(of.cells),
            "memory": {
                name: [
                    table.total_bytes,
                    table.system_reserved_bytes,
                    table.allocatable_bytes,
                    table.reserved_bytes,
                    table.free_bytes,
                ]
                if whole
                else [table.reserved_bytes, table.free_bytes]
                for name, table in of.memory.items()
            },
        }
        for node, of in machine.items()
    }


def entries_shown(state: State) -> Entries:
    """Blocks of containers."""
    return {
        uid: {name: blocks_shown(blocks) for name, blocks in containers.items()}
        for uid, containers in state.entries.items()
    }


def pods_shown(state: State) -> dict[str, Blocks]:
    """Blocks of pods as a whole."""
    return {uid: blocks_shown(blocks) for uid, blocks in state.pod_entries.items()}


def blocks_shown(blocks: Sequence[Block]) -> Blocks:
    """A set of blocks, sorted."""
    return sorted((block.type, block.numa_nodes, block.size_bytes) for block in blocks)


def sorted_entries(entries: Mapping[str, Mapping[str, Blocks]]) -> Entries:
    """Claimed blocks of containers, each set sorted."""
    return {
        uid: {name: sorted(blocks) for name, blocks in containers.items()}
        for uid, containers in entries.items()
    }
