"""Sources that disagree about pods, refusals and victims; lists of victims that are cut."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeledger.lifecycle.records import PodListed, PodRejected
from kubeledger.machine import Record
from kubeledger.preemption.records import PodPreempted
from kubeledger.verify import Contradiction, Finding
from tests.verify.admission_world import (
    CRITICAL,
    alone,
    asks,
    judge,
    listed,
    preempted,
    start,
)
from tests.verify.histories import recorded
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


def test_the_place_of_a_refusal_is_its_line() -> None:
    """Not that of the ADD."""
    for node in ("node-a", "node-b"):
        for record in recorded(node):
            if isinstance(record.body, PodRejected):
                text = record.evidence[0].text or ""
                assert "ADD" not in text
                assert record.body.message in text.replace('\\"', '"')


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
