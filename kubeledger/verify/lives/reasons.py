"""What may stop the containers of a pod, and kills that had to follow and did not."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

import msgspec

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodEvicted,
    PodTerminating,
    ReasonReported,
)
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.prober.records import ProbeTransitioned, ProbeType
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.common import subject_of

__all__ = ["RULE", "Ending", "Failure", "KillReasons", "PodReasons"]

RULE = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"
_ABSENT_AFTER_NS = 600 * NS_PER_S
_STATIC: Final = ("file", "http")
"""Sources of static pods' manifests."""


class Failure(msgspec.Struct, frozen=True):
    """A liveness or startup probe that failed; ``container_id`` None when not known."""

    record: Record
    container_id: str | None


_TAKING_OVER_NS = 20 * NS_PER_S
"""So long after its start a process is given the pods that were there before, and acts on them."""


class Ending(msgspec.Struct, frozen=True):
    """Why the pod's worker stops it, and the seconds it gives."""

    seq: int
    reason: str
    grace_period_s: int | None


class PodReasons(msgspec.Struct):
    """What may stop the containers of a pod: seq of the record, None for nothing.

    Attributes:
        added: a config source gave the pod to this process.
        found_until_ns: so long a kill may be for a deletion that was there before this process,
            which found the pod; 0 for a pod that came later.
        manifest: what became of a static pod's manifest: ``removed``, ``changed`` (another pod
            of the name came in its place), or nothing.
    """

    added: bool = False
    found_until_ns: int = 0
    victim: int | None = None
    evicted: int | None = None
    deleted: int | None = None
    updated: int | None = None
    ending: Ending | None = None
    manifest: Literal["", "removed", "changed"] = ""
    failures: dict[tuple[str, ProbeType], Failure] = {}
    last_kill: dict[str, Record] = {}


class KillReasons:
    """The reasons of the present kubelet process, by pod.

    Attributes:
        kubelet_began_again: another kubelet process had pods before this one.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._pods: dict[str, PodReasons] = {}
        self._awaited: deque[tuple[int, str, str, ProbeType, Failure]] = deque()
        self._evictions: dict[str, int] = {}
        self._kinds: dict[str, set[str | None]] = {}
        self._preempting: dict[str, int] = {}
        self._removed: dict[tuple[str, str], str] = {}
        self.kubelet_began_again = False
        self._began_ns = 0

    # -- what may kill -------------------------------------------------------------------

    def of(self, key: str) -> PodReasons:
        """A pod, made when nothing was told of it before."""
        return self._pods.setdefault(key, PodReasons())

    def foresee(self, record: Record) -> None:
        """Evictions may be told only when the pod has been stopped; and events of victims."""
        body = record.body
        if isinstance(body, ReasonReported) and body.reason == "Preempting":
            key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
            self._preempting.setdefault(key, record.seq)
        if isinstance(body, PodEvicted):
            key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
            self._evictions.setdefault(key, record.seq)
            self._kinds.setdefault(key, set()).add(body.threshold_kind)

    def eviction(self, key: str) -> int | None:
        """Seq of the record of a pod's eviction, wherever it stands."""
        return self._evictions.get(key)

    def evicted_softly(self, key: str) -> bool | None:
        """Whether every eviction of a pod gave it time of its own; None where that is not known."""
        kinds = self._kinds.get(key, {None})
        return None if None in kinds or {"soft"} < kinds else kinds == {"soft"}

    def preempting(self, key: str) -> int | None:
        """Seq of the event that says that a pod was preempted, wherever it stands."""
        return self._preempting.get(key)

    def known(self, key: str) -> PodReasons | None:
        """A pod of which anything was told."""
        return self._pods.get(key)

    def kubelet_started(self, ts_ns: int) -> None:
        """Its predecessor's reasons count no more, save that a pod is to go."""
        self._began_ns = ts_ns
        self._awaited.clear()
        self.kubelet_began_again = bool(self._pods)
        for pod in self._pods.values():
            pod.added = False
            pod.failures.clear()
            pod.last_kill.clear()
            pod.ending = None

    def pod_gone(self, key: str) -> None:
        """The pod left the node."""
        self._pods.pop(key, None)

    def config_changed(
        self, record: Record, body: PodConfigChanged, key: str, *, runs: bool
    ) -> None:
        """A config source told of the pod; ``runs``: its containers were seen before."""
        found = runs or key in self._pods or record.ts_ns - self._began_ns < _TAKING_OVER_NS
        pod = self.of(key)
        name, is_static = (body.namespace, body.pod), body.source in _STATIC
        if is_static and body.operation == "REMOVE":
            pod.manifest, self._removed[name] = "removed", key
        if is_static and body.operation == "ADD" and (old := self._removed.pop(name, None)):
            self.of(old).manifest = "changed"
        if body.operation == "ADD":
            until_ns = record.ts_ns + _TAKING_OVER_NS if found else 0
            # Of a static pod that changed, the ADD may stand before the kills of the old one.
            self._pods[key] = PodReasons(
                added=True, found_until_ns=until_ns, ending=pod.ending, manifest=pod.manifest
            )
        elif body.operation in ("DELETE", "REMOVE"):
            pod.deleted = pod.deleted or record.seq
        elif body.operation in ("UPDATE", "RECONCILE"):
            pod.updated = record.seq

    def terminating(self, record: Record, body: PodTerminating, key: str) -> None:
        """The pod's worker began to stop it."""
        self.of(key).ending = Ending(record.seq, body.reason, body.grace_period_s)

    def evicted(self, record: Record, key: str) -> None:
        """The eviction manager chose the pod."""
        self.of(key).evicted = record.seq

    def preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        """A critical pod needs its place."""
        names = (body.victim_uid, body.victim_namespace, body.victim_pod)
        key = key_of(state.lifecycle, *names) or pod_key(*names) or ""
        self.of(key).victim = record.seq

    def transitioned(
        self, record: Record, body: ProbeTransitioned, key: str, *, has_ended: bool
    ) -> None:
        """A probe's cached result changed, as far as that is believed.

        ``has_ended``: the container does not run, so nothing has to kill it.
        """
        if body.probe_type == "readiness":
            return
        pod, name = self.of(key), (body.container, body.probe_type)
        if body.to_result == "failure" and has_ended:
            pod.failures[name] = Failure(record, body.container_id)
        elif body.to_result == "failure":
            failure = pod.failures[name] = Failure(record, body.container_id)
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
            self.answer(pod, body.container)

    def answer(self, pod: PodReasons, container: str) -> None:
        """Nobody waits for a kill of that container any more; the reason for it stays."""
        self._awaited = deque(
            entry
            for entry in self._awaited
            if entry[2] != container or self._pods.get(entry[1]) is not pod
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

    def _miss(self, container: str, probe_type: ProbeType, failure: Failure) -> None:
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
