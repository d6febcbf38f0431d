"""``memory_manager_state``: recorded ones, the form of 1.36, and broken ones."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.memorymanager.checkpoint import (
    read_memory_manager_state,
    recorded_state,
    restore_state,
    state_file,
)
from kubeledger.kubelet.memorymanager.hints import RequestedMemory
from kubeledger.kubelet.memorymanager.machine import MemoryManagerError
from kubeledger.kubelet.memorymanager.reducer import HANDLERS, MemoryManagerState
from kubeledger.kubelet.profile.resolve import resolve, with_gates
from kubeledger.model.bodies.resourcemanagers import MemoryBlock

DATA = Path(__file__).parents[2] / "data/managers"


def recorded(name: str = "v1.30.14.memory_manager_state.json") -> dict[str, Any]:
    """A state file of kubelet 1.30.14."""
    loaded = json.loads((DATA / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_a_recorded_state() -> None:
    """Blocks by pod and container; the tables of the node add up."""
    body = read_memory_manager_state(recorded())
    assert body.checksum_ok is True
    assert body.policy == "Static"
    table = body.machine["0"].memory["memory"]
    blocks = [
        block
        for containers in body.assignments.values()
        for found in containers.values()
        for block in found
    ]
    assert sum(block.size_bytes for block in blocks) == table.reserved_bytes
    assert table.allocatable_bytes == table.reserved_bytes + table.free_bytes
    assert MemoryBlock(numa_nodes=(0,), type="memory", size_bytes=134217728) in blocks
    state = MemoryManagerState()
    HANDLERS[type(body)](state, 7, body)
    assert (state.file_read_ts_ns, state.machine) == (7, body.machine)


def test_a_reserve_greater_than_the_total() -> None:
    """Go's unsigned difference is near 2^64, and meant as a negative number."""
    body = read_memory_manager_state(recorded("v1.30.14.underflow.memory_manager_state.json"))
    table = body.machine["0"].memory["memory"]
    assert body.checksum_ok is True
    assert table.allocatable_bytes == table.total_bytes - table.system_reserved_bytes < 0


@pytest.mark.parametrize(
    "name", ["v1.30.14.memory_manager_state.json", "v1.30.14.underflow.memory_manager_state.json"]
)
def test_the_file_as_the_kubelet_wrote_it(name: str) -> None:
    """It is what the record of it holds, too."""
    facts = resolve("1.30.14").resourcemanagers
    text = json.dumps(recorded(name), separators=(",", ":"))
    state = restore_state(text, facts)
    assert state_file(state, facts) == text
    assert recorded_state(read_memory_manager_state(recorded(name))) == state


def test_the_file_of_a_kubelet_that_knows_pods() -> None:
    """It reads it back; one whose gate is off writes no pods, and refuses such a file."""
    gates = {"PodLevelResources": True, "PodLevelResourceManagers": True}
    facts = with_gates(resolve("1.36.2"), gates).resourcemanagers
    state = restore_state(json.dumps(recorded()), resolve("1.30.14").resourcemanagers)
    blocks = state.entries[min(state.entries)]
    state.pod_entries = {min(state.entries): blocks[min(blocks)]}
    text = state_file(state, facts)
    assert restore_state(text, facts) == state
    assert "podEntries" not in state_file(state, resolve("1.36.2").resourcemanagers)
    with pytest.raises(MemoryManagerError, match="checkpoint is corrupted"):
        restore_state(text, resolve("1.36.2").resourcemanagers)


def test_the_form_of_1_36_with_pods() -> None:
    """Pod entries are hashed as well: a file of kubelet 1.36.2 with the gate on."""
    table = {"total": 1073741824, "systemReserved": 104857600, "allocatable": 968884224}
    table |= {"reserved": 871995801, "free": 96888423}
    blocks = [{"numaAffinity": [0], "type": "memory", "size": 871995801}]
    data = {
        "policyName": "Static",
        "machineState": {
            "0": {"numberOfAssignments": 1, "memoryMap": {"memory": table}, "cells": [0]}
        },
        "entries": {"old-0": {"c0": blocks}},
        "podEntries": {"old-0": {"memoryBlocks": blocks}},
        "checksum": 4020647683,
    }
    assert read_memory_manager_state(data).checksum_ok is True
    assert read_memory_manager_state(data | {"podEntries": {}}).checksum_ok is False


def test_blocks_and_nodes_are_put_in_order() -> None:
    blocks = [
        {"numaAffinity": [1, 0], "type": kind, "size": 1} for kind in ("memory", "hugepages-2Mi")
    ]
    machine = {key: {"numberOfAssignments": 1, "cells": [1, 0]} for key in ("10", "2")}
    body = read_memory_manager_state(
        recorded() | {"entries": {"u": {"c": blocks, "d": None}}, "machineState": machine}
    )
    assert [block.type for block in body.assignments["u"]["c"]] == ["hugepages-2Mi", "memory"]
    assert [block.numa_nodes for block in body.assignments["u"]["c"]] == [(0, 1)] * 2
    assert [(key, node.group) for key, node in body.machine.items()] == [
        ("2", (0, 1)),
        ("10", (0, 1)),
    ]


NODE: dict[str, Any] = {"numberOfAssignments": 0, "cells": [0]}
BLOCK: dict[str, Any] = {"numaAffinity": [0], "type": "memory", "size": 1}


def blocks_of(*blocks: object) -> dict[str, Any]:
    return {"entries": {"u": {"c": list(blocks)}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policyName": 1}, "number into Go struct field {}.policyName of type string"),
        ({"policyName": None}, "it names no policy"),
        ({"checksum": "1"}, "string into Go struct field {}.checksum of type checksum.Checksum"),
        ({"podEntries": []}, "array into Go struct field {}.podEntries of type state.PodMemory"),
        ({"machineState": []}, "array into Go struct field {}.machineState of type state.NUMA"),
        ({"machineState": {"x": {}}}, "number x into Go struct field {}.machineState of type int"),
        ({"machineState": {"0": []}}, "array into Go struct field {}.machineState of type state"),
        ({"machineState": {"0": None}}, "NUMA node 0 is null, or a type of its memory"),
        ({"machineState": {"0": NODE | {"numberOfAssignments": 0.5}}},
         "number 0.5 into Go struct field NUMANodeState.machineState.numberOfAssignments"),
        ({"machineState": {"0": NODE | {"cells": ["0"]}}},
         "string into Go struct field NUMANodeState.machineState.cells of type int"),
        ({"machineState": {"0": NODE | {"memoryMap": {"m": {"total": True}}}}},
         "bool into Go struct field MemoryTable.machineState.memoryMap.total of type uint64"),
        ({"entries": {"u": []}}, "array into Go struct field {}.entries of type map[string][]st"),
        ({"entries": {"u": {"c": 1}}}, "number into Go struct field {}.entries of type []state.B"),
        (blocks_of(BLOCK | {"type": 1}), "number into Go struct field Block.entries.type of type"),
        (blocks_of(BLOCK | {"size": -1}),
         "number -1 into Go struct field Block.entries.size of type uint64"),
    ],
)  # fmt: skip
def test_malformed(change: dict[str, Any], message: str) -> None:
    """Parts of another type are refused by name."""
    with pytest.raises(MalformedCheckpointError) as caught:
        read_memory_manager_state(json.loads(json.dumps(recorded() | change)))
    assert message.format("MemoryManagerCheckpoint") in str(caught.value)


# -- Who gets memory of NUMA nodes, how much, and what later containers use again ------------------

OLD, SIDECARS, NEW = (
    RequestedMemory(resolve(version)) for version in ("1.21.0", "1.28.0", "1.36.0")
)


def container(name: str, memory: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    amounts = {"cpu": "100m", "memory": memory, "hugepages-2Mi": "4Mi"}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **more}


def pod(*init: dict[str, Any], app: tuple[dict[str, Any], ...]) -> Pod:
    """A pod as the API server shows it."""
    return msgspec.convert({"spec": {"containers": app, "initContainers": init}}, Pod)


def test_guaranteed_pods_get_what_they_request() -> None:
    """Memory and huge pages, and nothing for other classes."""
    made = pod(app=(container("a", "100"),))
    assert made.spec.containers is not None
    assert NEW.gets(made)
    asked = NEW.of_container(made, made.spec.containers[0])
    assert asked == {"memory": 100, "hugepages-2Mi": 4 << 20}
    burstable = msgspec.convert({"spec": {"containers": [{"name": "a"}]}}, Pod)
    assert not NEW.gets(burstable)
    said = msgspec.convert({"spec": {"containers": []}, "status": {"qosClass": "Guaranteed"}}, Pod)
    assert NEW.gets(said)


WITH_PODS = {"PodLevelResources": True, "PodLevelResourceManagers": True}


@pytest.mark.parametrize(
    ("version", "gates", "gets"),
    [
        ("1.33.0", {"PodLevelResources": True}, True),
        ("1.33.0", {}, False),
        ("1.34.0", {}, False),
        ("1.36.0", {}, False),
        ("1.36.0", WITH_PODS, True),
        ("1.37.0", {}, True),
    ],
)
def test_pods_with_resources_of_their_own(version: str, gates: dict[str, bool], gets: bool) -> None:
    """They are skipped since 1.34, but for the gate with which they get memory as a whole.

    By its record it is on in 1.37.
    """
    amounts = {"cpu": "1", "memory": "1Gi"}
    whole = {"containers": [{"name": "a"}], "resources": {"requests": amounts, "limits": amounts}}
    made = msgspec.convert({"spec": whole}, Pod)
    assert RequestedMemory(with_gates(resolve(version), gates)).gets(made) is gets


@pytest.mark.parametrize(
    ("name", "by", "sizes"),
    [
        ("init", NEW, {100, 40, 10}),
        ("side", NEW, {50}),
        ("side", SIDECARS, {50, 0}),
        ("a", NEW, {60}),
        ("b", NEW, {30}),
        ("init", OLD, {100}),
    ],
)
def test_init_containers_shrink(name: str, by: RequestedMemory, sizes: set[int]) -> None:
    """By what each later one takes; sidecars keep theirs since 1.29; none shrank in 1.21."""
    side = container("side", "50", restartPolicy="Always")
    made = pod(side, container("init", "100"), app=(container("a", "60"), container("b", "30")))
    assert by.sizes_after_reuse(made, name, "memory") == sizes
