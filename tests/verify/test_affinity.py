"""Merged hints, in small scenes."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.bodies.resourcemanagers import Hint
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Contradiction, Variant
from kubeledger.verify.evidence.machine import Affinity, Alignment
from tests.verify.device_world import Node, device_outcomes, hint


def test_that_of_a_container_goes_before_that_of_its_pod() -> None:
    stored = Alignment()
    for seq, container in enumerate((None, "a")):
        stored.store("pod", container, Affinity(seq, (), frozenset()))
    assert [each and each.seq for each in map(stored.stored, ("pod", "pod"), "ab")] == [1, 0]


BOTH = (hint(0), hint(1), hint(0, 1, preferred=False))


def merged(
    policy: str = "best-effort",
    result: Hint | None = None,
    numa: tuple[int, ...] | None = (0, 1),
    settings: dict[str, Any] | None = None,
    **fields: Any,  # noqa: ANN401 # any field
) -> tuple[Node, int]:
    """Two resources that agree on node 1 only."""
    node = Node(policy=policy, numa=numa, **(settings or {}))
    offered = node.hints("a", "c", cpu=BOTH, memory=(hint(1),))
    return node, node.affinity("a", "c", result or hint(1), offered, **fields)


def test_under_other_settings() -> None:
    """A variant decides; the recorded policy's name is no difference."""
    node = Node(policy="best-effort", numa=(0, 1))
    offered = node.hints("a", "c", gpu=())
    seq = node.affinity("a", "c", hint(0, 1, preferred=False), offered)
    strict = Variant(settings={"topologyManagerPolicy": "restricted"})
    assert node.finding(seq).verdict == "match"
    finding = node.finding(seq, strict)
    assert finding.expected == {"hint": {"numa_nodes": [0, 1], "preferred": False}, "admit": False}
    assert finding.verdict == "impossible"
    none = Variant(settings={"topologyManagerPolicy": "none"})
    assert node.finding(seq, none).expected is None


def test_what_is_missing() -> None:
    node = Node(policy="best-effort", numa=None)
    seq = node.affinity("a", "c", hint(1), node.hints("a", "c", gpu=(hint(1),)))
    assert node.finding(seq).missing == ("the NUMA nodes of the machine",)
    node = Node(policy="best-effort")
    seq = node.affinity("a", "c", hint(0), None)
    assert node.finding(seq).missing == ("the hints of the providers",)
    node = Node(policy=None)
    seq = node.affinity("a", "c", hint(0), node.hints("a", "c"), policy=None)
    assert node.finding(seq).missing == ("topologyManagerPolicy",)
    node = Node(None, policy="best-effort")
    seq = node.affinity("a", "c", hint(0), node.hints("a", "c"))
    assert node.finding(seq).missing == ("the kubelet's version",)


def test_nodes_that_other_decisions_tell() -> None:
    """Without hints all nodes of the machine are merged: two others that agree tell them."""
    node = Node(policy="best-effort", numa=None)
    seqs = [node.affinity(name, "c", hint(0, 1), node.hints(name, "c")) for name in ("a", "b", "d")]
    lie = node.affinity("e", "c", hint(0), node.hints("e", "c"))
    assert {node.finding(seq).verdict for seq in seqs} == {"match"}
    assert node.finding(lie).verdict == "impossible"


def test_distances_that_are_not_known() -> None:
    """They matter where several sets of the same size are left, and not for one node."""
    options: dict[str, Any] = {
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}
    }
    pairs = tuple(hint(*pair) for pair in ((0, 1), (0, 2), (1, 2)))
    node = Node(policy="best-effort", numa=(0, 1, 2), **options)
    seq = node.affinity("a", "c", hint(0, 2), node.hints("a", "c", cpu=pairs))
    assert node.finding(seq).missing == ("the distances of the NUMA nodes",)
    node, seq = merged(settings=options, result=hint(0))
    assert node.finding(seq).verdict == "impossible"


@pytest.mark.parametrize(
    ("reported", "verdict"),
    [("", "unverifiable"), ("has no possible NUMA affinities for resource 'cpu'", "impossible")],
)
def test_an_empty_list_of_1_20(reported: str, verdict: str) -> None:
    """No preference and no possible hint look alike, where the line that tells them is lost."""
    node = Node("1.20.2", policy="best-effort", numa=(0, 1))
    offered = node.hints("a", "c", cpu=(), gpu=(hint(0),))
    seq = node.affinity("a", "c", hint(0), offered)
    texts = ["[topologymanager] TopologyHints for pod 'a', container 'c': map[cpu:[]]"] * 3
    texts += [f"[topologymanager] Hint Provider {reported}"] if reported else []
    evidence = tuple(Evidence(file="kubelet.log", line=n, text=t) for n, t in enumerate(texts))
    records = [
        msgspec.structs.replace(record, evidence=evidence) if record.seq == offered else record
        for record in node.records()
    ]
    found = [o for o in device_outcomes(records) if not isinstance(o, Contradiction)]
    assert [(o.seq, o.verdict) for o in found] == [(seq, verdict)]


def test_lines_that_disagree() -> None:
    """The merged hint is logged several times; another value in one of them is a lie."""
    node, seq = merged(disputed=hint(0))
    finding = node.finding(seq)
    assert finding.verdict == "impossible"
    assert finding.recorded is not None
    assert finding.recorded["hint"] == {"numa_nodes": [0], "preferred": True}
    assert len(node.contradictions()) == 1


def test_pod_scope() -> None:
    """One decision for the pod; that of a container, and its hints, contradict the setting."""
    settings: dict[str, Any] = {"topologyManagerScope": "pod"}
    node = Node(policy="best-effort", numa=(0, 1), **settings)
    seq = node.affinity("a", None, hint(0), node.hints("a", None, cpu=BOTH))
    assert node.finding(seq).verdict == "match"
    assert node.finding(seq).subject == "pod/ns/a"
    node, seq = merged(settings=settings)
    assert node.finding(seq).verdict == "match"
    (contradiction,) = node.contradictions()
    assert "hints were merged for a container" in contradiction.why
    records = [  # long after the last line: another process may have them
        msgspec.structs.replace(each, ts_ns=each.ts_ns + 100 * NS_PER_S)
        if isinstance(each.body, SettingsObserved)
        else each
        for each in node.records()
    ]
    assert not any(isinstance(each, Contradiction) for each in device_outcomes(records))
    node, seq = merged()
    other = node.finding(seq, Variant(name="pods", settings=settings))
    assert other.verdict == "impossible"
    assert other.expected is not None
    assert other.expected["container"] is None
