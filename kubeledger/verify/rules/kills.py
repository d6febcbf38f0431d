"""Kills of containers: each needs its cause, and gets the words and seconds of the kubelet."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodTerminated,
    PodTerminating,
    ReasonReported,
)
from kubeledger.machine import Body, Record
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.prober.records import ProbeTransitioned
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.belief import (
    WORST_FIRST,
    Judgement,
    RuleVerifier,
    all_of,
    open_to,
    same,
)
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.causes import Causes, corrected
from kubeledger.verify.rules.container_specs import PodSpec, specs_of
from kubeledger.verify.rules.containers import (
    Containers,
    Instance,
    ListedInstances,
    key_for,
    subject_of,
)
from kubeledger.verify.rules.kill_causes import KillCauses
from kubeledger.verify.rules.kill_grace import PROBE_OF, judge_grace, kill_words
from kubeledger.verify.rules.kill_reasons import REASONS, KillReasons
from kubeledger.verify.verifier import Foresee, See

__all__ = ["KillVerifier"]

_SYNC_RULE: Final = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"
_SHUTDOWN: Final = frozenset(
    {"shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods"}
)
_ENDED_BEFORE_NS: Final = 5 * NS_PER_S
"""A sync may not have heard of an end that was told so shortly before."""
_EVENT_WITHIN_NS: Final = 5 * NS_PER_S
_ABSENT_AFTER_NS: Final = 600 * NS_PER_S


class KillVerifier(RuleVerifier):
    """Judges kills, and says which had to follow a failed probe and did not."""

    rule = "pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer"
    decides = (ContainerKilled,)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._containers = Containers()
        self._listed = ListedInstances()
        self._names = Causes(bench)
        self._causes = KillCauses()
        self._reasons = KillReasons(bench, self._causes, self._containers)
        self._awaited: deque[tuple[int, str, Record]] = deque()
        self._last: dict[str, dict[str, Record]] = {}

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Lists, evictions and preemptions may be told later than the kills they explain."""
        return {
            PodListed: self._listed.note,
            PodEvicted: self._causes.foresee,
            ReasonReported: self._causes.foresee,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """All that kills follow from."""
        return {
            KubeletStarted: self._kubelet_started,
            PodConfigChanged: self._config_changed,
            PodListed: self._pod_listed,
            PodTerminated: self._terminated,
            PodTerminating: self._terminating,
            PodEvicted: self._evicted,
            PodPreempted: self._preempted,
            ContainerStarted: self._container_started,
            ContainerDied: self._container_died,
            ProbeTransitioned: self._transitioned,
            ReasonReported: self._reported,
            ContainerKilled: self._killed,
        }

    # -- the kubelet and its pods ------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        known = state.kubelet
        if body.restart or known.started_ts_ns is None or body.pid not in {None, known.pid}:
            self._awaited.clear()
            self._last.clear()
            self._causes.kubelet_started(record.ts_ns)
            self._containers.kubelet_started()

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._pass_time(record.ts_ns)
        key = key_for(state, body)
        if body.operation == "ADD":
            self._containers.pod_added(key)
        runs = bool(self._containers.of_pod(key))
        self._causes.config_changed(record, body, key, runs=runs)
        self._names.note(record, body)

    def _pod_listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        self._pass_time(record.ts_ns)
        if body.gone and body.listed_by == "kubelet":
            self._gone(key_for(state, body))

    def _terminated(self, record: Record, body: PodTerminated, state: NodeState) -> None:
        self._gone(key_for(state, body))

    def _gone(self, key: str) -> None:
        self._causes.pod_gone(key)
        self._containers.pod_gone(key)
        self._last.pop(key, None)

    def _terminating(self, record: Record, body: PodTerminating, state: NodeState) -> None:
        self._causes.terminating(record, body, key_for(state, body))
        self._names.note(record, body)

    def _evicted(self, record: Record, body: PodEvicted, state: NodeState) -> None:
        self._causes.of(key_for(state, body)).evicted = record.seq
        self._names.note(record, body)

    def _preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        self._causes.preempted(record, body, state)
        self._names.note(record, body)

    # -- containers --------------------------------------------------------------------------

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        key = key_for(state, body)
        self._causes.container_started(key, body.container, body.container_id)
        self._containers.started(record, body, key)

    def _container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        key = key_for(state, body)
        self._answer(key, body.container)
        self._containers.died(record, body, key)

    def _transitioned(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        key = key_for(state, body)
        self._causes.transitioned(record, body, key)
        self._names.note(record, body)
        container = self._containers.find(key, body.container)
        newest = None if container is None else container.at(0)
        runs = newest is None or not newest.has_ended
        if body.to_result == "failure" and body.probe_type != "readiness" and runs:
            self._awaited.append((record.ts_ns + _ABSENT_AFTER_NS, key, record))

    # -- kills that are missing --------------------------------------------------------------

    def _answer(self, key: str, container: str | None) -> None:
        """Nobody waits for a kill of that container (None: of any of the pod) any more."""
        self._awaited = deque(
            entry
            for entry in self._awaited
            if entry[1] != key or container not in (None, getattr(entry[2].body, "container", None))
        )

    def _pass_time(self, now_ns: int) -> None:
        """A container whose liveness or startup probe failed was not killed for long."""
        while self._awaited and self._awaited[0][0] < now_ns:
            due_ns, key, record = self._awaited.popleft()
            body, pod = record.body, self._causes.known(key)
            assert isinstance(body, ProbeTransitioned)
            if pod is None or pod.failures.get((body.container, body.probe_type)) is not record:
                continue
            whole = self.bench.coverage.hole(record.ts_ns, due_ns) is None
            known = body.container_id is not None and self.bench.profile is not None
            if pod.added and not pod.is_stopped and known and whole:
                self._miss(record, body)

    def _miss(self, record: Record, body: ProbeTransitioned) -> None:
        self.bench.absent(
            record,
            ContainerKilled.kind,
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

    # -- the event of a kill -----------------------------------------------------------------

    def _reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        """The event of a kill says the same as its lines."""
        if body.reason != "Killing" or body.count != 1 or body.object_kind != "Pod":
            return
        kills = self._last.get(key_for(state, body), {})
        only = next(iter(kills.values())) if len(kills) == 1 else None
        kill = only if body.container is None else kills.get(body.container)
        if kill is None or not 0 <= record.ts_ns - kill.ts_ns <= _EVENT_WITHIN_NS:
            return
        told = kill.body
        assert isinstance(told, ContainerKilled)
        # The event of a pod that is stopped as a whole says so, whatever its container failed.
        if told.message is not None and body.message not in (
            told.message, f"Stopping container {told.container}",
        ):  # fmt: skip
            self.bench.contradict(
                record.ts_ns, subject_of(told),
                "the lines about a kill and its event give different reasons",
                (kill.seq, told.message), (record.seq, body.message),
            )  # fmt: skip

    # -- kills -------------------------------------------------------------------------------

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        self._pass_time(record.ts_ns)
        wrong = self._misnamed(record, body, key_for(state, body))
        believed = corrected(body, wrong)
        key = key_for(state, believed)
        specs = specs_of(self.bench, record.ts_ns, body.pod_uid, body.namespace, body.pod)
        missing = self._missing(body, specs)
        if wrong is not None:
            self._finish(record, body, wrong)
        elif missing is not None or isinstance(specs, str):
            self.lacking(record, subject_of(body), [missing or "the pod's spec"])
        else:
            worlds = [self._judge(record, body, state, key, spec) for spec in specs]
            self._finish(record, body, _over(worlds, specs))
        self._answer(key, believed.container)
        if believed.container is not None:
            self._last.setdefault(key, {})[believed.container] = record
            container = self._containers.get(key, believed.container)
            killed = self._containers.show(record, container, believed.container_id)
            killed.killed_ns, killed.killed_seq = record.ts_ns, record.seq
            killed.first_killed_ns = killed.first_killed_ns or record.ts_ns

    def _finish(self, record: Record, body: ContainerKilled, judgement: Judgement) -> None:
        expected = judgement.expected or None
        recorded = {name: getattr(body, name) for name in expected or {}}
        rule = _SYNC_RULE if body.reason in PROBE_OF else self.rule
        self.conclude(record, subject_of(body), judgement, recorded=recorded or None, rule=rule)

    def _missing(self, body: ContainerKilled, specs: tuple[PodSpec, ...] | str) -> str | None:
        if self.bench.profile is None:
            return self.bench.missing_profile
        if isinstance(specs, str):
            return specs
        if body.container is None:
            return "the name of the container"
        if body.reason is None:
            return "the reason of the kill"
        if body.reason == "node_shutdown" and _SHUTDOWN & self.bench.variant.settings.keys():
            return "the time that the shutdown manager would have given"
        return None

    def _misnamed(self, record: Record, body: ContainerKilled, key: str) -> Judgement | None:
        """The judgement of a kill of another container than what led to it, or than ran."""
        container = self._containers.find(key, body.container)
        shown = container is not None and container.find(body.container_id) is not None
        if self._listed.knows(body.container_id, subject_of(body)) or (
            shown and body.pod_uid is not None
        ):
            listed = self.bench.pods.at(record.ts_ns, body.pod_uid)
            if listed is None or (listed.namespace, listed.name) == (body.namespace, body.pod):
                return None
        wrong = self._names.judge(record, body)
        if wrong is not None or container is None or body.container_id is None or shown:
            return wrong
        runs = container.at(0)
        if runs is None or runs.has_ended or runs.started_ns is None or runs.container_id is None:
            return None  # another one may have been made and killed before it was shown
        why = f"the container that ran was {runs.container_id}"
        return same(False, why, expected={"container_id": runs.container_id}, inputs=[runs.seq])

    def _judge(
        self, record: Record, body: ContainerKilled, state: NodeState, key: str, spec: PodSpec
    ) -> Judgement:
        """In the world in which the spec is this one."""
        name, reason, profile = body.container or "", body.reason or "", self.bench.profile
        assert profile is not None
        pod = self._causes.of(key)
        if spec.container(name) is None:
            return same(False, f"the pod's spec has no container {name}", certain=True)
        words = kill_words(profile, spec, name, reason) if reason in REASONS else body.message
        if body.message not in (None, words):
            why = f"for {reason} the kubelet writes {words!r}"
            fields: dict[str, Any] = {"message": words}
            other = self._reasons.other(name, pod)
            if other is not None and kill_words(profile, spec, name, other) == body.message:
                fields = {"reason": other}
            return same(False, why, expected=fields, inputs=[spec.seq], certain=True)
        cause = self._reasons.judge(record, body, state, key, spec)
        if cause.verdict == "impossible":
            other = self._reasons.other(name, pod)
            expected = {"reason": other} if other not in (None, reason) else None
            return same(False, cause.why, expected=expected, inputs=[spec.seq, *cause.inputs])
        if cause.verdict == "unverifiable":
            return cause
        ended = self._ended_before(record, body, key)
        softly = self._causes.evicted_softly(
            pod_key(body.pod_uid, body.namespace, body.pod) or "", record.seq
        )
        grace = judge_grace(self.bench, spec, body, pod, softly)
        whole = all_of([cause, *([ended] if ended is not None else []), grace])
        inputs = (spec.seq, *whole.inputs)
        if whole.verdict not in ("match", "admissible"):
            return replace(whole, inputs=inputs)
        said = {"reason": reason} | ({} if body.message is None else {"message": words})
        return replace(
            whole,
            why=f"{cause.why}, so it was killed{grace.why}",
            expected={**said, **(grace.expected or {})},
            inputs=inputs,
        )

    def _ended_before(self, record: Record, body: ContainerKilled, key: str) -> Judgement | None:
        """What is known to have ended is not killed."""
        container = self._containers.find(key, body.container)
        killed: Instance | None = None if container is None else container.find(body.container_id)
        if killed is None or killed.died_ns is None:
            return None
        if record.ts_ns - killed.died_ns < _ENDED_BEFORE_NS:
            return None
        why = f"container {body.container} had ended by {format_ts(killed.died_ns)}"
        return same(False, f"{why}, and only what runs is killed", inputs=[killed.died_seq or 0])


def _over(worlds: Sequence[Judgement], specs: Sequence[PodSpec]) -> Judgement:
    """The judgement over all versions of the pod's spec."""
    impossible = [world for world in worlds if world.verdict == "impossible"]
    if not impossible or len(impossible) == len(worlds):
        return min(worlds, key=lambda world: WORST_FIRST.index(world.verdict))
    seqs = [spec.seq for spec in specs]
    return open_to("which of the pod's lists is right", denied=impossible[0].why, inputs=seqs)
