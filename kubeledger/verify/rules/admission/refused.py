"""Was the pod to be refused, and in these words?

Numbers that a refusal itself shows (what was in use) are readings of the kubelet: worlds that do
not give them end.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final, cast, get_args

from msgspec.structs import replace

from kubeledger.kubelet.eviction.signals import CONDITION_OF
from kubeledger.kubelet.kube.containermanager import (
    SMT_ALIGNMENT_REASON,
    UNEXPECTED_REASON,
    AllocationError,
)
from kubeledger.kubelet.kube.pod import Taint
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.kube.podtotals import is_pod_level
from kubeledger.kubelet.kube.resources import is_extended_resource
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo, pod_request
from kubeledger.kubelet.lifecycle.predicate import tolerates_no_execute
from kubeledger.kubelet.lifecycle.termination import NOT_ADMITTED
from kubeledger.kubelet.profile.resourcemanagers import TopologyFacts
from kubeledger.kubelet.topologymanager.policy import (
    Policy,
    PolicyName,
    bits_of,
    blame_text,
    blamed,
)
from kubeledger.kubelet.topologymanager.scope import AFFINITY_REASON, POD_LEVEL_MESSAGES
from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.lifecycle import PodRejected
from kubeledger.model.bodies.resourcemanagers import (
    AffinityDecided,
    CpuAllocationFailed,
    HintsGenerated,
    MemoryAllocationFailed,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.belief import Judgement, Ruling, lacks, open_to, same
from kubeledger.verify.context import NodePressure
from kubeledger.verify.evidence.machine import masks_of
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pods import key_of_pod
from kubeledger.verify.evidence.timeline import Timeline
from kubeledger.verify.finding import Fields, same_words
from kubeledger.verify.rules.admission.case import TAINTS, AdmissionCase, AdmissionOutcome, Refusal
from kubeledger.verify.rules.admission.judging import (
    RECOVERY,
    RULE_DEVICES,
    RULE_EVICTION,
    by_its_numbers,
    fits_because,
    freely,
    lacked_by,
    said_in,
    short_of,
)

ManagerDecision = AffinityDecided | AllocationFailed | CpuAllocationFailed | MemoryAllocationFailed
"""Decisions of managers that are asked before the predicates."""

ALLOCATION: Final = "Allocate failed due to "
"""How the message of a resource manager that has nothing to give begins."""
_SMT: Final = "SMT Alignment Error"
_NO_HINTS: Final = "Unable to generate topology hints"
_TOPOLOGY: Final = "TopologyAffinityError", "Resources cannot be allocated with Topology locality"
_OFFERS_MAX: Final = 64
_BEHIND_NS: Final = 2 * NS_PER_S
"""One line may show a refusal and its cause; a list's time may be one of whole seconds."""
_BY_ADMISSION: Final = re.compile(
    r"OutOf\S+|UnexpectedAdmissionError|TopologyAffinityError|SMTAlignmentError|NodeAffinity"
    r"|NodeName|NodePorts|TaintToleration|SysctlForbidden|AppArmor"
)
"""Reasons with which nothing but an admission lets a pod fail."""


class Refusals:
    """Refusals of the topology and device managers; filled in the first reading."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._by_managers: dict[str, list[tuple[Record, tuple[str, str]]]] = {}
        self._offers: OrderedDict[int, HintsGenerated] = OrderedDict()
        self._refused: dict[int, tuple[str | None, HintsGenerated]] = {}

    def note_hints(self, record: Record, body: HintsGenerated) -> None:
        self._offers[record.seq] = body
        if len(self._offers) > _OFFERS_MAX:
            self._offers.popitem(last=False)

    def note_manager(self, record: Record, body: ManagerDecision) -> None:
        if (refusal := refusal_of(body)) is not None:
            self._by_managers.setdefault(key_of_pod(body), []).append((record, refusal))
            offer = self._offers.get(record.cause or 0)
            if isinstance(body, AffinityDecided) and offer is not None:
                self._refused[record.seq] = (body.policy, offer)

    def blame(self, seq: int, facts: TopologyFacts) -> str:
        """Whose hints a refusal by the topology manager is due to; empty where nothing says."""
        name, offer = self._refused.get(seq, (None, None))
        if offer is None or name not in get_args(PolicyName):
            return ""
        hints = masks_of(offer.hints)
        nodes = {n for of in hints.values() for h in of or () for n in bits_of(h.affinity or 0)}
        policy = Policy(name=cast(PolicyName, name), numa_nodes=tuple(sorted(nodes or {0})))
        blame = blamed(policy, hints, facts)
        return "" if blame is None else blame_text(blame, policy)

    def by_manager(self, interval: PodActiveInterval) -> Refusal | None:
        """What refused a pod before the predicates: the last that a manager says.

        A status or an event may be of the kubelet process before.
        """
        until_ns = None if interval.decided_ns is None else interval.decided_ns + _BEHIND_NS
        found = None
        for key in dict.fromkeys((interval.key, interval.full_name)):
            for record, refusal in self._by_managers.get(key, ()):
                in_log = getattr(record.body, "told_by", "log") == "log"
                last_ns = record.ts_ns if until_ns is None else until_ns
                is_of_it = (interval.added_ns or 0) <= record.ts_ns <= last_ns
                if is_of_it and (in_log or not interval.admitted):
                    found = (record.seq, *refusal)
        return found

    def denied(self, interval: PodActiveInterval) -> Refusal | None:
        """The list that shows that a pod was never admitted; None where it may have been.

        It failed with a reason that only an admission gives, in its first stay, and nothing was
        ever heard of a container of it, though no line that would show one is lost.
        """
        pod, added_ns = self._timeline.pods[interval.key], interval.added_ns or 0
        listed, process = pod.failure(interval, added_ns), self._timeline.process(added_ns)
        if listed is None or pod.intervals[0] is not interval or pod.runs or process is None:
            return None
        first_ns = pod.failures[0].ts_ns
        ends_ns = process.ended_ns or first_ns + _BEHIND_NS
        lost = self._timeline.coverage.missing(added_ns, first_ns) is not None
        is_first = not lost and added_ns <= first_ns <= ends_ns - _BEHIND_NS
        return listed if is_first and _BY_ADMISSION.fullmatch(listed[1]) else None


def node_name(timeline: Timeline) -> str | None:
    """The node that most admitted pods are bound to; None when that is not clear."""
    named: Counter[str] = Counter()
    for pod in timeline.pods.values():
        listed = timeline.specs.at(0, pod.uid, pod.namespace, pod.name)
        if listed is not None and listed.pod and any(each.admitted for each in pod.intervals):
            named[listed.pod.spec.node_name or ""] += 1
    del named[""]
    clear = [name for name, count in named.items() if count > 1 and 2 * count > named.total()]
    return clear[0] if clear else None


def refusal_of(body: ManagerDecision) -> tuple[str, str] | None:
    """Reason and message of the pod that a manager refuses; None where it lets it in."""
    if isinstance(body, AffinityDecided):
        return _TOPOLOGY if body.admit is False else None
    if body.error.startswith(_NO_HINTS):
        return _TOPOLOGY
    reason = SMT_ALIGNMENT_REASON if body.error.startswith(_SMT) else UNEXPECTED_REASON
    return reason, AllocationError(body.error, reason).message


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
_OF_SHORT_LIFE: Final = tuple(
    Taint(key=f"node.kubernetes.io/{name}", effect="NoExecute")
    for name in ("not-ready", "unreachable")
)
"""Taints that come and go with the node's heartbeat, and may have kept a pod out for moments."""
_LATE: Final = ("AppArmor", "NodeShutdown", "PodFeatureUnsupported")
"""Of handlers after the predicates: what the predicates refuse does not get to them."""


def judge_refused(
    case: AdmissionCase, body: PodRejected, pressure: NodePressure, shutdown: int | None = None
) -> Judgement:
    """Judge a recorded refusal; ``shutdown``: the record that shows that the node shuts down."""
    recorded: Fields = {"reason": body.reason, "message": body.message}
    if case.refusal is not None:
        return _by_manager(case, case.refusal, recorded)
    if body.reason == "Evicted":
        return _by_pressure(case, body, pressure)
    if body.message.startswith(ALLOCATION) and body.reason == UNEXPECTED_REASON:
        missing = lacks(("what the device, CPU and memory managers held",))
        return replace(missing, rule=RULE_DEVICES)
    worlds = list(case.outcomes())
    likely = worlds[0][0]
    if likely.result.admit and shutdown is not None and body.reason == NOT_ADMITTED[0]:
        why = "the pod fits, and none is admitted while the node shuts down"
        said, inputs = dict(zip(recorded, NOT_ADMITTED, strict=True)), (*case.inputs, shutdown)
        return same(recorded == said, why, expected=said, inputs=inputs, rule=RULE_SHUTDOWN)
    rulings = [freely(_refuses(case, each, recorded) for each in choices) for choices in worlds]
    if _misquotes(case, body):
        rulings = [replace(each, certain=not case.inferred) for each in rulings]
        return by_its_numbers(case, rulings, ())
    admits = any(each.result.admit for choices in worlds for each in choices)
    return by_its_numbers(case, rulings, _left_open(case, likely, body, admits=admits))


def _by_manager(case: AdmissionCase, refusal: Refusal, recorded: Fields) -> Judgement:
    """The topology and device managers are asked before the predicates.

    The manager's own words may have been read in the same line as the refusal.
    """
    seq, reason, message = refusal
    said = str(recorded["message"])
    # Only the version with its gate on says so, and it says no more than the other text.
    of_pod = said in POD_LEVEL_MESSAGES and is_pod_level(case.pod.spec.resources)
    if same_words(said, message) or (of_pod and reason == AFFINITY_REASON):
        message = said
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
        why = f"no kubelet says {body.message!r} when it refuses a pod under pressure"
        return judged(False, why)
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
    allowed = all(same_words(str(expected.get(name)), said) for name, said in recorded.items())
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
    seqs, assumes = (*case.inputs, *outcome.specs), outcome.assumes
    return Ruling(allowed=allowed, why=why, expected=expected, assumes=assumes, inputs=seqs)


def _left_open(
    case: AdmissionCase, likely: AdmissionOutcome, body: PodRejected, *, admits: bool
) -> Iterator[str]:
    """What no record shows and may have led to a refusal that no known world gives."""
    reason, result = body.reason, likely.result
    reasons = (reason, result.reason)
    got_there = admits or reason not in _LATE or bool(case.unknown_inputs)
    if reason in _ELSEWHERE and body.message != result.message and got_there:
        yield _ELSEWHERE[reason]
    if body.message.startswith("Update plugin resources failed"):
        yield "what the device manager held"
    yield from case.unknown_inputs
    yield from case.unknown_of_node(reasons)
    may_be_short = not tolerates_no_execute(_OF_SHORT_LIFE, case.pod.spec.tolerations or ())
    if case.taints_known and reason == "TaintToleration" and may_be_short:
        yield TAINTS
    by_rank = result.reason == "NodeAffinity" or result.reason.startswith("OutOf")
    if reason == "NodeName" and not case.named and not by_rank:
        yield "the node's name"
    if reason.startswith("OutOf"):
        yield from case.unknown_capacity(reason.removeprefix("OutOf"))


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
