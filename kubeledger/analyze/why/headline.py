"""What a decision says in one clause; and what records say where nothing was decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from kubeledger.analyze.summaries import cut_chain, cut_clause
from kubeledger.analyze.why.concern import containers_in, is_image
from kubeledger.analyze.why.explanation import Answer, Scope, StoryStep, Target
from kubeledger.analyze.why.facts import Facts, words_about
from kubeledger.analyze.why.happenings import RULES, Words
from kubeledger.analyze.why.pieces import (
    HEADLINE_ROOM,
    cited,
    evidence_of,
    one_of,
    seconds,
    span_of,
    step_of,
    time,
    words_of,
)
from kubeledger.analyze.why.story import story_of
from kubeledger.analyze.wording import ended
from kubeledger.kubelet.kube.statuses import objects_of, statuses_in
from kubeledger.model.bodies.lifecycle import ContainerStarted, PodListed, PodStarted
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.replay.episodes.pod_stages import StageEpisode
from kubeledger.replay.episodes.subjects import named_within
from kubeledger.verify import Finding

_WHOLE = frozenset(
    {"images.GarbageCollectionStarted", "preemption.PodPreempted", "preemption.PreemptionFailed"}
)
"""Kinds whose reasons name the subject and say what happened to it."""


def clause(record: Record, finding: Finding) -> str:
    """One decision in words that stand alone: subject, what happened, when and why."""
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
    words = rule.tell([record], facts) if rule else Words(words_of(record)[1])
    kind, _, name = finding.subject.partition("/")
    whom = f"{kind} {name}" if name else ""
    return " ".join(filter(None, (whom, words.what, f"at {format_ts(record.ts_ns)}"))), words.why


_NAME_MAX = 90


def short_headline(
    target: Target, main: Record, finding: Finding, cause: Finding | None, kept: str
) -> str:
    """What the decision means for the target.

    Args:
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
        key = record.kind, text
        if isinstance(record.body, KubeletExited):  # several may have said the same
            key = record.kind, f"{record.body.reason} {record.body.message}"
        before = found.get(key)
        if before is not None and isinstance(record.body, KubeletExited):
            text = words_of(replace(record, body=replace(record.body, pid=None)))[1]
        found[key] = StoryStep(
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


# A pod, container or image about which nothing was decided: what the records say of it.

_STEPS_MAX = 200


def undecided_answer(
    target: Target,
    about: Sequence[Record],
    scope: Scope = Scope(),  # noqa: B008 # never changed
    episodes: Sequence[StageEpisode] = (),
) -> Answer | None:
    """The answer of observations alone.

    Args:
        about: (n,) records about it, none of them a decision, in the order of time.
        episodes: stages of its way that it did not get past at once.

    Returns:
        None where no record is about it; of a container, where none names it.
    """
    if not about or (target.kind == "container" and not any(_names(r, target) for r in about)):
        return None
    last = about[-1]
    count = "one record names" if len(about) == 1 else f"{len(about)} records name"
    who = f"{target.kind} {'/'.join(target.parts)}"
    word = "" if len(about) == 1 else "at last "
    until = time(span_of(last)[1])
    begin = f"no decision about {who} is recorded; {count} it, {word}at {until}: "
    said = seconds(words_of(last)[1].partition("\n")[0]) + _failed(last)
    listed = about[-_STEPS_MAX:]
    evidence = evidence_of(listed, target)
    headline = ended(begin + cut_chain(said, HEADLINE_ROOM - 1 - len(begin)))
    steps = counted_steps(target, about)
    sentence = ended(begin + said)
    if episodes or any(isinstance(record.body, ContainerStarted | PodStarted) for record in about):
        headline, steps = story_of(target, about, None, {}, episodes)
        sentence = f"{headline.rstrip('.')}; {sentence}"
    return Answer(
        target=str(target),
        node=last.node,
        headline=headline,
        steps=cited(steps, evidence),
        sentence=sentence,
        evidence=evidence,
        history=tuple(map(step_of, listed)),
        pod_uid=scope.pod_uid,
        namesakes=scope.namesakes,
    )


def _failed(record: Record) -> str:
    """That a list shows the pod to have failed, and with what its containers ended."""
    status = record.body.status if isinstance(record.body, PodListed) else None
    if status is None or status.get("phase") != "Failed":
        return ""
    states = [state for each in statuses_in(status) if isinstance(state := each.get("state"), dict)]
    ends = objects_of([state.get("terminated") for state in states])
    codes = sorted({f"{code}" for end in ends if (code := end.get("exitCode"))})
    return " as failed" + (f" (exit code {', '.join(codes)})" if codes else "")


def _names(record: Record, target: Target) -> bool:
    body: Any = record.body
    of_parts = (containers_in(getattr(body, part, None)) for part in ("spec", "status"))
    names = (each.container for each in named_within(body))
    listed = (each.get("name") for each in chain.from_iterable(of_parts))
    return target.parts[2] in (getattr(body, "container", None), *names, *listed)


def image_answer(
    target: Target, listed: Iterable[Record], upto_ts_ns: int | None = None
) -> Answer | None:
    """Which containers use an image that no decision is about.

    Args:
        listed: pods as lists showed them.
        upto_ts_ns: as of this time.

    Returns:
        None where no status of a container names the image.
    """
    uses: dict[str, list[Record]] = {}
    names: dict[str, None] = {}
    for record in listed:
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        body: Any = record.body
        for status in containers_in(body.status):
            reference = str(status.get("imageID") or "")
            if not is_image(target, reference.rpartition("://")[2].rpartition("@")[2]):
                continue
            names[str(status.get("image"))] = None
            who = f"{body.namespace}/{body.pod}/{status.get('name')}"
            uses.setdefault(who, []).append(record)
    if not uses:
        return None
    order = sorted(uses.items(), key=lambda use: (use[1][0].ts_ns, use[0]))
    first, last = order[0], max(order, key=lambda use: use[1][-1].ts_ns)
    many = "1 container has" if len(order) == 1 else f"{len(order):,} containers have"
    text = f"no deletion of image {', '.join(names)} is recorded; {many} used it, "
    text += f"first {first[0]} ({time(first[1][0].ts_ns)})"
    text += f", last {last[0]} ({time(last[1][-1].ts_ns)})"
    steps = [
        StoryStep.of(its[-1], f"{who} uses it", 0, its[0].ts_ns, len(its))
        for who, its in order[-_STEPS_MAX:]
    ]
    evidence = evidence_of([first[1][0], last[1][-1]], target)
    return Answer(
        target=str(target),
        node=last[1][-1].node,
        headline=ended(cut_clause(text, HEADLINE_ROOM - 1)),
        steps=cited(steps, evidence),
        sentence=ended(text),
        evidence=evidence,
        history=tuple(
            msgspec.structs.replace(step_of(its[-1]), summary=f"{who} uses it")
            for who, its in order[-_STEPS_MAX:]
        ),
    )
