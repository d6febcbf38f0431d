"""Admissions and preemptions of real nodes, decided again."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged, PodListed, PodRejected
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.preemption import PodPreempted, PreemptionFailed
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding, Variant
from kubeledger.verify.rules.admission.judging import VICTIMS
from tests.verify.admission_world import alone
from tests.verify.histories import changed, recorded

NODES = ["node-a", "node-b"]
KINDS = (PodAdmitted, PodRejected, PodPreempted, PreemptionFailed)


def found(
    records: list[Record] | tuple[Record, ...], variant: Variant | None = None
) -> list[Finding]:
    """Findings of this subject."""
    return [o for o in alone(records, variant) if isinstance(o, Finding)]


def impossible(records: list[Record] | tuple[Record, ...]) -> list[int]:
    """Where something cannot be."""
    return [f.seq for f in found(records) if f.verdict == "impossible"]


@pytest.mark.parametrize("node", NODES)
def test_real_decisions(node: str) -> None:
    """All are what the deciders give, and say why."""
    findings = found(recorded(node))
    assert Counter(f.verdict for f in findings) == {"match": 29 if node == "node-a" else 16}
    assert {f.kind for f in findings} >= {k.kind for k in KINDS[:3]}
    assert all(f.expected == f.recorded and f.rule and len(f.inputs) > 2 for f in findings)
    assert not [o for o in alone(recorded(node)) if isinstance(o, Contradiction)]


def test_why_these_victims() -> None:
    """The sentences name victim, preemptor, classes, priorities, amounts, and the rival."""
    victims = [f for f in found(recorded("node-a")) if f.kind == PodPreempted.kind]
    assert [f.why for f in victims] == [
        "default/filler-c (Burstable, priority 0, 400m of cpu) was killed because "
        "kube-system/critical-1 (priority 2000001000) lacked 450m of cpu (700m of cpu requested, "
        "1450m of 1700m in use): BestEffort pods free none of it, and it is nearer to the missing "
        "450m of cpu than default/filler-a (300m of cpu)",
        "default/gpu-a (Burstable, priority 0, 50m of cpu) was killed because "
        "kube-system/critical-1 (priority 2000001000) lacked 450m of cpu (700m of cpu requested, "
        "1450m of 1700m in use): with default/filler-c gone this pod and default/filler-a (300m "
        "of cpu) both free enough for the missing 50m of cpu, but this one asks for less memory "
        "(32Mi against 64Mi)",
    ]


def _with_spec(node: str, pod: str, old: bytes, new: bytes) -> list[Record]:
    """Every list shows another request of a pod."""
    records = []
    for record in recorded(node):
        body = record.body
        if isinstance(body, PodListed) and body.pod == pod and body.spec is not None:
            raw = msgspec.json.encode(body.spec)
            assert old in raw
            spec = msgspec.json.decode(raw.replace(old, new))
            body = msgspec.structs.replace(body, spec=spec)
            record = msgspec.structs.replace(record, body=body)
        records.append(record)
    return records


def test_a_wrong_request_is_found_where_it_matters() -> None:
    """The refused pod's own request, and one that others' numbers rest on."""
    wrong = _with_spec("node-a", "too-big", b'"900m"', b'"800m"')
    (refusal,) = (r.seq for r in wrong if isinstance(r.body, PodRejected) and "big" in r.body.pod)
    assert impossible(wrong) == [refusal]
    wrong = _with_spec("node-a", "filler-a", b'"300m"', b'"310m"')
    kinds = {f.kind for f in found(wrong) if f.verdict == "impossible"}
    assert kinds == {PodRejected.kind, PodPreempted.kind}


def test_a_victim_that_is_not_recorded() -> None:
    """Those left do not make enough room; where none is left, their lines may be lost."""
    records = recorded("node-a")
    victims = [r for r in records if isinstance(r.body, PodPreempted)]
    for gone, left in (victims, victims[::-1]):
        assert impossible([r for r in records if r is not gone]) == [left.seq]
    records = recorded("node-b")
    rest = found([r for r in records if not isinstance(r.body, PodPreempted)])
    (preemptor,) = (f for f in rest if "critical-1" in f.subject)
    assert VICTIMS in preemptor.missing
    assert not [f for f in rest if f.verdict == "impossible"]


@pytest.mark.parametrize("node", NODES)
def test_a_refusal_that_is_not_recorded(node: str) -> None:
    """A list shows the pod as failed, with the reason of an admission."""
    records = recorded(node)
    refusals = [r for r in records if isinstance(r.body, PodRejected)]
    for gone in refusals:
        rest = [r for r in records if r is not gone]
        absent = [f for f in found(rest) if f.recorded is None]
        assert [f.kind for f in absent] == [PodRejected.kind]
        assert all(f.expected == {"reason": gone.body.reason, "message": gone.body.message}  # type: ignore[attr-defined] # a refusal
                   for f in absent)  # fmt: skip


def test_other_settings_change_decisions() -> None:
    """Decided under what a variant sets, not under what was recorded."""
    few = Variant(settings={"maxPods": 3})
    refused = [f for f in found(recorded("node-a"), few) if f.verdict == "impossible"]
    assert refused
    assert {(f.expected or {}).get("reason") for f in refused} >= {"OutOfpods"}
    roomy = Variant(settings={"kubeReserved": {}, "systemReserved": {}})
    changes = [f for f in found(recorded("node-a"), roomy) if f.verdict == "impossible"]
    by_subject = {f.subject: f.expected or {} for f in changes}
    assert "capacity: 2000" in by_subject["pod/default/too-big"]["message"]


def test_allocatable_of_the_node_object() -> None:
    """The settings give another amount than the node object shows."""
    records = recorded("node-a")
    (node,) = (r for r in records if isinstance(r.body, NodeObserved) and r.body.allocatable)
    assert isinstance(node.body, NodeObserved)
    wrong = {**(node.body.allocatable or {}), "cpu": "1800m"}
    (reported,) = (
        o
        for o in alone(changed(records, node.seq, allocatable=wrong))
        if isinstance(o, Contradiction)
    )
    assert "1800m" in reported.sides[0].says
    assert "1700m" in reported.sides[1].says


@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.2, 0.6]))
@settings(max_examples=25, deadline=None)
def test_odd_histories_do_not_break_it(seed: int, share: float) -> None:
    """Each decision has one finding, whatever is missing."""
    chance = random.Random(seed)
    for node in NODES:
        some = [r for r in recorded(node) if chance.random() > share]
        some = some[: chance.randrange(len(some))] if chance.random() < 0.3 else some
        decisions = [r.seq for r in some if isinstance(r.body, KINDS)]
        assert sorted(f.seq for f in found(some) if f.recorded is not None) == sorted(decisions)


def test_an_add_of_another_pod_is_no_evidence() -> None:
    """A decision without the ADD of its pod cannot be decided again."""
    records = recorded("node-b")
    first = next(r for r in records if isinstance(r.body, PodAdmitted))
    assert isinstance(first.body, PodAdmitted)
    without = [
        r
        for r in records
        if not (isinstance(r.body, PodConfigChanged) and r.body.pod == first.body.pod)
    ]
    finding = next(f for f in found(without) if f.seq == first.seq)
    assert finding.verdict == "unverifiable"
    assert finding.missing == ("the line that hands the pod to the kubelet (SyncLoop ADD)",)


def test_a_pod_that_lists_show_as_refused_was_not_admitted() -> None:
    """Its status tells the reason of an admission, and no container of it was heard of."""
    records = recorded("node-a")
    refusals = [r for r in records if isinstance(r.body, PodRejected) and "OutOf" in r.body.reason]
    for refusal in refusals:
        assert isinstance(refusal.body, PodRejected)
        who = {name: getattr(refusal.body, name) for name in ("namespace", "pod", "pod_uid")}
        lie = msgspec.structs.replace(refusal, body=PodAdmitted(**who), kind=PodAdmitted.kind)
        assert refusal.seq in impossible([lie if r is refusal else r for r in records])
