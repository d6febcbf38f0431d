"""Explanations of everything that the recordings hold decisions about."""

from itertools import pairwise

import pytest

from kubeledger.analyze.histories.history import History, history_of_reader
from kubeledger.analyze.why import Explanation, explain, parse_target
from kubeledger.analyze.why.facts import line_about, words_about
from kubeledger.analyze.why.headline import clause
from kubeledger.analyze.why.why import HISTORY_MAX
from kubeledger.model.bodies.images import ImageDeleted, ImagesDetected
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.verify import Finding
from kubeledger.verify.finding import Verdict
from tests.verify.histories import reader, recorded, scene


def history(name: str) -> History:
    return history_of_reader(name, name, reader(recorded(name)))


@pytest.mark.parametrize("name", ["node-a", "node-b"])
def test_everything_has_an_answer(name: str) -> None:
    """Every third subject of a finding: one sentence, evidence in order, the decision in it."""
    records = history(name)
    subjects = sorted({f.subject for f in records.verify() if isinstance(f, Finding)} - {"node"})
    for subject in subjects[::3]:
        found = explain(records, parse_target(subject))
        assert isinstance(found, Explanation), subject
        assert found.sentence.endswith(".")
        assert format_ts(found.finding.ts_ns) in found.sentence or "liveness" in found.sentence
        first = found.sentence.partition(": ")[0]
        names = found.finding.subject.partition("/")[2]
        assert names in first or names.rpartition("/")[0] in first, found.sentence
        assert found.finding.seq in {piece.seq for piece in found.evidence}
        assert found.finding.seq in {step.seq for step in found.history}
        assert all(a.ts_ns <= b.ts_ns for a, b in pairwise(found.evidence))
        assert all(piece.number == n for n, piece in enumerate(found.evidence, start=1))


def test_evidence_is_what_the_records_say() -> None:
    by_seq = {record.seq: record for record in recorded("node-a")}
    found = explain(history("node-a"), parse_target("pod/default/gpu-a"))
    assert found is not None
    for piece in found.evidence:
        first = by_seq[piece.seq].evidence[0]
        assert (piece.file, piece.line, piece.text) == (first.file, first.line, first.text)
        assert piece.role == by_seq[piece.seq].role


def test_a_detect_pass_is_shown_by_the_line_about_the_image() -> None:
    """Not by its first line, which is about another one; and in words about this one."""
    deleted = next(r for r in recorded("node-a") if isinstance(r.body, ImageDeleted))
    assert isinstance(deleted.body, ImageDeleted)
    image_id = deleted.body.image_id
    found = explain(history("node-a"), parse_target(f"image/{image_id}"))
    assert found is not None
    passes = [piece for piece in found.evidence if piece.kind == ImagesDetected.kind]
    assert passes
    assert all(image_id in (piece.text or "") for piece in passes)
    assert all("images listed: not in use" in piece.summary for piece in passes)
    other = next(r for r in recorded("node-a") if isinstance(r.body, ImagesDetected))
    assert (words_about(parse_target("image/none"), other) or "").startswith("not among the ")
    assert words_about(parse_target("pod/a/b"), other) is None
    assert line_about(parse_target("image/none"), other) == other.evidence[0]


def test_only_what_was_so_by_then() -> None:
    records = recorded("node-a")
    middle = records[len(records) // 2].ts_ns
    found = explain(history("node-a"), parse_target("pod/default/live-fail"), upto_ts_ns=middle)
    assert isinstance(found, Explanation)
    assert found.finding.ts_ns <= middle
    assert max(step.ts_ns for step in found.history) <= middle


def test_no_decision_no_answer() -> None:
    assert explain(history("node-b"), parse_target("pod/default/never")) is None
    assert explain(history("node-b"), parse_target("cgroup/kubepods/nothing")) is None


def test_a_long_history_is_cut() -> None:
    body = PodAdmitted(namespace="default", pod="web", pod_uid=None)
    records = scene(*((float(n), body) for n in range(HISTORY_MAX + 50)))
    found = explain(
        history_of_reader("node-t", "", reader(records)), parse_target("pod/default/web")
    )
    assert isinstance(found, Explanation)
    assert len(found.history) == HISTORY_MAX
    assert found.history[-1].seq == len(records)
    assert found.finding.verdict == "unverifiable"
    assert "not decided again" in found.sentence


# How sentences begin.

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
