"""A pod or container about which nothing was decided: what the records tell of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.explain.explanation import Answer, Step
from kubeledger.explain.headline import counted_steps
from kubeledger.explain.pieces import evidence_of, words_of
from kubeledger.explain.scope import Scope
from kubeledger.explain.target import Target
from kubeledger.explain.words import HEADLINE_MAX, ended, seconds, time
from kubeledger.machine import Record
from kubeledger.query.shorten import cut_clause

__all__ = ["only_told"]

_STEPS_MAX = 200


def only_told(target: Target, about: Sequence[Record], scope: Scope) -> Answer | None:
    """The answer of observations alone.

    Args:
        target: a pod or container.
        about: (n,) records that tell of it, none of them a decision, in the order of time.
        scope: the pod that is meant.

    Returns:
        None where no record is about it; of a container, where none names it.
    """
    if target.kind == "container":
        name = target.parts[2]
        if not any(getattr(record.body, "container", None) == name for record in about):
            return None
    if not about:
        return None
    last = about[-1]
    count = "one record tells" if len(about) == 1 else f"{len(about)} records tell"
    who = f"{target.kind} {'/'.join(target.parts)}"
    word = "" if len(about) == 1 else "at last "
    says = f"nothing was decided about {who}; {count} of it, {word}at {time(last.ts_ns)}"
    says += f": {seconds(words_of(last)[1])}"
    shown = about[-_STEPS_MAX:]
    evidence = evidence_of(shown, target)
    numbers = {piece.seq: piece.number for piece in evidence}
    return Answer(
        target=str(target),
        node=last.node,
        headline=ended(cut_clause(says, HEADLINE_MAX - 1)),
        steps=tuple(
            msgspec.structs.replace(step, evidence=numbers.get(step.seq))
            for step in counted_steps(target, about)
        ),
        sentence=ended(says),
        evidence=evidence,
        history=tuple(
            Step(seq=r.seq, ts_ns=r.ts_ns, kind=r.kind, summary=words_of(r)[1], verdict=None)
            for r in shown
        ),
        pod_uid=scope.pod_uid,
        namesakes=scope.namesakes,
    )
