"""Sources that disagree about pods, refusals and victims; lists of victims that are cut."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from kubeledger.devicemanager.records import AllocationFailed
from kubeledger.lifecycle.records import PodAdmitted, PodConfigChanged, PodListed, PodRejected
from kubeledger.machine import Evidence, Record
from kubeledger.preemption.records import PodPreempted
from kubeledger.verify import Contradiction, Finding
from kubeledger.verify.admission.judgement import OTHER_VICTIMS
from tests.verify.admission_world import (
    CRITICAL,
    add,
    alone,
    asks,
    findings_of,
    judge,
    listed,
    preempted,
    ran,
    start,
)
from tests.verify.histories import recorded, scene
from tests.verify.test_preemption_scenes import critical, later, pods, verdict

Records = tuple[Record, ...] | list[Record]


def contradictions(records: Records) -> list[Contradiction]:
    """All of them."""
    return [o for o in alone(records) if isinstance(o, Contradiction)]


def impossible(records: Records) -> list[int]:
    """Where something cannot be."""
    return [o.seq for o in alone(records) if isinstance(o, Finding) and o.verdict == "impossible"]


def _with_list(
    node: str, pod: str, which: slice, spec: dict[str, Any], status: dict[str, Any]
) -> list[Record]:
    """Some of the lists show a pod otherwise."""
    bodies = [(r, r.body) for r in recorded(node) if isinstance(r.body, PodListed)]
    lied = {
        r.seq: msgspec.structs.replace(
            body, spec={**(body.spec or {}), **spec}, status={**(body.status or {}), **status}
        )
        for r, body in [(r, b) for r, b in bodies if b.pod == pod and b.spec and b.status][which]
    }
    assert lied
    return [
        msgspec.structs.replace(r, body=lied[r.seq]) if r.seq in lied else r for r in recorded(node)
    ]


@pytest.mark.parametrize(
    ("node", "pod", "spec", "status", "says"),
    [
        ("node-a", "critical-1", {"priority": 0}, {}, ["is 2000001000", "priority is 0"]),
        ("node-b", "filler-a-node-b", {"priority": 100}, {}, ["priority is 10", "is 100"]),
        ("node-b", "filler-c-node-b", {}, {"qosClass": "Guaranteed"}, ["Guaranteed", "Burstable"]),
        ("node-a", "guaranteed-1", {}, {"qosClass": "Burstable"}, ["Burstable", "Guaranteed"]),
    ],
)
def test_lists_that_disagree_on_what_never_changes(
    node: str, pod: str, spec: dict[str, Any], status: dict[str, Any], says: list[str]
) -> None:
    """The last list shows another priority or class: one contradiction, with both sides."""
    (told,) = contradictions(_with_list(node, pod, slice(-1, None), spec, status))
    assert told.subject.endswith(f"/{pod}")
    for side, words in zip(told.sides, says, strict=True):
        assert words in side.says


def test_a_value_that_comes_back_is_told_once() -> None:
    """One wrong list between two right ones, and a wrong one before right ones."""
    for at in (1, 2):
        shown = [
            listed("a", asks("1m"), at=50 + n, priority=7 + (n == at), status={"phase": str(n)})
            for n in (1, 2, 3)
        ]
        (told,) = (o for o in judge(start(), shown) if isinstance(o, Contradiction))
        assert len(told.sides) == 2


def test_the_priority_in_force_decides() -> None:
    """The list that shows the pod at its admission says that it is not critical."""
    wrong = _with_list("node-a", "critical-1", slice(0, 1), {"priority": 0}, {})
    assert len(contradictions(wrong)) == 1
    kinds = {r.seq: r.kind for r in wrong}
    assert {kinds[seq] for seq in impossible(wrong)} == {
        "lifecycle.PodAdmitted",
        PodPreempted.kind,
    }


def test_what_a_list_leaves_out_contradicts_nothing() -> None:
    """No priority, no class, an unreadable spec, resources of the whole pod."""
    steps = [
        listed("a", asks("1m"), at=50, status={"qosClass": "Burstable"}),
        listed("a", asks("1m"), at=51, priority=5, status={}),
        listed("b", asks("x"), at=52, status={"qosClass": "Guaranteed"}),
        listed("c", at=53, status={"qosClass": "Burstable"}, resources={"requests": {"cpu": "1"}}),
        listed("d", at=54, status={"qosClass": "Burstable"}, initContainers=7),
    ]
    assert not [o for o in judge(start(), steps) if isinstance(o, Contradiction)]


def _with_text(kind: type, words: str, old: str, new: str) -> list[Record]:
    """One line of the evidence of a decision of node-a says something else."""
    records = []
    for record in recorded("node-a"):
        if isinstance(record.body, kind):
            evidence = tuple(
                msgspec.structs.replace(e, text=e.text.replace(old, new))
                if e.text and words in e.text
                else e
                for e in record.evidence
            )
            record = msgspec.structs.replace(record, evidence=evidence)
        records.append(record)
    assert records != list(recorded("node-a"))
    return records


@pytest.mark.parametrize(
    ("kind", "words", "old", "new"),
    [
        (PodPreempted, "evicted successfully", "pod gpu-a_", "pod filler-a_"),
        (AllocationFailed, "syncing pod", "Available: 1", "Available: 2"),
        (PodRejected, "Event occurred", "Available: 1", "Available: 2"),
    ],
)
def test_another_line_about_a_decision_differs(kind: type, words: str, old: str, new: str) -> None:
    """One contradiction, and no decision is blamed."""
    wrong = _with_text(kind, words, old, new)
    (told,) = contradictions(wrong)
    assert new in told.sides[1].says
    assert "kubelet.log:" in told.sides[1].says
    assert not impossible(wrong)


def test_the_place_of_a_refusal_is_its_line() -> None:
    """Not that of the ADD."""
    for node in ("node-a", "node-b"):
        for record in recorded(node):
            if isinstance(record.body, PodRejected):
                text = record.evidence[0].text or ""
                assert "ADD" not in text
                assert record.body.message in text.replace('\\"', '"')


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        ("Preempting", "Preempted in order to admit critical pod", 0),
        ("Evicted", "Preempted in order to admit critical pod", 1),
        ("Preempting", "Preempted in order to admit system pod", 1),
        ("Evicted", "The node was low on resource: memory. ", 0),
    ],
)
def test_lists_show_a_victim_as_one(reason: str, message: str, told: int) -> None:
    """Reason and message are those of every victim; where both differ somebody else set them."""
    status = {"phase": "Failed", "reason": reason, "message": message}
    steps = [
        *pods("300m", "400m", "200m"),
        *critical("500m"),
        preempted("b", "x", 20.1, ("cpu", 400)),
        listed("b", asks("400m", "10Mi"), at=950, status=status),
        listed("b", asks("400m", "10Mi"), at=951, status={**status, "startTime": "x"}),
    ]
    found = judge(start("1.20.2"), steps, later())
    assert len([o for o in found if isinstance(o, Contradiction)]) == told


@pytest.mark.parametrize(
    ("name", "heard_of", "listed_by", "told"),
    [
        ("a", False, "api", 0),
        ("z", False, "api", 1),
        ("z", True, "api", 0),
        ("z", False, "kubelet", 0),  # its own list shows ``a``: that line may be lost
    ],
)
def test_a_pod_that_is_handed_over_under_another_name(
    name: str, heard_of: bool, listed_by: Literal["api", "kubelet"], told: int
) -> None:
    """Of ``z`` nothing else is told, and ``a`` runs without having been handed over."""
    at, body = add(name, 1)
    assert isinstance(body, PodConfigChanged)
    shown_at, shown = listed("a", asks("1m"))
    assert isinstance(shown, PodListed)
    steps = [
        (at, msgspec.structs.replace(body, pod_uid=None)),
        ran("a", 1.5),
        (shown_at, msgspec.structs.replace(shown, listed_by=listed_by)),
    ]
    if heard_of:
        steps.append(listed("z", asks("1m")))
    found = judge(start(), steps)
    assert len([o for o in found if isinstance(o, Contradiction)]) == told


@pytest.mark.parametrize(
    ("cut", "goes_on", "one_line", "live", "expected"),
    [
        (True, True, True, False, "unverifiable"),
        (False, False, True, False, "unverifiable"),
        (False, True, False, False, "unverifiable"),
        (False, True, True, False, "impossible"),
        (True, True, True, True, "impossible"),
        (False, True, False, True, "impossible"),
    ],
)
def test_victims_behind_a_cut(
    cut: bool, goes_on: bool, one_line: bool, live: bool, expected: str
) -> None:
    """One victim does not suffice: others may stand in what is lost, or there were none.

    There were none where one line names all, and where lists show the others alive later.
    """
    at, body = preempted("b", "x", 20.1, ("cpu", 700), evicted=None)
    assert isinstance(body, PodPreempted)
    steps = [
        *start("1.20.2"),
        *pods("300m", "400m", "200m"),
        *critical("800m"),
        (at, msgspec.structs.replace(body, cut=cut, preemptor_inferred=one_line)),
    ]
    if not live:
        steps = [(min(t, 19) if isinstance(b, PodListed) else t, b) for t, b in steps]
    records = scene(*sorted(steps, key=lambda step: step[0]))
    if not goes_on:
        # Only a list shows that the critical pod ran later.
        records = [
            msgspec.structs.replace(r, evidence=(Evidence(file="pods.json"),))
            if isinstance(r.body, PodAdmitted) and r.body.pod == "x"
            else r
            for r in records
        ]
    found = findings_of(alone(records), "b")[-1]
    assert found.verdict == expected
    if expected == "unverifiable":
        assert found.missing == (OTHER_VICTIMS,)


def test_a_wrong_victim_stays_wrong_behind_a_cut() -> None:
    """Whoever else was killed, this one was not to be."""
    at, body = preempted("c", "x", 20.1, ("cpu", 400), evicted=None)
    assert isinstance(body, PodPreempted)
    found = judge(
        start("1.20.2"),
        pods("300m", "400m", "200m", c={"priority": CRITICAL + 1}),
        critical("500m"),
        (at, msgspec.structs.replace(body, cut=True)),
        later(),
    )
    assert verdict(found, "c") == "impossible"
