"""The answer about an image, a device or a cgroup in one short sentence."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.analyze.sql.shorten import cut_clause
from kubeledger.analyze.why.explanation import StoryStep
from kubeledger.analyze.why.focus import words_about
from kubeledger.analyze.why.lead import clause, happened
from kubeledger.analyze.why.pieces import words_of
from kubeledger.analyze.why.target import Target
from kubeledger.analyze.why.words import HEADLINE_MAX, ended, seconds, time
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.record import Record
from kubeledger.verify import Finding

__all__ = ["counted_steps", "short_headline"]

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
    elif cause is not None and cause.verdict in {"match", "admissible"}:
        text = f"{happened(main, finding)[0]}: {cause.why}"
    else:
        text = clause(main, finding)
    name = target.parts[0]
    short = name.removeprefix("sha256:")[:12] if target.kind == "image" else name
    short = short if len(short) <= _NAME_MAX else "…" + short[1 - _NAME_MAX :]
    return ended(cut_clause(seconds(text.replace(name, short)), HEADLINE_MAX - 1))


def counted_steps(target: Target, records: Iterable[Record]) -> list[StoryStep]:
    """Records as steps in the order of time; what is said again of the same is counted."""
    found: dict[tuple[str, str], StoryStep] = {}
    for record in sorted(records, key=lambda record: (record.ts_ns, record.seq)):
        subject, summary = words_of(record)
        text = words_about(target, record) or summary
        text = seconds(" ".join(text.split()))
        if target.kind in {"image", "cgroup"}:
            text = text.removeprefix(subject).lstrip(" :") or text
        elif subject and subject not in text and subject not in str(target):
            text = f"{subject}: {text}"
        before = found.get((record.kind, text))
        found[record.kind, text] = StoryStep(
            ts_ns=before.ts_ns if before else record.ts_ns,
            last_ts_ns=record.ts_ns,
            count=before.count + 1 if before else 1,
            text=text,
            weight=_weight(record),
            kind=record.kind,
            seq=record.seq,
        )
    return sorted(found.values(), key=lambda step: (step.ts_ns, step.seq))


def _weight(record: Record) -> int:
    if isinstance(record.body, KubeletExited):
        return 4
    if isinstance(record.body, KubeletStarted):
        return 3
    return 2 if record.role == "decision" else 1
