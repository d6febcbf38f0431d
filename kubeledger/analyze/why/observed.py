"""A pod, container or image about which nothing was decided: what the records say of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from kubeledger.analyze.sql.shorten import cut_chain, cut_clause
from kubeledger.analyze.why.concern import containers_in, is_image
from kubeledger.analyze.why.explanation import Answer, StoryStep
from kubeledger.analyze.why.headline import counted_steps
from kubeledger.analyze.why.pieces import (
    HEADLINE_ROOM,
    cited,
    ended,
    evidence_of,
    seconds,
    span_of,
    step_of,
    time,
    words_of,
)
from kubeledger.analyze.why.scope import Scope
from kubeledger.analyze.why.story import story_of
from kubeledger.analyze.why.target import Target
from kubeledger.model.record import Record
from kubeledger.replay.episodes.pod_stages import StageEpisode
from kubeledger.replay.episodes.subjects import named_within

_STEPS_MAX = 200


def undecided_answer(
    target: Target,
    about: Sequence[Record],
    scope: Scope = Scope(),  # noqa: B008 # never changed
    episodes: Sequence[StageEpisode] = (),
) -> Answer | None:
    """The answer of observations alone.

    Args:
        target: any but a node.
        about: (n,) records about it, none of them a decision, in the order of time.
        scope: the pod that is meant.
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
    said = seconds(words_of(last)[1])
    listed = about[-_STEPS_MAX:]
    evidence = evidence_of(listed, target)
    headline = ended(begin + cut_chain(said, HEADLINE_ROOM - 1 - len(begin)))
    steps = counted_steps(target, about)
    sentence = ended(begin + said)
    if episodes:
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
            if not is_image(target, _image_id_of(status)):
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
        StoryStep(
            ts_ns=its[0].ts_ns,
            last_ts_ns=its[-1].ts_ns,
            count=len(its),
            text=f"{who} uses it",
            weight=0,
            kind=its[-1].kind,
            seq=its[-1].seq,
        )
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


def _image_id_of(status: dict[str, Any]) -> str:
    """ID of a container's image, as records of images have it; empty where it is not known."""
    return str(status.get("imageID") or "").rpartition("://")[2].rpartition("@")[2]
