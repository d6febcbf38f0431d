"""Was the pod to be admitted, or left without victims?

Each judgement asks every world of the case, and adds the worlds in which something counts that no
record tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kubeledger.errors import BadInputError
from kubeledger.kube.critical import is_critical_pod
from kubeledger.preemption.records import PreemptionFailed
from kubeledger.verify.belief import Judgement, Ruling, judge, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import (
    AdmissionCase,
    AdmissionOutcome,
    capacities,
)
from kubeledger.verify.rules.admission.words import (
    amount,
    amounts,
    fits_because,
    listing,
    priority_of,
    short_of,
)

__all__ = [
    "ALLOCATION",
    "ENDS",
    "LABELS",
    "OTHER_PODS",
    "RECOVERY",
    "RULE_DEVICES",
    "RULE_EVICTION",
    "RULE_PREDICATES",
    "RULE_PREEMPTION",
    "TAINTS",
    "VICTIMS",
    "failure_of",
    "freely",
    "judge_admitted",
    "judge_failed",
    "judged",
    "lacking",
]

RULE_DEVICES: Final = "pkg/kubelet/cm/topologymanager scope.Admit"
RULE_EVICTION: Final = "pkg/kubelet/eviction managerImpl.Admit"
RULE_PREDICATES: Final = "pkg/kubelet/lifecycle predicateAdmitHandler.Admit"
RULE_PREEMPTION: Final = "pkg/kubelet/preemption getPodsToPreempt"

OTHER_PODS: Final = "the pods that ran before the log begins"
VICTIMS: Final = "the lines that tell whom room was made by"
ENDS: Final = "until when the other pods ran"
LABELS: Final = "the node's labels"
TAINTS: Final = "the node's taints at this time"

RECOVERY: Final = "Unexpected error while attempting to recover from admission failure: "
"""How the message of a preemption that finds nobody begins."""
ALLOCATION: Final = "Allocate failed due to "
"""How the message of a resource manager that has nothing to give begins."""
_LEFT: Final = re.compile(r"\(res: ([^,\s]+), q: (\d+)\)")
_NOTE: Final = "the machine's size is inferred from its cgroups and eviction signals"


def judged(
    case: AdmissionCase | tuple[str, ...], judge_case: Callable[[AdmissionCase], Judgement]
) -> Judgement:
    """Judge a case; one that lacks inputs (the tuple names them) is not decided."""
    if not isinstance(case, AdmissionCase):
        return lacking(*case)
    try:
        judgement = judge_case(case)
    except BadInputError:
        return lacking("readable quantities of all pods")
    if case.inferred and judgement.verdict != "unverifiable" and judgement.rule != RULE_DEVICES:
        return msgspec.structs.replace(judgement, why=f"{judgement.why} ({_NOTE})")
    return judgement


def lacking(*missing: str, rule: str = RULE_PREDICATES) -> Judgement:
    """Inputs are missing, each named."""
    return Judgement(
        verdict="unverifiable",
        missing=missing,
        rule=rule,
        why=f"cannot be decided again without {' and '.join(missing)}",
    )


def freely(rulings: Iterable[Ruling]) -> Ruling:
    """What one world makes of a decision, by the rulings on all that the kubelet may do in it."""
    first, *others = rulings
    if first.allowed:
        return first
    found = next((ruling for ruling in others if ruling.allowed), None)
    return first if found is None else msgspec.structs.replace(found, chosen=False)


# -- admitted -------------------------------------------------------------------------------


def judge_admitted(case: AdmissionCase, victims: Sequence[str]) -> Judgement:
    """Judge a recorded admission.

    Args:
        case: the admission.
        victims: names of the pods that are recorded as killed for it.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    if case.add.refusals:
        seq, reason, message = case.add.refusals[-1]
        return same(
            False,
            f"the pod was admitted although it was refused for {reason}: {message}",
            expected={"admit": False, "reason": reason, "message": message},
            inputs=(*case.inputs, seq),
            rule=RULE_DEVICES,
        )
    if case.pressure is not None and not is_critical_pod(case.pod):
        seq, says = case.pressure
        return same(
            False,
            f"the pod was admitted, and it is not critical, while the node was short: {says}",
            expected={"admit": False, "reason": "Evicted"},
            inputs=(*case.inputs, seq),
            rule=RULE_EVICTION,
        )
    worlds = list(case.extremes())
    rulings = [freely(_admits(case, each, victims) for each in choices) for choices in worlds]
    if any(VICTIMS in ruling.assumes for ruling in rulings):
        why = "the pod was admitted, and no victims are told of"
        rulings.append(Ruling(allowed=False, why=why, rule=RULE_PREEMPTION))
    rulings += _keeping_out(case)
    reasons = {each.result.reason for choices in worlds for each in choices}
    if not case.labels_known and "NodeAffinity" in reasons:
        rulings.append(Ruling(allowed=True, why="", assumes=(LABELS,)))
    if not case.taints_known and "TaintToleration" in reasons:
        rulings.append(Ruling(allowed=True, why="", assumes=(TAINTS,)))
    return judge(rulings)


def _admits(case: AdmissionCase, outcome: AdmissionOutcome, victims: Sequence[str]) -> Ruling:
    result = outcome.result
    may_be_lost = not case.complete or not all(other.lives for other in outcome.pods)
    lost = (VICTIMS,) if result.victims and not victims else ()
    allowed = result.admit and (not lost or may_be_lost)
    expected: Fields = {"admit": True}
    if not result.admit:
        expected = {"admit": False, "reason": result.reason, "message": result.message}
        why = (
            f"the pod was admitted although it is to be refused as {result.reason}: "
            f"{result.message}"
        )
    elif not result.victims:
        why = fits_because(case, outcome)
    elif victims:
        why = (
            f"the pod is critical and lacked {amounts(outcome.requirements)} "
            f"({short_of(outcome)}), which {listing(victims)} made room for"
        )
    else:
        expected = {"admit": True, "victims": list(result.victims)}
        why = (
            f"the pod was admitted while it lacked {amounts(outcome.requirements)} "
            f"({short_of(outcome)}), and all pods that it may have preempted ran on"
        )
    return Ruling(
        allowed=allowed,
        why=why,
        expected=expected,
        assumes=(*outcome.assumes, *(lost if allowed else ())),
        inputs=(*case.inputs, *(() if allowed else outcome.specs)),
        rule=RULE_PREEMPTION if result.victims else RULE_PREDICATES,
    )


def _keeping_out(case: AdmissionCase) -> Iterator[Ruling]:
    """Worlds in which what no record tells leaves no room for the pod."""
    unknown = [f"the spec of pod {name}" for name in case.unread]
    unknown += capacities(case.unsized)
    if not case.complete:
        unknown.append(OTHER_PODS)
    for phrase in unknown:
        why = "the pod was admitted, and may have had no room"
        yield Ruling(allowed=False, why=why, assumes=(phrase,))


# -- no victims -----------------------------------------------------------------------------


def judge_failed(case: AdmissionCase, body: PreemptionFailed) -> Judgement:
    """Judge a recorded preemption that found no victims.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    recorded = failure_of(body)
    rulings = [
        freely(_fails(case, each, recorded) for each in choices) for choices in case.outcomes()
    ]
    # What is told to be missing is a reading, as the numbers of a refusal are.
    told = [ruling for ruling in rulings if ruling.allowed]
    if told:
        return judge([msgspec.structs.replace(ruling, assumes=()) for ruling in told])
    unknown = [f"the spec of pod {name}" for name in case.unread]
    if not case.complete:
        unknown.append(OTHER_PODS)
    rulings += [Ruling(allowed=True, why="", assumes=(phrase,)) for phrase in unknown]
    return judge(rulings, cut=ENDS if case.is_cut else None)


def failure_of(body: PreemptionFailed) -> Fields:
    """The fields of a preemption without victims that are judged."""
    recorded: Fields = {"error": body.error}
    if body.insufficient:
        recorded["insufficient"] = list(msgspec.to_builtins(body.insufficient))
    return recorded


def _fails(case: AdmissionCase, outcome: AdmissionOutcome, recorded: Fields) -> Ruling:
    message = outcome.result.message
    error = message.removeprefix(RECOVERY) if message.startswith(RECOVERY) else ""
    expected: Fields = {"error": error}
    if "insufficient" in recorded:
        expected["insufficient"] = list(msgspec.to_builtins(outcome.requirements))
    allowed = expected == recorded
    return Ruling(
        allowed=allowed,
        why=_lacks(case, outcome, error) if allowed else _found(case, outcome, expected, recorded),
        expected=expected,
        assumes=outcome.assumes,
        inputs=(*case.inputs, *outcome.specs),
        rule=RULE_PREEMPTION,
    )


def _lacks(case: AdmissionCase, outcome: AdmissionOutcome, error: str) -> str:
    left = listing(amount(resource, int(quantity)) for resource, quantity in _LEFT.findall(error))
    return (
        f"{case.add.full_name} ({priority_of(case.pod)}) lacks "
        f"{amounts(outcome.requirements)} ({short_of(outcome)}), and with all pods gone that it "
        f"may preempt it would still lack {left}"
    )


def _found(
    case: AdmissionCase, outcome: AdmissionOutcome, expected: Fields, recorded: Fields
) -> str:
    """What the kubelet did instead of giving up with these words."""
    if expected["error"]:
        wrong = [name for name in recorded if recorded[name] != expected[name]]
        if wrong == ["insufficient"]:
            return f"what is missing is {amounts(outcome.requirements)}"
        return f"the kubelet says {expected['error']!r}"
    if outcome.result.victims:
        names = {other.pod.metadata.uid: other.name for other in outcome.pods}
        found = ", ".join(names.get(uid, uid) for uid in outcome.result.victims)
        return f"there are victims whose death makes room: {found}"
    if outcome.result.admit:
        return f"nothing is missing: {fits_because(case, outcome)}"
    return f"the pod is refused otherwise, as {outcome.result.reason}: {outcome.result.message}"
