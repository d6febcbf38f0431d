"""Was the pod to be refused, and in these words?

Numbers that a refusal itself tells (what was in use) are readings of the kubelet: worlds that do
not give them end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from kubeledger.kube.critical import is_critical_pod
from kubeledger.kube.names import is_extended_resource
from kubeledger.lifecycle.nodeinfo import NodeInfo
from kubeledger.lifecycle.records import PodRejected
from kubeledger.lifecycle.resourcefit import pod_request
from kubeledger.lifecycle.shutdown import NOT_ADMITTED
from kubeledger.verify.belief import Judgement, Ruling, judge, open_to, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import (
    UNCOUNTED,
    AdmissionCase,
    AdmissionOutcome,
    capacities,
)
from kubeledger.verify.rules.admission.judging import (
    ALLOCATION,
    ENDS,
    LABELS,
    OTHER_PODS,
    RECOVERY,
    RULE_DEVICES,
    RULE_EVICTION,
    TAINTS,
    freely,
    lacking,
)
from kubeledger.verify.rules.admission.marks import tolerates_short_taints
from kubeledger.verify.rules.admission.pressure import CONDITIONS, Condition, Pressure
from kubeledger.verify.rules.admission.words import (
    amount,
    amounts,
    fits_because,
    listing,
    plain,
    plains,
    short_of,
)

__all__ = ["judge_refused"]

RULE_SHUTDOWN: Final = "pkg/kubelet/nodeshutdown managerImpl.Admit"
_CONDITION_MESSAGE: Final = re.compile(r"The node had condition: \[([A-Za-z ]*)\]\. ?")
_NOT_ENOUGH: Final = "Node didn't have enough resource: "
_OUT_OF: Final = re.compile(rf"{_NOT_ENOUGH}(\S+), requested: (\d+), used: (\d+), capacity: (\d+)")
_ELSEWHERE: Final = {
    "AppArmor": "the node's AppArmor profiles",
    "EmptyPodSharedPoolError": "what the CPU and memory managers held",
    "InvalidNodeInfo": "why the node object could not be had",
    "NodeShutdown": "whether the node was shutting down",
    "PodFeatureUnsupported": "the features that the node declares",
    "PodLevelResourcesNotSupported": "the features that the node declares",
    "SMTAlignmentError": "what the CPU manager held",
    "SysctlForbidden": "the sysctls that the kubelet allows",
    "TopologyAffinityError": "the topology manager's decision",
}
"""Reason of a handler that is not run here -> what it looks at."""
_LATE: Final = ("AppArmor", "NodeShutdown", "PodFeatureUnsupported")
"""Of handlers after the predicates: what the predicates refuse does not get to them."""


def judge_refused(
    case: AdmissionCase,
    body: PodRejected,
    pressure: Pressure,
    shutdown: int | None = None,
) -> Judgement:
    """Judge a recorded refusal.

    Args:
        case: the admission.
        body: the refusal.
        pressure: the node's conditions.
        shutdown: record that shows that the node shuts down; None where none does.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    recorded: Fields = {"reason": body.reason, "message": body.message}
    if case.add.refusals:
        return _by_managers(case, recorded)
    if body.reason == "Evicted":
        return _by_pressure(case, body, pressure)
    if body.message.startswith(ALLOCATION) and body.reason == "UnexpectedAdmissionError":
        return lacking("what the device, CPU and memory managers held", rule=RULE_DEVICES)
    if (wrong := _own_numbers(case, body)) is not None:
        return wrong
    worlds = list(case.outcomes())
    rulings = [freely(_refuses(case, each, recorded) for each in choices) for choices in worlds]
    told = [ruling for ruling in rulings if ruling.allowed]
    if told:
        # The numbers of a refusal are those of all pods that counted: they prove their list.
        return judge([msgspec.structs.replace(ruling, assumes=()) for ruling in told])
    likely = worlds[0][0]
    if likely.result.admit and shutdown is not None and body.reason == NOT_ADMITTED[0]:
        return same(
            body.message == NOT_ADMITTED[1],
            "the pod fits, and none is admitted while the node shuts down",
            expected={"reason": NOT_ADMITTED[0], "message": NOT_ADMITTED[1]},
            inputs=(*case.inputs, shutdown),
            rule=RULE_SHUTDOWN,
        )
    unknown = _left_open(case, likely, body)
    rulings += [Ruling(allowed=True, why="", assumes=(phrase,)) for phrase in unknown]
    return judge(rulings, cut=ENDS if case.is_cut else None)


def _said(outcome: AdmissionOutcome) -> Fields:
    return {"reason": outcome.result.reason, "message": outcome.result.message}


def _by_managers(case: AdmissionCase, recorded: Fields) -> Judgement:
    """The topology and device managers are asked before the predicates.

    The manager's own words may have been read in the same line as the refusal.
    """
    seq, reason, message = case.add.refusals[-1]
    expected: Fields = {"reason": reason, "message": message}
    allowed = recorded == expected
    why = f"rejected by the topology or device manager, before the fit checks: {message}"
    if not allowed:
        said = f"{recorded['reason']} ({recorded['message']})"
        why = f"the pod was refused as {said}, but what refused it said {reason} ({message})"
    inputs = (case.add.seq, case.spec_seq, seq)
    return same(allowed, why, expected=expected, inputs=inputs, rule=RULE_DEVICES)


def _by_pressure(case: AdmissionCase, body: PodRejected, pressure: Pressure) -> Judgement:
    """The eviction manager keeps out pods while the node has pressure conditions."""
    match = _CONDITION_MESSAGE.fullmatch(body.message)
    named = set(match[1].split()) if match else set()
    at_ns = case.add.ts_ns
    conditions: list[Condition] = [c for c in CONDITIONS if c in named]
    inputs = (case.add.seq, case.spec_seq, *case.node_inputs)
    inputs += tuple(seq for c in conditions for seq in pressure.evidence(c))

    def says(allowed: bool, why: str, expected: Fields | None = None) -> Judgement:
        return same(allowed, why, expected=expected, inputs=inputs, rule=RULE_EVICTION)

    if not named or not named <= set(CONDITIONS):
        return says(False, f"no kubelet says {body.message!r} when it refuses a pod under pressure")
    if is_critical_pod(case.pod):
        return says(False, "the pod is critical, and is admitted under pressure", {"admit": True})
    told = {condition: pressure.possibly(condition, at_ns) for condition in conditions}
    clear = [condition for condition, possible in told.items() if possible is False]
    if clear:
        why = f"no eviction signal had been under its threshold, so there was no {clear[0]}"
        return says(False, why)
    why = f"the node had {' and '.join(conditions)}, and the pod is not critical"
    sure = all(pressure.surely(condition, at_ns, at_ns) for condition in conditions)
    if sure or pressure.reported == frozenset(named):
        return says(True, why, {"reason": body.reason, "message": body.message})
    phrase = "the eviction signals at this time (logged from verbosity 3)"
    if None not in told.values():
        phrase = f"how long the node had {' and '.join(conditions)}"
    return open_to(phrase, denied="the pod was refused under pressure", inputs=inputs)


def _refuses(case: AdmissionCase, outcome: AdmissionOutcome, recorded: Fields) -> Ruling:
    """What one world makes of a refusal by the predicates or by preemption."""
    result, said = outcome.result, _said(outcome)
    allowed = not result.admit and said == recorded
    told = f"the pod was refused as {recorded['reason']} ({recorded['message']}), but"
    expected: Fields = said
    if result.admit:
        expected = {"admit": True}
        fits = "it is critical, and room is made for it"
        why = f"{told} {fits if result.victims else fits_because(case, outcome)}"
    elif not allowed:
        other = recorded["reason"] != result.reason
        words = f"as {result.reason}: {result.message}" if other else f"as: {result.message}"
        why = f"{told} it is to be refused {words}"
    elif result.reason.startswith("OutOf"):
        why = f"the pod does not fit: {short_of(outcome)} by {len(outcome.pods)} pods"
    elif result.message.startswith(RECOVERY):
        lacks = f"the pod is critical and lacks {amounts(outcome.requirements)}"
        why = f"{lacks} ({short_of(outcome)}), which no pods that it may preempt free"
    else:
        why = f"the pod is refused as {result.reason}: {result.message}"
    return Ruling(
        allowed=allowed,
        why=why,
        expected=expected,
        assumes=outcome.assumes,
        inputs=(*case.inputs, *outcome.specs),
    )


def _left_open(case: AdmissionCase, likely: AdmissionOutcome, body: PodRejected) -> Iterator[str]:
    """What no record tells and may have led to a refusal that no known world gives."""
    reason, result = body.reason, likely.result
    reasons = (reason, result.reason)
    incomplete = bool(case.unread) or not case.complete
    got_there = result.admit or reason not in _LATE or incomplete
    if reason in _ELSEWHERE and body.message != result.message and got_there:
        yield _ELSEWHERE[reason]
    if body.message.startswith("Update plugin resources failed"):
        yield "what the device manager held"
    yield from (f"the spec of pod {name}" for name in case.unread)
    if not case.complete:
        yield OTHER_PODS
    if not case.labels_known and "NodeAffinity" in reasons:
        yield LABELS
    if "TaintToleration" in reasons:
        lasting = reason != "TaintToleration" or tolerates_short_taints(case.pod)
        if not (case.taints_known and lasting):
            yield TAINTS
    by_rank = result.reason == "NodeAffinity" or result.reason.startswith("OutOf")
    if reason == "NodeName" and not case.named and not by_rank:
        yield "the node's name"
    if reason in {f"OutOf{resource}" for resource in case.unsized}:
        yield from capacities(case.unsized)


def _own_numbers(case: AdmissionCase, body: PodRejected) -> Judgement | None:
    """What the words say of pod and node, whoever else was there; None where that is right."""
    told = _OUT_OF.fullmatch(body.message)
    if told is None or body.reason != f"OutOf{told[1]}" or told[1] in case.unsized:
        return None
    if is_extended_resource(told[1]):
        return None  # how many devices there are changes
    resource, requested, used, capacity = told[1], int(told[2]), told[3], int(told[4])
    asked = 1 if resource == "pods" else pod_request(case.pod.spec, case.facts).get(resource, 0)
    sizes = [NodeInfo(n, (), case.facts).allocatable(resource) for n in case.nodes]
    if requested == asked and (capacity in sizes or UNCOUNTED in sizes):
        return None
    size = capacity if capacity in sizes or UNCOUNTED in sizes else sizes[0]
    right = f"{_NOT_ENOUGH}{resource}, requested: {asked}, used: {used}, capacity: {size}"
    expected: Fields = {"reason": body.reason, "message": right}
    if asked + int(used) <= size:
        likely = next(case.outcomes())[0]
        expected = {"admit": True} if likely.result.admit else _said(likely)
    right_size, said_size = plains(resource, size, capacity)
    wrong = [
        f"asks for {amount(resource, asked)}, not {plain(resource, requested)}",
        f"was refused on a node that has {right_size} of {resource} for pods, not {said_size}",
    ]
    return same(
        False,
        f"the pod {listing(wrong[requested == asked : 1 + (size != capacity)])}",
        expected=expected,
        inputs=case.inputs,
        certain=not case.inferred,
    )
