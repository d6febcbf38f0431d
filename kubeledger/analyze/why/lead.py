"""One decision as a sentence: whom it hit and why, as the finding says, and what happened."""

from __future__ import annotations

from kubeledger.analyze.why.facts import Facts
from kubeledger.analyze.why.happenings import RULES, Words
from kubeledger.analyze.why.pieces import words_of
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.verify import Finding

__all__ = ["clause", "happened"]

_WHOLE = frozenset(
    {
        "images.GarbageCollectionStarted",
        "preemption.PodPreempted",
        "preemption.PreemptionFailed",
    }
)
"""Kinds whose reasons name the subject and say what happened to it."""


def clause(record: Record, finding: Finding) -> str:
    """One decision in words that stand alone: subject, what happened, when and why.

    Args:
        record: the decision.
        finding: what is found about it.
    """
    why = finding.why.rstrip(".")
    sound = finding.verdict in {"match", "admissible"}
    if sound and record.kind in _WHOLE:
        return f"at {format_ts(record.ts_ns)} {why}"
    begin, text = happened(record, finding)
    if finding.verdict == "unverifiable":
        text = text or getattr(record.body, "message", "") or getattr(record.body, "error", "")
        missing = " and ".join(finding.missing)
        return f"{begin}{f': {text}' if text else ''} (not decided again: {missing} is missing)"
    return f"{begin}{': ' if sound else ', which cannot be as it is recorded: '}{why}"


def happened(record: Record, finding: Finding) -> tuple[str, str]:
    """Whom a decision hit (not for the node),  what happened and when; and why."""
    rule = RULES.get(record.kind)
    facts = Facts(main=record, findings={record.seq: finding})
    words = rule.words([record], facts) if rule else Words("", words_of(record)[1])
    kind, _, name = finding.subject.partition("/")
    whom = f"{kind} {name}" if name else ""
    return " ".join(filter(None, (whom, words.what, f"at {format_ts(record.ts_ns)}"))), words.why
