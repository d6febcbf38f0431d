"""Would the kubelet have refused the pod, and in these words?"""

from __future__ import annotations

import re
from typing import Final

from kubeledger.kube.critical import is_critical_pod
from kubeledger.kube.names import is_extended_resource
from kubeledger.lifecycle.nodeinfo import NodeInfo
from kubeledger.lifecycle.records import PodRejected
from kubeledger.lifecycle.resourcefit import pod_request
from kubeledger.lifecycle.shutdown import NOT_ADMITTED
from kubeledger.verify.admission.judgement import (
    ENDS,
    OTHER_PODS,
    RULE_DEVICES,
    RULE_EVICTION,
    RULE_PREDICATES,
    Judgement,
    unverifiable,
)
from kubeledger.verify.admission.marks import tolerates_short_taints
from kubeledger.verify.admission.pressure import CONDITIONS, Condition, Pressure
from kubeledger.verify.admission.question import UNCOUNTED, Answer, Question, capacities
from kubeledger.verify.admission.words import (
    amount,
    amounts,
    fits_because,
    listing,
    plain,
    plains,
    short_of,
)
from kubeledger.verify.finding import Fields

__all__ = ["ALLOCATION", "RECOVERY", "judge_refused"]

RECOVERY: Final = "Unexpected error while attempting to recover from admission failure: "
"""How the words of a preemption that finds nobody begin."""
ALLOCATION: Final = "Allocate failed due to "
"""How the words of a manager that has nothing to give begin."""
_CONDITIONS: Final = re.compile(r"The node had condition: \[([A-Za-z ]*)\]\. ?")
_NOT_ENOUGH: Final = "Node didn't have enough resource: "
_ADMITTED: Final[Fields] = {"admit": True}
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
"""Of handlers behind the predicates: what these refuse does not get there."""


def judge_refused(
    question: Question,
    body: PodRejected,
    pressure: Pressure,
    copies: str | None = None,
    shutdown: int | None = None,
) -> Judgement:
    """Judge a recorded refusal.

    Args:
        question: the admission.
        body: the refusal.
        pressure: the node's conditions.
        copies: the message that two other sources tell alike; None where none or few do.
        shutdown: record that shows that the node shuts down; None where none does.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    recorded: Fields = {"reason": body.reason, "message": body.message}
    if question.offer.refusals:
        return _by_managers(question, recorded, copies)
    if body.reason == "Evicted":
        return _by_pressure(question, body, pressure)
    if body.message.startswith(ALLOCATION) and body.reason == "UnexpectedAdmissionError":
        return unverifiable("what the device, CPU and memory managers held", rule=RULE_DEVICES)
    likely: Answer | None = None
    for answer in question.answers():
        likely = likely or answer
        if _same(answer, recorded):
            return _refused(question, answer, recorded)
    assert likely is not None
    if likely.result.admit and shutdown is not None and body.reason == NOT_ADMITTED[0]:
        same = body.message == NOT_ADMITTED[1]
        return Judgement(
            verdict="match" if same else "impossible",
            why="the pod fits, and none is let in while the node shuts down",
            expected={"reason": NOT_ADMITTED[0], "message": NOT_ADMITTED[1]},
            recorded=recorded,
            rule="pkg/kubelet/nodeshutdown managerImpl.Admit",
            inputs=(*question.inputs, shutdown),
        )
    return _otherwise(question, likely, recorded)


def _by_managers(question: Question, recorded: Fields, copies: str | None) -> Judgement:
    """The topology and device managers are asked before the predicates.

    The manager's own words may have been read in the same line as the refusal.
    """
    seq, reason, message = question.offer.refusals[-1]
    message = copies or message
    expected: Fields = {"reason": reason, "message": message}
    same = recorded == expected
    why = f"the pod is refused before any predicate is asked: {message}"
    if not same:
        said = f"{recorded['reason']} ({recorded['message']})"
        why = f"the pod was refused as {said}, but what refused it said {reason} ({message})"
    return Judgement(
        verdict="match" if same else "impossible",
        why=why,
        expected=expected,
        recorded=recorded,
        rule=RULE_DEVICES,
        inputs=(question.offer.seq, question.spec_seq, seq),
    )


def _by_pressure(question: Question, body: PodRejected, pressure: Pressure) -> Judgement:
    """The eviction manager keeps out pods while the node is short of something."""
    recorded: Fields = {"reason": body.reason, "message": body.message}
    match = _CONDITIONS.fullmatch(body.message)
    named = set(match[1].split()) if match else set()
    at_ns = question.offer.ts_ns

    def judge(why: str, expected: Fields | None, *, possible: bool) -> Judgement:
        seqs = [seq for c in CONDITIONS if c in named for seq in pressure.evidence(c)]
        return Judgement(
            verdict="admissible" if possible else "impossible",
            why=why,
            expected=expected,
            recorded=recorded,
            rule=RULE_EVICTION,
            inputs=(question.offer.seq, question.spec_seq, *question.node_inputs, *seqs),
        )

    if not named or not named <= set(CONDITIONS):
        why = f"no kubelet says {body.message!r} when it refuses a pod under pressure"
        return judge(why, None, possible=False)
    if is_critical_pod(question.pod):
        why = "the pod is critical, and is let in under pressure"
        return judge(why, {"admit": True}, possible=False)
    conditions: list[Condition] = [c for c in CONDITIONS if c in named]
    told = {condition: pressure.possibly(condition, at_ns) for condition in conditions}
    unknown = [condition for condition, possible in told.items() if possible is None]
    if unknown:
        return unverifiable(
            "the eviction signals at this time (logged from verbosity 3)", rule=RULE_EVICTION
        )
    clear = [condition for condition, possible in told.items() if not possible]
    if clear:
        why = f"no eviction signal had been under its threshold, so there was no {clear[0]}"
        return judge(why, None, possible=False)
    words = f"signals show {' and '.join(conditions)}, and the pod is not critical"
    return judge(words, recorded, possible=True)


def _same(answer: Answer, recorded: Fields) -> bool:
    result = answer.result
    said = {"reason": result.reason, "message": result.message}
    return not result.admit and said == recorded


def _refused(question: Question, answer: Answer, recorded: Fields) -> Judgement:
    # The numbers of a refusal are those of all pods that counted: they prove their list.
    if recorded["reason"].startswith("OutOf"):
        why = f"the pod does not fit: {short_of(answer)} by {len(answer.pods)} pods"
    elif answer.result.message.startswith(RECOVERY):
        lacks = f"the pod is critical and lacks {amounts(answer.requirements)}"
        why = f"{lacks} ({short_of(answer)}), which no pods that it may preempt free"
    else:
        why = f"the pod is refused as {answer.result.reason}: {answer.result.message}"
    return Judgement(
        verdict="match" if answer.first else "admissible",
        why=why,
        expected=recorded,
        recorded=recorded,
        inputs=(*question.inputs, *answer.specs),
    )


def _otherwise(question: Question, likely: Answer, recorded: Fields) -> Judgement:
    """No world gives the recorded words."""
    result = likely.result
    reason, message = recorded["reason"], recorded["message"]
    got_there = result.admit or reason not in _LATE or question.unread or not question.whole
    if reason in _ELSEWHERE and message != result.message and got_there:
        return unverifiable(_ELSEWHERE[reason])
    if message.startswith("Update plugin resources failed"):
        return unverifiable("what the device manager held")
    if (wrong := _own_numbers(question, likely, reason, message)) is not None:
        return wrong
    if question.unread:
        return unverifiable(*(f"the spec of pod {name}" for name in question.unread))
    if not question.whole:
        return unverifiable(OTHER_PODS)
    if question.open_worlds:
        return unverifiable(ENDS)
    if not question.labels_known and "NodeAffinity" in (reason, result.reason):
        return unverifiable("the node's labels")
    if "TaintToleration" in (reason, result.reason) and not _taints_told(question, reason):
        return unverifiable("the node's taints at this time")
    by_rank = result.reason == "NodeAffinity" or result.reason.startswith("OutOf")
    if reason == "NodeName" and not question.named and not by_rank:
        return unverifiable("the node's name")
    if reason in {f"OutOf{resource}" for resource in question.unsized}:
        return unverifiable(*capacities(question.unsized))
    if result.admit:
        expected = _ADMITTED
        why = f"the pod was refused as {reason} ({message}), but {_fits(question, likely)}"
    else:
        expected = {"reason": result.reason, "message": result.message}
        what = (
            f"as {result.reason}: {result.message}"
            if reason != result.reason
            else (f"in other words: {result.message}")
        )
        why = f"the pod was refused as {reason} ({message}), but it is to be refused {what}"
    return Judgement(
        verdict="impossible",
        why=why,
        expected=expected,
        recorded=recorded,
        rule=RULE_PREDICATES,
        inputs=(*question.inputs, *likely.specs),
    )


def _own_numbers(question: Question, likely: Answer, reason: str, message: str) -> Judgement | None:
    """What the words say of pod and node, whoever else was there; None where that is right."""
    told = _OUT_OF.fullmatch(message)
    if told is None or reason != f"OutOf{told[1]}" or told[1] in question.unsized:
        return None
    if is_extended_resource(told[1]):
        return None  # how many devices there are changes
    resource, requested, used, capacity = told[1], int(told[2]), told[3], int(told[4])
    asked = 1 if resource == "pods" else _asked(question, resource)
    sizes = [NodeInfo(n, (), question.facts).allocatable(resource) for n in question.nodes]
    if requested == asked and (capacity in sizes or UNCOUNTED in sizes):
        return None
    size = capacity if capacity in sizes or UNCOUNTED in sizes else sizes[0]
    right = f"{_NOT_ENOUGH}{resource}, requested: {asked}, used: {used}, capacity: {size}"
    expected: Fields = {"reason": reason, "message": right}
    if asked + int(used) <= size:  # what is likely follows, for this is not short
        result = likely.result
        expected = {"reason": result.reason, "message": result.message}
        expected = _ADMITTED if result.admit else expected
    right_size, said_size = plains(resource, size, capacity)
    wrong = [
        f"asks for {amount(resource, asked)}, not {plain(resource, requested)}",
        f"was refused on a node that has {right_size} of {resource} for pods, not {said_size}",
    ]
    return Judgement(
        verdict="impossible",
        why=f"the pod {listing(wrong[requested == asked : 1 + (size != capacity)])}",
        expected=expected,
        recorded={"reason": reason, "message": message},
        rule=RULE_PREDICATES,
        inputs=question.inputs,
        certain=not question.inferred,
    )


def _asked(question: Question, resource: str) -> int:
    return pod_request(question.pod.spec, question.facts).get(resource, 0)


def _taints_told(question: Question, reason: str) -> bool:
    """Whether the node's taints are certain enough to say that the pod was not kept out by any."""
    lasting = reason != "TaintToleration" or tolerates_short_taints(question.pod)
    return question.taints_known and lasting


def _fits(question: Question, answer: Answer) -> str:
    if answer.result.victims:
        return "it is critical, and room is made for it"
    return fits_because(question, answer)
