"""What a decision says in one clause, and the answer about an image, a device or a cgroup."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.analyze.sql.shorten import cut_clause
from kubeledger.analyze.why.explanation import StoryStep
from kubeledger.analyze.why.facts import Facts
from kubeledger.analyze.why.focus import words_about
from kubeledger.analyze.why.happenings import RULES, Words
from kubeledger.analyze.why.pieces import (
    HEADLINE_ROOM,
    ended,
    one_of,
    seconds,
    span_of,
    time,
    words_of,
)
from kubeledger.analyze.why.target import Target
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.verify import Finding

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
    sound = finding.is_sound
    if sound and record.kind in _WHOLE:
        return f"at {format_ts(record.ts_ns)} {why}"
    begin, text = happened(record, finding)
    if finding.verdict == "unverifiable" and not sound:
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


_NAME_MAX = 90


def short_headline(
    target: Target, main: Record, finding: Finding, cause: Finding | None, kept: str
) -> str:
    """What the decision means for the target.

    Args:
        target: an image, device or cgroup.
        main: the decision that explains it.
        finding: what is found about it.
        cause: what is found about the collection that it is part of.
        kept: why a collection left the image that is asked for; empty for any other decision.
    """
    if kept:
        text = f"image {target.parts[0]} was kept at {time(main.ts_ns)}: {kept}"
    elif cause is not None and cause.is_sound:
        text = f"{happened(main, finding)[0]}: {cause.why}"
    else:
        text = clause(main, finding)
    name = target.parts[0]
    short = name.removeprefix("sha256:")[:12] if target.kind == "image" else name
    short = short if len(short) <= _NAME_MAX else "…" + short[1 - _NAME_MAX :]
    return ended(cut_clause(seconds(text.replace(name, short)), HEADLINE_ROOM - 1))


def counted_steps(target: Target, records: Iterable[Record]) -> list[StoryStep]:
    """Records as steps in the order of time; what is said again of the same is counted."""
    found: dict[tuple[str, str], StoryStep] = {}
    for whole in sorted(records, key=lambda record: (span_of(record)[0], record.seq)):
        record, count = one_of(whole)
        first_ts_ns, last_ts_ns = span_of(whole)
        subject, summary = words_of(record)
        text = words_about(target, record) or summary
        text = seconds(" ".join(text.split())).removeprefix("1 × ")  # the step says how often
        if target.kind in {"image", "cgroup"}:
            text = text.removeprefix(subject).lstrip(" :") or text
        elif subject and subject not in text and subject not in str(target):
            text = f"{subject}: {text}"
        before = found.get((record.kind, text))
        found[record.kind, text] = StoryStep(
            ts_ns=before.ts_ns if before else first_ts_ns,
            last_ts_ns=last_ts_ns,
            count=before.count + count if before else count,
            text=text,
            weight=_weight(record),
            kind=record.kind,
            seq=record.seq,
        )
    return sorted(found.values(), key=lambda step: (step.ts_ns, step.seq))


def _weight(record: Record) -> int:
    if isinstance(record.body, KubeletExited) or getattr(record.body, "reason", "") == "Rebooted":
        return 4
    if isinstance(record.body, KubeletStarted):
        return 3
    return 2 if record.role == "decision" else 1
