"""The simulated memory manager: what is given is what verification decides, and nothing else is."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.resourcemanagers import (
    CpuManagerStateRead,
    CpusReleased,
    HintsGenerated,
    MemoryAllocated,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ContainerScript, ExitStep, KubeletRestart, PlannedPod
from kubeledger.simulate.engine.sim import Sim
from kubeledger.verify.finding import Finding, Violation
from tests.simulate.engine.scenes import GIB, container, of_kind, outcomes, plan, planned

S = NS_PER_S
VERSIONS = ("1.28.0", "1.30.14", "1.33.13", "1.34.9", "1.36.2")


def asks(mib: int, name: str = "app", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    amounts = {"cpu": "100m", "memory": f"{mib}Mi"}
    return container(name, amounts, amounts, **more)


PODS: tuple[PlannedPod, ...] = (
    planned("a", asks(1000), at_s=10),
    planned("b", asks(500), at_s=20,
            initContainers=[asks(1500, "prepare"), asks(200, "beside", restartPolicy="Always")],
            scripts={"prepare": ContainerScript(exits=(ExitStep(after_ns=S, code=0),))}),
    planned("c", asks(2500), at_s=30, deleted_s=60),
    planned("d", asks(1800), at_s=40),
    planned("e", asks(1800), at_s=80),
    planned("f", asks(100), asks(150, "more"), at_s=90),
)  # fmt: skip


def machine(version: str, *pods: PlannedPod, **settings: Any) -> list[Record]:  # noqa: ANN401
    """Pods on 8 GiB in four NUMA nodes of which 356 MiB are kept; the kubelet restarts."""
    made = plan(
        *(pods or PODS),
        version=version,
        settings={
            "memoryManagerPolicy": "Static",
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "356Mi"}}],
            "featureGates": {"SidecarContainers": True},
            **settings,
        },
        numa=(0, 1, 2, 3),
        kubelet_restarts=(KubeletRestart(at_ns=70 * S, down_ns=5 * S),),
    )
    return list(Sim(made).run())


def of_memory(found: list[Record]) -> dict[int, Finding]:
    return {
        each.seq: each
        for each in outcomes(found)
        if isinstance(each, Finding) and each.kind.startswith("memorymanager.")
    }


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_given_is_verified(version: str, policy: str) -> None:
    found = machine(version, topologyManagerPolicy=policy)
    findings = of_memory(found).values()
    assert {each.verdict for each in findings if each.kind != MemoryStateRefused.kind} == {"match"}
    assert len(of_kind(found, MemoryAllocated.kind)) >= 4
    assert of_kind(found, MemoryReleased.kind)


def test_memory_of_several_nodes() -> None:
    """One that is larger than a node gets a group, which takes no other in."""
    found = machine("1.36.2", topologyManagerPolicy="best-effort")
    given = {b.pod: b.blocks[0].numa_nodes for b in of_kind(found, MemoryAllocated.kind)}
    assert given == {"a": (0,), "b": (1,), "c": (2, 3), "e": (2,), "f": (0,)}
    (refused, *_) = of_kind(found, "memorymanager.MemoryAllocationFailed")
    assert refused.pod == "d"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_no_other_nodes_could_have_been(version: str) -> None:
    found = machine(version, topologyManagerPolicy="best-effort")
    lies = 0
    for index, record in enumerate(found):
        body = record.body
        if not isinstance(body, MemoryAllocated) or not body.blocks:
            continue
        (block,) = body.blocks
        for nodes in ((0,), (3,), (0, 1), (2, 3)):
            if nodes == block.numa_nodes:
                continue
            other = (msgspec.structs.replace(block, numa_nodes=nodes),)
            story = [*found]
            story[index] = msgspec.structs.replace(
                record, body=msgspec.structs.replace(body, blocks=other)
            )
            verdict = of_memory(story)[record.seq].verdict
            assert verdict != "match", (body, nodes)
            lies += verdict == "impossible"
    assert lies >= 12


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_other_hints_are_contradicted(scope: str) -> None:
    """Where it is known what everybody had; the policy offers one list and no other."""
    found = machine("1.36.2", topologyManagerPolicy="best-effort", topologyManagerScope=scope)
    assert not [each for each in outcomes(found) if not isinstance(each, Finding)]
    lies = 0
    for index, record in enumerate(found):
        body = record.body
        if not isinstance(body, HintsGenerated) or not (told := body.hints.get("memory")):
            continue
        other = (msgspec.structs.replace(told[0], preferred=not told[0].preferred), *told[1:])
        lied = msgspec.structs.replace(body, hints={**body.hints, "memory": other})
        story = [*found]
        story[index] = msgspec.structs.replace(record, body=lied)
        against = [each for each in outcomes(story) if not isinstance(each, Finding)]
        lies += any("offer other NUMA nodes for memory" in each.why for each in against)
    assert lies >= 4


def test_the_state_file_is_kept() -> None:
    """A new process has what the file shows, and the file is recorded when it changes."""
    found = machine("1.36.2")
    first, second = of_kind(found, "memorymanager.MemoryManagerStarted")
    assert (first.restored, second.restored) == (False, True)
    files = of_kind(found, MemoryManagerStateRead.kind)
    assert len(files) >= 5
    assert all(file.checksum_ok for file in files)


def overlapping(seed: int) -> list[Record]:
    """A node that one container uses alone, and another, for its CPUs, with its neighbour."""
    wide = {"cpu": "5", "memory": "2100Mi"}
    made = plan(
        planned("alone", asks(1500), at_s=10),
        planned("wide", container("app", wide, wide), at_s=20),
        version="1.30.14",
        seed=seed,
        cpus=8,
        settings={
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": "Static",
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "356Mi"}}],
            "topologyManagerPolicy": "best-effort",
        },
        numa=(0, 1),
        kubelet_restarts=(KubeletRestart(at_ns=70 * S, down_ns=5 * S),),
    )
    node = msgspec.structs.replace(made.node, memory_bytes=4 * GIB)
    return list(Sim(msgspec.structs.replace(made, node=node)).run())


def test_a_start_that_is_refused_by_chance() -> None:
    """Groups that overlap, until 1.31: which entry is read last, the seed says."""
    refused = 0
    for seed in range(8):
        found = overlapping(seed)
        told = [each for each in outcomes(found) if isinstance(each, Violation)]
        assert {each.invariant for each in told} == {"memory_groups_overlap"}
        ended = of_kind(found, MemoryStateRefused.kind)
        assert len(of_kind(found, "node.KubeletExited")) == len(ended)
        assert {each.verdict for each in of_memory(found).values()} <= {"match", "admissible"}
        refused += len(ended)
    assert 0 < refused < 8


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pods_that_are_given_something_as_a_whole(scope: str) -> None:
    """Only the state files show what; nothing of it is called impossible, or another's."""
    whole = {"cpu": "4", "memory": "1Gi"}
    part = {"cpu": "2", "memory": "256Mi"}
    of_pod: dict[str, Any] = {"resources": {"requests": whole, "limits": whole}}
    made = plan(
        planned("a", container("own", part, part), container("x"), container("y"), at_s=10,
                deleted_s=60, **of_pod),
        planned("b", container("own", part, part), at_s=20),
        planned("c", container("x"), at_s=80, **of_pod),
        planned("too-much", container("x"), at_s=90,
                resources={"requests": {"cpu": "6", "memory": "7Gi"},
                           "limits": {"cpu": "6", "memory": "7Gi"}}),
        cpus=8,
        numa=(0, 1),
        settings={"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static",
                  "reservedMemory": [{"numaNode": 0, "limits": {"memory": "356Mi"}}],
                  "topologyManagerPolicy": "restricted", "topologyManagerScope": scope,
                  "featureGates": {"PodLevelResourceManagers": True}},
        kubelet_restarts=(KubeletRestart(at_ns=100 * S, down_ns=5 * S),),
    )  # fmt: skip
    found = list(Sim(made).run())
    told = outcomes(found)
    assert not [each for each in told if not isinstance(each, Finding)]
    assert "impossible" not in {each.verdict for each in told if isinstance(each, Finding)}
    files = of_kind(found, CpuManagerStateRead.kind)
    assert any(file.pod_assignments for file in files) is (scope == "pod")
    refused = {body.pod: body.message for body in of_kind(found, "lifecycle.PodRejected")}
    said = "pod-level resources failed admission under pod-scope topology manager"
    # In scope container nothing asks for the pod's own amounts, and a container without any is
    # put on all NUMA nodes, of which another has one.
    assert ("a" in refused, said in refused.get("too-much", "")) == (scope != "pod", scope == "pod")
    assert {body.pod for body in of_kind(found, CpusReleased.kind)} >= {"a"}
