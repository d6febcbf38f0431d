"""What refuses a pod before the fit checks, and how its refusal is known elsewhere."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from typing import Final, cast, get_args

import msgspec

from kubeledger.kubelet.cpumanager.policy_static import SMT_ALIGNMENT_REASON
from kubeledger.kubelet.kube.admission import UNEXPECTED_REASON, AllocationError
from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.kubelet.topologymanager.explain import blame_text, blamed
from kubeledger.kubelet.topologymanager.policies import Policy, PolicyName
from kubeledger.model.bodies.cpumanager import CpuAllocationFailed
from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.memorymanager import MemoryAllocationFailed
from kubeledger.model.bodies.topologymanager import AffinityDecided, HintsGenerated
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.hints import masks_of
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.timeline import Timeline

ManagerDecision = AffinityDecided | AllocationFailed | CpuAllocationFailed | MemoryAllocationFailed
"""Decisions of managers that are asked before the predicates."""

Refusal = tuple[int, str, str]
"""A record, and the reason and the message of the refusal that it says."""

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
        self._by_managers: dict[str, list[Record]] = {}
        self._offers: OrderedDict[int, HintsGenerated] = OrderedDict()
        self._refused: dict[int, tuple[str | None, HintsGenerated]] = {}

    def note_hints(self, record: Record, body: HintsGenerated) -> None:
        """Take in hints, for the merge that they cause."""
        self._offers[record.seq] = body
        if len(self._offers) > _OFFERS_MAX:
            self._offers.popitem(last=False)

    def note_manager(self, record: Record, body: ManagerDecision) -> None:
        """Take in what a manager decided that is asked before the predicates."""
        if refusal_of(body) is not None:
            key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
            self._by_managers.setdefault(key, []).append(record)
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

    def by_managers(self, interval: PodActiveInterval) -> list[Refusal]:
        """What managers refused; what refused the pod comes last.

        A status or an event may be of the kubelet process before.
        """
        until_ns = None if interval.decided_ns is None else interval.decided_ns + _BEHIND_NS
        found = []
        for key in dict.fromkeys((interval.key, interval.full_name)):
            for record in self._by_managers.get(key, ()):
                body = record.body
                assert isinstance(body, ManagerDecision)
                in_log = getattr(body, "told_by", "log") == "log"
                refusal = refusal_of(body)
                is_of_it = record.ts_ns >= (interval.added_ns or 0) and (
                    until_ns is None or record.ts_ns <= until_ns
                )
                if refusal is not None and is_of_it and (in_log or not interval.admitted):
                    found.append((record.seq, *refusal))
        return found

    def listed(self, interval: PodActiveInterval, from_ns: int) -> Refusal | None:
        """The list that shows the pod as failed, from a time on."""
        return self._timeline.pods[interval.key].failure(interval, from_ns)

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
        later_ns = process.ended_ns or first_ns + _BEHIND_NS
        lost = self._timeline.coverage.missing(added_ns, first_ns) is not None
        if lost or first_ns < added_ns or first_ns + _BEHIND_NS > later_ns:
            return None
        return listed if _BY_ADMISSION.fullmatch(listed[1]) else None


def node_name(timeline: Timeline) -> str | None:
    """The node that most admitted pods are bound to; None when that is not clear."""
    named: Counter[str] = Counter()
    for pod in timeline.pods.values():
        listed = timeline.specs.at(0, pod.uid, pod.namespace, pod.name)
        if listed is not None and any(interval.admitted for interval in pod.intervals):
            try:
                named[listed.as_(Pod).spec.node_name or ""] += 1
            except msgspec.ValidationError:
                continue  # no readable object
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
