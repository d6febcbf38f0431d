"""Was there no set of victims?"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kubeledger.preemption.records import PreemptionFailed
from kubeledger.verify.admission.judgement import (
    ENDS,
    OTHER_PODS,
    RULE_PREEMPTION,
    Judgement,
    unverifiable,
)
from kubeledger.verify.admission.question import Answer, Question
from kubeledger.verify.admission.refused import RECOVERY
from kubeledger.verify.admission.words import (
    amount,
    amounts,
    fits_because,
    listing,
    priority_of,
    short_of,
)
from kubeledger.verify.finding import Fields

__all__ = ["judge_failed"]

_LEFT: Final = re.compile(r"\(res: ([^,\s]+), q: (\d+)\)")


def judge_failed(question: Question, body: PreemptionFailed) -> Judgement:
    """Judge a recorded preemption that found no victims.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    recorded: Fields = {"error": body.error}
    if body.insufficient:
        recorded["insufficient"] = list(msgspec.to_builtins(body.insufficient))
    if question.unread:
        missing = tuple(f"the spec of pod {name}" for name in question.unread)
        return unverifiable(*missing, rule=RULE_PREEMPTION)
    likely: Answer | None = None
    for answer in question.answers():
        likely = likely or answer
        if _expected(answer, recorded) == recorded:
            return _judgement(question, answer, recorded)
    assert likely is not None
    if not question.whole:
        return unverifiable(OTHER_PODS, rule=RULE_PREEMPTION)
    if question.open_worlds:
        return unverifiable(ENDS, rule=RULE_PREEMPTION)
    return _refuted(question, likely, recorded)


def _expected(answer: Answer, recorded: Fields) -> Fields:
    """What the kubelet says in one world; an empty error where it finds victims or needs none."""
    message = answer.result.message
    error = message.removeprefix(RECOVERY) if message.startswith(RECOVERY) else ""
    expected: Fields = {"error": error}
    if "insufficient" in recorded:
        expected["insufficient"] = list(msgspec.to_builtins(answer.requirements))
    return expected


def _judgement(question: Question, answer: Answer, recorded: Fields) -> Judgement:
    why = (
        f"{question.offer.full_name} ({priority_of(question.pod)}) lacks "
        f"{amounts(answer.requirements)} ({short_of(answer)}), and with all pods gone that it "
        "may preempt it would still lack "
        f"{_left(recorded['error'])}"
    )
    return Judgement(
        verdict="match" if answer.first else "admissible",
        why=why,
        expected=recorded,
        recorded=recorded,
        rule=RULE_PREEMPTION,
        inputs=(*question.inputs, *answer.specs),
    )


def _left(error: str) -> str:
    """What the error says would still be missing."""
    found = _LEFT.findall(error)
    return listing(amount(resource, int(quantity)) for resource, quantity in found)


def _refuted(question: Question, answer: Answer, recorded: Fields) -> Judgement:
    expected = _expected(answer, recorded)
    if expected["error"]:
        wrong = [name for name in recorded if recorded[name] != expected[name]]
        why = f"the kubelet says {expected['error']!r}"
        if wrong == ["insufficient"]:
            why = f"what is missing is {amounts(answer.requirements)}"
    elif answer.result.victims:
        names = {other.pod.metadata.uid: other.name for other in answer.pods}
        found = ", ".join(names.get(uid, uid) for uid in answer.result.victims)
        why = f"there are victims whose death makes room: {found}"
    elif answer.result.admit:
        why = f"nothing is missing: {fits_because(question, answer)}"
    else:
        why = f"the pod is refused otherwise, as {answer.result.reason}: {answer.result.message}"
    return Judgement(
        verdict="impossible",
        why=why,
        expected=expected,
        recorded=recorded,
        rule=RULE_PREEMPTION,
        inputs=(*question.inputs, *answer.specs),
    )
