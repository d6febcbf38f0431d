"""Every branch of the verification of admission and preemption, on small scenes."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.preemption import PreemptionFailed
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint
from kubeledger.verify import Contradiction, Finding, Outcome
from tests.verify.admission_world import (
    add,
    admitted,
    asks,
    findings_of,
    identity,
    judge,
    listed,
    preempted,
    refused,
    start,
)

OLD, NEW = "1.20.2", "1.36.2"
VERSIONS = [OLD, NEW]


def only(found: list[Outcome], name: str) -> Finding:
    """The one finding about a pod."""
    (finding,) = findings_of(found, name)
    return finding


def out_of_cpu(requested: int, used: int, capacity: int = 1000) -> str:
    """The kubelet's words."""
    return (
        f"Node didn't have enough resource: cpu, requested: {requested}, used: {used}, "
        f"capacity: {capacity}"
    )


# -- what is missing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "missing"),
    [(None, "the kubelet's version"), ("1.99.0", "the rules of kubelet 1.99.0")],
)
def test_without_rules(version: str | None, missing: str) -> None:
    """Nothing is decided by the rules of another version."""
    found = judge(
        start(version),
        admitted("a", 1),
        preempted("v", "a", 1.005),
        (
            2,
            PreemptionFailed(
                preemptor_namespace="ns",
                preemptor_pod="b",
                preemptor_uid=None,
                insufficient=(),
                error="e",
            ),
        ),
        listed("a"),
    )
    assert {f.missing for f in found if isinstance(f, Finding)} == {(missing,)}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"kubeReserved": None}, "the setting kubeReserved"),
        ({"evictionHard": None}, "the setting evictionHard"),
        ({"systemReserved": {"cpu": "much"}}, "readable reservations"),
        ({"maxPods": None}, "the setting maxPods"),
    ],
)
def test_without_settings(settings: dict[str, Any], missing: str) -> None:
    """Each is named."""
    found = judge(start(NEW, **settings), admitted("a", 1), listed("a", asks("1m")))
    assert only(found, "a").missing == (missing,)


def test_without_a_machine() -> None:
    """A pod that asks for nothing needs only the number of pods."""
    steps = [step for step in start() if not isinstance(step[1], NodeObserved)]
    found = judge(steps, admitted("a", 1), admitted("b", 2), listed("a"), listed("b", asks("1m")))
    assert only(found, "a").verdict == "match"
    assert only(found, "b").missing == (
        "the node's capacity of cpu",
        "the node's capacity of memory",
    )


# -- who counts ----------------------------------------------------------------------------


def test_a_refused_pod_does_not_count() -> None:
    """Neither does one that had ended before this kubelet began."""
    found = judge(
        start(),
        refused("a", 1, "OutOfcpu", out_of_cpu(1100, 0)),
        add("old", 1.5),
        admitted("b", 2),
        listed("a", asks("1100m")),
        listed("old", asks("900m"), at=0.5, status={"phase": "Succeeded"}),
        listed("b", asks("1000m")),
    )
    assert [only(found, name).verdict for name in "ab"] == ["match", "match"]
    assert "0 of 10 pods" in only(found, "b").why


# -- handlers before and behind the predicates -----------------------------------------------


def signal(at: float, available: int) -> Any:  # noqa: ANN401 # a step
    """The disk as the eviction manager reads it."""
    body = EvictionSignalObserved(signal="nodefs.available", available=available, capacity=1000)
    return at, body


def test_under_memory_pressure() -> None:
    """BestEffort pods that do not tolerate it are kept out, and no others."""
    short = EvictionSignalObserved(signal="memory.available", available=1, capacity=1000)
    toleration = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}
    found = judge(
        start(NEW, evictionHard={"memory.available": "100"}),
        (10, short),
        *(admitted(name, 20 + i) for i, name in enumerate("abc")),
        listed("a"),
        listed("b", asks("1m")),
        listed("c", tolerations=[toleration]),
    )
    assert [only(found, name).verdict for name in "abc"] == ["impossible", "match", "match"]


@pytest.mark.parametrize(
    ("enforced", "verdict"), [(["pods"], "impossible"), ([], "match"), (None, "match")]
)
def test_memory_of_all_pods_together(enforced: list[str] | None, verdict: str) -> None:
    """It has the hard threshold of the node's memory where it is enforced."""
    short = EvictionSignalObserved(signal="allocatableMemory.available", available=1, capacity=1000)
    hard = {"memory.available": "100"}
    found = judge(
        start(NEW, evictionHard=hard, enforceNodeAllocatable=enforced),
        (10, short),
        admitted("a", 20),
        listed("a"),
    )
    assert only(found, "a").verdict == verdict


@pytest.mark.parametrize("version", VERSIONS)
def test_what_managers_refuse(version: str) -> None:
    """The topology and device managers come before the predicates; their words are the pod's."""
    no_hint = AffinityDecided(
        **identity("a"),
        container="c",
        hint=Hint(numa_nodes=None, preferred=False),
        admit=False,
    )
    topology = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
    found = judge(start(version), refused("a", 1, *topology), (1.005, no_hint), listed("a"))
    assert only(found, "a").verdict == "match"
    found = judge(start(version), admitted("a", 1), (1.005, no_hint), listed("a"))
    assert only(found, "a").verdict == "impossible"
    failed = AllocationFailed(
        **identity("a"),
        container="c",
        resource="x/y",
        error="no devices",
        requested=1,
    )
    words = ("UnexpectedAdmissionError", "Allocate failed due to no devices, which is unexpected")
    for at in (1.005, 1.02):  # at low verbosity the same line tells it, and it comes behind
        found = judge(start(version), refused("a", 1, *words), (at, failed), listed("a"))
        assert only(found, "a").verdict == "match"
        other = (words[0], words[1].replace("no", "two"))
        found = judge(start(version), refused("a", 1, *other), (at, failed), listed("a"))
        assert only(found, "a").verdict == "impossible"
    found = judge(start(version), refused("a", 1, *words), signal(9, 500), listed("a"))
    assert only(found, "a").missing == ("what the device, CPU and memory managers held",)


@pytest.mark.parametrize("reason", ["SysctlForbidden", "AppArmor", "NodeShutdown"])
def test_handlers_that_are_not_run_here(reason: str) -> None:
    """What they look at is in no record; but a pod without room does not get to the late ones."""
    found = judge(start(), refused("a", 1, reason, "for some cause"), listed("a"))
    assert only(found, "a").verdict == "unverifiable"
    found = judge(start(), refused("a", 1, reason, "for some cause"), listed("a", asks("2")))
    late = reason != "SysctlForbidden"
    assert only(found, "a").verdict == ("impossible" if late else "unverifiable")
    found = judge(start(), refused("a", 1, reason, out_of_cpu(2000, 0)), listed("a", asks("2")))
    assert only(found, "a").verdict == "impossible"


def test_labels_ports_and_scalars() -> None:
    """Selectors need the node's labels; ports collide; the first of two scalars is random."""
    affinity = ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node "
                "affinity/selector")  # fmt: skip
    picky = listed("a", nodeSelector={"disk": "ssd"})
    assert only(judge(start(), admitted("a", 1), picky), "a").missing == ("the node's labels",)
    node = (950, NodeObserved(labels={"disk": "hdd"}))
    assert only(judge(start(), refused("a", 1, *affinity), picky, node), "a").verdict == "match"
    assert only(judge(start(), admitted("a", 1), picky, node), "a").verdict == "impossible"

    port = {"name": "c", "ports": [{"hostPort": 80}]}
    words = ("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the "
             "requested pod ports")  # fmt: skip
    ports = [listed("a", port), listed("b", port)]
    found = judge(start(), admitted("a", 1), refused("b", 2, *words), ports)
    assert only(found, "b").verdict == "match"
    assert only(judge(start(), admitted("a", 1), admitted("b", 2), ports), "b").verdict == (
        "impossible"
    )

    shown = (0.15, NodeObserved(capacity={"cpu": "1", "memory": "1Gi", "pods": "10"},
                                allocatable={"x.io/a": "1", "x.io/b": "1"}))  # fmt: skip
    for resource, verdict in (("x.io/a", "match"), ("x.io/b", "admissible")):
        message = (
            f"Node didn't have enough resource: {resource}, requested: 2, used: 0, capacity: 1"
        )
        found = judge(
            start(),
            shown,
            refused("a", 1, f"OutOf{resource}", message),
            listed("a", {"resources": {"requests": {"x.io/a": "2", "x.io/b": "2"}}}),
        )
        assert only(found, "a").verdict == verdict


# -- sources -----------------------------------------------------------------------------------


def test_a_status_that_tells_another_refusal() -> None:
    """Both sides are shown; that its deadline passed then is no refusal."""
    late = "Pod was active on the node longer than the specified deadline"
    for reason, prefix, told in (
        ("OutOfcpu", "Pod ", out_of_cpu(2000, 0)),
        ("OutOfcpu", "Pod was rejected: ", "other words"),
        ("DeadlineExceeded", "", late),
    ):
        status = {"phase": "Failed", "reason": reason}
        found = judge(
            start(),
            refused("a", 1, "OutOfcpu", out_of_cpu(2000, 0)),
            listed("a", asks("2"), status={**status, "message": prefix + told}),
        )
        contradictions = [o for o in found if isinstance(o, Contradiction)]
        assert len(contradictions) == (told == "other words")
        assert only(found, "a").verdict == "match"
