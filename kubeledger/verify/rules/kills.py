"""Kills of containers: each needs its cause, and gets the words and seconds of the kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kubeledger.kubelet.eviction.decisions import eviction_override_s
from kubeledger.kubelet.kuberuntime.objects import app_kill, sidecar_kill
from kubeledger.kubelet.lifecycle.termination import (
    MINIMUM_GRACE_S,
    container_grace_s,
    overridden_grace_s,
)
from kubeledger.kubelet.prober.objects import FAILURE, SUCCESS, Result
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    PodConfigChanged,
    PodEvicted,
    PodTerminating,
)
from kubeledger.model.bodies.prober import PROBE_OF_KILL, ProbeTransitioned, ProbeType
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import (
    WORST_FIRST,
    Judgement,
    RuleVerifier,
    Ruling,
    all_of,
    compared,
    judge,
    open_to,
    same,
)
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.evidence.container_specs import PodSpec, specs_of
from kubeledger.verify.evidence.pod_intervals import PodHistory
from kubeledger.verify.finding import same_words
from kubeledger.verify.rules.containers import Causes, lived_until, ran_until, subject_of
from kubeledger.verify.rules.kill_reasons import REASONS, Kill, judge_probe, judge_stop

_OF_POD: Final = frozenset(
    {"preempted", "evicted", "pod_deleted", "pod_ended", "deadline_exceeded", "node_shutdown"}
)
"""Reasons for which a pod's worker stops it as a whole, and says with how many seconds."""
_ORPHAN_S: Final = 1
"""Given by HandlePodCleanups to what runs and no config source has."""
_DELETED_WITH: Final = "the grace period that the pod was deleted with"
_TAKEN_OVER: Final = "how the present kubelet process came to know the pod"
_SOFT: Final = "whether the pod was evicted for a soft threshold"


def kill_words(profile: KubeletProfile, spec: PodSpec, container: str, reason: str) -> str:
    """The kubelet's message for a kill of that reason."""
    if reason == "post_start_hook":
        return "FailedPostStartHook"
    if reason == "resized":
        return f"Container {container} resize requires restart"
    entry = spec.container(container)
    liveness: Result | None = FAILURE if reason == "liveness_probe" else None
    startup: Result | None = FAILURE if reason == "startup_probe" else None
    changed = reason == "spec_changed"
    if container in spec.sidecars:
        kill = sidecar_kill(
            container, liveness, startup or SUCCESS, profile.kuberuntime,
            has_startup_probe=entry is not None and entry.startup_probe is not None,
            definition_changed=changed,
        )  # fmt: skip
    else:
        kill = app_kill(
            container, liveness, startup, profile.kuberuntime,
            restart_policy=spec.restart_policy,
            own_policy=None if entry is None else entry.restart_policy,
            definition_changed=changed,
        )  # fmt: skip
    return f"Stopping container {container}" if kill is None else kill.message


def judge_grace(kill: Kill, spec: PodSpec, evicted_softly: bool | None) -> Judgement:
    """Judge the grace period of a kill of which the reason is known.

    ``evicted_softly``: the pod was evicted for a soft threshold; None: not known.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer
    """
    facts, body, reason = kill.context.known_profile.lifecycle, kill.body, kill.reason
    takes_time = _takes_time(facts, spec, kill)
    given_s = None if kill.ending is None else kill.ending.number
    if reason == "evicted" and (evicted_softly is not None or given_s is None):
        return _evicted(kill, spec, takes_time, evicted_softly)
    own_s = container_grace_s(facts, spec.grace_s, None)
    if given_s is not None and reason in _OF_POD:
        exact = overridden_grace_s(facts, given_s, spec.grace_s)
        why = f"given {given_s} s to the pod; container minimum {MINIMUM_GRACE_S} s"
        own = spec.grace_s if reason == "preempted" and not kill.is_deleted else None
        if own is not None and max(own, 1) != max(given_s, 1):
            why = f"a pod that is preempted gets its own {own} s, and was given {given_s} s"
            return same(False, why)
        return judge([_ruling(body, exact, why, takes_time)])
    if reason == "orphaned":
        exact = overridden_grace_s(facts, _ORPHAN_S, spec.grace_s)
        why = f"a pod without source gets {_ORPHAN_S} s, and a container {exact} s"
        return judge([_ruling(body, exact, why, takes_time, also=own_s)])
    exact, why = _by_spec(kill, facts, spec)
    # A failed probe of the last container of a pod that is not restarted stops the pod.
    stops_pod = body.message is not None and "will be restarted" not in body.message
    ruling = _ruling(body, exact, why, takes_time, also=own_s if stops_pod else exact)
    missing = [_DELETED_WITH] if kill.deleted is not None and not spec.is_static else []
    missing = missing if kill.added else [_TAKEN_OVER]
    return judge([ruling], unknown=() if ruling.allowed else missing)


def _ruling(
    body: ContainerKilled, exact: int, why: str, takes_time: bool, *, also: int | None = None
) -> Ruling:
    """What is given in one world: ``exact``, ``also``, or less where something takes time."""
    given = exact if body.grace_period_s is None else body.grace_period_s
    most = max(exact, also or 0)
    allowed = given in (exact, also) or (takes_time and MINIMUM_GRACE_S <= given <= most)
    ending = f" with a {given} s grace period ({why})" if body.grace_period_s is not None else ""
    denied = f"recorded is grace_period_s {given} instead of {exact} ({why})"
    return Ruling(
        allowed=allowed,
        chosen=given == exact,
        why=ending if allowed else denied,
        expected={} if body.grace_period_s is None else {"grace_period_s": exact},
    )


def _by_spec(kill: Kill, facts: LifecycleFacts, spec: PodSpec) -> tuple[int, str]:
    """By the pod's grace period, or the one of the probe that failed."""
    entry, probe_type = spec.container(kill.name), PROBE_OF_KILL.get(kill.reason)
    probe = None if entry is None or probe_type is None else entry.probe(probe_type)
    own = None if probe is None else probe.termination_grace_period_seconds
    source = f"configured {spec.grace_s} s; kubelet minimum {MINIMUM_GRACE_S} s"
    if spec.grace_s is None:
        source = "the pod's spec has no terminationGracePeriodSeconds"
    if kill.reason in ("preempted", "pod_deleted") and facts.pod_worker_gives_grace:
        return overridden_grace_s(facts, None, spec.grace_s), source
    gates = kill.context.settings.get("featureGates")
    gate_is_on = isinstance(gates, dict) and gates.get("ProbeTerminationGracePeriod") is True
    exact = container_grace_s(facts, spec.grace_s, own, gate_is_on=gate_is_on)
    if own is not None and exact != container_grace_s(facts, spec.grace_s, None):
        source = f"configured {own} s by the probe"
    return exact, source


def _takes_time(facts: LifecycleFacts, spec: PodSpec, kill: Kill) -> bool:
    """Whether something runs, or is waited for, before the container is told to end."""
    entry = spec.container(kill.name)
    if entry is not None and entry.hook("pre_stop") is not None:
        return True
    return kill.reason in _OF_POD and facts.sidecars_end_in_order and bool(spec.sidecars)


def _evicted(kill: Kill, spec: PodSpec, takes_time: bool, is_soft: bool | None) -> Judgement:
    """A hard eviction gives no time of its own, a soft one up to a maximum."""
    profile = kill.context.known_profile
    maximum_s = kill.context.settings.get("evictionMaxPodGracePeriod")

    def given(maximum_s: int, why: str, *, hard: bool, assumes: tuple[str, ...] = ()) -> Ruling:
        asked_s = eviction_override_s(
            profile.eviction, hard=hard, maximum_s=maximum_s, pod_grace_s=spec.grace_s
        )
        exact = overridden_grace_s(profile.lifecycle, asked_s, spec.grace_s)
        return replace(_ruling(kill.body, exact, why, takes_time), assumes=assumes)

    hard = given(0, "a hard eviction", hard=True)
    if is_soft is False:
        return judge([hard])
    if not isinstance(maximum_s, int):
        return judge([hard], unknown=["evictionMaxPodGracePeriod"])
    why = f"a soft eviction within evictionMaxPodGracePeriod {maximum_s}"
    soft = given(maximum_s, why, hard=False, assumes=() if is_soft else (_SOFT,))
    return judge([soft] if is_soft else [hard, soft])


_SYNC_RULE: Final = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"
_SHUTDOWN: Final = frozenset(
    {"shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods"}
)
_NAMED: Final = (PodConfigChanged, PodTerminating, PodEvicted, PodPreempted)
_ENDED_BEFORE_NS: Final = 5 * NS_PER_S
"""A sync may not know of an end that was logged so shortly before."""
_ABSENT_AFTER_NS: Final = 600 * NS_PER_S
_TAKES_NS: Final = 165 * NS_PER_S
"""So long after its grace period a kill has ended a container, or failed and is tried again."""


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
        kinds = self._thresholds
        return {PodEvicted: lambda record, body: kinds.update({record.seq: body.threshold_kind})}

    def sees(self) -> Mapping[type[Body], See]:
        return {
            **dict.fromkeys(_NAMED, self._names.see),
            ProbeTransitioned: self._transitioned,
            ContainerKilled: self._killed,
        }

    # -- probes that fail --------------------------------------------------------------------

    def _transitioned(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        """A probe's cached result changed; readiness kills nothing."""
        self._names.see(record, body)
        pod = self.context.timeline.of(record)
        if not pod.key or body.probe_type == "readiness":
            return
        name = pod.key, body.container, body.probe_type
        if body.to_result != "failure":
            self._failures.pop(name, None)
            return
        self._failures[name] = record
        self._owe(record, body, pod)

    def _failure(self, kill: Kill, probe_type: ProbeType) -> Record | None:
        """The change that says that the probe of the container that runs failed."""
        record, pod = kill.record, kill.pod
        process = self.context.timeline.process(record.ts_ns)
        failure = self._failures.get((pod.key, kill.name, probe_type))
        if failure is None or (process and failure.ts_ns < process.started_ns):
            return None
        assert isinstance(failure.body, ProbeTransitioned)
        runs, own = pod.runs_of(kill.name), failure.body.container_id
        since = [run for run in runs if run.is_started(record) and not run.is_started(failure)]
        return failure if all(run.container_id == own for run in since) else None

    def _owe(self, record: Record, body: ProbeTransitioned, pod: PodHistory) -> None:
        """A kill follows a failure, unless the container ends or another comes in its place.

        Without a tick it may have ended before, unless this process told that it began.
        """
        due_ns, run = record.ts_ns + _ABSENT_AFTER_NS, pod.run(body.container_id)
        process = self.context.timeline.process(record.ts_ns)
        began_ns = process.started_ns if process is not None else 0
        if record.cause is None and (run is None or (run.started_ns or 0) <= began_ns):
            return
        over = [] if run is None else [run.killed_ns, run.died_ns]
        others = (other.started_ns for other in pod.runs_of(body.container) if other is not run)
        over += [ts_ns for ts_ns in others if (ts_ns or 0) > record.ts_ns]
        is_over = any(ts_ns is not None and ts_ns <= due_ns for ts_ns in over)
        if is_over or body.container_id is None or self.context.profile is None:
            return
        who = {"container": body.container, "container_id": body.container_id}
        debt = Debt(
            since=record,
            of_pod=True,
            due_ns=due_ns,
            shown_by=ProbeTransitioned,
            kind=ContainerKilled.kind,
            subject=subject_of(body),
            expected={**who, "reason": f"{body.probe_type}_probe"},
            why=f"the {body.probe_type} probe of container {body.container} failed, and the "
            f"kubelet did not kill it within {_ABSENT_AFTER_NS // NS_PER_S} s",
            rule=_SYNC_RULE,
            inputs=(record.seq,),
        )
        self.context.debts.call(debt)

    # -- kills -------------------------------------------------------------------------------

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        kill = Kill(self.context, record, body, state)
        wrong = self._misnamed(kill) or self._misplaced(kill)
        specs = specs_of(self.context.pods, record)
        missing = self._missing(body, specs)
        if wrong is not None:
            self._finish(record, body, wrong)
        elif missing is not None or isinstance(specs, str):
            self.lacking(record, subject_of(body), [missing or "the pod's spec"])
        else:
            worlds = [self._judge(kill, spec) for spec in specs]
            self._finish(record, body, _over(worlds, specs))

    def _finish(self, record: Record, body: ContainerKilled, judgement: Judgement) -> None:
        rule = _SYNC_RULE if body.reason in PROBE_OF_KILL else self.rule
        shown = compared(record, judgement)
        self.conclude(record, subject_of(body), judgement, recorded=shown, rule=rule)

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

    def _misnamed(self, kill: Kill) -> Judgement | None:
        """The judgement of a kill of another container than what led to it, or than ran."""
        record, body = kill.record, kill.body
        runs = kill.pod.runs_of(body.container)
        own = (run for run in runs if run.container_id == body.container_id)
        observed = any(run.is_started(record) or run.is_dead(record) for run in own)
        shown = self.context.instances.of_pod(kill.pod.key).get(body.container_id or "")
        if (shown is not None and shown.name == body.container) or (
            observed and body.container_id is not None and body.pod_uid is not None
        ):
            listed = self.context.pods.at(record.ts_ns, body.pod_uid)
            if listed is None or (listed.namespace, listed.name) == (body.namespace, body.pod):
                return None
        wrong = self._names.judge(record, body)
        *_, ran = (None, *(run for run in runs if run.is_started(record)))
        if wrong is not None or body.container_id is None or observed or ran is None:
            return wrong
        if ran.has_ended(record) or ran.container_id is None:
            return None  # another one may have been made and killed before it was shown
        why, inputs = f"the container that ran was {ran.container_id}", [ran.started_seq]
        if not self.context.coverage.is_watched(record.ts_ns):
            end = f"the end of container {ran.container_id}, whose line may be lost"
            return open_to(end, denied=why, inputs=inputs)
        return same(False, why, expected={"container_id": ran.container_id}, inputs=inputs)

    def _misplaced(self, kill: Kill) -> Judgement | None:
        """The judgement of a kill of what was started later, or is not killed by it."""
        record, body, ran = kill.record, kill.body, (0, 0)
        what = f"container {(body.container_id or '')[:12]}"
        if (shown := self.context.instances.instance(body.container_id)) is not None:
            if shown.began_ns is not None and shown.began_ns > record.ts_ns + NS_PER_S:
                why = f"{what} was started at {format_ts(shown.began_ns)}, after that"
                return same(False, why, inputs=[shown.seq])
            if kill.run is None or not 0 < (kill.run.died_ns or 0) < shown.ran[0]:  # or late
                ran = lived_until(self.context, shown), shown.lived[1]
        over_ns = record.ts_ns + (body.grace_period_s or 0) * NS_PER_S + _TAKES_NS
        if ran[0] <= over_ns and kill.run is not None:
            ran = ran_until(self.context, kill.run, over_ns)
        if body.grace_period_s is None or ran[0] <= over_ns:
            return None
        if self.context.times.kills(body.container_id, record.ts_ns, ran[0]):
            return None
        why = f"{what} ran until {format_ts(ran[0])} at least, and was not killed again"
        return same(False, why, inputs=[ran[1]])

    def _judge(self, kill: Kill, spec: PodSpec) -> Judgement:
        name, reason, profile = kill.name, kill.reason, self.context.known_profile
        if spec.container(name) is None:
            return same(False, f"the pod's spec has no container {name}", certain=True)
        failed = {why: self._failure(kill, of) for why, of in PROBE_OF_KILL.items()}
        other = next((why for why, failure in failed.items() if failure), None) or kill.other()
        said = kill.body.message
        words = kill_words(profile, spec, name, reason) if reason in REASONS else said
        if said is not None and not same_words(said, words or ""):
            why = f"for {reason} the kubelet writes {words!r}"
            fields: dict[str, Any] = {"message": words}
            if other is not None and kill_words(profile, spec, name, other) == said:
                fields = {"reason": other}
            return same(False, why, expected=fields, inputs=[spec.seq], certain=True)
        is_told = reason in failed  # the line says so, whatever is known of the probe
        cause = judge_probe(kill, failed[reason], spec) if is_told else judge_stop(kill, spec)
        if cause.verdict == "impossible":
            expected = {"reason": other} if other not in (None, reason) else None
            return same(False, cause.why, expected=expected, inputs=[spec.seq, *cause.inputs])
        kinds = {self._thresholds.get(seq) for seq in kill.evictions} or {None}
        is_soft = None if None in kinds or {"soft"} < kinds else kinds == {"soft"}
        grace = judge_grace(kill, spec, is_soft)
        if cause.verdict == "unverifiable" and not (is_told and grace.verdict == "impossible"):
            return cause
        judged = all_of([cause, *self._ended_before(kill), grace])
        inputs = (spec.seq, *judged.inputs)
        if judged.verdict not in ("match", "admissible"):
            return replace(judged, inputs=inputs)
        reported = {"reason": reason} | ({} if said is None else {"message": words})
        why, expected = f"{cause.why}, so it was killed{grace.why}", grace.expected or {}
        return replace(judged, why=why, expected=reported | expected, inputs=inputs)

    def _ended_before(self, kill: Kill) -> Sequence[Judgement]:
        """What is known to have ended is not killed, but what ran when the pod's kill began is.

        Since 1.29 a sidecar's turn comes when the others are down; none when the pod is over.
        """
        record, body, run = kill.record, kill.body, kill.run
        if run is None or run.died_ns is None or not run.is_dead(record):
            return []
        stay = self.context.timeline.interval_of(record)
        over_ns = record.ts_ns if stay is None else stay.terminated_ns or record.ts_ns
        began_ns = record.ts_ns if stay is None else stay.end_decided_ns or record.ts_ns
        of_pod = began_ns <= run.died_ns and record.ts_ns - over_ns < _ENDED_BEFORE_NS
        is_untold = of_pod and not self.context.times.kills(body.container_id, 0, run.died_ns)
        if is_untold or record.ts_ns - run.died_ns < _ENDED_BEFORE_NS:
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
