"""Kills of containers: each needs its cause, and gets the words and seconds of the kubelet.

A liveness or startup probe that failed has to be followed by a kill; see ``pass_time``.
"""

from __future__ import annotations

from collections import deque

import msgspec

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    ReasonReported,
)
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.prober.records import ProbeTransitioned, ProbeType
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives.common import (
    Causes,
    at,
    compared,
    corrected,
    key_for,
    pod_state,
    subject_of,
)
from kubeledger.verify.lives.grace import Grace, graces
from kubeledger.verify.lives.killwords import kill_words
from kubeledger.verify.lives.life import Lives
from kubeledger.verify.lives.specs import PodAsk, SpecBook
from kubeledger.verify.lives.workers import Workers

__all__ = ["RULE", "KillJudge"]

RULE = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"
POD_RULE = "pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer"
_PROBES: dict[str, ProbeType] = {"liveness_probe": "liveness", "startup_probe": "startup"}
_REASONS = frozenset({*_PROBES, "preempted", "evicted", "pod_deleted", "spec_changed"})
_ABSENT_AFTER_NS = 300 * NS_PER_S
_EVENT_WITHIN_NS = 5 * NS_PER_S


class _Failure(msgspec.Struct, frozen=True):
    """A liveness or startup probe that failed; ``container_id`` None when not known."""

    record: Record
    container_id: str | None


class _Pod(msgspec.Struct):
    """What may stop the containers of a pod: seq of the record, None for nothing."""

    added: bool = False
    victim: int | None = None
    evicted: int | None = None
    deleted: int | None = None
    updated: int | None = None
    failures: dict[tuple[str, ProbeType], _Failure] = {}
    last_kill: dict[str, Record] = {}


class KillJudge:
    """Judges kills of the present kubelet process."""

    def __init__(
        self, bench: Bench, book: SpecBook, workers: Workers, lives: Lives, causes: Causes
    ) -> None:
        self._bench = bench
        self._book = book
        self._workers = workers
        self._lives = lives
        self._by = causes
        self._pods: dict[str, _Pod] = {}
        self._awaited: deque[tuple[int, str, str, ProbeType, _Failure]] = deque()
        self._kubelet_began_again = False

    # -- what may kill -------------------------------------------------------------------

    def _pod(self, key: str) -> _Pod:
        return self._pods.setdefault(key, _Pod())

    def kubelet_started(self) -> None:
        """Its predecessor's reasons count no more, save that a pod is to go."""
        self._awaited.clear()
        self._kubelet_began_again = bool(self._pods)
        for pod in self._pods.values():
            pod.added = False
            pod.failures.clear()
            pod.last_kill.clear()

    def pod_gone(self, key: str) -> None:
        """The pod left the node."""
        self._pods.pop(key, None)

    def config_changed(self, record: Record, body: PodConfigChanged, key: str) -> None:
        """A config source told of the pod."""
        pod = self._pod(key)
        if body.operation == "ADD":
            self._pods[key] = _Pod(added=True)
        elif body.operation in ("DELETE", "REMOVE"):
            pod.deleted = pod.deleted or record.seq
        elif body.operation in ("UPDATE", "RECONCILE"):
            pod.updated = record.seq

    def evicted(self, record: Record, key: str) -> None:
        """The eviction manager chose the pod."""
        self._pod(key).evicted = record.seq

    def preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        """A critical pod needs its place."""
        names = (body.victim_uid, body.victim_namespace, body.victim_pod)
        key = key_of(state.lifecycle, *names) or pod_key(*names) or ""
        self._pod(key).victim = record.seq

    def transitioned(self, record: Record, body: ProbeTransitioned, key: str) -> None:
        """A probe's cached result changed, as far as that is believed."""
        if body.probe_type == "readiness":
            return
        pod, name = self._pod(key), (body.container, body.probe_type)
        if body.to_result == "failure":
            failure = pod.failures[name] = _Failure(record, body.container_id)
            due_ns = record.ts_ns + _ABSENT_AFTER_NS
            self._awaited.append((due_ns, key, body.container, body.probe_type, failure))
        else:
            pod.failures.pop(name, None)

    def container_started(self, body: ContainerStarted, key: str) -> None:
        """Another instance runs: what failed the one before is over."""
        pod = self._pods.get(key)
        if pod is None or body.container is None:
            return
        for name, failure in list(pod.failures.items()):
            if name[0] == body.container and failure.container_id != body.container_id:
                del pod.failures[name]

    def container_died(self, body: ContainerDied, key: str) -> None:
        """It ended, so nothing has to kill it."""
        pod = self._pods.get(key)
        if pod is not None and body.container is not None:
            self._answer(pod, body.container)

    def _answer(self, pod: _Pod, container: str) -> None:
        """Nobody waits for a kill of that container any more; the reason for it stays."""
        self._awaited = deque(
            entry
            for entry in self._awaited
            if entry[2] != container or self._pods.get(entry[1]) is not pod
        )

    def reported(self, record: Record, body: ReasonReported, key: str) -> None:
        """The event of a kill says the same as its lines."""
        pod = self._pods.get(key)
        if body.reason != "Killing" or pod is None or body.count != 1:
            return
        if body.container is not None:
            kill = pod.last_kill.get(body.container)
        else:
            kill = next(iter(pod.last_kill.values())) if len(pod.last_kill) == 1 else None
        if kill is None or not 0 <= record.ts_ns - kill.ts_ns <= _EVENT_WITHIN_NS:
            return
        told = kill.body
        assert isinstance(told, ContainerKilled)
        if told.message is not None and told.message != body.message:
            self._bench.contradict(
                record.ts_ns,
                subject_of(told),
                "the lines about a kill and its event give different reasons",
                (kill.seq, told.message),
                (record.seq, body.message),
            )

    # -- kills that are missing ----------------------------------------------------------

    def pass_time(self, now_ns: int) -> None:
        """A container whose liveness or startup probe failed was not killed for long."""
        while self._awaited and self._awaited[0][0] < now_ns:
            _, key, container, probe_type, failure = self._awaited.popleft()
            pod = self._pods.get(key)
            if pod is None or pod.failures.get((container, probe_type)) is not failure:
                continue
            if pod.added and (pod.deleted, pod.evicted, pod.victim) == (None, None, None):
                self._miss(container, probe_type, failure)

    def _miss(self, container: str, probe_type: ProbeType, failure: _Failure) -> None:
        body = failure.record.body
        assert isinstance(body, ProbeTransitioned)
        if failure.container_id is None or self._bench.profile is None:
            return
        self._bench.absent(
            failure.record,
            ContainerKilled.kind,
            subject=subject_of(body),
            expected={
                "container": container,
                "container_id": failure.container_id,
                "reason": f"{probe_type}_probe",
            },
            why=f"the {probe_type} probe of container {container} failed, and the kubelet did "
            f"not kill it within {_ABSENT_AFTER_NS // NS_PER_S} s",
            rule=RULE,
            inputs=(failure.record.seq,),
        )

    # -- kills ---------------------------------------------------------------------------

    def killed(
        self, record: Record, body: ContainerKilled, state: NodeState
    ) -> tuple[ContainerKilled, tuple[str, ...]]:
        """Judge one.

        Returns:
            the kill as it is believed, and the reasons that a restart after it may name.
        """
        wrong = self._by.wrong(record, body) or self._other_id(body, key_for(state, body))
        believed = body if wrong is None else corrected(body, wrong)
        key = key_for(state, believed)
        subject = subject_of(body)
        fields: Fields = {}
        if wrong is not None:
            told = " and ".join(f"{name} {value}" for name, value in wrong.items())
            recorded, _ = compared(body, wrong)
            self._bench.find(
                record, "impossible", subject=subject,
                why=f"what the kubelet had to kill was {told}", expected=wrong,
                recorded=recorded, rule=RULE,
                inputs=() if record.cause is None else (record.cause,),
            )  # fmt: skip
        else:
            verdict, why, fields = self._judge(body, state, key)
            if verdict == "unverifiable":
                missing = fields["missing"]
                self._bench.unverifiable(record, subject=subject, missing=missing, rule=POD_RULE)
            else:
                self._bench.find(record, verdict, subject=subject, why=why, **fields)
        reasons = [] if body.reason is None else [body.reason]
        named = (fields.get("expected") or {}).get("reason")
        if named is not None and named not in reasons:
            reasons.insert(0, named)
        self._note(record, believed, self._pod(key))
        return believed, tuple(reasons)

    def _note(self, record: Record, body: ContainerKilled, pod: _Pod) -> None:
        """A kill was found: nothing waits for it any more."""
        if body.container is None:
            for name in {container for container, _ in pod.failures}:
                self._answer(pod, name)
            return
        self._answer(pod, body.container)
        pod.last_kill[body.container] = record

    def _judge(
        self, body: ContainerKilled, state: NodeState, key: str
    ) -> tuple[Verdict, str, Fields]:
        if self._bench.profile is None:
            return _lacks(self._bench.missing_profile)
        ask = self._book.find(body.pod_uid, body.namespace, body.pod)
        if ask is None:
            return _lacks("the pod's spec")
        if ask.spec is None:
            return _lacks("a readable spec of the pod")
        if body.container is None:
            return _lacks("the name of the container")
        if ask.container(body.container) is None:
            why = f"the pod's spec has no container {body.container}"
            return "impossible", why, {"rule": POD_RULE, "inputs": (ask.seq,)}
        if body.reason is None:
            return _lacks("the reason of the kill")
        return self._judge_reason(body, state, key, ask)

    def _other_id(self, body: ContainerKilled, key: str) -> Fields | None:
        """The ID that runs, if the record has another."""
        now = self._lives.running(key, body.container)
        if now is None or body.container_id is None or now.started_ns is None:
            return None
        if now.container_id in (None, body.container_id):
            return None
        return {"container_id": now.container_id}

    def _judge_reason(
        self, body: ContainerKilled, state: NodeState, key: str, ask: PodAsk
    ) -> tuple[Verdict, str, Fields]:
        pod = self._pod(key)
        assert body.reason is not None
        wrong = self._wrong_words(body, pod, ask)
        if wrong is not None:
            return wrong
        seq, why, missing = self._reason(body, pod, state, key, ask)
        if missing is not None:
            return _lacks(missing)
        inputs = (ask.seq,) if seq is None else (ask.seq, seq)
        if seq is None:
            other = self._other_reason(body, pod)
            expected = {} if other is None else {"reason": other}
            recorded = {"reason": body.reason}
            fields = {"expected": expected, "recorded": recorded, "rule": RULE, "inputs": inputs}
            return "impossible", why, fields
        return self._judge_words(body, pod, ask, why, inputs)

    def _reason(
        self, body: ContainerKilled, pod: _Pod, state: NodeState, key: str, ask: PodAsk
    ) -> tuple[int | None, str, str | None]:
        """Seq of what led to the kill; why, or why not; what is missing to tell."""
        assert body.container is not None
        container = body.container
        known = pod_state(state, key)
        probe_type = _PROBES.get(body.reason or "")
        if probe_type is not None:
            return self._probe_failed(body, pod, key, ask, probe_type)
        if body.reason == "preempted":
            seq, told = pod.victim, "the pod was chosen to make room for a critical pod"
        elif body.reason == "evicted":
            seq, told = pod.evicted, "the eviction manager chose the pod"
        elif body.reason == "pod_deleted":
            seq, told = pod.deleted, "the pod was deleted"
            if seq is None and known is not None and (known.deleting or known.removed):
                seq = ask.seq
        elif body.reason == "spec_changed":
            seq, told = pod.updated, f"the definition of container {container} changed"
            if seq is None and self._kubelet_began_again:
                seq = ask.seq
        else:
            return None, "", f"a rule for the reason {body.reason}"
        if seq is not None:
            return seq, told, None
        if not pod.added or body.reason == "spec_changed":
            return None, "", f"the records that show that {told}"
        return None, f"no record shows that {told}", None

    def _probe_failed(
        self, body: ContainerKilled, pod: _Pod, key: str, ask: PodAsk, probe_type: ProbeType
    ) -> tuple[int | None, str, str | None]:
        assert body.container is not None
        entry = ask.container(body.container)
        failure = pod.failures.get((body.container, probe_type))
        if failure is not None:
            return (
                failure.record.seq,
                f"the {probe_type} probe of container {body.container} failed at "
                f"{at(failure.record.ts_ns)}",
                None,
            )
        if entry is None or entry.probe(probe_type) is None:
            return None, f"container {body.container} has no {probe_type} probe", None
        worker = self._workers.known(key, body.container, probe_type)
        if worker is None or not self._workers.is_gapless(worker) or not pod.added:
            return None, "", f"the results of the {probe_type} probe before the kill"
        if worker.cached == "failure" and worker.streak:
            return worker.streak[-1], f"the {probe_type} probe had failed", None
        why = f"the cached result of the {probe_type} probe was {worker.cached}"
        return None, f"{why}, and only a failure kills", None

    def _wrong_words(
        self, body: ContainerKilled, pod: _Pod, ask: PodAsk
    ) -> tuple[Verdict, str, Fields] | None:
        """Whether the message is one of another reason."""
        profile = self._bench.profile
        assert profile is not None
        if body.message is None or body.container is None or body.reason not in _REASONS:
            return None
        words = kill_words(profile, ask, body.container, body.reason)
        if words == body.message:
            return None
        fields: Fields = {"rule": RULE, "inputs": (ask.seq,)}
        other = self._other_reason(body, pod)
        if other is not None and kill_words(profile, ask, body.container, other) == body.message:
            fields["expected"], fields["recorded"] = {"reason": other}, {"reason": body.reason}
        else:
            fields["expected"] = {"message": words}
            fields["recorded"] = {"message": body.message}
        return "impossible", f"for {body.reason} the kubelet writes {words!r}", fields

    def _other_reason(self, body: ContainerKilled, pod: _Pod) -> str | None:
        """What does lead to a kill of the container."""
        for reason, probe_type in _PROBES.items():
            if (body.container, probe_type) in pod.failures:
                return reason
        by_pod = {"preempted": pod.victim, "evicted": pod.evicted, "pod_deleted": pod.deleted}
        return next((reason for reason, seq in by_pod.items() if seq is not None), None)

    def _judge_words(
        self, body: ContainerKilled, pod: _Pod, ask: PodAsk, why: str, inputs: tuple[int, ...]
    ) -> tuple[Verdict, str, Fields]:
        """The cause is there: compare the message and the grace period."""
        profile = self._bench.profile
        assert profile is not None
        assert body.container is not None
        assert body.reason is not None
        expected: Fields = {"reason": body.reason}
        if body.message is not None:
            expected["message"] = kill_words(profile, ask, body.container, body.reason)
        grace = graces(self._bench, ask, body, is_deleted=pod.deleted is not None)
        if body.grace_period_s is not None and grace.exact is not None:
            expected["grace_period_s"] = grace.exact
        verdict: Verdict = "match"
        if body.grace_period_s is not None and body.grace_period_s != grace.exact:
            if grace.missing is not None:
                return _lacks(grace.missing)
            verdict = "admissible" if grace.allows(body.grace_period_s) else "impossible"
        recorded, differ = compared(body, expected)
        rule = RULE if body.reason in _PROBES else POD_RULE
        fields = {"expected": expected, "recorded": recorded, "rule": rule, "inputs": inputs}
        if verdict == "impossible":
            told = ", ".join(f"{n} {recorded[n]!r} instead of {expected[n]!r}" for n in differ)
            return verdict, f"{why}; recorded is {told}", fields
        return verdict, f"{why}, so it was killed{_with_grace(body, grace)}", fields


def _with_grace(body: ContainerKilled, grace: Grace) -> str:
    if body.grace_period_s is None:
        return ""
    return f" with {body.grace_period_s} s to end by itself ({grace.why})"


def _lacks(*missing: str) -> tuple[Verdict, str, Fields]:
    return "unverifiable", "", {"missing": list(missing)}
