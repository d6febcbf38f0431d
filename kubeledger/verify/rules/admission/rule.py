"""The rule of admission and preemption: puts records, cases and judgements together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from kubeledger.kubelet.lifecycle.state import known
from kubeledger.model.bodies.cgroups import PodsStateRead
from kubeledger.model.bodies.eviction import PodPreempted, PreemptionFailed
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected, PodResized, PodTerminating
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.bodies.resourcemanagers import HintsGenerated
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, lacks, same
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.evidence.history_entries import Who
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import AdmissionCase
from kubeledger.verify.rules.admission.inputs import AdmissionInputs
from kubeledger.verify.rules.admission.judging import (
    RULE_PREDICATES,
    RULE_PREEMPTION,
    UNREADABLE,
    failure_of,
    judge_admitted,
    judge_failed,
    judged,
    noted,
)
from kubeledger.verify.rules.admission.refused import ManagerDecision, judge_refused
from kubeledger.verify.rules.admission.resizes import RULE_RESIZE, Resizes
from kubeledger.verify.rules.admission.victims import Kill, judge_victims

_NO_ADD: Final = "the line that hands the pod to the kubelet (SyncLoop ADD)"
_KILL_WAIT_NS: Final = 10 * NS_PER_S
"""The kubelet waits for a kill this long at least, and half as long again as its grace."""
_MARGIN_NS: Final = 10 * NS_PER_S
"""A death is logged this late at most."""


class AdmissionVerifier(RuleVerifier):
    """Judges who was admitted, who was refused, and who was killed for whom."""

    rule = RULE_PREDICATES
    decides = (PodAdmitted, PodRejected, PodPreempted, PodResized, PreemptionFailed)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._inputs = AdmissionInputs(context)
        self._resizes = Resizes(context, self._inputs)
        self._cases: dict[int, AdmissionCase] = {}
        self._kills: dict[int, list[tuple[Record, PodPreempted]]] = {}
        self._decided: set[int] = set()

    def prescans(self) -> Mapping[type[Body], Prescan]:
        return {
            NodeObserved: self._inputs.nodes.prescan,
            HintsGenerated: self._inputs.refusals.note_hints,
            **dict.fromkeys(get_args(ManagerDecision), self._inputs.refusals.note_manager),
            PodResized: self._inputs.objects.foresee,
        }

    def derive(self, state: NodeState) -> None:
        self._inputs.objects.forget()

    def sees(self) -> Mapping[type[Body], See]:
        return {
            KubeletStarted: self._kubelet_started,
            NodeObserved: self._inputs.node_observed,
            PodResized: self._pod_resized,
            PodsStateRead: self._resizes.state_read,
            PodTerminating: self._inputs.terminating,
            PodPreempted: self._pod_preempted,
            PreemptionFailed: self._preemption_failed,
            PodAdmitted: self._pod_admitted,
            PodRejected: self._pod_rejected,
        }

    def settle(self, state: NodeState) -> None:
        for case in self._cases.values():
            self._judge_victims(case.interval, None, state)
        for each in (self._cases, self._kills, self._decided):
            each.clear()

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.settle(state)
        self._inputs.kubelet_started(record, body, state)

    # -- what is decided --------------------------------------------------------------------

    def _pod_admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        who = body.pod_uid, body.namespace, body.pod
        if (asked := self._asked(record, state, who)) is None:
            return
        interval, case = asked
        kills = (kill for _, kill in self._kills.get(interval.seq, ()))
        victims = [f"{kill.victim_namespace}/{kill.victim_pod}" for kill in kills]
        judgement = judged(case, lambda known: judge_admitted(known, victims))
        listed = self._inputs.refusals.denied(interval)
        if listed is not None and self.context.profile is not None:
            why = f"a list shows that the pod was not admitted: {listed[1]} ({listed[2]})"
            expected = {"admit": False, "reason": listed[1]}
            seqs = interval.add_seq or 0, listed[0]
            judgement = same(False, why, expected=expected, inputs=seqs)
        self._close(interval, record, judgement, {"admit": True}, state)

    def _pod_rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        who = body.pod_uid, body.namespace, body.pod
        if (asked := self._asked(record, state, who)) is None:
            return
        interval, case = asked
        pressure, shutdown = self.context.node_pressure, self._inputs.shutdown
        judgement = judged(case, lambda known: judge_refused(known, body, pressure, shutdown))
        recorded = {"reason": body.reason, "message": body.message}
        self._close(interval, record, judgement, recorded, state)

    def _preemption_failed(self, record: Record, body: PreemptionFailed, state: NodeState) -> None:
        who = body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod
        if (asked := self._asked(record, state, who, RULE_PREEMPTION)) is None:
            return
        interval, case = asked
        judgement = judged(case, lambda known: judge_failed(known, body), RULE_PREEMPTION)
        self.conclude(record, f"pod/{interval.full_name}", judgement, recorded=failure_of(body))

    def _pod_preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        interval = self._preemptor(record, body)
        case: AdmissionCase | tuple[str, ...] = ("the pod that room was made for",)
        if interval is not None:
            case = self._case(interval, record, state)
        elif self.context.profile is None:
            case = (self.context.missing_profile,)
        if interval is not None and isinstance(case, AdmissionCase):
            self._kills.setdefault(interval.seq, []).append((record, body))
        elif isinstance(case, tuple):
            victim = f"pod/{body.victim_namespace}/{body.victim_pod}"
            self.conclude(record, victim, lacks(case), rule=RULE_PREEMPTION)

    def _pod_resized(self, record: Record, body: PodResized, state: NodeState) -> None:
        judgement = self._resizes.judged(record, body, state)
        self.conclude(record, f"pod/{body.namespace}/{body.pod}", judgement, rule=RULE_RESIZE)
        self._inputs.objects.resized(record, body, state)

    # -- victims ----------------------------------------------------------------------------

    def _judge_victims(
        self, interval: PodActiveInterval, decided: Record | None, state: NodeState
    ) -> None:
        """All victims of one preemption are judged together, when the preemptor is decided."""
        case, killed = self._cases.get(interval.seq), self._kills.pop(interval.seq, None)
        if case is None or not killed:
            return
        kills = [self._kill(record, body, decided, state) for record, body in killed]
        try:
            found = judge_victims(case, kills, all_reported=_all_told(killed, decided))
        except BadInputError:
            found = [(UNREADABLE, None)] * len(kills)
        for (record, _), kill, (judgement, fields) in zip(killed, kills, found, strict=True):
            judgement = noted(case, judgement, RULE_PREEMPTION)
            about = {f"pod/{interval.full_name}": judgement.clause} if judgement.clause else None
            self.conclude(record, f"pod/{kill.name}", judgement, recorded=fields, about=about)

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
        runs = self.context.timeline.pod(record.ts_ns, *who).ran(decided.ts_ns)
        ids = [run.container_id for run in runs if run.sandbox is False and run.died_ns is None]
        listed = [each for each in map(self.context.instances.instance, ids) if each is not None]
        if all(each.lived[0] <= late_ns for each in listed):  # the line of an end may be lost
            return Kill(body)
        why = f"the kill of {name} failed: its containers ran on"
        return Kill(body, why, (decided.seq,))

    # -- whose decision ---------------------------------------------------------------------

    def _handed(self, record: Record, *who: str | None) -> PodActiveInterval | None:
        """The interval of a pod that a config line had added by then, and none had removed."""
        ts_ns = record.ts_ns
        interval = self.context.timeline.interval(ts_ns, *who)
        if interval is None or interval.added_ns is None or interval.added_ns > ts_ns:
            return None
        return interval if (interval.removed_ns or ts_ns) >= ts_ns else None

    def _asked(
        self, record: Record, state: NodeState, who: Who, rule: str = RULE_PREDICATES
    ) -> tuple[PodActiveInterval, AdmissionCase | tuple[str, ...]] | None:
        """The interval that was decided, and its case; without one the finding is given here."""
        (uid, namespace, name), interval = who, self._handed(record, *who)
        if interval is not None and (interval.namespace, interval.name) == (namespace, name):
            return interval, self._case(interval, record, state)
        of_name = (pod.uid for pod in self.context.timeline.named(namespace, name))
        handed = (self._handed(record, each, namespace, name) for each in of_name)
        brought = [each for each in (*handed, interval) if each is not None]
        named = max(brought, key=lambda each: each.add_seq or 0, default=None)
        judgement = self._of_unknown_pod(record, uid, named)
        self.conclude(record, f"pod/{namespace}/{name}", judgement, rule=rule)
        return None

    def _of_unknown_pod(
        self, record: Record, uid: str | None, named: PodActiveInterval | None
    ) -> Judgement:
        """A decision about a pod that was not handed over, as far as the records go."""
        if self.context.profile is None:
            return lacks((self.context.missing_profile,))
        # An admission is shown by the line of the ADD; that of a refused pod may be lost.
        only_reported = not isinstance(record.body, PodAdmitted)
        process = self.context.timeline.process(record.ts_ns)
        if (
            named is None
            and not only_reported
            and process is not None
            and process.from_start
            and self.context.coverage.missing(process.started_ns, record.ts_ns) is None
            # A log at a low verbosity is whole without them.
            and self.context.timeline.last_added(record.ts_ns)
            and self._is_unknown(record, uid)
        ):
            return same(False, "no line had handed a pod of that name to the kubelet")
        if (
            named is None
            or uid is None  # the same pod, of which no list is left
            or (only_reported and named.seq in self._decided)
            or self._is_another(uid, named)
        ):
            return lacks((_NO_ADD,))
        why = f"the pod handed to the kubelet is {named.full_name} with UID {named.uid}; "
        why += f"no pod of that name with UID {uid} was"
        expected = {"namespace": named.namespace, "pod": named.name, "pod_uid": named.uid}
        return same(False, why, expected=expected, inputs=(named.add_seq or 0,))

    def _is_unknown(self, record: Record, uid: str | None) -> bool:
        """Whether nothing else is known of a pod; else the line that handed it over may be lost."""
        body = record.body
        assert isinstance(body, PodAdmitted)
        timeline = self.context.timeline
        of_name = timeline.named(body.namespace, body.pod)
        known = [*of_name, timeline.pods[uid]] if uid in timeline.pods else of_name
        return self.context.pods.at(0, uid, body.namespace, body.pod) is None and not any(
            pod.runs
            or pod.listed_alive_ns
            or any(interval.seq != record.seq for interval in pod.intervals)
            for pod in known
        )

    def _is_another(self, uid: str | None, named: PodActiveInterval) -> bool:
        """Whether records show another pod of that name, whose own line is lost then.

        Where lines give a name only, a pod of a former process may have been made again since.
        """
        if uid is None or uid == named.uid:
            return False
        pods, listed = self.context.timeline.pods, self.context.pods.at(0, uid)
        pod, former = pods.get(uid), pods.get(named.key)
        if former is not None and any(i.process < named.process for i in former.intervals):
            return True
        shown = [each for each in (listed, pod if pod is not None and pod.runs else None) if each]
        return any(f"{each.namespace}/{each.name}" == named.full_name for each in shown)

    def _preemptor(self, record: Record, body: PodPreempted) -> PodActiveInterval | None:
        """Whose admission is under way; the named one, else the only one it can be.

        One that the process did not live to decide is under way until its end.
        """
        last = self.context.timeline.last_added(record.ts_ns)
        added = [interval for interval in last if interval.seq not in self._decided]
        under_way = {each.seq: each for each in added if each.decided_ns is not None}
        if body.preemptor_pod is not None:
            who = body.preemptor_uid, body.preemptor_namespace, body.preemptor_pod
            named = self._handed(record, *who)
            if named is not None and any(each is named for each in added):
                return named
        likely = [interval for seq, interval in under_way.items() if self._kills.get(seq)]
        likely = likely or list(under_way.values())
        return likely[0] if len(likely) == 1 else None

    def _case(
        self, interval: PodActiveInterval, record: Record, state: NodeState
    ) -> AdmissionCase | tuple[str, ...]:
        """The case of an ADD; made once, before anybody is killed for it."""
        # Who is chosen counted just before.
        by_ns = record.ts_ns - isinstance(record.body, PodPreempted)
        case = self._cases.get(interval.seq) or self._inputs.case_of(
            interval, record.node, by_ns, state
        )
        if isinstance(case, AdmissionCase):
            self._cases[interval.seq] = case
            self.context.settings.asked |= case.asked
            self.context.on_question(record.seq, case)
        return case

    def _close(
        self,
        interval: PodActiveInterval,
        record: Record,
        judgement: Judgement,
        recorded: Fields,
        state: NodeState,
    ) -> None:
        """Give the decision about an ADD its finding; there is one."""
        calls = self.context.timeline.pods[interval.key].calls
        again = [call for call in calls if call.what == "add" and call.ts_ns <= record.ts_ns]
        is_reported = interval.seq in self._decided or self._had_run(interval, record)
        is_reported = is_reported and self.context.profile is not None
        if is_reported and not any(call.ts_ns > (interval.added_ns or 0) for call in again):
            why = "the pod was handed to the kubelet once, and was decided about before"
            judgement = same(False, why, inputs=(interval.add_seq or 0,))
        self.conclude(record, f"pod/{interval.full_name}", judgement, recorded=recorded)
        self._judge_victims(interval, record, state)
        self._decided.add(interval.seq)
        self._cases.pop(interval.seq, None)

    def _had_run(self, interval: PodActiveInterval, record: Record) -> bool:
        """Whether a container was started for a pod that is refused then: it had been admitted."""
        times, pod = self.context.times, self.context.timeline.pods[interval.key]
        runs = [run for run in pod.runs if not run.sandbox and run.is_started(record)]
        began = [times.started(run.container_id, run.started_ns) for run in runs]
        added_ns, is_refusal = interval.added_ns or 0, isinstance(record.body, PodRejected)
        return is_refusal and any(when is not None and when.from_ns > added_ns for when in began)


def _all_told(killed: Sequence[tuple[Record, PodPreempted]], decided: Record | None) -> bool:
    """Whether one line names all victims, is not cut, and the log went on after it.

    Since 1.33 or so there is a line a victim, any of which may be lost. It names the preemptor.
    """
    last, body = killed[-1]
    if body.cut or not all(kill.preemptor_inferred and kill.insufficient for _, kill in killed):
        return False
    lines = [(piece.file, piece.line) for piece in last.evidence[:1]]
    listed = decided.evidence if decided is not None else ()
    return any(file == piece.file and (line or 0) < (piece.line or 1)
               for file, line in lines for piece in listed) or not lines  # fmt: skip
