"""``memory_manager_state``: parsing and checksum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeledger.kubelet.kube.checkpoints import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_list,
    optional_object,
    string_of,
    unsigned_of,
)
from kubeledger.kubelet.kube.gospew import fnv1a32, plain_list, plain_map, struct, typed
from kubeledger.model.bodies.memorymanager import (
    MemoryBlock,
    MemoryManagerStateRead,
    MemoryTable,
    NUMANodeMemory,
)

_TABLE = {
    "TotalMemSize": "total",
    "SystemReserved": "systemReserved",
    "Allocatable": "allocatable",
    "Reserved": "reserved",
    "Free": "free",
}
"""Field of the Go struct, in its order -> JSON key."""


def read_memory_manager_state(data: object) -> MemoryManagerStateRead:
    """The record of a decoded ``memory_manager_state``.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.30.1 pkg/kubelet/cm/memorymanager/state/checkpoint.go:28 MemoryManagerCheckpoint
    Differs: a wrong checksum is recorded instead of refusing the file; the pod
        entries of v2 (1.36, PodLevelResourceManagers) are not read, and its checksum is not
        computed where it has any.
    """
    top = object_of(data, "the state")
    policy = string_of(top.get("policyName"), "policyName")
    machine = optional_object(top.get("machineState"), "machineState") or {}
    entries = optional_object(top.get("entries"), "entries") or {}
    pods = optional_object(top.get("podEntries"), "podEntries")
    checksum = checksum_of(top.get("checksum", 0))
    return MemoryManagerStateRead(
        policy=policy,
        machine={
            str(_node(key)): _numa_node(object_of(machine[key], f"NUMA node {key}"))
            for key in sorted(machine, key=_node)
        },
        assignments={
            uid: {
                name: _blocks(blocks, name)
                for name, blocks in sorted(object_of(containers, "entries").items())
            }
            for uid, containers in sorted(entries.items())
        },
        checksum=checksum,
        checksum_ok=None if pods else checksum in _checksums(policy, machine, entries),
    )


def memory_table(table: dict[str, Any]) -> MemoryTable:
    """One memory table, from the file or from a log line.

    Raises:
        MalformedCheckpointError: a number is missing or of another type.
    """
    total, system_reserved, allocatable, reserved, free = (
        _signed(unsigned_of(table.get(key), key)) for key in _TABLE.values()
    )
    return MemoryTable(
        total_bytes=total,
        system_reserved_bytes=system_reserved,
        allocatable_bytes=allocatable,
        reserved_bytes=reserved,
        free_bytes=free,
    )


def _signed(number: int) -> int:
    """What a subtraction below zero was meant to be."""
    return number - 2**64 if number >= 2**63 else number


def _numa_node(node: dict[str, Any]) -> NUMANodeMemory:
    tables = optional_object(node.get("memoryMap"), "memoryMap") or {}
    return NUMANodeMemory(
        assignments=unsigned_of(node.get("numberOfAssignments"), "numberOfAssignments"),
        group=_nodes(node.get("cells"), "cells"),
        memory={
            name: memory_table(object_of(table, name)) for name, table in sorted(tables.items())
        },
    )


def _blocks(blocks: object, what: str) -> tuple[MemoryBlock, ...]:
    found = [
        MemoryBlock(
            numa_nodes=_nodes(block.get("numaAffinity"), "numaAffinity"),
            type=string_of(block.get("type"), "type"),
            size_bytes=unsigned_of(block.get("size"), "size"),
        )
        for entry in optional_list(blocks, what) or ()
        for block in (object_of(entry, what),)
    ]
    return tuple(sorted(found, key=lambda block: block.type))


def _nodes(nodes: object, what: str) -> tuple[int, ...]:
    return tuple(sorted(unsigned_of(node, what) for node in optional_list(nodes, what) or ()))


def _node(key: str) -> int:
    if not key.isdecimal():
        raise MalformedCheckpointError(f"{key!r} is no NUMA node")
    return int(key)


def _checksums(policy: str, machine: dict[str, Any], entries: dict[str, Any]) -> Iterator[int]:
    """Those of v1, and of v2 without pods (1.36)."""
    fields = {
        "PolicyName": typed("string", policy),
        "MachineState": typed(
            "state.NUMANodeMap",
            plain_map({_node(key): _node_text(node) for key, node in machine.items()}),
        ),
        "Entries": typed(
            "state.ContainerMemoryAssignments",
            plain_map(
                {
                    uid: plain_map({name: _blocks_text(blocks) for name, blocks in sets.items()})
                    for uid, sets in entries.items()
                }
            ),
        ),
    }
    pods = {"PodEntries": typed("state.PodMemoryAssignments", plain_map({}))}
    tail = {"Checksum": typed("checksum.Checksum", "0")}
    forms = (fields | tail, fields | pods | tail)
    return (fnv1a32(typed("*state.MemoryManagerCheckpoint", struct(form))) for form in forms)


def _node_text(node: dict[str, Any]) -> str:
    tables = node.get("memoryMap") or {}
    fields = {
        "NumberOfAssignments": typed("int", str(node.get("numberOfAssignments"))),
        "MemoryMap": typed(
            "map[v1.ResourceName]*state.MemoryTable",
            plain_map({name: _pointer(_table_text(table)) for name, table in tables.items()}),
        ),
        "Cells": _ints_text(node.get("cells")),
    }
    return _pointer(struct(fields))


def _table_text(table: dict[str, Any]) -> str:
    return struct({field: typed("uint64", str(table.get(key))) for field, key in _TABLE.items()})


def _blocks_text(blocks: list[dict[str, Any]] | None) -> str:
    return plain_list(
        None
        if blocks is None
        else [
            struct(
                {
                    "NUMAAffinity": _ints_text(block.get("numaAffinity")),
                    "Type": typed("v1.ResourceName", str(block.get("type"))),
                    "Size": typed("uint64", str(block.get("size"))),
                }
            )
            for block in blocks
        ]
    )


def _ints_text(numbers: list[int] | None) -> str:
    return typed("[]int", plain_list(None if numbers is None else map(str, numbers)))


def _pointer(text: str) -> str:
    """What a pointer in a map points to."""
    return f"<*>{text}"
