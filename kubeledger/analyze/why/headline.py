"""The answer about an image, a device or a cgroup in one short sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeledger.analyze.sql.shorten import cut_clause
from kubeledger.analyze.why.explanation import StoryStep
from kubeledger.analyze.why.focus import words_about
from kubeledger.analyze.why.lead import clause
from kubeledger.analyze.why.pieces import words_of
from kubeledger.analyze.why.target import Target
from kubeledger.analyze.why.words import HEADLINE_MAX, ended, seconds, size, time
from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.record import Record
from kubeledger.verify import Finding

__all__ = ["counted_steps", "short_headline"]

_CGROUP_MAX = 90


def short_headline(
    target: Target, main: Record, finding: Finding, cause: Record | None, kept: str
) -> str:
    """What the decision means for the target.

    Args:
        target: an image, device or cgroup.
        main: the decision that explains it.
        finding: what is found about it.
        cause: what led to it.
        kept: why a collection left the image that is asked for; empty for any other decision.
    """
    body: Any = main.body
    when = f"at {time(main.ts_ns)}"
    if kept and isinstance(body, GarbageCollected):
        text = f"image {_short(target.parts[0])} was kept {when}: {kept}"
    elif isinstance(body, ImageDeleted):
        text = _deleted(body, when, cause, finding)
    elif main.kind == "devicemanager.DevicesAllocated":
        text = f"device {target.parts[1]} of {body.resource} was given to {_holder(body)} {when}"
    elif main.kind == "cgroups.CgroupUpdated":
        path = body.cgroup if len(body.cgroup) <= _CGROUP_MAX else _tail(body.cgroup)
        text = f"cgroup {path} {when}: {finding.why}"
    else:
        text = clause(main, finding, cause)
    return ended(cut_clause(seconds(text.rstrip(".")), HEADLINE_MAX - 1))


def _deleted(body: ImageDeleted, when: str, cause: Record | None, finding: Finding) -> str:
    amount = "" if body.size_bytes is None else f" ({size(body.size_bytes)})"
    text = f"image {_short(body.image_id)}{amount} was deleted {when}"
    run = cause.body if cause is not None else None
    if isinstance(run, GarbageCollectionStarted):
        used = f"{run.usage_percent} % of the image filesystem was used"
        return f"{text}: {used}, above the {run.high_threshold_percent} % high threshold"
    if body.pass_ == "age":
        return f"{text}: it was unused for longer than imageMaximumGCAge"
    if body.pass_ == "all":
        short = f", because {' and '.join(body.signals)} was short" if body.signals else ""
        return f"{text} with all unused images by the eviction manager{short}"
    return f"{text}: {finding.why}"


def _holder(body: Any) -> str:  # noqa: ANN401 # any body
    pod = f"{body.namespace}/{body.pod}" if body.pod else f"pod {body.pod_uid}"
    return f"{pod}/{body.container}" if body.container else pod


def _short(image_id: str) -> str:
    return image_id.removeprefix("sha256:")[:12]


def _tail(path: str) -> str:
    return "…" + path[-_CGROUP_MAX + 1 :]


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
