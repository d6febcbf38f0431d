"""The rule of admission and preemption: brings records, cases and judgements together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.kubelet.lifecycle.presence import known
from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
    PodTerminating,
    ReasonReported,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.bodies.preemption import PodPreempted, PreemptionFailed
from kubeledger.model.bodies.topologymanager import AffinityDecided
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.adds import PodAdd, PodAdds
from kubeledger.verify.rules.admission.case import AdmissionCase
from kubeledger.verify.rules.admission.inputs import AdmissionInputs
from kubeledger.verify.rules.admission.judging import (
    RECOVERY,
    RULE_PREDICATES,
    RULE_PREEMPTION,
    failure_of,
    judge_admitted,
    judge_failed,
    judged,
)
from kubeledger.verify.rules.admission.refused import judge_refused
from kubeledger.verify.rules.admission.told import UNEXPECTED, compare_refusal, refusal_of
from kubeledger.verify.rules.admission.victims import Kill, judge_victims
from kubeledger.verify.verifier import Foresee, See

__all__ = ["AdmissionVerifier"]

_ANSWERED_NS: Final = 5 * NS_PER_S
_NO_ADD: Final = "the line that hands the pod to the kubelet (SyncLoop ADD)"
_KILL_WAIT_NS: Final = 10 * NS_PER_S
"""The kubelet waits for a kill this long at least, and half as long again as its grace."""
_MARGIN_NS: Final = 10 * NS_PER_S
"""A death is told this late at most."""


class AdmissionVerifier(RuleVerifier):
    """Judges who was admitted, who was refused, and who was killed for whom."""

    rule = RULE_PREDICATES
    decides = (PodAdmitted, PodRejected, PodPreempted, PreemptionFailed)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._inputs = AdmissionInputs(bench)
        self._adds = PodAdds(bench.timeline)
        self._cases: dict[PodAdd, AdmissionCase] = {}
        self._owed: list[tuple[PodAdd, Record, str, str]] = []
        self._events_logged = False

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """What lists and managers show of refusals, and what the node has."""
        return {
            PodListed: self._inputs.told.pod_listed,
            NodeObserved: self._inputs.nodes.foresee,
            AffinityDecided: self._inputs.told.manager_said,
            AllocationFailed: self._inputs.told.manager_said,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """All that admission reads and decides."""
        return {
            KubeletStarted: self._kubelet_started,
            NodeObserved: self._inputs.node_observed,
            PodConfigChanged: self._config_changed,
            EvictionSignalObserved: self._inputs.pressure.signal_read,
            NodeConditionsChanged: self._inputs.pressure.changed,
            ReasonReported: self._reason_reported,
            AffinityDecided: self._manager_decided,
            AllocationFailed: self._manager_decided,
            PodTerminating: self._inputs.terminating,
            PodPreempted: self._pod_preempted,
            PreemptionFailed: self._preemption_failed,
            PodAdmitted: self._pod_admitted,
            PodRejected: self._pod_rejected,
        }

    def settle(self, state: NodeState) -> None:
        """The records, or the kubelet, end."""
        for add in self._cases:
            self._judge_victims(add, None, state)
        for add, record, reason, message in self._owed:
            self._miss_refusal(add, record, reason, message)
        self._owed.clear()
        self._cases.clear()

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.settle(state)
        self._inputs.kubelet_started(record, body, state)
        self._adds.clear()
        self._events_logged = False

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._adds.config_changed(record, body)

    # -- refusals that are not told ----------------------------------------------------------

    def _reason_reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        self._events_logged |= any(piece.line is not None for piece in record.evidence)

    def _manager_decided(
        self, record: Record, body: AffinityDecided | AllocationFailed, state: NodeState
    ) -> None:
        refusal = refusal_of(body)
        if refusal is None or (isinstance(body, AllocationFailed) and body.told_by != "log"):
            return
        add = self._adds.find(body.pod_uid, body.namespace, body.pod)
        if add is not None:
            self._owed.append((add, record, *refusal))

    def _miss_refusal(self, add: PodAdd, record: Record, reason: str, message: str) -> None:
        """A list shows the refusal that no record tells, of a log that lost no lines.

        Up to 1.30 only an event may tell it, and those are logged from verbosity 3.
        """
        life, over_ns = add.life, record.ts_ns + _ANSWERED_NS
        if life.decided_ns is not None or life.returned or add.misnamed:
            return
        process = self.bench.timeline.process(record.ts_ns)
        ended = process is not None and process.ended_ns is not None and process.ended_ns < over_ns
        shown = self._inputs.told.rejection(add, add.ts_ns)
        lost = self.bench.coverage.missing(record.ts_ns, over_ns) is not None
        if self._events_logged and shown is not None and shown[1] == reason and not (lost or ended):
            why = f"no refusal is told of the pod that had to get one: {reason}, {message}"
            self.bench.absent(
                add.added, PodRejected.kind, subject=f"pod/{add.full_name}", why=why,
                expected={"reason": reason, "message": message}, rule=RULE_PREDICATES,
                inputs=(add.seq, record.seq, shown[0]),
            )  # fmt: skip

    # -- what is decided --------------------------------------------------------------------

    def _pod_admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        add = self._add_of(record, body.pod_uid, body.namespace, body.pod)
        if add is None:
            return
        case = self._case(add, record, state)
        victims = [f"{kill.victim_namespace}/{kill.victim_pod}" for _, kill in add.kills]
        judgement = judged(case, lambda known: judge_admitted(known, victims))
        self.conclude(record, f"pod/{add.full_name}", judgement, recorded={"admit": True})
        self._close(add, record, state)

    def _pod_rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        add = self._add_of(record, body.pod_uid, body.namespace, body.pod)
        if add is None:
            return
        compare_refusal(self.bench, record, body, self._inputs.told.rejection(add, record.ts_ns))
        case = self._case(add, record, state)
        pressure, shutdown = self._inputs.pressure, self._inputs.shutdown
        judgement = judged(case, lambda known: judge_refused(known, body, pressure, shutdown))
        recorded = {"reason": body.reason, "message": body.message}
        self.conclude(record, f"pod/{add.full_name}", judgement, recorded=recorded)
        self._close(add, record, state)

    def _preemption_failed(self, record: Record, body: PreemptionFailed, state: NodeState) -> None:
        name = (body.preemptor_namespace, body.preemptor_pod)
        add = self._add_of(record, body.preemptor_uid, *name, RULE_PREEMPTION)
        if add is None:
            return
        self._owed.append((add, record, UNEXPECTED, RECOVERY + body.error))
        case = self._case(add, record, state)
        judgement = judged(case, lambda known: judge_failed(known, body), RULE_PREEMPTION)
        self.conclude(record, f"pod/{add.full_name}", judgement, recorded=failure_of(body))

    def _pod_preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        add = self._preemptor(body)
        case: AdmissionCase | tuple[str, ...] = ("the pod that room was made for",)
        if add is not None:
            case = self._case(add, record, state)
        elif self.bench.profile is None:
            case = (self.bench.missing_profile,)
        if add is not None and isinstance(case, AdmissionCase):
            add.kills.append((record, body))
        else:
            judgement = judged(case, lambda _: lacks(()), RULE_PREEMPTION)
            subject = f"pod/{body.victim_namespace}/{body.victim_pod}"
            self.conclude(record, subject, judgement)

    # -- victims ----------------------------------------------------------------------------

    def _judge_victims(self, add: PodAdd, decided: Record | None, state: NodeState) -> None:
        """All victims of one preemption are judged together, when the preemptor is decided."""
        case = self._cases.get(add)
        if case is None or not add.kills:
            return
        kills = [self._kill(record, body, decided, state) for record, body in add.kills]
        all_told = _all_told(add, decided)
        for index, (record, _) in enumerate(add.kills):
            fields: Fields | None = None

            def of_this(case: AdmissionCase, index: int = index) -> Judgement:
                nonlocal fields
                judgement, fields = judge_victims(case, kills, all_told=all_told)[index]
                return judgement

            judgement = judged(case, of_this, RULE_PREEMPTION)
            subject = f"pod/{kills[index].name}"
            self.conclude(record, subject, judgement, recorded=fields)
        add.kills.clear()

    def _kill(
        self, record: Record, body: PodPreempted, decided: Record | None, state: NodeState
    ) -> Kill:
        """What must have come of a kill, by the time it took and the victim's containers."""
        if decided is None or body.evicted is None:
            return Kill(body)
        who = body.victim_uid, body.victim_namespace, body.victim_pod
        name = f"{body.victim_namespace}/{body.victim_pod}"
        took_ns, late_ns = decided.ts_ns - record.ts_ns, decided.ts_ns + _MARGIN_NS
        if not body.evicted:
            pod = known(state.lifecycle, *who)
            reported = pod is None or {"FailedKillPod", "ExceededGracePeriod"} & pod.reasons.keys()
            if took_ns >= _KILL_WAIT_NS or reported:
                return Kill(body)
            why = f"does not run out in {took_ns / NS_PER_S:.1f} s, and no error was reported"
            why = f"the kill of {name} cannot have failed: its wait {why}"
            return Kill(body, why, (decided.seq,))
        history = self.bench.timeline.pod(record.ts_ns, *who)
        runs = [] if history is None else history.ran(decided.ts_ns)
        ran_on = any(run.sandbox is False and run.died_ns is None for run in runs)
        if not ran_on or self.bench.coverage.missing(record.ts_ns, late_ns) is not None:
            return Kill(body)
        why = f"the kill of {name} did not succeed: its containers ran on"
        return Kill(body, why, (decided.seq,))

    # -- whose decision ---------------------------------------------------------------------

    def _add_of(
        self,
        record: Record,
        uid: str | None,
        namespace: str,
        name: str,
        rule: str = RULE_PREDICATES,
    ) -> PodAdd | None:
        """The ADD that was decided; without one the finding is given here."""
        add = self._adds.find(uid, namespace, name)
        if add is not None and (add.namespace, add.name) == (namespace, name):
            return add
        named = self._adds.named(namespace, name) or add
        if named is not None:
            named.misnamed = True
        judgement = self._of_a_stranger(record, uid, named)
        self.conclude(record, f"pod/{namespace}/{name}", judgement, rule=rule)
        return None

    def _of_a_stranger(self, record: Record, uid: str | None, named: PodAdd | None) -> Judgement:
        """A decision about a pod that was not handed over, as far as the records go."""
        if self.bench.profile is None:
            return lacks((self.bench.missing_profile,))
        # An admission is told by the line of the ADD itself; that of a refused pod may be lost.
        told_alone = not isinstance(record.body, PodAdmitted)
        if named is None or (told_alone and named.decided) or self._is_another(uid, named):
            return lacks((_NO_ADD,))
        why = (
            f"the pod handed to the kubelet is {named.full_name} with UID {named.uid}; "
            f"no pod of that name with UID {uid} was"
        )
        expected = {"namespace": named.namespace, "pod": named.name, "pod_uid": named.uid}
        return same(False, why, expected=expected, inputs=(named.seq,))

    def _is_another(self, uid: str | None, named: PodAdd) -> bool:
        """Whether records tell of another pod of that name, whose own line is lost then."""
        if uid is None or uid == named.uid:
            return False
        pod, listed = self.bench.timeline.pods.get(uid), self.bench.pods.at(0, uid)
        if pod is not None and pod.runs and f"{pod.namespace}/{pod.name}" == named.full_name:
            return True
        return listed is not None and f"{listed.namespace}/{listed.name}" == named.full_name

    def _preemptor(self, body: PodPreempted) -> PodAdd | None:
        """Whose admission is under way; the named one, else the only one it can be."""
        add = None
        if body.preemptor_pod is not None:
            add = self._adds.find(body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod)
        under_way = self._adds.under_way()
        if add is not None and add in under_way:
            return add
        likely = [each for each in under_way if each.kills] or under_way
        return likely[0] if len(likely) == 1 else None

    def _case(
        self, add: PodAdd, record: Record, state: NodeState
    ) -> AdmissionCase | tuple[str, ...]:
        """The case of an ADD; made once, before anybody is killed for it."""
        # Who is chosen counted just before.
        by_ns = record.ts_ns - isinstance(record.body, PodPreempted)
        case = self._cases.get(add) or self._inputs.case_of(add, record.node, by_ns, state)
        if isinstance(case, AdmissionCase):
            self._cases[add] = case
            self.bench.on_question(record.seq, case)
        return case

    def _close(self, add: PodAdd, record: Record, state: NodeState) -> None:
        self._judge_victims(add, record, state)
        add.decided = True
        self._cases.pop(add, None)


def _all_told(add: PodAdd, decided: Record | None) -> bool:
    """Whether one line names all victims, is not cut, and the log went on behind it.

    Since 1.33 or so there is a line a victim, any of which may be lost. It names the preemptor.
    """
    last, body = add.kills[-1]
    if body.cut or not all(kill.preemptor_inferred and kill.insufficient for _, kill in add.kills):
        return False
    lines = [(piece.file, piece.line) for piece in last.evidence[:1]]
    shown = decided.evidence if decided is not None else ()
    return any(file == piece.file and (line or 0) < (piece.line or 1)
               for file, line in lines for piece in shown) or not lines  # fmt: skip
