"""``memory_manager_state``: recorded ones, the form of 1.36, and broken ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.kubelet.kube.checkpoints import MalformedCheckpointError
from kubeledger.kubelet.memorymanager.checkpoint import read_memory_manager_state
from kubeledger.model.bodies.memorymanager import MemoryBlock

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


def test_a_reserve_greater_than_the_total() -> None:
    """Go's unsigned difference is near 2^64, and meant as a negative number."""
    body = read_memory_manager_state(recorded("v1.30.14.underflow.memory_manager_state.json"))
    table = body.machine["0"].memory["memory"]
    assert body.checksum_ok is True
    assert table.allocatable_bytes == table.total_bytes - table.system_reserved_bytes < 0


def _grow(data: dict[str, Any]) -> None:
    data["machineState"]["0"]["memoryMap"]["memory"]["free"] += 1


def _regroup(data: dict[str, Any]) -> None:
    data["machineState"]["0"]["cells"] = [0, 1]


def _drop(data: dict[str, Any]) -> None:
    data["entries"].popitem()


def _move(data: dict[str, Any]) -> None:
    for containers in data["entries"].values():
        for blocks in containers.values():
            blocks[0]["numaAffinity"] = [1]


@pytest.mark.parametrize("change", [_grow, _regroup, _drop, _move])
def test_changed_content_does_not_fit_the_checksum(change: Any) -> None:  # noqa: ANN401
    """Every part is hashed."""
    data = copy.deepcopy(recorded())
    change(data)
    assert read_memory_manager_state(data).checksum_ok is False


def test_checksums_that_cannot_be_checked() -> None:
    """Pod entries (1.36, behind a gate) are hashed in a form that is not computed here."""
    data = recorded() | {"podEntries": {"u": {}}}
    assert read_memory_manager_state(data).checksum_ok is None


@pytest.mark.parametrize(
    "change",
    [
        {"policyName": 1},
        {"machineState": {"x": {}}},
        {"machineState": {"0": {"numberOfAssignments": -1, "cells": [0]}}},
        {"entries": {"u": {"c": [{"numaAffinity": ["0"], "type": "memory", "size": 1}]}}},
    ],
)
def test_malformed(change: dict[str, Any]) -> None:
    """Parts of another type are refused."""
    with pytest.raises(MalformedCheckpointError):
        read_memory_manager_state(recorded() | change)
