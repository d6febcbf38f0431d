"""``memory_manager_state``: its form in each version, its checksum, and who refuses it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.kube.gotypes import (
    CHECKSUM,
    INT,
    STRING,
    UINT64,
    GoType,
    Map,
    Pointer,
    Slice,
    String,
    Struct,
    UnmarshalError,
    checksum,
    decoded,
    unmarshal,
)
from kubeledger.kubelet.memorymanager.machine import UINT64 as UINT64_MAX
from kubeledger.kubelet.memorymanager.machine import (
    Block,
    KubeletPanicError,
    MemoryManagerError,
    MemoryTable,
    NUMANodeMap,
    NUMANodeState,
    State,
)
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.model.bodies import resourcemanagers as bodies

STATIC: Final = "Static"
PATH: Final = "/var/lib/kubelet/memory_manager_state"

_RESOURCE = String("v1.ResourceName")
_TABLE_FIELDS: Final = {
    "TotalMemSize": ("total", UINT64),
    "SystemReserved": ("systemReserved", UINT64),
    "Allocatable": ("allocatable", UINT64),
    "Reserved": ("reserved", UINT64),
    "Free": ("free", UINT64),
}
_TABLE = Struct("state.MemoryTable", _TABLE_FIELDS)
_NODE = Struct(
    "state.NUMANodeState",
    {
        "NumberOfAssignments": ("numberOfAssignments", INT),
        "MemoryMap": ("memoryMap", Map(_RESOURCE, Pointer(_TABLE))),
        "Cells": ("cells", Slice(INT)),
    },
)
_BLOCKS = Slice(
    Struct(
        "state.Block",
        {
            "NUMAAffinity": ("numaAffinity", Slice(INT)),
            "Type": ("type", _RESOURCE),
            "Size": ("size", UINT64),
        },
    )
)
_HEAD: dict[str, tuple[str, GoType]] = {
    "PolicyName": ("policyName", STRING),
    "MachineState": ("machineState", Map(INT, Pointer(_NODE), "state.NUMANodeMap")),
    "Entries": ("entries", Map(STRING, Map(STRING, _BLOCKS), "state.ContainerMemoryAssignments")),
}
_PODS: dict[str, tuple[str, GoType]] = {
    "PodEntries": (
        "podEntries",
        Map(
            STRING,
            Struct("state.PodEntry", {"MemoryBlocks": ("memoryBlocks", _BLOCKS)}),
            "state.PodMemoryAssignments",
        ),
    )
}
_TAIL: dict[str, tuple[str, GoType]] = {"Checksum": ("checksum", CHECKSUM)}
_MADE: dict[str, Any] = {"MachineState": {}, "Entries": {}}
_V1 = Struct("state.MemoryManagerCheckpoint", _HEAD | _TAIL, _MADE)
_V1_BESIDE_V2 = Struct("state.MemoryManagerCheckpointV1", _HEAD | _TAIL, _MADE)
_V2 = Struct("state.MemoryManagerCheckpoint", _HEAD | _PODS | _TAIL, _MADE | {"PodEntries": {}})


def restore_state(text: str, facts: ResourceManagerFacts) -> State:
    """What a kubelet with the static policy takes from the file.

    Raises:
        MemoryManagerError: it refuses the file.
        KubeletPanicError: it crashes over it.

    Source: v1.36.2 pkg/kubelet/cm/memorymanager/state/state_checkpoint.go restoreState
    """
    try:
        value = _load_v2(text, facts) if facts.pod_level_managers else _load_v1(text, facts)
    except UnmarshalError as error:
        raise _not_restored(str(error)) from None
    if value["PolicyName"] != STATIC:
        raise _not_restored(
            f'[memorymanager] configured policy "{STATIC}" differs from state checkpoint policy '
            f"{quoted(value['PolicyName'])}"
        )
    return _state_of(value)


def state_file(state: State, facts: ResourceManagerFacts) -> str:
    """The text of the file in which a kubelet with the static policy keeps this.

    Source: v1.36.2 pkg/kubelet/cm/memorymanager/state/state_checkpoint.go storeState
    """
    entries = {
        uid: {name: _stored(blocks) for name, blocks in sorted(containers.items())}
        for uid, containers in sorted(state.entries.items())
    }
    document: dict[str, Any] = {"policyName": STATIC, "machineState": _stored_machine(state)}
    document |= {"entries": entries} if entries else {}
    if facts.pod_level_managers and state.pod_entries:
        document["podEntries"] = {
            uid: {"memoryBlocks": _stored(blocks)}
            for uid, blocks in sorted(state.pod_entries.items())
        }
    of = _V2 if facts.pod_level_managers else _V1
    document["checksum"] = checksum(decoded(document, of), of)
    return json.dumps(document, separators=(",", ":"))


def _stored_machine(state: State) -> dict[str, Any]:
    keys = [key for key, _ in _TABLE_FIELDS.values()]
    return {
        str(node): {
            "numberOfAssignments": of.assignments,
            "memoryMap": {
                name: dict(zip(keys, msgspec.structs.astuple(table), strict=True))
                for name, table in sorted(of.memory.items())
            },
            "cells": of.cells,
        }
        for node, of in sorted(state.machine.items(), key=lambda item: str(item[0]))
    }


def _stored(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return [{"numaAffinity": b.numa_nodes, "type": b.type, "size": b.size_bytes} for b in blocks]


def read_memory_manager_state(data: object) -> bodies.MemoryManagerStateRead:
    """The record of a decoded ``memory_manager_state``.

    Raises:
        MalformedCheckpointError: a part is of another type, or there is no policy.

    Source: v1.36.2 pkg/kubelet/cm/memorymanager/state/checkpoint.go MemoryManagerCheckpoint
    Differs: a wrong checksum is recorded instead of refusing the file.
    """
    try:
        value = decoded(data, _V2)
        state = _state_of(value)
    except (UnmarshalError, KubeletPanicError) as error:
        raise MalformedCheckpointError(str(error)) from None
    if not value["PolicyName"]:
        raise MalformedCheckpointError("it names no policy")
    given = value["Checksum"]
    v1 = {field: value[field] for field in value if field != "PodEntries"}
    return bodies.MemoryManagerStateRead(
        policy=value["PolicyName"],
        machine={
            str(node): bodies.NUMANodeMemory(
                assignments=of.assignments,
                group=tuple(sorted(of.cells)),
                memory={
                    name: _signed_table(msgspec.structs.astuple(table))
                    for name, table in sorted(of.memory.items())
                },
            )
            for node, of in sorted(state.machine.items())
        },
        assignments={
            uid: {name: recorded(blocks) for name, blocks in sorted(containers.items())}
            for uid, containers in sorted(state.entries.items())
        },
        pods={uid: recorded(blocks) for uid, blocks in sorted(state.pod_entries.items())},
        checksum=given,
        checksum_ok=given in (checksum(v1, _V1), checksum(value, _V2)),
    )


def recorded_state(body: bodies.MemoryManagerStateRead) -> State:
    """The state that a recorded file holds."""
    return State(
        machine=machine_of(body.machine),
        entries={
            uid: {name: _recorded_blocks(blocks) for name, blocks in containers.items()}
            for uid, containers in body.assignments.items()
        },
        pod_entries={uid: _recorded_blocks(blocks) for uid, blocks in body.pods.items()},
    )


def _recorded_blocks(recorded: Iterable[bodies.MemoryBlock]) -> list[Block]:
    return [Block(list(b.numa_nodes), b.type, b.size_bytes) for b in recorded]


def machine_of(nodes: Mapping[str, bodies.NUMANodeMemory], *, empty: bool = False) -> NUMANodeMap:
    """The machine that a recorded file shows; ``empty``: with nothing given to containers."""
    machine: NUMANodeMap = {}
    for name, node in nodes.items():
        tables = {}
        for of, table in node.memory.items():
            allocatable = table.allocatable_bytes
            given = (0, allocatable) if empty else (table.reserved_bytes, table.free_bytes)
            columns = (table.total_bytes, table.system_reserved_bytes, allocatable, *given)
            tables[of] = MemoryTable(*(number & UINT64_MAX for number in columns))
        cells = [int(name)] if empty else list(node.group)
        machine[int(name)] = NUMANodeState(0 if empty else node.assignments, tables, cells)
    return machine


def memory_table(table: dict[str, Any]) -> bodies.MemoryTable:
    """One memory table of a log line.

    Raises:
        MalformedCheckpointError: a number is missing or of another type.
    """
    try:
        value = decoded(table, _TABLE)
    except UnmarshalError as error:
        raise MalformedCheckpointError(str(error)) from None
    return _signed_table(value.values())


def _load_v1(text: str, facts: ResourceManagerFacts) -> dict[str, Any]:
    """The file as version 1; ``_V1`` is how the kubelet called it while it knew no other."""
    of = _V1_BESIDE_V2 if facts.memory_checkpoint_v1 else _V1
    value = unmarshal(text, of)
    given = value["Checksum"]
    if given == 0 and facts.memory_checkpoint_v1:
        return value
    if given != checksum(value, _V1) and (facts.pod_level_managers or given != checksum(value, of)):
        raise UnmarshalError("checkpoint is corrupted")
    return value


def _load_v2(text: str, facts: ResourceManagerFacts) -> dict[str, Any]:
    """The file as version 2, or what version 1 makes of it over what was read of version 2.

    Source: v1.36.2 state_checkpoint.go loadAndMigrateCheckpointV2,
        migrateV1CheckpointToV2Checkpoint
    Differs: nothing is kept of a file that is of another type only in its pods' entries.
    """
    try:
        value = unmarshal(text, _V2)
        if value["Checksum"] == checksum(value, _V2):
            return value
    except UnmarshalError:
        value = _V2.zero.copy()
    first = _load_v1(text, facts)
    return value | {
        field: first[field]
        for field, empty in (("PolicyName", ""), ("MachineState", None), ("Entries", {}))
        if first[field] != empty
    }


def _not_restored(error: str) -> MemoryManagerError:
    return MemoryManagerError(
        f"could not restore state from checkpoint: {error}, please drain this node and delete the "
        f'memory manager checkpoint file "{PATH}" before restarting Kubelet'
    )


def _state_of(value: dict[str, Any]) -> State:
    return State(
        machine={node: _node_state(node, of) for node, of in (value["MachineState"] or {}).items()},
        entries={
            uid: {name: _blocks(blocks) for name, blocks in (containers or {}).items()}
            for uid, containers in (value["Entries"] or {}).items()
        },
        pod_entries={
            uid: _blocks(entry["MemoryBlocks"])
            for uid, entry in (value.get("PodEntries") or {}).items()
        },
    )


def _node_state(node: int, value: dict[str, Any] | None) -> NUMANodeState:
    tables = {} if value is None else value["MemoryMap"] or {}
    if value is None or None in tables.values():
        raise KubeletPanicError(f"NUMA node {node} is null, or a type of its memory")
    return NUMANodeState(
        assignments=value["NumberOfAssignments"],
        memory={name: MemoryTable(*table.values()) for name, table in tables.items()},
        cells=list(value["Cells"] or ()),
    )


def _blocks(values: list[dict[str, Any]] | None) -> list[Block]:
    return [Block(list(v["NUMAAffinity"] or ()), v["Type"], v["Size"]) for v in values or ()]


def recorded(blocks: Iterable[Block]) -> tuple[bodies.MemoryBlock, ...]:
    """Blocks of a record."""
    return tuple(
        bodies.MemoryBlock(
            numa_nodes=tuple(sorted(block.numa_nodes)), type=block.type, size_bytes=block.size_bytes
        )
        for block in sorted(blocks, key=lambda block: block.type)
    )


def _signed_table(numbers: Iterable[int]) -> bodies.MemoryTable:
    """With what a subtraction below zero was meant to be."""
    signed = (number - 2**64 if number >= 2**63 else number for number in numbers)
    total, system_reserved, allocatable, reserved, free = signed
    return bodies.MemoryTable(
        total_bytes=total,
        system_reserved_bytes=system_reserved,
        allocatable_bytes=allocatable,
        reserved_bytes=reserved,
        free_bytes=free,
    )
