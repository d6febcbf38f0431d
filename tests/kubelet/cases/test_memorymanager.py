"""The memory manager: versions without recordings, starts by chance, crashes, bad claims."""

import copy
from typing import Any

import pytest

from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("memorymanager")
GIB = 1 << 30


def guaranteed(name: str = "c0", memory: str = "1Gi", **more: object) -> dict[str, Any]:
    """A container that limits what it requests."""
    amounts = {"cpu": "1", "memory": memory}
    return container(name, amounts, amounts, **more)


def allocate(uid: str, name: str = "c0", *nodes: int, preferred: bool = True) -> dict[str, Any]:
    """An allocation; without nodes anywhere."""
    affinity = list(nodes) or None
    step = {"op": "allocate", "pod": uid, "container": name, "affinity": affinity}
    return step | {"preferred": preferred}


def case_input(
    *steps: dict[str, Any], pods: list[dict[str, Any]], nodes: int = 2, **more: object
) -> dict[str, Any]:
    """Nodes of 4 GiB, of which the first keeps half a GiB."""
    by_uid = {each["metadata"]["uid"]: each for each in pods}
    return {
        "nodes": [{"id": n, "memory": 4 * GIB, "hugepages": []} for n in range(nodes)],
        "nodeAllocatableReservation": {"memory": "512Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "512Mi"}}],
        "pods": by_uid,
        "activePods": list(by_uid),
        "steps": list(steps),
        **more,
    }


def last(version: str, asked: dict[str, Any]) -> dict[str, Any]:
    step: dict[str, Any] = LINES.decided(version, asked)["steps"][-1]
    return step


@pytest.mark.parametrize("version", ["1.19.3", "1.20.2", "1.21.14"])
def test_versions_without_a_memory_manager(version: str) -> None:
    """1.21 has one behind its gate."""
    asked = case_input(allocate("a", "c0", 0), pods=[pod(guaranteed(), uid="a")])
    with pytest.raises(BadInputError, match="has no memory manager that is on"):
        LINES.decided(version, asked)
    if version == "1.21.14":
        asked["featureGates"] = {"MemoryManager": True}
        assert last(version, asked)["numaNodes"] == [0]


@pytest.mark.parametrize(
    ("version", "init", "entries"),
    [
        ("1.21.0", {}, {"i": 2 * GIB, "c0": GIB}),
        ("1.22.0", {}, {"c0": GIB}),
        ("1.28.0", {"restartPolicy": "Always"}, {"c0": GIB}),
        ("1.29.0", {"restartPolicy": "Always"}, {"i": 2 * GIB, "c0": GIB}),
    ],
)
def test_what_an_init_container_leaves(
    version: str, init: dict[str, Any], entries: dict[str, int]
) -> None:
    """Its memory since 1.22, a sidecar's not since 1.29; the entry goes with the next start."""
    asked = case_input(
        allocate("a", "i", 0),
        allocate("a", "c0", 0),
        {"op": "addContainer", "pod": "a", "container": "c0", "containerID": "x"},
        pods=[pod(guaranteed(), uid="a", initContainers=[guaranteed("i", "2Gi", **init)])],
        featureGates={"MemoryManager": True} if version.startswith("1.21") else {},
    )
    found = last(version, asked)["entries"]["a"]
    assert {name: blocks[0][2] for name, blocks in found.items()} == entries


@pytest.mark.parametrize(("version", "reserved"), [("1.22.0", 4 * GIB), ("1.23.0", 3 * GIB)])
def test_reuse_and_another_pod(version: str, reserved: int) -> None:
    """In 1.22 only the first container of a later pod uses its init container's memory again."""
    two = [
        pod(guaranteed(), guaranteed("c1"), uid=uid, initContainers=[guaranteed("i", f"{gib}Gi")])
        for uid, gib in (("a", 1), ("b", 2))
    ]
    steps = [allocate("a", "i", 1), *(allocate("b", name, 1) for name in ("i", "c0", "c1"))]
    found = last(version, case_input(*steps, pods=two))["machineState"]["1"]["memory"]["memory"]
    assert found[0] == reserved


@pytest.mark.parametrize(("version", "preferred"), [("1.22.0", True), ("1.23.0", False)])
def test_the_fewest_nodes_and_groups(version: str, preferred: bool) -> None:
    """In 1.22 nodes that are in a group do not count among the fewest that suffice."""
    pods = [pod(guaranteed(memory="5Gi"), uid="a"), pod(guaranteed(), uid="b")]
    hints = {"op": "hints", "pod": "b", "container": "c0"}
    asked = case_input(allocate("a", "c0", 0, 1), hints, pods=pods)
    assert last(version, asked)["hints"]["memory"] == [
        {"numaNodes": [0, 1], "preferred": preferred}
    ]


@pytest.mark.parametrize(("version", "extended"), [("1.21.0", False), ("1.22.0", True)])
def test_a_hint_is_extended_to_the_last_node(version: str, extended: bool) -> None:
    """Not in 1.21, where node 1 is the last of its group."""
    asked = case_input(
        allocate("a", "c0", 1),
        pods=[pod(guaranteed(memory="5Gi"), uid="a")],
        featureGates={"MemoryManager": True} if version.startswith("1.21") else {},
    )
    found = last(version, asked)
    assert found["numaNodes"] == ([0, 1] if extended else None)
    assert ("failed to find NUMA nodes to extend" in found["error"]) is not extended


@pytest.mark.parametrize(("version", "guarded"), [("1.31.0", False), ("1.32.0", True)])
def test_groups_that_would_overlap(version: str, guarded: bool) -> None:
    """Node 1 is used alone: since 1.32 it comes in no group."""
    pods = [pod(guaranteed(), uid="a"), pod(guaranteed(memory="2Gi"), uid="b")]
    asked = case_input(allocate("a", "c0", 1), allocate("b", "c0", 0, 1), pods=pods)
    assert last(version, asked)["error"] == (
        "[memorymanager] preferred hint violates NUMA node allocation" if guarded else ""
    )


def test_a_start_by_chance() -> None:
    """Node 1 is in a group and used alone: whichever entry is counted last decides."""
    pods = [pod(guaranteed(memory="5Gi"), uid="a"), pod(guaranteed(), uid="b")]
    steps = [allocate("a", "c0", 0, 1), allocate("b", "c0", 1, preferred=False), {"op": "restart"}]
    asked = case_input(*steps, pods=pods)
    started = LINES.decided("1.36.2", asked)
    assert started["steps"][-1]["error"] == ""
    refused = copy.deepcopy(started)
    text = "[memorymanager] the expected machine state is different from the real one"
    refused["steps"][-1] = {"error": text}
    assert LINES.judged("1.36.2", asked, started)[0] == "match"
    assert LINES.judged("1.36.2", asked, refused)[0] == "admissible"
    refused["steps"][-1] = {"error": "[memorymanager] other"}
    verdict, why = LINES.judged("1.36.2", asked, refused)
    assert (verdict, why.partition(": ")[0]) == ("impossible", "steps[2].error")


def test_claims_of_too_many_or_too_few_steps() -> None:
    """Each step has an outcome, until a start fails."""
    asked = case_input(allocate("a", "c0", 0), pods=[pod(guaranteed(), uid="a")])
    found = LINES.decided("1.36.2", asked)
    fewer, more = found | {"steps": []}, found | {"steps": found["steps"] * 2}
    assert LINES.judged("1.36.2", asked, fewer)[1].startswith("steps[0]: the claim has nothing,")
    assert LINES.judged("1.36.2", asked, more)[1].startswith("steps[1]: the claim has {")
    asked["reservedMemory"] = []
    failed = LINES.decided("1.36.2", asked)
    assert failed["steps"] == []
    assert LINES.judged("1.36.2", asked, failed | {"steps": found["steps"]})[0] == "impossible"


def test_where_the_kubelet_crashes() -> None:
    """A type of memory that a node has not: it reads a table that is not there."""
    asked = case_input({"op": "hints", "pod": "a", "container": "c0"}, pods=[])
    amounts = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}
    asked["pods"] = {"a": pod(container("c0", amounts, amounts), uid="a")}
    with pytest.raises(BadInputError, match=r"steps\[0\]: the kubelet crashes here: NUMA node 0"):
        LINES.decided("1.30.1", asked)
