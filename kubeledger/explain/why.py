"""From a target to its explanation: find the decisions, decide them again, gather the evidence."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from kubeledger.errors import BadQuestionError
from kubeledger.explain.concern import concerns, is_about_others, is_image, weight_of
from kubeledger.explain.explanation import Explanation, Piece, Step
from kubeledger.explain.focus import line_about, words_about
from kubeledger.explain.target import Target
from kubeledger.machine import Record
from kubeledger.query.summaries import subject_of, summary_of
from kubeledger.replay.histories import History
from kubeledger.units import format_ts
from kubeledger.verify import Finding, Reader, verify

__all__ = ["HISTORY_MAX", "explain"]

HISTORY_MAX = 200
"""Older decisions about the target are not listed."""

_EVIDENCE_MAX = 60
_LINKS = {
    "lifecycle.PodRejected": (
        "devicemanager.AllocationFailed",
        "topologymanager.AffinityDecided",
        "preemption.PreemptionFailed",
    ),
    "lifecycle.PodAdmitted": ("preemption.PodPreempted",),
    "lifecycle.ContainerKilled": ("preemption.PodPreempted", "lifecycle.PodEvicted"),
}
"""Decision -> those among its inputs that tell more of it than the others."""
_CAUSES_MAX = 20


def explain(
    history: History, target: Target, *, upto_ts_ns: int | None = None
) -> Explanation | None:
    """Why the target is as it is.

    Args:
        history: the records of a node.
        target: what is asked.
        upto_ts_ns: as of this time; None: as of the last record.

    Returns:
        None when no decision is about it.
    """
    read = history.read
    decisions = _decisions(read, target, upto_ts_ns)
    findings = _findings(read, {record.seq for record in decisions})
    meant = {record.seq: _meant(target, findings[record.seq]) for record in decisions}
    decisions = [r for r in decisions if meant[r.seq] or not is_about_others(target, r)]
    if not decisions:
        return None
    main = max(decisions, key=weight_of)
    finding = findings[main.seq]
    chain = [main, *_rests_on(history, finding), *_causes(history, main)]
    chain = list({record.seq: record for record in chain}.values())
    findings |= _findings(read, {record.seq for record in chain} - findings.keys())
    seqs = dict.fromkeys(
        seq
        for record in reversed(chain)
        for seq in (*_inputs(findings.get(record.seq)), record.seq)
    )
    return Explanation(
        target=str(target),
        node=main.node,
        sentence=meant[main.seq] + _sentence(chain, findings),
        finding=finding,
        evidence=_evidence(history, list(seqs), target),
        history=tuple(_step(record, findings) for record in decisions),
    )


def _decisions(read: Reader, target: Target, upto_ts_ns: int | None) -> list[Record]:
    uids = _uids(read, target)
    found: deque[Record] = deque(maxlen=HISTORY_MAX)
    for record in read(None):
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        if record.role == "decision" and concerns(target, record, uids):
            found.append(record)
    return list(found)


def _uids(read: Reader, target: Target) -> frozenset[str]:
    """UIDs of the target's pod, which some records tell in place of its name."""
    if target.kind not in {"pod", "container"}:
        return frozenset()
    pod = target.parts[:2]
    found = set()
    for record in read({"lifecycle.PodListed", "lifecycle.PodConfigChanged"}):
        body: Any = record.body
        if (body.namespace, body.pod) == pod and body.pod_uid:
            found.add(body.pod_uid)
    return frozenset(found)


def _rests_on(history: History, finding: Finding) -> list[Record]:
    """Decisions of other subsystems that a decision rests on, the nearest first."""
    kinds = _LINKS.get(finding.kind, ())
    # Of the same instant, one may stand behind the other.
    return [
        record
        for record in reversed(history.pick(finding.inputs if kinds else ()))
        if record.kind in kinds and record.ts_ns <= finding.ts_ns
    ]


def _causes(history: History, main: Record) -> list[Record]:
    """What led to a decision, the nearest first."""
    chain: list[Record] = []
    seq = main.cause
    while seq is not None and seq < (chain[-1] if chain else main).seq and len(chain) < _CAUSES_MAX:
        record = history.record(seq)
        if record is None:
            break
        chain.append(record)
        seq = record.cause
    return chain


def _meant(target: Target, finding: Finding) -> str:
    """The beginning of the sentence, where the decision is about others and says why not this."""
    if target.kind != "image":
        return ""
    for subject, clause in finding.about.items():
        image_id = subject.removeprefix("image/")
        if is_image(target, image_id):
            return f"image {image_id} was kept at {format_ts(finding.ts_ns)}: it {clause}; "
    return ""


def _findings(read: Reader, wanted: set[int]) -> dict[int, Finding]:
    found: dict[int, Finding] = {}
    if not wanted:
        return found
    for outcome in verify(read):
        if isinstance(outcome, Finding) and outcome.recorded is not None and outcome.seq in wanted:
            found[outcome.seq] = outcome
            if len(found) == len(wanted):
                break
    return found


def _inputs(finding: Finding | None) -> Iterable[int]:
    return finding.inputs if finding is not None else ()


def _sentence(chain: list[Record], findings: dict[int, Finding]) -> str:
    """What the decision rests on, and what led to it."""
    parts = []
    for record in chain:
        finding = findings.get(record.seq)
        if finding is None:
            continue
        if finding.verdict == "unverifiable":
            subject, summary = _words(record)
            missing = " and ".join(finding.missing)
            parts.append(f"{subject}: {summary} (not decided again: {missing} is missing)")
        else:
            parts.append(f"{_named(record)}{finding.why.rstrip('.')}")
    return "; before that, ".join(dict.fromkeys(parts)) + "."


def _named(record: Record) -> str:
    """Whom a sentence is about, where it is a container: their names are short."""
    body: Any = record.body
    pod = getattr(body, "pod", None)
    if pod is None or getattr(body, "container", None) is None:
        return ""
    return f"{body.namespace}/{pod}: "


def _words(record: Record) -> tuple[str, str]:
    body: dict[str, Any] = msgspec.to_builtins(record.body)
    return subject_of(body), summary_of(record.kind, body)


def _step(record: Record, findings: dict[int, Finding]) -> Step:
    finding = findings.get(record.seq)
    return Step(
        seq=record.seq,
        ts_ns=record.ts_ns,
        kind=record.kind,
        summary=_words(record)[1],
        verdict=finding.verdict if finding is not None else "unverifiable",
    )


def _evidence(history: History, seqs: list[int], target: Target) -> tuple[Piece, ...]:
    found = history.pick(seqs[-_EVIDENCE_MAX:])
    found.sort(key=lambda record: (record.ts_ns, record.seq))
    return tuple(_piece(number, record, target) for number, record in enumerate(found, start=1))


def _piece(number: int, record: Record, target: Target) -> Piece:
    subject, summary = _words(record)
    first = line_about(target, record)
    inferred = bool(getattr(record.body, "inferred", False))
    return Piece(
        number=number,
        seq=record.seq,
        ts_ns=record.ts_ns,
        role=record.role,
        kind=record.kind,
        subject=subject,
        summary=words_about(target, record) or summary,
        inferred=inferred or bool(getattr(record.body, "preemptor_inferred", False)),
        file=first.file if first else None,
        line=first.line if first else None,
        text=first.text if first else None,
    )


def no_such_target(target: Target) -> BadQuestionError:
    """The error for a target that no decision is about."""
    return BadQuestionError(
        f"no decision is about {target}", advice="`kubeledger ls` shows what the ledger knows"
    )
