"""Would the kubelet have let the pod in?"""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.kube.critical import is_critical_pod
from kubeledger.verify.admission.judgement import (
    RULE_DEVICES,
    RULE_EVICTION,
    RULE_PREDICATES,
    RULE_PREEMPTION,
    VICTIMS,
    Judgement,
    unverifiable,
)
from kubeledger.verify.admission.question import Answer, Question, capacities
from kubeledger.verify.admission.words import amounts, fits_because, listing, short_of
from kubeledger.verify.finding import Fields

__all__ = ["judge_admitted"]

_ADMITTED: Fields = {"admit": True}


def judge_admitted(question: Question, victims: Sequence[str]) -> Judgement:
    """Judge a recorded admission.

    Args:
        question: the admission.
        victims: names of the pods that are recorded as killed for it.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    if question.offer.refusals:
        seq, reason, message = question.offer.refusals[-1]
        return Judgement(
            verdict="impossible",
            why=f"the pod was let in although it was refused for {reason}: {message}",
            expected={"admit": False, "reason": reason, "message": message},
            recorded=_ADMITTED,
            rule=RULE_DEVICES,
            inputs=(*question.inputs, seq),
        )
    if question.pressure is not None and not is_critical_pod(question.pod):
        seq, says = question.pressure
        return Judgement(
            verdict="impossible",
            why=f"the pod was let in, and it is not critical, while the node was short: {says}",
            expected={"admit": False, "reason": "Evicted"},
            recorded=_ADMITTED,
            rule=RULE_EVICTION,
            inputs=(*question.inputs, seq),
        )
    likely: Answer | None = None
    with_room: Answer | None = None
    for answer in question.answers():
        likely = likely or answer
        if answer.result.admit:
            with_room = with_room or answer
        if answer.result.admit and bool(answer.result.victims) <= bool(victims):
            return _let_in(question, answer, victims)
    assert likely is not None
    return _not_let_in(question, with_room or likely)


def _let_in(question: Question, answer: Answer, victims: Sequence[str]) -> Judgement:
    if question.unread:
        return unverifiable(*(f"the spec of pod {name}" for name in question.unread))
    if question.unsized:
        return unverifiable(*capacities(question.unsized))
    certain = answer.first and (question.whole or bool(answer.result.victims))
    if answer.result.victims:
        why = (
            f"the pod is critical and lacked {amounts(answer.requirements)} "
            f"({short_of(answer)}), which {listing(victims)} made room for"
        )
    else:
        why = fits_because(question, answer)
    if not certain:
        left = "the log does not begin with this kubelet" if answer.first else "of what is known"
        why = f"{why} ({left}, so other pods may have counted)"
    return Judgement(
        verdict="match" if certain else "admissible",
        why=why,
        expected=_ADMITTED,
        recorded=_ADMITTED,
        inputs=question.inputs,
        rule=RULE_PREEMPTION if answer.result.victims else RULE_PREDICATES,
    )


def _not_let_in(question: Question, answer: Answer) -> Judgement:
    result = answer.result
    if not question.labels_known and result.reason == "NodeAffinity":
        return unverifiable("the node's labels")
    if result.reason == "TaintToleration" and not question.taints_known:
        return unverifiable("the node's taints at this time")
    if result.admit:
        if not question.whole or not all(other.lives for other in answer.pods):
            return unverifiable(VICTIMS, rule=RULE_PREEMPTION)
        why = (
            f"the pod was let in while it lacked {amounts(answer.requirements)} "
            f"({short_of(answer)}), and all pods that it may have preempted ran on"
        )
        return Judgement(
            verdict="impossible",
            why=why,
            expected={"admit": True, "victims": list(result.victims)},
            recorded={"admit": True, "victims": []},
            rule=RULE_PREEMPTION,
            inputs=(*question.inputs, *answer.specs),
        )
    return Judgement(
        verdict="impossible",
        why=f"the pod was let in although it is to be refused as {result.reason}: {result.message}",
        expected={"admit": False, "reason": result.reason, "message": result.message},
        recorded=_ADMITTED,
        inputs=(*question.inputs, *answer.specs),
    )
