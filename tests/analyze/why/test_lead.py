"""How sentences begin."""

from __future__ import annotations

import pytest

from kubeledger.analyze.why.headline import clause
from kubeledger.model.bodies.lifecycle import PodRejected
from kubeledger.model.record import Record
from kubeledger.verify import Finding
from kubeledger.verify.finding import Verdict
from tests.verify.histories import recorded, scene

REFUSED = PodRejected(
    namespace="default", pod="web", pod_uid=None, reason="OutOfcpu", message="no room"
)


def found(record: Record, verdict: Verdict) -> Finding:
    return Finding(
        seq=record.seq,
        ts_ns=record.ts_ns,
        kind=record.kind,
        subject="pod/default/web",
        verdict=verdict,
        missing=("the pod's spec",) if verdict == "unverifiable" else (),
        why="it does not fit.",
    )


@pytest.mark.parametrize(
    ("verdict", "end"),
    [
        ("match", ": it does not fit"),
        ("admissible", ": it does not fit"),
        ("impossible", ", which cannot be as it is recorded: it does not fit"),
        ("unverifiable", ": no room (not decided again: the pod's spec is missing)"),
    ],
)
def test_verdicts(verdict: Verdict, end: str) -> None:
    """Who, what and when stand there whatever came of the decision."""
    (record,) = scene((0, REFUSED))
    reported = clause(record, found(record, verdict))
    assert reported.startswith("pod default/web was refused (OutOfcpu) at 1970-")
    assert reported.endswith(f"Z{end}")


@pytest.mark.parametrize("name", ["node-a", "node-b"])
def test_every_decision_of_the_recordings_has_words(name: str) -> None:
    for record in recorded(name):
        if record.role != "decision":
            continue
        for verdict in ("match", "impossible", "unverifiable"):
            reported = clause(record, found(record, verdict))
            assert reported == reported.strip()
            assert not reported.startswith((":", "at : "))
