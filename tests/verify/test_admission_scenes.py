"""Verification of admission on small scenes: one row a fact that decides, about the pod ``a``."""

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodResized, PodTerminated
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint
from kubeledger.verify import Contradiction
from tests.verify.admission_world import (
    CRITICAL,
    Step,
    add,
    admitted,
    asks,
    findings_of,
    identity,
    judge,
    listed,
    preempted,
    ran,
    refused,
    start,
)
from tests.verify.histories import kubelet_of

OLD, NEW = "1.20.2", "1.36.2"
NIC, HUGE = "ns.example/nic", "hugepages-2Mi"


def short_of(resource: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    """The kubelet's words."""
    amounts = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}"


WRAPPED = tuple(
    words.replace("have enough", "have\tenough").replace(": h", ":h")
    for words in short_of(HUGE, 4194304, 0, 2097152)
)


def reported(*steps: Any) -> str | tuple[str, ...]:  # noqa: ANN401 # steps, and lists of them
    (finding,) = findings_of(judge(*steps), "a")
    return finding.missing or finding.verdict


def node_object(at: float, *taints: dict[str, str], **amounts: str) -> Step:
    capacity = {"cpu": "1", "memory": "1Gi", **{n.replace("_", "-"): q for n, q in amounts.items()}}
    labels = {"kubernetes.io/os": "linux"}
    return at, NodeObserved(
        labels=labels, taints=taints, capacity=capacity, cpus=1, memory_capacity_bytes=1 << 30
    )


def signal(name: str, available: int) -> Step:
    return 10, EvictionSignalObserved(signal=name, available=available, capacity=1000)


def sidecar(version: str, **gates: bool) -> list[Any]:
    pod = listed("a", initContainers=[{"name": "s", "restartPolicy": "Always"}])
    return [start(version, featureGates=gates), admitted("a", 1), pod]


NAMED: dict[str, Any] = {"--hostname-override": "node-t"}
MISNAMED = "NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"
AFFINITY = ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node "
            "affinity/selector")  # fmt: skip
TAINTED = ("TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod "
           "didn't tolerate")  # fmt: skip
PORTS = ("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the "
         "requested pod ports")  # fmt: skip
TAINT = {"key": "gone", "value": "", "effect": "NoExecute"}
STANDS = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute"}
    for name in ("not-ready", "unreachable")
]
PAGED = asks("100m", **{HUGE: "4Mi"})
NO_PAGES = (f"the node's capacity of {HUGE}",)
LET_IN = [*start(), *admitted("a", 1)]
PICKY = listed("a", nodeSelector={"disk": "ssd"})
HDD = (950, NodeObserved(labels={"disk": "hdd"}))
ELSEWHERE = listed("a", nodeName="other")
BOUND = [step for n in (1, 2) for step in (*admitted(f"b{n}", n), listed(f"b{n}"))]
PORT = {"name": "c", "ports": [{"hostPort": 80}]}
TAKEN = [*admitted("b", 1), listed("b", PORT), listed("a", PORT)]
LOW = start(evictionHard={"memory.available": "100"})
ALL_PODS = signal("allocatableMemory.available", 1)
TOLERANT = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]
SCALARS = (0.15, NodeObserved(capacity={"cpu": "1", "memory": "1Gi", "pods": "10"},
                              allocatable={"x.io/a": "1", "x.io/b": "1"}))  # fmt: skip
BOTH = listed("a", {"resources": {"requests": {"x.io/a": "2", "x.io/b": "2"}}})
LATE = [step for step in start() if not isinstance(step[1], NodeObserved)]

ROWS: dict[str, tuple[list[Any], str | tuple[str, ...]]] = {
    "no kubeReserved": ([start(kubeReserved=None), admitted("a", 1), listed("a", asks("1m"))],
                        ("the setting kubeReserved",)),
    "an amount that is none": ([start(systemReserved={"cpu": "much"}), admitted("a", 1),
                                listed("a", asks("1m"))], ("readable reservations",)),
    "no maxPods": ([start(maxPods=None), admitted("a", 1), listed("a", asks("1m"))],
                   ("the setting maxPods",)),
    "no machine, and it asks for nothing": ([LATE, admitted("a", 1), listed("a")], "match"),
    "no machine": ([LATE, admitted("a", 1), listed("a", asks("1m"))],
                   ("the node's capacity of cpu", "the node's capacity of memory")),
    "a refused pod, and one that had ended, do not count": (
        [
            start(), refused("r", 1, *short_of("cpu", 1100, 0, 1000)), listed("r", asks("1100m")),
            add("old", 1.5), listed("old", asks("900m"), at=0.5, status={"phase": "Succeeded"}),
            admitted("a", 2), listed("a", asks("1")),
        ],
        "match",
    ),
    "pages of an unknown number, refused": (
        [start(), refused("a", 1, *short_of(HUGE, 4194304, 0, 0)), listed("a", PAGED)], NO_PAGES
    ),
    "pages of an unknown number": ([LET_IN, listed("a", PAGED)], NO_PAGES),
    "pages of an unknown number, critical": ([LET_IN, listed("a", PAGED, priority=2_000_000_000)],
                                             NO_PAGES),
    "another reason than pages": ([start(), refused("a", 1, *short_of("cpu", 100, 0, 1000)),
                                   listed("a", PAGED)], "impossible"),
    "too few pages": ([start(), node_object(0.3, hugepages_2Mi="2Mi"), listed("a", PAGED),
                       refused("a", 1, *short_of(HUGE, 4194304, 0, 2097152))], "match"),
    "too few pages, in words that were wrapped": (
        [start(), node_object(0.3, hugepages_2Mi="2Mi"), listed("a", PAGED),
         refused("a", 1, *WRAPPED)], "match",
    ),
    "enough pages": ([LET_IN, node_object(0.3, hugepages_2Mi="4Mi"), listed("a", PAGED)], "match"),
    "another node's pod": ([start(**NAMED), refused("a", 1, *MISNAMED), ELSEWHERE], "match"),
    "this node's pod": ([start(**NAMED), refused("a", 1, *MISNAMED), listed("a")], "impossible"),
    "the name by other pods": ([start(), BOUND, refused("a", 9, *MISNAMED), ELSEWHERE], "match"),
    "no name": ([start(), refused("a", 1, *MISNAMED), ELSEWHERE], ("the node's name",)),
    "another name than told": ([start(**NAMED), admitted("a", 1), ELSEWHERE], "admissible"),
    "labels not known": ([LET_IN, PICKY], ("the node's labels",)),
    "labels": ([start(), refused("a", 1, *AFFINITY), PICKY, HDD], "match"),
    "labels, let in": ([LET_IN, PICKY, HDD], "impossible"),
    "a port that is taken": ([start(), TAKEN, refused("a", 2, *PORTS)], "match"),
    "a port that is taken, let in": ([start(), TAKEN, admitted("a", 2)], "impossible"),
    "the first of two scalars": ([start(), SCALARS, refused("a", 1, *short_of("x.io/a", 2, 0, 1)),
                                  BOTH], "match"),
    "the other one": ([start(), SCALARS, refused("a", 1, *short_of("x.io/b", 2, 0, 1)), BOTH],
                      "admissible"),
    "tainted": ([start(), node_object(0.3, TAINT), refused("a", 1, *TAINTED), listed("a")],
                "match"),
    "tainted, another reason": ([start(), node_object(0.3, TAINT), refused("a", 1, *AFFINITY),
                                 listed("a")], "impossible"),
    "tainted, let in": ([LET_IN, node_object(0.3, TAINT), listed("a")], "impossible"),
    "a taint that goes": ([LET_IN, listed("a"), node_object(0.3, TAINT), node_object(5)],
                          ("the node's taints at this time",)),
    "a taint that comes": ([LET_IN, listed("a"), node_object(5, TAINT)],
                           ("the node's taints at this time",)),
    "a taint of moments": ([start(), node_object(0.3), refused("a", 1, *TAINTED), listed("a")],
                           ("the node's taints at this time",)),
    "no taint": ([start(), node_object(0.3), refused("a", 1, *TAINTED),
                  listed("a", tolerations=STANDS)], "impossible"),
    "short of memory, BestEffort": ([LOW, signal("memory.available", 1), admitted("a", 20),
                                     listed("a")], "impossible"),
    "short of memory, Burstable": ([LOW, signal("memory.available", 1), admitted("a", 20),
                                    listed("a", asks("1m"))], "match"),
    "short of memory, tolerant": ([LOW, signal("memory.available", 1), admitted("a", 20),
                                   listed("a", tolerations=TOLERANT)], "match"),
    "pods short of memory": ([LOW, ALL_PODS, admitted("a", 20), listed("a")], "match"),
    "pods short of memory, enforced": ([start(evictionHard={"memory.available": "100"},
                                              enforceNodeAllocatable=["pods"]), ALL_PODS,
                                        admitted("a", 20), listed("a")], "impossible"),
    "sidecars in 1.28": (sidecar("1.28.4", SidecarContainers=True), "match"),
    "no sidecars in 1.28": (sidecar("1.28.4"), "impossible"),
    "sidecars in 1.30": (sidecar("1.30.0"), "match"),
    "no sidecars in 1.30": (sidecar("1.30.0", SidecarContainers=False), "impossible"),
    "a handler that is not run here": ([start(), refused("a", 1, "AppArmor", "for some cause"),
                                        listed("a")], ("the node's AppArmor profiles",)),
    "features that the node lacks": (
        [start(), refused("a", 1, "PodFeatureUnsupported", "for some feature"), listed("a")],
        ("the features that the node declares",),
    ),
    "a late handler, and no room": ([start(), refused("a", 1, "AppArmor", "for some cause"),
                                     listed("a", asks("2"))], "impossible"),
    "an early handler, and no room": (
        [start(), refused("a", 1, "SysctlForbidden", "for some cause"), listed("a", asks("2"))],
        ("the sysctls that the kubelet allows",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), ROWS.values(), ids=list(ROWS))
def test_what_decides(steps: list[Any], expected: str | tuple[str, ...]) -> None:
    assert reported(*steps) == expected


@pytest.mark.parametrize("version", [OLD, NEW])
def test_what_managers_refuse(version: str) -> None:
    """The topology and device managers come before the predicates; their words are the pod's."""
    no_hint = AffinityDecided(
        **identity("a"), container="c", hint=Hint(numa_nodes=None, preferred=False), admit=False
    )
    topology = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
    world: list[Any] = [start(version), listed("a")]
    assert reported(*world, refused("a", 1, *topology), (1.005, no_hint)) == "match"
    wrapped = topology[0], topology[1].replace(" ", " \t")
    assert reported(*world, refused("a", 1, *wrapped), (1.005, no_hint)) == "match"
    assert reported(*world, admitted("a", 1), (1.005, no_hint)) == "impossible"
    failed = AllocationFailed(
        **identity("a"), container="c", resource="x/y", error="no devices", requested=1
    )
    words = ("UnexpectedAdmissionError", "Allocate failed due to no devices, which is unexpected")
    for at in (1.005, 1.02):  # at low verbosity the same line tells it, and it comes behind
        assert reported(*world, refused("a", 1, *words), (at, failed)) == "match"
        other = (words[0], words[1].replace("no", "two"))
        assert reported(*world, refused("a", 1, *other), (at, failed)) == "impossible"
    missing = ("what the device, CPU and memory managers held",)
    assert reported(*world, refused("a", 1, *words)) == missing


def test_a_status_that_tells_another_refusal() -> None:
    """Both sides are shown; that its deadline passed then is no refusal."""
    late = "Pod was active on the node longer than the specified deadline"
    right = short_of("cpu", 2000, 0, 1000)
    for reason, message in (
        (right[0], f"Pod {right[1]}"),
        (right[0], "Pod was rejected: other words"),
        ("DeadlineExceeded", late),
    ):
        status = {"phase": "Failed", "reason": reason, "message": message}
        pod = listed("a", asks("2"), status=status)
        found = judge(start(), refused("a", 1, *right), pod)
        contradictions = [o for o in found if isinstance(o, Contradiction)]
        assert len(contradictions) == ("other words" in message)
        assert findings_of(found, "a")[0].verdict == "match"


@pytest.mark.parametrize(("allocated", "verdict"), [(True, "impossible"), (False, "match")])
def test_a_resize_in_place_counts_from_its_allocation_on(allocated: bool, verdict: str) -> None:
    """Until then the pod counts with what it was admitted with, whatever its spec asks for."""
    wanted = {"c": {"requests": {"cpu": "900m"}}}
    outcome: Any = "allocated" if allocated else "deferred"
    resize = PodResized(**identity("grows"), outcome=outcome, resources=wanted)
    found = judge(
        start("1.35.0"),
        admitted("grows", 10),
        listed("grows", asks(cpu="100m"), at=15),
        ran("grows", 16),
        (20, resize),
        listed("grows", asks(cpu="900m"), at=25),
        admitted("next", 30),
        listed("next", asks(cpu="500m"), at=35),
    )
    assert [each.verdict for each in findings_of(found, "next")] == [verdict]


def test_a_pod_that_had_ended_does_not_come_back_with_a_late_admission() -> None:
    """What only a later list shows of its admission is told at the end of the log."""
    gone = PodTerminated(**identity("gone"))
    late = PodAdmitted(**identity("gone"), inferred=True)
    found = judge(
        start("1.36.2"),
        add("gone", 10),
        listed("gone", asks(cpu="900m"), at=11),
        (12, gone),
        admitted("next", 60),
        listed("next", asks(cpu="500m"), at=65),
        (100, late),
    )
    assert [each.verdict for each in findings_of(found, "next")] == ["match"]


def test_victims_of_a_process_that_did_not_live_to_decide() -> None:
    found = judge(
        start("1.35.0"),
        admitted("victim", 10),
        ran("victim", 11),
        listed("victim", asks(cpu="600m"), at=12),
        add("small", 30),
        add("vital", 30),
        preempted("victim", "vital", 31, ("cpu", 300), evicted=None),
        (31.5, PodAdmitted(**identity("small"))),
        listed("vital", asks(cpu="700m"), priority=CRITICAL, at=32),
        listed("small", asks(cpu="10m"), at=32),
        (40, kubelet_of("1.35.0", pid=2, restart=True, from_start=True)),
    )
    assert [each.verdict for each in findings_of(found, "victim")][-1] == "match"
