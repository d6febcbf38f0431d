"""Was the pod to be refused, and in these words?

Numbers that a refusal itself shows (what was in use) are readings of the kubelet: worlds that do
not give them end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from kubeledger.kubelet.eviction.signals import CONDITION_OF
from kubeledger.kubelet.kube.admission import UNEXPECTED_REASON
from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.kubelet.kube.names import is_extended_resource
from kubeledger.kubelet.kube.podlevel import is_pod_level
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo, pod_request
from kubeledger.kubelet.lifecycle.termination import NOT_ADMITTED
from kubeledger.kubelet.topologymanager.scope import AFFINITY_REASON, POD_LEVEL_MESSAGES
from kubeledger.model.bodies.lifecycle import PodRejected
from kubeledger.verify.belief import Judgement, Ruling, lacks, open_to, same
from kubeledger.verify.cached_results import NodePressure
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import (
    UNCOUNTED,
    AdmissionCase,
    AdmissionOutcome,
    capacities,
)
from kubeledger.verify.rules.admission.judging import (
    LABELS,
    RECOVERY,
    RULE_DEVICES,
    RULE_EVICTION,
    TAINTS,
    by_its_numbers,
    fits_because,
    freely,
    lacked_by,
    said_in,
    short_of,
)
from kubeledger.verify.rules.admission.nodes import tolerates_short_taints
from kubeledger.verify.rules.admission.refusals import ALLOCATION

RULE_SHUTDOWN: Final = "pkg/kubelet/nodeshutdown managerImpl.Admit"
CONDITION_MESSAGE: Final = re.compile(r"The node had condition: \[([A-Za-z ]*)\]\. ?")
OUT_OF: Final = re.compile(
    r"Node didn't have enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)"
)
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
    pressure: NodePressure,
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
    if case.refusals:
        return _by_managers(case, recorded)
    if body.reason == "Evicted":
        return _by_pressure(case, body, pressure)
    if body.message.startswith(ALLOCATION) and body.reason == UNEXPECTED_REASON:
        missing = lacks(("what the device, CPU and memory managers held",))
        return msgspec.structs.replace(missing, rule=RULE_DEVICES)
    worlds = list(case.outcomes())
    likely = worlds[0][0]
    if likely.result.admit and shutdown is not None and body.reason == NOT_ADMITTED[0]:
        return same(
            body.message == NOT_ADMITTED[1],
            "the pod fits, and none is admitted while the node shuts down",
            expected={"reason": NOT_ADMITTED[0], "message": NOT_ADMITTED[1]},
            inputs=(*case.inputs, shutdown),
            rule=RULE_SHUTDOWN,
        )
    rulings = [freely(_refuses(case, each, recorded) for each in choices) for choices in worlds]
    if _misquotes(case, body):
        certain = not case.inferred
        rulings = [msgspec.structs.replace(each, certain=certain) for each in rulings]
        return by_its_numbers(case, rulings, ())
    return by_its_numbers(case, rulings, _left_open(case, likely, body))


def _by_managers(case: AdmissionCase, recorded: Fields) -> Judgement:
    """The topology and device managers are asked before the predicates.

    The manager's own words may have been read in the same line as the refusal.
    """
    seq, reason, message = case.refusals[-1]
    if recorded["message"] in POD_LEVEL_MESSAGES and is_pod_level(case.pod.spec.resources):
        # Only the version with its gate on says so, and it says no more than the other text.
        message = str(recorded["message"]) if reason == AFFINITY_REASON else message
    expected: Fields = {"reason": reason, "message": message}
    allowed = recorded == expected
    why = f"rejected by a resource manager, before the fit checks: {message}"
    if case.blame:
        why = f"rejected by the topology manager: {case.blame}"
    if not allowed:
        instead_of = f"{recorded['reason']} ({recorded['message']})"
        why = f"the pod was refused as {instead_of}, but what refused it said {reason} ({message})"
    inputs = (case.interval.add_seq or 0, case.spec_seq, seq)
    return same(allowed, why, expected=expected, inputs=inputs, rule=RULE_DEVICES)


def _by_pressure(case: AdmissionCase, body: PodRejected, node: NodePressure) -> Judgement:
    """The eviction manager keeps out pods while the node has pressure conditions."""
    match = CONDITION_MESSAGE.fullmatch(body.message)
    conditions = match[1].split() if match else []
    at_ns = case.interval.added_ns or 0
    given = [node.pressure(condition, at_ns, at_ns) for condition in conditions]
    inputs = (*case.inputs, *(each.seq for each in given))

    def judged(allowed: bool, why: str, expected: Fields | None = None) -> Judgement:
        return same(allowed, why, expected=expected, inputs=inputs, rule=RULE_EVICTION)

    if not conditions or not set(conditions) <= set(CONDITION_OF.values()):
        return judged(
            False, f"no kubelet says {body.message!r} when it refuses a pod under pressure"
        )
    if is_critical_pod(case.pod):
        return judged(False, "the pod is critical, and is admitted under pressure", {"admit": True})
    for absent in (each for each in given if each.present is False):
        return judged(False, f"the pod was refused under pressure, but {absent.why}")
    if all(each.present for each in given) or node.reported == frozenset(conditions):
        why = f"the node had {' and '.join(conditions)}, and the pod is not critical"
        return judged(True, why, {"reason": body.reason, "message": body.message})
    unknown = next(each.why for each in given if each.present is None)
    return open_to(unknown, denied="the pod was refused under pressure", inputs=inputs)


def _refuses(case: AdmissionCase, outcome: AdmissionOutcome, recorded: Fields) -> Ruling:
    """What one world makes of a refusal by the predicates or by preemption."""
    result, expected = outcome.result, said_in(outcome)
    allowed = expected == recorded
    if not allowed:
        instead = f"it is to be refused as {result.reason}: {result.message}"
        if result.admit:
            fits = fits_because(case, outcome)
            instead = "it is critical, and room is made for it" if result.victims else fits
        why = f"the pod was refused as {recorded['reason']} ({recorded['message']}), but {instead}"
    elif result.reason.startswith("OutOf"):
        why = f"the pod does not fit: {short_of(outcome)} by {len(outcome.pods)} pods"
    elif result.message.startswith(RECOVERY):
        lacks = f"the pod is critical and lacks {lacked_by(outcome)}"
        why = f"{lacks}, which no pods that it may preempt free"
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
    """What no record shows and may have led to a refusal that no known world gives."""
    reason, result = body.reason, likely.result
    reasons = (reason, result.reason)
    got_there = result.admit or reason not in _LATE or bool(case.unknown_inputs)
    if reason in _ELSEWHERE and body.message != result.message and got_there:
        yield _ELSEWHERE[reason]
    if body.message.startswith("Update plugin resources failed"):
        yield "what the device manager held"
    yield from case.unknown_inputs
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
    sizes = case.nodes[0].status.allocatable or {}
    uncounted = [resource for resource, size in sizes.items() if size == str(UNCOUNTED)]
    if reason in {f"OutOf{resource}" for resource in uncounted}:
        yield from capacities(uncounted)


def _misquotes(case: AdmissionCase, body: PodRejected) -> bool:
    """Whether the words are wrong about the pod or the node, whatever other pods there were."""
    given = OUT_OF.fullmatch(body.message)
    if given is None or body.reason != f"OutOf{given[1]}" or given[1] in case.unsized:
        return False
    resource = given[1]
    if is_extended_resource(resource):
        return False  # how many devices there are changes
    asked = 1 if resource == "pods" else pod_request(case.pod.spec, case.facts).get(resource, 0)
    sizes = [NodeInfo(node, (), case.facts).allocatable(resource) for node in case.nodes]
    return int(given[2]) != asked or int(given[4]) not in sizes
