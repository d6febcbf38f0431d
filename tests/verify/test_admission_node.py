"""What the node is called, which taints it has, and how much of which resource."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import DevicesReported
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.verify import Finding, Variant
from tests.verify.admission_world import (
    Step,
    admitted,
    asks,
    findings_of,
    judge,
    listed,
    refused,
    start,
)

NIC = "ns.example/nic"
NICS = {"name": "c", "resources": {"requests": {NIC: "9"}}}
HUGE = "hugepages-2Mi"
PAGES = "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: {}"
TAINT = {"key": "gone", "value": "", "effect": "NoExecute"}
TAINTED = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
MISNAMED = "Predicate NodeName failed: node(s) didn't match the requested node name"
NAMED: dict[str, Any] = {"--hostname-override": "node-t"}
STANDS_SHORT_ONES = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute"}
    for name in ("not-ready", "unreachable")
]


def one(*steps: Any) -> Finding:  # noqa: ANN401 # steps, and lists of them
    """The finding about pod a."""
    (finding,) = findings_of(judge(*steps), "a")
    return finding


def node_object(at: float, *taints: dict[str, str], **amounts: str) -> Step:
    """A list shows the node object."""
    capacity = {"cpu": "1", "memory": "1Gi", **{n.replace("_", "-"): q for n, q in amounts.items()}}
    labels = {"kubernetes.io/os": "linux"}
    return at, NodeObserved(
        labels=labels, taints=taints, capacity=capacity, cpus=1, memory_capacity_bytes=1 << 30
    )


def paged(**spec: Any) -> Step:  # noqa: ANN401 # any field of a spec
    """Pod a asks for two huge pages."""
    return listed("a", asks("100m", **{HUGE: "4Mi"}), **spec)


def test_huge_pages_without_a_node_object() -> None:
    """Their number is not known: neither is whether the pod fits."""
    missing = (f"the node's capacity of {HUGE}",)
    refusal = refused("a", 1, f"OutOf{HUGE}", PAGES.format(0))
    assert one(start(), refusal, paged()).missing == missing
    assert one(start(), admitted("a", 1), paged()).missing == missing
    critical = paged(priority=2_000_000_000)
    assert one(start(), refusal, critical).missing == missing


def test_other_reasons_do_not_rest_on_huge_pages() -> None:
    """There is room for the pod's share of the CPU, however many pages there are."""
    cpu = "Node didn't have enough resource: cpu, requested: 100, used: 0, capacity: 1000"
    assert one(start(), refused("a", 1, "OutOfcpu", cpu), paged()).verdict == "impossible"
    much = listed("a", asks("1100m", **{HUGE: "4Mi"}))
    cpu = "Node didn't have enough resource: cpu, requested: 1100, used: 0, capacity: 1000"
    assert one(start(), refused("a", 1, "OutOfcpu", cpu), much).verdict == "match"


@pytest.mark.parametrize(
    ("pages", "capacity", "verdict"),
    [({}, 0, "match"), ({"hugepages_2Mi": "2Mi"}, 2097152, "match")],
)
def test_huge_pages_of_a_node_object(
    pages: dict[str, str], capacity: int, verdict: str
) -> None:  # parameters
    """What it does not hold is not there."""
    refusal = refused("a", 1, f"OutOf{HUGE}", PAGES.format(capacity))
    assert one(start(), node_object(0.3, **pages), refusal, paged()).verdict == verdict
    enough = node_object(0.3, hugepages_2Mi="4Mi")
    assert one(start(), enough, refusal, paged()).verdict == "impossible"
    assert one(start(), enough, admitted("a", 1), paged()).verdict == "match"


def test_another_node_s_pod() -> None:
    """The kubelet's name is set, and the pod is bound to another."""
    refusal = refused("a", 1, "NodeName", MISNAMED)
    named = start(**NAMED)
    assert one(named, refusal, listed("a", nodeName="other")).verdict == "match"
    assert one(named, refusal, listed("a")).verdict == "impossible"


def test_the_node_s_name_by_its_pods() -> None:
    """Most pods that were let in are bound to it; without one its name is not known."""
    refusal = refused("a", 9, "NodeName", MISNAMED)
    others: list[Any] = []
    for number in (1, 2):
        others += [*admitted(f"b{number}", number), listed(f"b{number}")]
    assert one(start(), others, refusal, listed("a", nodeName="other")).verdict == "match"
    assert one(start(), others, refusal, listed("a")).verdict == "impossible"
    unnamed = one(start(), refusal, listed("a", nodeName="other"))
    assert unnamed.missing == ("the node's name",)


def test_a_pod_bound_to_another_name_and_let_in() -> None:
    """The kubelet may be called otherwise than it was told."""
    named = start(**NAMED)
    assert one(named, admitted("a", 1), listed("a", nodeName="other")).verdict == "admissible"


def test_a_taint_that_the_node_has() -> None:
    """Only the right reason will do, and the pod is not let in."""
    node = node_object(0.3, TAINT)
    said = refused("a", 1, "TaintToleration", TAINTED)
    assert one(start(), node, said, listed("a")).verdict == "match"
    wrong = one(start(), node, refused("a", 1, "NodeAffinity", "x"), listed("a"))
    assert (wrong.verdict, (wrong.expected or {})["reason"]) == ("impossible", "TaintToleration")
    let_in = one(start(), node, admitted("a", 1), listed("a"))
    assert let_in.verdict == "impossible"


def test_taints_that_change() -> None:
    """When the taint came is not told; nor what it was before the first node object."""
    missing = ("the node's taints at this time",)
    let_in = (start(), admitted("a", 1), listed("a"))
    assert one(*let_in, node_object(0.3, TAINT), node_object(5)).missing == missing
    assert one(*let_in, node_object(5, TAINT)).missing == missing


@pytest.mark.parametrize(("stands", "verdict"), [(False, "unverifiable"), (True, "impossible")])
def test_no_taint(stands: bool, verdict: str) -> None:  # a parameter
    """A taint of the node's heartbeat is there for moments, which no list shows."""
    pod = listed("a", tolerations=STANDS_SHORT_ONES if stands else [])
    said = refused("a", 1, "TaintToleration", TAINTED)
    assert one(start(), node_object(0.3), said, pod).verdict == verdict


@pytest.mark.parametrize(
    ("version", "gates", "verdict"),
    [
        ("1.28.4", {"SidecarContainers": True}, "match"),
        ("1.28.4", {}, "impossible"),
        ("1.30.0", {"SidecarContainers": False}, "impossible"),
        ("1.30.0", {}, "match"),
    ],
)
def test_sidecars_by_their_gate(version: str, gates: dict[str, bool], verdict: str) -> None:
    """A pod with a sidecar is let in where the gate is on."""
    sidecar = {"name": "s", "restartPolicy": "Always"}
    pod = listed("a", initContainers=[sidecar])
    node = start(version, featureGates=gates)
    assert one(node, admitted("a", 1), pod).verdict == verdict
    why = Variant(settings={"featureGates": {"SidecarContainers": verdict != "match"}})
    (changed,) = findings_of(judge(node, admitted("a", 1), pod, variant=why), "a")
    assert changed.verdict != verdict


def test_devices_that_the_node_object_does_not_list_yet() -> None:
    """It lags behind the device manager: any number up to those that there are may stand in it."""
    sent: Step = (5, DevicesReported(resource=NIC, total=2, healthy=2, device_ids=("n0", "n1")))
    message = f"Node didn't have enough resource: {NIC}, requested: 9, used: 0, capacity: "
    for told in (0, 1, 2, 3):
        refusal = refused("a", 101, f"OutOf{NIC}", f"{message}{told}")
        found = one(start(), sent, refusal, listed("a", NICS))
        assert (found.verdict != "impossible") is (told < 3)
