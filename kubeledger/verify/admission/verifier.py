"""The verifier of admission and preemption: ties the judgements to the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.devicemanager.records import (
    AllocationFailed,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminating,
    ReasonReported,
)
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted, NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted, PreemptionFailed
from kubeledger.topologymanager.records import AffinityDecided, HintsGenerated
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.admitted import judge_admitted
from kubeledger.verify.admission.asker import Asker
from kubeledger.verify.admission.constants import Constants
from kubeledger.verify.admission.episodes import Episodes
from kubeledger.verify.admission.failed import judge_failed
from kubeledger.verify.admission.findings import find, judged_by
from kubeledger.verify.admission.handovers import Handovers
from kubeledger.verify.admission.judgement import (
    RULE_PREDICATES,
    RULE_PREEMPTION,
    Judgement,
    unverifiable,
)
from kubeledger.verify.admission.life import SIGNS
from kubeledger.verify.admission.offers import Offer
from kubeledger.verify.admission.question import Question
from kubeledger.verify.admission.refused import ALLOCATION, RECOVERY, judge_refused
from kubeledger.verify.admission.sources import (
    compare_allocatable,
    compare_failure,
    compare_kill,
    compare_refusal,
    compare_victim,
)
from kubeledger.verify.bench import Bench
from kubeledger.verify.verifier import Foresee, See, Verifier

__all__ = ["AdmissionVerifier"]

_HELD_NS: Final = 2 * NS_PER_S
_ANSWERED_NS: Final = 5 * NS_PER_S
_UNEXPECTED: Final = "UnexpectedAdmissionError"
_NO_HINTS: Final = "Unable to generate topology hints"
_NO_ADD: Final = "the line that hands the pod to the kubelet (SyncLoop ADD)"
_TOPOLOGY: Final = "TopologyAffinityError", "Resources cannot be allocated with Topology locality"


class AdmissionVerifier(Verifier):
    """Verifies who was let in, who was refused, and who was killed for whom."""

    decides = (PodAdmitted, PodRejected, PodPreempted, PreemptionFailed)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._asker = Asker(bench)
        self._offers = self._asker.offers
        self._handovers = Handovers(bench, self._asker.foresight, self._offers)
        self._questions: dict[Offer, Question] = {}
        self._episodes = Episodes(bench)
        self._constants = Constants(bench)
        self._held: dict[Offer, tuple[Record, PodRejected, Question]] = {}
        self._unanswered: dict[Offer, tuple[Record, str, str]] = {}
        self._victims: dict[str, int] = {}
        self._started_ns: int | None = None
        self._events_logged = False

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """How ADDs were decided, how old pods are, what the node has."""
        foresight = self._asker.foresight
        return {
            PodConfigChanged: foresight.config_changed,
            PodAdmitted: foresight.decided,
            PodRejected: foresight.decided,
            KubeletStarted: self._kubelet_foreseen,
            PodListed: foresight.pod_listed,
            NodeObserved: self._asker.nodes.foresee,
            PodPreempted: foresight.life.preempted,
            **dict.fromkeys(SIGNS, foresight.life.sign),
        }

    def _kubelet_foreseen(self, record: Record) -> None:
        self._asker.foresight.started(record)
        self._asker.nodes.kubelet_started(record)

    def sees(self) -> Mapping[type[Body], See]:
        """All that admission reads and decides."""
        return {
            KubeletStarted: self._kubelet_started,
            NodeObserved: self._node_observed,
            PodListed: self._pod_listed,
            PodConfigChanged: self._config_changed,
            EvictionSignalObserved: self._signal_read,
            ClockStepped: self._clock_stepped,
            ReasonReported: self._reason_reported,
            HintsGenerated: self._topology_asked,
            AffinityDecided: self._affinity_decided,
            AllocationFailed: self._allocation_failed,
            ContainerStarted: self._container_started,
            ContainerDied: self._container_died,
            PodEvicted: self._pod_evicted,
            PodTerminating: self._asker.terminating,
            PodPreempted: self._pod_preempted,
            PreemptionFailed: self._preemption_failed,
            PodAdmitted: self._pod_admitted,
            PodRejected: self._pod_rejected,
            DevicesAllocated: self._asker.restored.written,
            DevicesReported: self._asker.restored.written,
            DevicesReleased: self._asker.restored.released,
        }

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self._pass_time(None, state)

    def _pass_time(self, now_ns: int | None, state: NodeState) -> None:
        """Judge what nothing more will be heard of; None: the records, or the kubelet, end."""
        if now_ns is None:
            self._episodes.close_all(state)
        else:
            self._episodes.pass_time(now_ns, state)
        if self._held:
            for offer, (record, body, question) in list(self._held.items()):
                if now_ns is None or now_ns > record.ts_ns + _HELD_NS:
                    del self._held[offer]
                    self._judge_refusal(record, body, question)
        if self._unanswered:
            self._miss_refusals(now_ns)

    def _miss_refusals(self, now_ns: int | None) -> None:
        """A list shows the refusal that no record tells, of a log that lost no lines.

        Up to 1.30 only an event may tell it, and those are logged from verbosity 3.
        """
        for offer, (record, reason, message) in list(self._unanswered.items()):
            if now_ns is not None and now_ns <= record.ts_ns + _ANSWERED_NS:
                continue
            del self._unanswered[offer]
            who = (offer.namespace, offer.name, offer.uid)
            at = (offer.ts_ns, offer.seq)
            shown = self._asker.foresight.rejection(offer.key, at, who)
            if now_ns and self._events_logged and shown is not None and shown[1] == reason:
                why = f"no refusal is told of the pod that had to get one: {reason}, {message}"
                self.bench.absent(
                    offer.added, PodRejected.kind, subject=f"pod/{offer.full_name}", why=why,
                    expected={"reason": reason, "message": message}, rule=RULE_PREDICATES,
                    inputs=(offer.seq, record.seq, shown[0]),
                )  # fmt: skip

    def _refuse(self, offer: Offer, record: Record, reason: str, message: str) -> None:
        """A record tells why a pod has to be refused."""
        undecided = offer.decided is None and not offer.had_ended and not offer.misnamed
        if undecided and self.bench.profile is not None:
            self._unanswered[offer] = (record, reason, message)

    # -- what is observed -------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._pass_time(None, state)
        self._asker.kubelet_started(record, body, state)
        self._questions.clear()
        self._started_ns, self._events_logged = record.ts_ns, False

    def _reason_reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        self._events_logged |= any(piece.line is not None for piece in record.evidence)

    def _node_observed(self, record: Record, body: NodeObserved, state: NodeState) -> None:
        compare_allocatable(self.bench, record, body, self._asker.nodes, self._started_ns, state)

    def _pod_listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        self._constants.pod_listed(record, body)
        compare_victim(self.bench, record, body, self._victims)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._asker.bench_node = record.node
        self._pass_time(record.ts_ns, state)
        self._handovers.config_changed(record, body)
        self._offers.config_changed(record, body, state.lifecycle)

    def _signal_read(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        self._pass_time(record.ts_ns, state)
        self._asker.alive_at(record.ts_ns)
        self._asker.pressure.signal_read(record, body)

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._asker.whole = False

    def _container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        self._pass_time(record.ts_ns, state)

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        self._handovers.taken_up(record, body, whole=self._asker.whole)

    def _topology_asked(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        self._handovers.taken_up(record, body, whole=self._asker.whole)
        offer = self._offers.find(body.pod_uid, body.namespace, body.pod)
        if offer is not None and offer.order is None:
            offer.order = record.seq

    def _affinity_decided(self, record: Record, body: AffinityDecided, state: NodeState) -> None:
        self._handovers.taken_up(record, body, whole=self._asker.whole)
        offer = self._offers.find(body.pod_uid, body.namespace, body.pod)
        if offer is None:
            return
        if offer.order is None:
            offer.order = record.seq
        if body.admit is False:
            offer.refusals.append((record.seq, *_TOPOLOGY))
            self._refuse(offer, record, *_TOPOLOGY)

    def _allocation_failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        compare_failure(self.bench, record, body)
        offer = self._offers.find(body.pod_uid, body.namespace, body.pod)
        if offer is not None:
            message = f"Allocate failed due to {body.error}, which is unexpected"
            why = _TOPOLOGY if body.error.startswith(_NO_HINTS) else (_UNEXPECTED, message)
            let_in = offer.decided is not None and offer.decided.admitted
            if body.told_by == "log" or not let_in:
                # A status or an event may be of the kubelet process before.
                offer.refusals.append((record.seq, *why))
            if body.told_by == "log":
                self._refuse(offer, record, *why)
        if offer in self._held:
            self._judge_refusal(*self._held.pop(offer))

    def _pod_evicted(self, record: Record, body: PodEvicted, state: NodeState) -> None:
        offer = self._offers.find(body.pod_uid, body.namespace, body.pod)
        if offer is not None:
            offer.evicted_ns = record.ts_ns

    # -- what is decided --------------------------------------------------------------------

    def _pod_admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        offer = self._offer_of(record, body)
        if offer is None:
            return
        question = self._ask(offer, record, state)
        victims = self._episodes.victims_of(offer)
        judged = judged_by(question, lambda q: judge_admitted(q, victims))
        self._find(record, f"pod/{body.namespace}/{body.pod}", judged)
        self._close(offer, record)

    def _pod_rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        offer = self._offer_of(record, body)
        if offer is None:
            return
        who, at = (body.namespace, body.pod, offer.uid), (record.ts_ns, record.seq)
        shown = self._asker.foresight.rejection(offer.key, at, who)
        copies = compare_refusal(self.bench, record, body, shown)
        question = self._ask(offer, record, state)
        by_manager = body.message.startswith(ALLOCATION) and not offer.refusals
        if by_manager and isinstance(question, Question):
            # At low verbosity one line tells of the refusal and of its cause.
            self._held[offer] = (record, body, question)
        else:
            self._judge_refusal(record, body, question, copies)
        self._close(offer, record)

    def _judge_refusal(
        self,
        record: Record,
        body: PodRejected,
        question: Question | tuple[str, ...],
        copies: str | None = None,
    ) -> None:
        pressure, shutdown = self._asker.pressure, self._asker.shutdown
        judged = judged_by(question, lambda q: judge_refused(q, body, pressure, copies, shutdown))
        self._find(record, f"pod/{body.namespace}/{body.pod}", judged)

    def _preemption_failed(self, record: Record, body: PreemptionFailed, state: NodeState) -> None:
        subject = f"pod/{body.preemptor_namespace}/{body.preemptor_pod}"
        offer = self._offers.find(body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod)
        name = (body.preemptor_namespace, body.preemptor_pod)
        if offer is None or (offer.namespace, offer.name) != name:
            named = self._offers.named(*name) or offer
            judged = self._stranger(record, body.preemptor_uid, named, RULE_PREEMPTION)
            self._find(record, subject, judged)
            return
        self._refuse(offer, record, _UNEXPECTED, RECOVERY + body.error)
        question = self._ask(offer, record, state)
        self._find(record, subject, judged_by(question, lambda q: judge_failed(q, body)))

    def _pod_preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        compare_kill(self.bench, record, body)
        if body.victim_uid is not None:
            self._victims[body.victim_uid] = record.seq
        offer = self._preemptor(body)
        if offer is None:
            self._find(
                record,
                f"pod/{body.victim_namespace}/{body.victim_pod}",
                self._without_preemptor(body),
            )
            return
        question = self._ask(offer, record, state)
        victim = self._offers.find(body.victim_uid, body.victim_namespace, body.victim_pod)
        if victim is not None:
            victim.victim_ns, victim.survived = record.ts_ns, body.evicted is not True
        offer.preempted.append((record.seq, record.ts_ns))
        self._episodes.add(offer, question, record, body)

    # -- whose decision ---------------------------------------------------------------------

    def _offer_of(self, record: Record, body: PodAdmitted | PodRejected) -> Offer | None:
        """The offer that was decided; without one the finding is given here."""
        self._asker.bench_node = record.node
        offer = self._offers.find(body.pod_uid, body.namespace, body.pod)
        if offer is not None and (offer.namespace, offer.name) == (body.namespace, body.pod):
            return offer
        named = self._offers.named(body.namespace, body.pod) or offer
        if named is not None:
            named.misnamed = True
            self._unanswered.pop(named, None)
        judged = self._stranger(record, body.pod_uid, named, RULE_PREDICATES)
        self._find(record, f"pod/{body.namespace}/{body.pod}", judged)
        return None

    def _stranger(
        self, record: Record, uid: str | None, named: Offer | None, rule: str
    ) -> Judgement:
        """A decision about a pod that was not handed over, as far as the records go."""
        if self.bench.profile is None:
            return unverifiable(self.bench.missing_profile, rule=rule)
        told_alone = not isinstance(record.body, PodAdmitted)  # which needs the line of an ADD
        if named is None or (told_alone and self._may_be_another(uid, named)):
            return unverifiable(_NO_ADD, rule=rule)
        why = (
            f"the pod handed to the kubelet is {named.full_name} with UID {named.uid}; "
            f"no pod of that name with UID {uid} was"
        )
        expected = {"namespace": named.namespace, "pod": named.name, "pod_uid": named.uid}
        return Judgement(
            verdict="impossible", why=why, expected=expected, rule=rule, inputs=(named.seq,)
        )

    def _may_be_another(self, uid: str | None, named: Offer) -> bool:
        """Whether the line that handed over a later pod of that name may be lost."""
        listed = None if uid is None or uid == named.uid else self.bench.pods.at(0, uid)
        if listed is not None and listed.name == named.name:
            return listed.namespace == named.namespace
        return named.decided is not None and named not in self._offers.open()

    def _preemptor(self, body: PodPreempted) -> Offer | None:
        """Whose admission is under way; the named one, else the only one it can be."""
        offer = None
        if body.preemptor_pod is not None:
            offer = self._offers.find(
                body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod
            )
        under_way = [o for o in self._offers.open() if o.turn_ns is None]
        if offer is not None and offer in under_way:
            return offer
        begun = [o for o in under_way if self._episodes.victims_of(o)]
        likely = begun or under_way
        return likely[-1] if len(likely) == 1 else None

    def _without_preemptor(self, body: PodPreempted) -> Judgement:
        if self.bench.profile is None:
            return unverifiable(self.bench.missing_profile, rule=RULE_PREEMPTION)
        return unverifiable("the pod that room was made for", rule=RULE_PREEMPTION)

    # -- questions and findings -------------------------------------------------------------

    def _ask(self, offer: Offer, record: Record, state: NodeState) -> Question | tuple[str, ...]:
        """The question about an offer; asked once, before anybody is killed for it."""
        asked = self._questions.get(offer) or self._asker.ask(offer, record.ts_ns, state)
        if isinstance(asked, Question):
            self._questions[offer] = asked
            self.bench.on_question(record.seq, asked)
        return asked

    def _close(self, offer: Offer, record: Record) -> None:
        self._offers.close(offer)
        self._questions.pop(offer, None)
        self._episodes.decided(offer, record)

    def _find(self, record: Record, subject: str, judged: Judgement) -> None:
        find(self.bench, record, subject, judged)
