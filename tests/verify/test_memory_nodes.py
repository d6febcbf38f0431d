"""Memory of several NUMA nodes: the static policy is followed, and each other place is a lie."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.bodies.node import Setting, SettingsObserved
from kubeledger.model.bodies.resourcemanagers import (
    AffinityDecided,
    Hint,
    HintsGenerated,
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryStateRefused,
    MemoryTable,
    NUMANodeMemory,
)
from kubeledger.model.record import Body, Record
from kubeledger.verify import RECORDED, Variant
from kubeledger.verify.finding import Finding
from kubeledger.verify.rules.devices.rule import DeviceVerifier
from kubeledger.verify.rules.memory import MemoryVerifier
from tests.verify.histories import findings, kubelet_of, nothing_but, scene, settings_told

GIB = 1 << 30
NO_NODES = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is "
    "available"
)


alone = nothing_but(DeviceVerifier, MemoryVerifier)


def pod(name: str, gib: int) -> list[tuple[float, Body]]:
    """A Guaranteed pod that the kubelet knows before anything is decided."""
    amounts = {"cpu": "1", "memory": f"{gib}Gi"}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    whose: dict[str, Any] = {"namespace": "ns", "pod": name, "pod_uid": name}
    listed = PodListed(
        **whose, listed_by="kubelet", spec={"containers": [container]},
        status={"phase": "Running", "qosClass": "Guaranteed"},
    )  # fmt: skip
    return [(0.2, listed), (0.3, PodConfigChanged(**whose, operation="ADD", source="api"))]


def aligned(name: str, nodes: tuple[int, ...] | None, *, preferred: bool = True) -> AffinityDecided:
    return AffinityDecided(
        namespace="ns", pod=name, pod_uid=name, container="c", policy="best-effort", admit=True,
        hint=Hint(numa_nodes=nodes, preferred=preferred),
    )  # fmt: skip


def given(name: str, gib: int, *nodes: int) -> MemoryAllocated:
    block = MemoryBlock(numa_nodes=nodes, type="memory", size_bytes=gib * GIB)
    return MemoryAllocated(namespace="ns", pod=name, pod_uid=name, container="c", blocks=(block,))


def failed(name: str, error: str = NO_NODES) -> MemoryAllocationFailed:
    return MemoryAllocationFailed(
        namespace="ns", pod=name, pod_uid=name, container="c", error=error
    )


def state_file(*pods: tuple[str, int, tuple[int, ...]]) -> MemoryManagerStateRead:
    """Three nodes of 4 GiB, and pods that have memory of them, node after node."""
    free = [4, 4, 4]
    groups: list[tuple[int, ...]] = [(0,), (1,), (2,)]
    for _, gib, nodes in pods:
        for node in nodes:
            taken = min(gib, free[node])
            free[node], gib, groups[node] = free[node] - taken, gib - taken, nodes
    return MemoryManagerStateRead(
        policy="Static", checksum=1, checksum_ok=True,
        machine={
            str(node): NUMANodeMemory(
                assignments=sum(node in nodes for _, _, nodes in pods),
                group=groups[node],
                memory={
                    "memory": MemoryTable(
                        total_bytes=5 * GIB, system_reserved_bytes=GIB,
                        allocatable_bytes=4 * GIB, reserved_bytes=(4 - free[node]) * GIB,
                        free_bytes=free[node] * GIB,
                    )
                },
            )
            for node in range(3)
        },
        assignments={
            name: {"c": (MemoryBlock(numa_nodes=nodes, type="memory", size_bytes=gib * GIB),)}
            for name, gib, nodes in pods
        },
    )  # fmt: skip


def begun(version: str = "1.36.2", policy: str = "best-effort") -> list[tuple[float, Body]]:
    """A process that found no state file, and what its first one shows."""
    return [
        (0, kubelet_of(version)),
        (0.1, settings_told({"topologyManagerPolicy": policy})),
        (0.1, MemoryManagerStarted(policy="Static", restored=False)),
        (0.15, state_file()),
    ]


def judged(
    steps: Sequence[tuple[float, Body]],
    variant: Variant = RECORDED,
    manager: str = "memorymanager.",
) -> list[Finding]:
    steps = [*steps, *((100, body) for _, body in pod("z", 1))]
    records: list[Record] = scene(*sorted(steps, key=lambda step: step[0]))
    return [found for found in findings(records, variant) if found.kind.startswith(manager)]


WIDE = [*begun(), *pod("a", 6), *pod("b", 3), *pod("c", 3), *pod("d", 9)]
TRUE: list[tuple[float, Body]] = [
    *WIDE,
    (1.0, aligned("a", (0, 1))),
    (1.1, given("a", 6, 0, 1)),
    (2.0, aligned("b", (2,))),
    (2.1, given("b", 3, 2)),
    # Node 2 is used alone, and the group has too little: the affinity is extended to nothing.
    (3.0, aligned("c", (2,), preferred=False)),
    (3.1, failed("c", "[memorymanager] failed to find NUMA nodes to extend the current topology "
                 "hint")),
    (4.0, aligned("d", None)),
    (4.1, failed("d")),
]  # fmt: skip


def changed(at_s: float, body: Body) -> list[tuple[float, Body]]:
    return [(at, body if at == at_s else each) for at, each in TRUE]


def test_a_true_history() -> None:
    """A group, a node alone, and two that find nothing: each has one outcome."""
    assert [found.verdict for found in judged(TRUE)] == ["match"] * 4


@pytest.mark.parametrize(
    ("steps", "number", "words"),
    [
        (changed(1.1, given("a", 6, 0, 2)), 0, "it gets memory of NUMA node 0, 1, not 0, 2"),
        (changed(1.1, given("a", 6, 0, 1, 2)), 0, "it gets memory of NUMA node 0, 1, not 0, 1, 2"),
        (changed(1.1, failed("a")), 0, "it gets memory of NUMA node 0, 1"),
    ],
)
def test_lies_about_the_first(steps: list[tuple[float, Body]], number: int, words: str) -> None:
    """Nobody else has anything: other nodes, or a refusal, cannot have come out."""
    found = judged(steps)[number]
    assert (found.verdict, words in found.why) == ("impossible", True), found.why


def test_without_an_affinity_the_smallest_group() -> None:
    """Under policy none nothing is stored; of equals the lowest node is taken."""
    begin = [*begun(policy="none"), *pod("a", 3)]
    assert judged([*begin, (1.0, given("a", 3, 0))])[0].verdict == "match"
    assert judged([*begin, (1.0, given("a", 3, 1))])[0].verdict == "impossible"


@pytest.mark.parametrize(
    ("entries", "verdict"),
    [([("a", 6, (0, 1)), ("b", 1, (1,))], "admissible"), ([("a", 6, (0, 1))], "unverifiable")],
)
def test_a_start_that_is_refused_by_chance(
    entries: list[tuple[str, int, tuple[int, ...]]], verdict: str
) -> None:
    """The last entry that is on node 1 says which group it is in."""
    refused = MemoryStateRefused(
        error="[memorymanager] the expected machine state is different from the real one"
    )
    steps: list[tuple[float, Body]] = [
        *begun()[:3],
        *pod("a", 6),
        *pod("b", 1),
        (1.0, state_file(*entries)),
        (20.0, kubelet_of(pid=2)),
        (20.1, refused),
    ]
    (found,) = [each for each in judged(steps) if each.kind == refused.kind]
    assert found.verdict == verdict
    assert ("by the order in which the kubelet reads them" in found.why) is (
        verdict == "admissible"
    )


@pytest.mark.parametrize(("reserved_gib", "verdict"), [(2, "match"), (3, "impossible")])
def test_a_refusal_by_the_settings(reserved_gib: int, verdict: str) -> None:
    """What the kubelet expects to be reserved is what its settings reserve."""
    stored, expected = (
        MemoryTable(total_bytes=5 * GIB, system_reserved_bytes=gib * GIB,
                    allocatable_bytes=(5 - gib) * GIB, reserved_bytes=0,
                    free_bytes=(5 - gib) * GIB)
        for gib in (1, reserved_gib)
    )  # fmt: skip
    kept = msgspec.json.encode([{"numaNode": 0, "limits": {"memory": "2Gi"}}]).decode()
    refused = MemoryStateRefused(
        error="x", numa_node=0, type="memory", stored=stored, expected=expected
    )
    (found,) = judged([
        (0.0, kubelet_of()),
        (0.05, SettingsObserved(settings={"reservedMemory": Setting(value=kept, source="config")})),
        (0.1, refused),
    ])  # fmt: skip
    assert found.verdict == verdict


def reserving(*gib: int) -> Variant:
    """Another ``reservedMemory`` of the three nodes."""
    reserved = [
        {"numaNode": node, "limits": {"memory": f"{each}Gi"}} for node, each in enumerate(gib)
    ]
    return Variant(settings={"reservedMemory": reserved})


def test_what_if_more_is_reserved() -> None:
    """Node 2 has 4 GiB for pods; with 2 GiB more kept of it, 3 GiB do not fit there."""
    steps = [*begun(), *pod("b", 3), (2.0, aligned("b", (2,))), (2.1, given("b", 3, 2))]
    assert judged(steps, reserving(2, 1, 1))[0].verdict == "match"
    (found,) = judged(steps, reserving(1, 1, 3))
    assert (found.verdict, found.expected) == ("impossible", {"blocks": None})
    assert "failed to find the extended preferred hint" in found.why


@pytest.mark.parametrize(
    ("reserved", "verdict"), [((1, 1, 1), "match"), ((2, 1, 1), "match"), ((3, 1, 1), "impossible")]
)
def test_what_if_the_hints_were_others(reserved: tuple[int, int, int], verdict: str) -> None:
    """The memory manager offers what fits, and the topology manager merges that."""
    hints = tuple(Hint(numa_nodes=(node,), preferred=True) for node in range(3))
    merged = aligned("b", (0,))
    offered = HintsGenerated(
        namespace="ns", pod="b", pod_uid="b", container="c", hints={"memory": hints}
    )
    steps = [*begun(), *pod("b", 3), (1.9, offered), (2.0, merged)]
    records = scene(*sorted(steps, key=lambda step: step[0]))
    seq = next(record.seq for record in records if record.body == offered)
    records = [
        msgspec.structs.replace(record, cause=seq) if record.body == merged else record
        for record in records
    ]
    (found,) = findings(records, reserving(*reserved), AffinityDecided.kind)
    assert found.verdict == verdict
    if verdict == "impossible":
        assert found.expected is not None
        assert found.expected["hint"] == {"numa_nodes": [1], "preferred": True}


def test_what_if_nobody_was_given_memory() -> None:
    """The manager without a policy decides nothing, and offers nothing."""
    off = Variant(settings={"memoryManagerPolicy": "None"})
    found = judged(TRUE, off)
    assert {each.verdict for each in found} == {"impossible"}
    assert {each.expected is None for each in found} == {True}
