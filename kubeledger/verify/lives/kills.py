"""Kills of containers: each needs its cause, and gets the words and seconds of the kubelet.

Kills that had to follow a failed probe and did not are told by ``reasons``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.records import (
    ContainerKilled,
    ReasonReported,
)
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeType
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
from kubeledger.verify.lives.reasons import RULE, KillReasons, PodReasons
from kubeledger.verify.lives.specs import PodAsk, SpecBook
from kubeledger.verify.lives.words import doubt
from kubeledger.verify.lives.workers import KILLING_PROBES as _PROBES
from kubeledger.verify.lives.workers import Workers

__all__ = ["KillJudge"]

POD_RULE = "pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer"
_ENDINGS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "pod_deleted": (("deleted", "removed"), "the pod was deleted"),
    "orphaned": (("orphaned",), "no config source had the pod"),
    "pod_ended": (("ended",), "the pod had ended but for this container"),
    "deadline_exceeded": (("ended",), "the pod had been active for activeDeadlineSeconds"),
    "node_shutdown": (("shutdown",), "the node shuts down"),
}
"""Reason of a kill -> reasons for which a pod's worker stops it, and what that means."""
_REASONS = frozenset(
    {*_PROBES, *_ENDINGS, "preempted", "evicted", "spec_changed", "post_start_hook"}
)
_SHUTDOWN = frozenset(
    {"shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods"}
)
_EVENT_WITHIN_NS = 5 * NS_PER_S


class KillJudge:
    """Judges kills of the present kubelet process."""

    def __init__(
        self,
        bench: Bench,
        book: SpecBook,
        workers: Workers,
        lives: Lives,
        causes: Causes,
        reasons: KillReasons,
    ) -> None:
        self._bench = bench
        self._book = book
        self._workers = workers
        self._lives = lives
        self._by = causes
        self._reasons = reasons

    def reported(self, record: Record, body: ReasonReported, key: str) -> None:
        """The event of a kill says the same as its lines."""
        pod = self._reasons.known(key)
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
        # The event of a pod that is stopped as a whole says so, whatever its container failed.
        stopped = f"Stopping container {told.container}"
        if told.message is not None and body.message not in (told.message, stopped):
            self._bench.contradict(
                record.ts_ns,
                subject_of(told),
                "the lines about a kill and its event give different reasons",
                (kill.seq, told.message),
                (record.seq, body.message),
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
        if wrong is not None and set(wrong) == {"container_id"} and self._is_listed(body):
            self._tell_other_id(record, body, wrong["container_id"], key_for(state, body))
            wrong = None  # it was not seen to start, but it did
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
            verdict, why, fields = self._judge(record, body, state, key)
            if verdict == "unverifiable":
                missing = fields["missing"]
                self._bench.unverifiable(record, subject=subject, missing=missing, rule=POD_RULE)
            else:
                self._bench.find(record, verdict, subject=subject, why=why, **fields)
        reasons = [] if body.reason is None else [body.reason]
        named = (fields.get("expected") or {}).get("reason")
        if named is not None and named not in reasons:
            reasons.insert(0, named)
        self._note(record, believed, self._reasons.of(key))
        return believed, tuple(reasons)

    def _note(self, record: Record, body: ContainerKilled, pod: PodReasons) -> None:
        """A kill was found: nothing waits for it any more."""
        if body.container is None:
            for name in {container for container, _ in pod.failures}:
                self._reasons.answer(pod, name)
            return
        self._reasons.answer(pod, body.container)
        pod.last_kill[body.container] = record

    def _judge(
        self, record: Record, body: ContainerKilled, state: NodeState, key: str
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
            return "impossible", why, {"rule": POD_RULE, "inputs": (ask.seq,), "certain": True}
        if body.reason is None:
            return _lacks("the reason of the kill")
        if body.reason == "node_shutdown" and _SHUTDOWN & self._bench.variant.settings.keys():
            return _lacks("the time that the shutdown manager would have given")
        return self._judge_reason(record, body, state, key, ask)

    def _tell_other_id(
        self, record: Record, body: ContainerKilled, other_id: str, key: str
    ) -> None:
        """A start tells of one container, a kill and a list of another."""
        life = self._lives.find(key, body.container)
        runs = None if life is None or not life.is_sure else life.newest
        if runs is None or runs.started_seq is None or runs.container_id != other_id:
            return
        self._bench.contradict(
            record.ts_ns,
            subject_of(body),
            f"container {body.container} was seen to start as {other_id}, and {body.container_id} "
            "was killed",
            (runs.started_seq, f"container {other_id}"),
            (record.seq, f"container {body.container_id}"),
        )

    def _is_listed(self, body: ContainerKilled) -> bool:
        uid, container_id = body.pod_uid, body.container_id or ""
        return self._book.knows(uid, body.namespace, body.pod, container_id)

    def _other_id(self, body: ContainerKilled, key: str) -> Fields | None:
        """The ID that runs, if the record has another."""
        life = self._lives.find(key, body.container)
        runs = None if life is None else life.newest
        if life is None or runs is None or body.container_id is None or not life.is_sure:
            return None
        if runs.started_ns is None or runs.container_id is None or runs.has_ended:
            return None  # another one may have been made and killed before it was seen
        ids = {each.container_id for each in (runs, life.before, life.earlier) if each is not None}
        return None if body.container_id in ids else {"container_id": runs.container_id}

    def _judge_reason(
        self, record: Record, body: ContainerKilled, state: NodeState, key: str, ask: PodAsk
    ) -> tuple[Verdict, str, Fields]:
        pod = self._reasons.of(key)
        assert body.reason is not None
        wrong = self._wrong_words(body, pod, ask)
        if wrong is not None:
            return wrong
        seq, why, missing = self._reason(record, body, pod, state, key, ask)
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
        self,
        record: Record,
        body: ContainerKilled,
        pod: PodReasons,
        state: NodeState,
        key: str,
        ask: PodAsk,
    ) -> tuple[int | None, str, str | None]:
        """Seq of what led to the kill; why, or why not; what is missing to tell."""
        assert body.container is not None
        container = body.container
        known = pod_state(state, key)
        probe_type = _PROBES.get(body.reason or "")
        if probe_type is not None:
            return self._probe_failed(record, body, pod, key, ask, probe_type)
        if body.reason == "preempted":
            seq, told = pod.victim, "the pod was chosen to make room for a critical pod"
            if seq is None and (event := self._reasons.preempting(key)) is not None:
                seq, told = event, "the pod was preempted for a critical pod, as its event says"
        elif body.reason == "evicted":
            seq, told = pod.evicted, "the eviction manager chose the pod"
            seq = seq or self._reasons.eviction(key)
        elif body.reason == "post_start_hook":
            entry = ask.container(container)
            seq, told = ask.seq, f"the post-start hook of container {container} failed"
            if entry is None or not entry.has_post_start:
                return None, f"container {container} has no post-start hook", None
        elif (meant := _ENDINGS.get(body.reason or "")) is not None:
            why, told = meant
            seq = None if pod.ending is None or pod.ending.reason not in why else pod.ending.seq
            if body.reason == "pod_deleted":
                seq = pod.deleted or seq
                if seq is None and known is not None and (known.deleting or known.removed):
                    seq = ask.seq
                if pod.manifest:
                    told = f"the static pod's manifest was {pod.manifest}"
            elif seq is None and pod.ending is None:
                if body.reason != "pod_ended" or not self._others_ended(ask, key, container):
                    return None, "", f"the records that show that {told}"
                seq = ask.seq
        elif body.reason == "spec_changed":
            seq, told = pod.updated, f"the definition of container {container} changed"
            if seq is None and self._reasons.kubelet_began_again:
                seq = ask.seq
        else:
            return None, "", f"a rule for the reason {body.reason}"
        if seq is not None:
            return seq, told, None
        if not pod.added or body.reason == "spec_changed":
            return None, "", f"the records that show that {told}"
        if body.reason == "pod_deleted" and record.ts_ns < pod.found_until_ns:
            return None, "", "whether the pod was being deleted when this process found it"
        return None, f"no record shows that {told}", None

    def _others_ended(self, ask: PodAsk, key: str, sidecar: str) -> bool:
        """Whether every container of a pod that is not a sidecar was seen to have ended."""
        if ask.spec is None or not ask.is_sidecar(sidecar):
            return False
        lives = [self._lives.find(key, c.name or "") for c in ask.spec.containers or ()]
        return all(life is not None and life.newest is not None and life.newest.has_ended
                   for life in lives)  # fmt: skip

    def _probe_failed(
        self,
        record: Record,
        body: ContainerKilled,
        pod: PodReasons,
        key: str,
        ask: PodAsk,
        probe_type: ProbeType,
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
        lost = doubt(worker, worker.run_from_ns, record.ts_ns)
        if lost is not None:
            return None, "", lost
        why = f"the cached result of the {probe_type} probe was {worker.cached}"
        return None, f"{why}, and only a failure kills", None

    def _wrong_words(
        self, body: ContainerKilled, pod: PodReasons, ask: PodAsk
    ) -> tuple[Verdict, str, Fields] | None:
        """Whether the message is one of another reason."""
        profile = self._bench.profile
        assert profile is not None
        if body.message is None or body.container is None or body.reason not in _REASONS:
            return None
        words = kill_words(profile, ask, body.container, body.reason)
        if words == body.message:
            return None
        fields: Fields = {"rule": RULE, "inputs": (ask.seq,), "certain": True}
        other = self._other_reason(body, pod)
        if other is not None and kill_words(profile, ask, body.container, other) == body.message:
            fields["expected"], fields["recorded"] = {"reason": other}, {"reason": body.reason}
        else:
            fields["expected"] = {"message": words}
            fields["recorded"] = {"message": body.message}
        return "impossible", f"for {body.reason} the kubelet writes {words!r}", fields

    def _other_reason(self, body: ContainerKilled, pod: PodReasons) -> str | None:
        """What does lead to a kill of the container."""
        for reason, probe_type in _PROBES.items():
            if (body.container, probe_type) in pod.failures:
                return reason
        by_pod = {"preempted": pod.victim, "evicted": pod.evicted, "pod_deleted": pod.deleted}
        return next((reason for reason, seq in by_pod.items() if seq is not None), None)

    def _judge_words(
        self, body: ContainerKilled, pod: PodReasons, ask: PodAsk, why: str, inputs: tuple[int, ...]
    ) -> tuple[Verdict, str, Fields]:
        """The cause is there: compare the message and the grace period."""
        profile = self._bench.profile
        assert profile is not None
        assert body.container is not None
        assert body.reason is not None
        expected: Fields = {"reason": body.reason}
        if body.message is not None:
            expected["message"] = kill_words(profile, ask, body.container, body.reason)
        grace = graces(
            self._bench,
            ask,
            body,
            is_deleted=pod.deleted is not None,
            is_known=pod.added,
            given_s=None if pod.ending is None else pod.ending.grace_period_s,
            is_soft=self._reasons.evicted_softly(
                pod_key(body.pod_uid, body.namespace, body.pod) or ""
            ),
        )
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
