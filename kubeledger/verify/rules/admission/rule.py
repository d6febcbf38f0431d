"""The rule of admission and preemption: brings records, cases and judgements together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.devicemanager.records import (
    AllocationFailed,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.eviction.records import NodeConditionsChanged
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import (
    ContainerDied,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
    PodTerminating,
    ReasonReported,
)
from kubeledger.machine import Body, Record
from kubeledger.node.records import KubeletStarted, NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted, PreemptionFailed
from kubeledger.topologymanager.records import AffinityDecided, HintsGenerated
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.admission.adds import PodAdd
from kubeledger.verify.rules.admission.case import AdmissionCase
from kubeledger.verify.rules.admission.episodes import Episodes
from kubeledger.verify.rules.admission.inputs import AdmissionInputs
from kubeledger.verify.rules.admission.judging import (
    ALLOCATION,
    RECOVERY,
    RULE_PREDICATES,
    RULE_PREEMPTION,
    failure_of,
    judge_admitted,
    judge_failed,
    judged,
    lacking,
)
from kubeledger.verify.rules.admission.refused import judge_refused
from kubeledger.verify.rules.admission.sources import compare_allocatable, compare_refusal
from kubeledger.verify.verifier import Foresee, See

__all__ = ["AdmissionVerifier"]

_HELD_NS: Final = 2 * NS_PER_S
_ANSWERED_NS: Final = 5 * NS_PER_S
_UNEXPECTED: Final = "UnexpectedAdmissionError"
_NO_HINTS: Final = "Unable to generate topology hints"
_NO_ADD: Final = "the line that hands the pod to the kubelet (SyncLoop ADD)"
_TOPOLOGY: Final = "TopologyAffinityError", "Resources cannot be allocated with Topology locality"


class AdmissionVerifier(RuleVerifier):
    """Judges who was admitted, who was refused, and who was killed for whom."""

    rule = RULE_PREDICATES
    decides = (PodAdmitted, PodRejected, PodPreempted, PreemptionFailed)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._inputs = AdmissionInputs(bench)
        self._adds = self._inputs.adds
        self._cases: dict[PodAdd, AdmissionCase] = {}
        self._episodes = Episodes(self)
        self._held: dict[PodAdd, tuple[Record, PodRejected, AdmissionCase]] = {}
        self._unanswered: dict[PodAdd, tuple[Record, str, str]] = {}
        self._started_ns: int | None = None
        self._events_logged = False

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """What lists show of refusals, and what the node has."""
        return {
            KubeletStarted: self._inputs.nodes.kubelet_started,
            PodListed: self._inputs.lists.pod_listed,
            NodeObserved: self._inputs.nodes.foresee,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """All that admission reads and decides."""
        return {
            KubeletStarted: self._kubelet_started,
            NodeObserved: self._node_observed,
            PodConfigChanged: self._config_changed,
            EvictionSignalObserved: self._signal_read,
            NodeConditionsChanged: self._inputs.pressure.conditions_changed,
            ReasonReported: self._reason_reported,
            HintsGenerated: self._hints_generated,
            AffinityDecided: self._affinity_decided,
            AllocationFailed: self._allocation_failed,
            ContainerDied: self._container_died,
            PodTerminating: self._inputs.terminating,
            PodPreempted: self._pod_preempted,
            PreemptionFailed: self._preemption_failed,
            PodAdmitted: self._pod_admitted,
            PodRejected: self._pod_rejected,
            DevicesAllocated: self._inputs.restored.written,
            DevicesReported: self._inputs.restored.written,
            DevicesReleased: self._inputs.restored.released,
        }

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self._pass_time(None, state)

    def _pass_time(self, now_ns: int | None, state: NodeState) -> None:
        """Judge what nothing more will be heard of; None: the records, or the kubelet, end."""
        self._episodes.pass_time(now_ns, state)
        if not (self._held or self._unanswered):
            return
        for add, held in list(self._held.items()):
            if now_ns is None or now_ns > held[0].ts_ns + _HELD_NS:
                del self._held[add]
                self._judge_refusal(*held)
        for add, (record, reason, message) in list(self._unanswered.items()):
            if now_ns is None or now_ns > record.ts_ns + _ANSWERED_NS:
                del self._unanswered[add]
                if now_ns is not None:
                    self._miss_refusal(add, record, reason, message)

    def _miss_refusal(self, add: PodAdd, record: Record, reason: str, message: str) -> None:
        """A list shows the refusal that no record tells, of a log that lost no lines.

        Up to 1.30 only an event may tell it, and those are logged from verbosity 3.
        """
        shown = self._inputs.lists.rejection(add, add.ts_ns)
        if self._events_logged and shown is not None and shown[1] == reason:
            why = f"no refusal is told of the pod that had to get one: {reason}, {message}"
            self.bench.absent(
                add.added, PodRejected.kind, subject=f"pod/{add.full_name}", why=why,
                expected={"reason": reason, "message": message}, rule=RULE_PREDICATES,
                inputs=(add.seq, record.seq, shown[0]),
            )  # fmt: skip

    def _owe_refusal(self, add: PodAdd, record: Record, reason: str, message: str) -> None:
        """A record tells why a pod has to be refused."""
        undecided = not (add.is_decided or add.life.returned or add.misnamed)
        if undecided and self.bench.profile is not None:
            self._unanswered[add] = (record, reason, message)

    # -- what is observed -------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._pass_time(None, state)
        self._inputs.kubelet_started(record, body, state)
        self._cases.clear()
        self._started_ns, self._events_logged = record.ts_ns, False

    def _reason_reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        self._events_logged |= any(piece.line is not None for piece in record.evidence)

    def _node_observed(self, record: Record, body: NodeObserved, state: NodeState) -> None:
        compare_allocatable(self.bench, record, body, self._inputs.nodes, self._started_ns, state)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._inputs.ledger_node = record.node
        self._pass_time(record.ts_ns, state)
        self._adds.config_changed(record, body)

    def _signal_read(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        self._pass_time(record.ts_ns, state)
        self._inputs.pressure.signal_read(record, body)

    def _container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        self._pass_time(record.ts_ns, state)

    def _hints_generated(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        self._topology_asked(record, body)

    def _topology_asked(
        self, record: Record, body: HintsGenerated | AffinityDecided
    ) -> PodAdd | None:
        """The first record of the topology manager shows the order of admissions."""
        add = self._adds.find(body.pod_uid, body.namespace, body.pod)
        if add is not None and add.order is None:
            add.order = record.seq
        return add

    def _affinity_decided(self, record: Record, body: AffinityDecided, state: NodeState) -> None:
        add = self._topology_asked(record, body)
        if add is not None and body.admit is False:
            add.refusals.append((record.seq, *_TOPOLOGY))
            self._owe_refusal(add, record, *_TOPOLOGY)

    def _allocation_failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        add = self._adds.find(body.pod_uid, body.namespace, body.pod)
        if add is None:
            return
        message = f"{ALLOCATION}{body.error}, which is unexpected"
        why = _TOPOLOGY if body.error.startswith(_NO_HINTS) else (_UNEXPECTED, message)
        let_in = add.life.admitted is True
        if body.told_by == "log" or not let_in:
            # A status or an event may be of the kubelet process before.
            add.refusals.append((record.seq, *why))
        if body.told_by == "log":
            self._owe_refusal(add, record, *why)
        if add in self._held:
            self._judge_refusal(*self._held.pop(add))

    # -- what is decided --------------------------------------------------------------------

    def _pod_admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        add = self._add_of(record, body)
        if add is None:
            return
        victims = self._episodes.victims_of(add)
        case = self._case(add, record, state)
        judgement = judged(case, lambda known: judge_admitted(known, victims))
        self.conclude(record, _subject(body), judgement, recorded={"admit": True})
        self._close(add, record)

    def _pod_rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        add = self._add_of(record, body)
        if add is None:
            return
        shown = self._inputs.lists.rejection(add, record.ts_ns)
        compare_refusal(self.bench, record, body, shown)
        case = self._case(add, record, state)
        by_manager = body.message.startswith(ALLOCATION) and not add.refusals
        if by_manager and isinstance(case, AdmissionCase):
            # At low verbosity one line tells of the refusal and of its cause.
            self._held[add] = (record, body, case)
        else:
            self._judge_refusal(record, body, case)
        self._close(add, record)

    def _judge_refusal(
        self, record: Record, body: PodRejected, case: AdmissionCase | tuple[str, ...]
    ) -> None:
        pressure, shutdown = self._inputs.pressure, self._inputs.shutdown
        judgement = judged(case, lambda known: judge_refused(known, body, pressure, shutdown))
        recorded = {"reason": body.reason, "message": body.message}
        self.conclude(record, _subject(body), judgement, recorded=recorded)

    def _preemption_failed(self, record: Record, body: PreemptionFailed, state: NodeState) -> None:
        subject = f"pod/{body.preemptor_namespace}/{body.preemptor_pod}"
        add = self._adds.find(body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod)
        name = (body.preemptor_namespace, body.preemptor_pod)
        if add is None or (add.namespace, add.name) != name:
            named = self._adds.named(*name) or add
            judgement = self._of_a_stranger(record, body.preemptor_uid, named, RULE_PREEMPTION)
            self.conclude(record, subject, judgement)
            return
        self._owe_refusal(add, record, _UNEXPECTED, RECOVERY + body.error)
        case = self._case(add, record, state)
        judgement = judged(case, lambda known: judge_failed(known, body))
        self.conclude(record, subject, judgement, recorded=failure_of(body))

    def _pod_preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        add = self._preemptor(body)
        if add is None:
            missing = "the pod that room was made for"
            if self.bench.profile is None:
                missing = self.bench.missing_profile
            subject = f"pod/{body.victim_namespace}/{body.victim_pod}"
            self.conclude(record, subject, lacking(missing, rule=RULE_PREEMPTION))
            return
        case = self._case(add, record, state)
        add.preempted.append(record.ts_ns)
        self._episodes.add(add, case, record, body)

    # -- whose decision ---------------------------------------------------------------------

    def _add_of(self, record: Record, body: PodAdmitted | PodRejected) -> PodAdd | None:
        """The ADD that was decided; without one the finding is given here."""
        self._inputs.ledger_node = record.node
        add = self._adds.find(body.pod_uid, body.namespace, body.pod)
        if add is not None and (add.namespace, add.name) == (body.namespace, body.pod):
            return add
        named = self._adds.named(body.namespace, body.pod) or add
        if named is not None:
            named.misnamed = True
            self._unanswered.pop(named, None)
        judgement = self._of_a_stranger(record, body.pod_uid, named, RULE_PREDICATES)
        self.conclude(record, _subject(body), judgement)
        return None

    def _of_a_stranger(
        self, record: Record, uid: str | None, named: PodAdd | None, rule: str
    ) -> Judgement:
        """A decision about a pod that was not handed over, as far as the records go."""
        if self.bench.profile is None:
            return lacking(self.bench.missing_profile, rule=rule)
        told_alone = not isinstance(record.body, PodAdmitted)  # which needs the line of an ADD
        pod = self.bench.timeline.pods.get(uid or "")
        # The line that handed over a pod of which more is told may be lost.
        is_another = (
            pod is not None
            and named is not None
            and bool(pod.runs or pod.shown_ns)
            and f"{pod.namespace}/{pod.name}" == named.full_name
            and named.uid != uid
        )
        if named is None or is_another or (told_alone and self._may_be_another(uid, named)):
            return lacking(_NO_ADD, rule=rule)
        why = (
            f"the pod handed to the kubelet is {named.full_name} with UID {named.uid}; "
            f"no pod of that name with UID {uid} was"
        )
        expected = {"namespace": named.namespace, "pod": named.name, "pod_uid": named.uid}
        return same(False, why, expected=expected, inputs=(named.seq,), rule=rule)

    def _may_be_another(self, uid: str | None, named: PodAdd) -> bool:
        """Whether the line that handed over a later pod of that name may be lost."""
        listed = None if uid is None or uid == named.uid else self.bench.pods.at(0, uid)
        if listed is not None and listed.name == named.name:
            return listed.namespace == named.namespace
        return named.is_decided and named not in self._adds.open()

    def _preemptor(self, body: PodPreempted) -> PodAdd | None:
        """Whose admission is under way; the named one, else the only one it can be."""
        add = None
        if body.preemptor_pod is not None:
            add = self._adds.find(body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod)
        under_way = [each for each in self._adds.open() if each.turn_ns is None]
        if add is not None and add in under_way:
            return add
        begun = [each for each in under_way if self._episodes.victims_of(each)]
        likely = begun or under_way
        return likely[-1] if len(likely) == 1 else None

    # -- cases ------------------------------------------------------------------------------

    def _case(
        self, add: PodAdd, record: Record, state: NodeState
    ) -> AdmissionCase | tuple[str, ...]:
        """The case of an ADD; made once, before anybody is killed for it."""
        # Who is chosen counted just before.
        until_ns = record.ts_ns - isinstance(record.body, PodPreempted)
        case = self._cases.get(add) or self._inputs.case_of(add, until_ns, state)
        if isinstance(case, AdmissionCase):
            self._cases[add] = case
            self.bench.on_question(record.seq, case)
        return case

    def _close(self, add: PodAdd, record: Record) -> None:
        self._adds.close(add)
        self._cases.pop(add, None)
        self._episodes.decided(add, record)


def _subject(body: PodAdmitted | PodRejected) -> str:
    return f"pod/{body.namespace}/{body.pod}"
