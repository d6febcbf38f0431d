"""Kills of containers: each needs its cause, and gets the words and seconds of the kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    PodConfigChanged,
    PodEvicted,
    PodTerminating,
)
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.bodies.prober import PROBE_OF_KILL, ProbeTransitioned, ProbeType
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import (
    WORST_FIRST,
    Judgement,
    RuleVerifier,
    all_of,
    open_to,
    same,
)
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.evidence.container_specs import PodSpec, specs_of
from kubeledger.verify.evidence.pod_intervals import PodHistory
from kubeledger.verify.rules.causes import Causes
from kubeledger.verify.rules.containers import OfContainer, subject_of
from kubeledger.verify.rules.kill_grace import judge_grace, kill_words
from kubeledger.verify.rules.kill_reasons import REASONS, judge_probe, judge_stop
from kubeledger.verify.rules.stops import Stops
from kubeledger.verify.verifier import Prescan, See

_SYNC_RULE: Final = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"
_SHUTDOWN: Final = frozenset(
    {"shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods"}
)
_NAMED: Final = (PodConfigChanged, PodTerminating, PodEvicted, PodPreempted)
_ENDED_BEFORE_NS: Final = 5 * NS_PER_S
"""A sync may not know of an end that was logged so shortly before."""
_ABSENT_AFTER_NS: Final = 600 * NS_PER_S


class KillVerifier(RuleVerifier):
    """Judges kills, and says which had to follow a failed probe and did not."""

    rule = "pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer"
    decides = (ContainerKilled,)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._names = Causes(context)
        self._failures: dict[tuple[str, str, ProbeType], Record] = {}
        self._thresholds: dict[int, str | None] = {}

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """Evictions may be logged only when the pod has been stopped."""
        return {PodEvicted: self._foresee_eviction}

    def _foresee_eviction(self, record: Record, body: PodEvicted) -> None:
        self._thresholds[record.seq] = body.threshold_kind

    def sees(self) -> Mapping[type[Body], See]:
        """What kills follow from, where the timeline does not show it."""
        return {
            **dict.fromkeys(_NAMED, self._names.see),
            ProbeTransitioned: self._transitioned,
            ContainerKilled: self._killed,
        }

    def _pod(self, record: Record, body: OfContainer) -> PodHistory | None:
        return self.context.timeline.pod(record.ts_ns, body.pod_uid, body.namespace, body.pod)

    # -- probes that fail --------------------------------------------------------------------

    def _transitioned(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        """A probe's cached result changed; readiness kills nothing."""
        self._names.see(record, body)
        pod = None if body.probe_type == "readiness" else self._pod(record, body)
        if pod is None:
            return
        name = pod.key, body.container, body.probe_type
        if body.to_result != "failure":
            self._failures.pop(name, None)
            return
        self._failures[name] = record
        self._owe(record, body, pod)

    def _failure(
        self, record: Record, pod: PodHistory | None, container: str, probe_type: ProbeType
    ) -> Record | None:
        """The change that says that the probe of the container that runs failed."""
        process = self.context.timeline.process(record.ts_ns)
        failure = None if pod is None else self._failures.get((pod.key, container, probe_type))
        if pod is None or failure is None or (process and failure.ts_ns < process.started_ns):
            return None
        assert isinstance(failure.body, ProbeTransitioned)
        again = any(
            run.is_started(record)
            and not run.is_started(failure)
            and run.container_id != failure.body.container_id
            for run in pod.runs_of(container)
        )
        return None if again else failure

    def _owe(self, record: Record, body: ProbeTransitioned, pod: PodHistory) -> None:
        """A kill follows a failure, unless the container ends or another comes in its place."""
        due_ns, run = record.ts_ns + _ABSENT_AFTER_NS, pod.run(body.container_id)
        over = [] if run is None else [run.killed_ns, run.died_ns]
        for other in pod.runs_of(body.container):
            if other is not run and (other.started_ns or 0) > record.ts_ns:
                over.append(other.started_ns)
        if body.container_id is None or self.context.profile is None:
            return
        if any(ts_ns is not None and ts_ns <= due_ns for ts_ns in over):
            return
        debt = Debt(
            since=record,
            of_pod=True,
            due_ns=due_ns,
            shown_by=ProbeTransitioned,
            kind=ContainerKilled.kind,
            subject=subject_of(body),
            expected={
                "container": body.container,
                "container_id": body.container_id,
                "reason": f"{body.probe_type}_probe",
            },
            why=f"the {body.probe_type} probe of container {body.container} failed, and the "
            f"kubelet did not kill it within {_ABSENT_AFTER_NS // NS_PER_S} s",
            rule=_SYNC_RULE,
            inputs=(record.seq,),
        )
        self.context.debts.call(debt)

    # -- kills -------------------------------------------------------------------------------

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        wrong = self._misnamed(record, body)
        specs = specs_of(self.context.pods, record.ts_ns, body.pod_uid, body.namespace, body.pod)
        missing = self._missing(body, specs)
        if wrong is not None:
            self._finish(record, body, wrong)
        elif missing is not None or isinstance(specs, str):
            self.lacking(record, subject_of(body), [missing or "the pod's spec"])
        else:
            worlds = [self._judge(record, body, state, spec) for spec in specs]
            self._finish(record, body, _over(worlds, specs))

    def _finish(self, record: Record, body: ContainerKilled, judgement: Judgement) -> None:
        expected = judgement.expected or None
        recorded = {name: getattr(body, name) for name in expected or {}}
        rule = _SYNC_RULE if body.reason in PROBE_OF_KILL else self.rule
        self.conclude(record, subject_of(body), judgement, recorded=recorded or None, rule=rule)

    def _missing(self, body: ContainerKilled, specs: tuple[PodSpec, ...] | str) -> str | None:
        if self.context.profile is None:
            return self.context.missing_profile
        if isinstance(specs, str):
            return specs
        if body.container is None:
            return "the name of the container"
        if body.reason is None:
            return "the reason of the kill"
        if body.reason == "node_shutdown" and _SHUTDOWN & self.context.variant.settings.keys():
            return "the time that the shutdown manager would have given"
        return None

    def _misnamed(self, record: Record, body: ContainerKilled) -> Judgement | None:
        """The judgement of a kill of another container than what led to it, or than ran."""
        pod = self._pod(record, body)
        runs = [] if pod is None else pod.runs_of(body.container)
        observed = any(r.container_id == body.container_id and r.is_observed(record) for r in runs)
        if self.context.instances.knows(body.container_id, subject_of(body)) or (
            observed and body.container_id is not None and body.pod_uid is not None
        ):
            listed = self.context.pods.at(record.ts_ns, body.pod_uid)
            if listed is None or (listed.namespace, listed.name) == (body.namespace, body.pod):
                return None
        wrong = self._names.judge(record, body)
        if wrong is not None or body.container_id is None or observed:
            return wrong
        before = [run for run in runs if run.is_started(record)]
        if not before or before[-1].has_ended(record) or before[-1].container_id is None:
            return None  # another one may have been made and killed before it was shown
        ran = before[-1]
        why = f"the container that ran was {ran.container_id}"
        expected = {"container_id": ran.container_id}
        return same(False, why, expected=expected, inputs=[ran.started_seq])

    def _judge(
        self, record: Record, body: ContainerKilled, state: NodeState, spec: PodSpec
    ) -> Judgement:
        """In the world in which the spec is this one."""
        name, reason, profile = body.container or "", body.reason or "", self.context.profile
        assert profile is not None
        if spec.container(name) is None:
            return same(False, f"the pod's spec has no container {name}", certain=True)
        pod = self._pod(record, body)
        stops = Stops(self.context, pod, record)
        failed = {
            why: self._failure(record, pod, name, PROBE_OF_KILL[why]) for why in PROBE_OF_KILL
        }
        other = next((why for why, failure in failed.items() if failure), None) or stops.other()
        words = kill_words(profile, spec, name, reason) if reason in REASONS else body.message
        if body.message not in (None, words):
            why = f"for {reason} the kubelet writes {words!r}"
            fields: dict[str, Any] = {"message": words}
            if other is not None and kill_words(profile, spec, name, other) == body.message:
                fields = {"reason": other}
            return same(False, why, expected=fields, inputs=[spec.seq], certain=True)
        if reason in PROBE_OF_KILL:
            cause = judge_probe(self.context, record, body, state, failed[reason], spec)
        else:
            cause = judge_stop(self.context, record, body, state, pod, stops, spec)
        if cause.verdict == "impossible":
            expected = {"reason": other} if other not in (None, reason) else None
            return same(False, cause.why, expected=expected, inputs=[spec.seq, *cause.inputs])
        if cause.verdict == "unverifiable":
            return cause
        grace = judge_grace(self.context, spec, body, stops, self._evicted_softly(stops))
        judged = all_of([cause, *self._ended_before(record, body, pod), grace])
        inputs = (spec.seq, *judged.inputs)
        if judged.verdict not in ("match", "admissible"):
            return replace(judged, inputs=inputs)
        reported = {"reason": reason} | ({} if body.message is None else {"message": words})
        return replace(
            judged,
            why=f"{cause.why}, so it was killed{grace.why}",
            expected={**reported, **(grace.expected or {})},
            inputs=inputs,
        )

    def _evicted_softly(self, stops: Stops) -> bool | None:
        """Whether a pod was evicted for a soft threshold; None: not known, or for several."""
        kinds = {self._thresholds.get(seq) for seq in stops.evictions} or {None}
        return None if None in kinds or {"soft"} < kinds else kinds == {"soft"}

    def _ended_before(
        self, record: Record, body: ContainerKilled, pod: PodHistory | None
    ) -> Sequence[Judgement]:
        """What is known to have ended is not killed, but what ran when the pod's kill began is.

        Since 1.29 a sidecar's turn comes when the others are down.
        """
        run = None if pod is None else pod.run(body.container_id)
        if run is None or run.died_ns is None or not run.is_dead(record):
            return []
        if record.ts_ns - run.died_ns < _ENDED_BEFORE_NS:
            return []
        stay = self.context.timeline.interval(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if stay is not None and (stay.end_decided_ns or record.ts_ns) <= run.died_ns:
            return []
        why = f"container {body.container} had ended by {format_ts(run.died_ns)}"
        return [same(False, f"{why}, and only what runs is killed", inputs=[run.died_seq])]


def _over(worlds: Sequence[Judgement], specs: Sequence[PodSpec]) -> Judgement:
    """The judgement over all versions of the pod's spec."""
    impossible = [world for world in worlds if world.verdict == "impossible"]
    if not impossible or len(impossible) == len(worlds):
        return min(worlds, key=lambda world: WORST_FIRST.index(world.verdict))
    seqs = [spec.seq for spec in specs]
    return open_to("which of the pod's lists is right", denied=impossible[0].why, inputs=seqs)
