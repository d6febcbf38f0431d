"""Was the pod to be admitted, or left without victims?

Each judgement asks every world of the case, and adds the worlds in which something counts that no
record says.

The words say why a pod fits, or does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.lifecycle.nodeinfo import pod_request
from kubeledger.kubelet.preemption.explain import amount, amounts, listing, plains, priority_of
from kubeledger.model.bodies.eviction import PreemptionFailed
from kubeledger.model.errors import BadInputError
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import (
    UNCOUNTED,
    AdmissionCase,
    AdmissionOutcome,
    capacities,
)

_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


def short_of(outcome: AdmissionOutcome) -> str:
    """Why a pod does not fit: requested, used and allocatable of each resource it lacks."""
    return listing(
        f"{amount(i.resource_name, i.requested)} requested, "
        f"{' of '.join(plains(i.resource_name, i.used, i.capacity))} in use"
        for i in outcome.insufficient
    )


def lacked_by(outcome: AdmissionOutcome, case: AdmissionCase | None = None) -> str:
    """What a pod lacks, and why; with the case, which pod lacks that."""
    lacks = f"{amounts(outcome.requirements)} ({short_of(outcome)})"
    if case is None:
        return lacks
    return f"{case.interval.full_name} ({priority_of(case.pod)}) lacked {lacks}"


def fits_because(case: AdmissionCase, outcome: AdmissionOutcome) -> str:
    """Why a pod fits: what it asks for, and what is in use."""
    info, parts = outcome.info, []
    for resource, asked in pod_request(case.pod.spec, case.facts).items():
        is_scalar = info.lists_scalar(resource) and info.allocatable(resource) < UNCOUNTED
        if asked > 0 and (resource in _FIRST or is_scalar):
            used, has = info.requested(resource), info.allocatable(resource)
            in_use = " of ".join(plains(resource, used, has))
            parts.append(f"{amount(resource, asked)} ({in_use} in use)")
    room = f"{len(outcome.pods)} of {info.allocatable('pods')} pods were active"
    if not parts:
        return f"the pod asks for no cpu and memory, and {room}"
    return f"the pod asks for {listing(parts)}; {room}"


RULE_DEVICES: Final = "pkg/kubelet/cm/topologymanager scope.Admit"
RULE_EVICTION: Final = "pkg/kubelet/eviction managerImpl.Admit"
RULE_PREDICATES: Final = "pkg/kubelet/lifecycle predicateAdmitHandler.Admit"
RULE_PREEMPTION: Final = "pkg/kubelet/preemption getPodsToPreempt"

VICTIMS: Final = "the lines that show which pods were preempted"
ENDS: Final = "until when the other pods ran"

RECOVERY: Final = "Unexpected error while attempting to recover from admission failure: "
"""How the message of a preemption that finds nobody begins."""
_LEFT: Final = re.compile(r"\(res: ([^,\s]+), q: (\d+)\)")
UNREADABLE: Final = lacks(("readable quantities of all pods",))
_NOTE: Final = "the machine's size is inferred from its cgroups and eviction signals"


def judged(
    case: AdmissionCase | tuple[str, ...],
    judge_case: Callable[[AdmissionCase], Judgement],
    rule: str = RULE_PREDICATES,
) -> Judgement:
    """Judge a case; one that lacks inputs (the tuple names them) is not decided."""
    if not isinstance(case, AdmissionCase):
        return replace(lacks(case), rule=rule)
    try:
        return noted(case, judge_case(case), rule)
    except BadInputError:  # what a pod asks for cannot be read
        return replace(UNREADABLE, rule=rule)


def noted(case: AdmissionCase, judgement: Judgement, rule: str) -> Judgement:
    """A judgement with its rule, and with a note where it rests on an inferred size."""
    decided = judgement.verdict != "unverifiable" and judgement.rule != RULE_DEVICES
    note = f" ({_NOTE})" if case.inferred and decided else ""
    clause = judgement.clause and judgement.clause + note
    return replace(judgement, why=judgement.why + note, clause=clause, rule=judgement.rule or rule)


def freely(rulings: Iterable[Ruling]) -> Ruling:
    """What one world makes of a decision, by the rulings on all that the kubelet may do in it."""
    first: Ruling | None = None
    for ruling in rulings:
        if ruling.allowed:
            return ruling if first is None else replace(ruling, chosen=False)
        first = first or ruling
    assert first is not None
    return first


def by_its_numbers(
    case: AdmissionCase, rulings: Sequence[Ruling], unknown_inputs: Iterable[str]
) -> Judgement:
    """Judge a decision that shows its inputs: its numbers prove the world that gives them.

    ``unknown_inputs``: what no record shows and may have led to it.
    """
    given = [replace(each, assumes=()) for each in rulings if each.allowed]
    if given:
        return judge(given)
    return judge(rulings, unknown=unknown_inputs, cut=ENDS if case.is_cut else None)


def said_in(outcome: AdmissionOutcome) -> Fields:
    """What the kubelet says when it decides so."""
    if outcome.result.admit:
        return {"admit": True}
    return {"reason": outcome.result.reason, "message": outcome.result.message}


# -- admitted -------------------------------------------------------------------------------


def judge_admitted(case: AdmissionCase, victims: Sequence[str]) -> Judgement:
    """Judge a recorded admission; ``victims``: names of the pods recorded as killed for it."""
    if case.refusal is not None:
        seq, reason, message = case.refusal
        why = f"the pod was admitted although it was refused for {reason}: {message}"
        given, seqs = {"admit": False, "reason": reason, "message": message}, (*case.inputs, seq)
        return same(False, why, expected=given, inputs=seqs, rule=RULE_DEVICES)
    if case.pressure is not None and not is_critical_pod(case.pod):
        seq, says = case.pressure
        why = f"the pod was admitted, and it is not critical, while the node was short: {says}"
        given, seqs = {"admit": False, "reason": "Evicted"}, (*case.inputs, seq)
        return same(False, why, expected=given, inputs=seqs, rule=RULE_EVICTION)
    worlds = list(case.extremes())
    rulings = [freely(_admits(case, each, victims) for each in choices) for choices in worlds]
    if any(VICTIMS in ruling.assumes for ruling in rulings):
        why = "the pod was admitted, and no victims are recorded"
        rulings.append(Ruling(allowed=False, why=why, rule=RULE_PREEMPTION))
    for phrase in (*case.unknown_inputs, *capacities(case.unsized)):
        why = "the pod was admitted, and may have had no room"
        rulings.append(Ruling(allowed=False, why=why, assumes=(phrase,)))
    reasons = {each.result.reason for choices in worlds for each in choices}
    return judge(rulings, unknown=case.unknown_of_node(reasons))


def _admits(case: AdmissionCase, outcome: AdmissionOutcome, victims: Sequence[str]) -> Ruling:
    result = outcome.result
    may_be_lost = not case.complete or not all(other.alive_later for other in outcome.pods)
    lost = (VICTIMS,) if result.victims and not victims else ()
    allowed = result.admit and (not lost or may_be_lost)
    expected: Fields = {"admit": result.admit, **said_in(outcome)}
    if not result.admit:
        refused = f"refused as {result.reason}: {result.message}"
        why = f"the pod was admitted although it is to be {refused}"
    elif not result.victims:
        why = fits_because(case, outcome)
    elif victims:
        room = f"which {listing(victims)} made room for"
        why = f"the pod is critical and lacked {lacked_by(outcome)}, {room}"
    else:
        expected["victims"] = list(result.victims)
        why = (
            f"the pod was admitted while it lacked {lacked_by(outcome)}, and all pods that it may "
            "have preempted ran on"
        )
    return Ruling(
        allowed=allowed,
        why=why,
        expected=expected,
        assumes=(*outcome.assumes, *(lost if allowed else ())),
        inputs=(*case.inputs, *(() if allowed else outcome.specs)),
        rule=RULE_PREEMPTION if result.victims else RULE_PREDICATES,
    )


# -- no victims -----------------------------------------------------------------------------


def judge_failed(case: AdmissionCase, body: PreemptionFailed) -> Judgement:
    """Judge a recorded preemption that found no victims."""
    given = failure_of(body)
    rulings = [freely(_fails(case, each, given) for each in choices) for choices in case.outcomes()]
    return by_its_numbers(case, rulings, case.unknown_inputs)


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
    if expected == recorded:
        left = listing(amount(res, int(quantity)) for res, quantity in _LEFT.findall(error))
        why = f"{lacked_by(outcome, case)}, and with all pods gone that it may preempt it would "
        why += f"still lack {left}"
    elif error == recorded["error"]:
        why = f"what is missing is {amounts(outcome.requirements)}"
    elif error:
        why = f"the kubelet says {error!r}"
    elif outcome.result.victims:
        names = {other.pod.metadata.uid: other.name for other in outcome.pods}
        found = ", ".join(names.get(uid, uid) for uid in outcome.result.victims)
        why = f"some victims would make room: {found}"
    elif outcome.result.admit:
        why = f"nothing is missing: {fits_because(case, outcome)}"
    else:
        why = f"the pod is refused otherwise, as {outcome.result.reason}: {message}"
    return Ruling(
        allowed=expected == recorded,
        why=why,
        expected=expected,
        assumes=outcome.assumes,
        inputs=(*case.inputs, *outcome.specs),
        rule=RULE_PREEMPTION,
    )
