"""What may stop the containers of a pod: deletions, evictions, preemptions, failed probes."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import (
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

__all__ = ["Ending", "KillCauses", "PodCauses"]

_STATIC: Final = ("file", "http")
"""Sources of static pods' manifests."""
_TAKING_OVER_NS: Final = 20 * NS_PER_S
"""So long after its start a process is given the pods that were there before, and acts on them."""


class Ending(msgspec.Struct, frozen=True):
    """Why the pod's worker stops it, and the seconds it gives."""

    seq: int
    reason: str
    grace_period_s: int | None


class PodCauses(msgspec.Struct):
    """What may stop the containers of a pod: seq of the record, None for nothing.

    Attributes:
        added: a config source gave the pod to this process.
        found_until_ns: so long a kill may be for a deletion that was there before this process,
            which found the pod; 0 for a pod that came later.
        manifest: what became of a static pod's manifest: ``removed``, ``changed`` (another pod
            of the name came in its place), or nothing.
        failures: the failed probe's change of result, by container and probe.
    """

    added: bool = False
    found_until_ns: int = 0
    victim: int | None = None
    evicted: int | None = None
    deleted: int | None = None
    updated: int | None = None
    ending: Ending | None = None
    manifest: Literal["", "removed", "changed"] = ""
    failures: dict[tuple[str, ProbeType], Record] = {}

    @property
    def is_stopped(self) -> bool:
        """Whether something stops the pod as a whole."""
        return (self.deleted, self.evicted, self.victim) != (None, None, None)


class KillCauses:
    """The causes of the present kubelet process, by pod.

    Attributes:
        began_again: another kubelet process had pods before this one.
    """

    def __init__(self) -> None:
        self._pods: dict[str, PodCauses] = {}
        self._evictions: dict[str, list[tuple[int, str | None]]] = {}
        self._preempting: dict[str, int] = {}
        self._removed: dict[tuple[str, str], str] = {}
        self.began_again = False
        self._began_ns = 0

    def foresee(self, record: Record) -> None:
        """Evictions may be told only when the pod has been stopped; and events of victims."""
        body = record.body
        if isinstance(body, ReasonReported) and body.reason == "Preempting":
            key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
            self._preempting.setdefault(key, record.seq)
        if isinstance(body, PodEvicted):
            key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
            told = self._evictions.setdefault(key, [])
            told.append((record.seq, body.threshold_kind))

    def eviction(self, key: str) -> int | None:
        """Seq of the record of a pod's first eviction, wherever it stands."""
        told = self._evictions.get(key)
        return told[0][0] if told else None

    def evicted_softly(self, key: str, seq: int) -> bool | None:
        """Whether a pod that was killed by then was evicted for a soft threshold.

        Returns:
            None where that is not known, or it was evicted for several.
        """
        told = self._evictions.get(key, [])
        before = [kind for at, kind in told if at < seq]
        kinds = set(before or [kind for _, kind in told] or [None])
        return None if None in kinds or {"soft"} < kinds else kinds == {"soft"}

    def preempting(self, key: str) -> int | None:
        """Seq of the event that says that a pod was preempted, wherever it stands."""
        return self._preempting.get(key)

    def of(self, key: str) -> PodCauses:
        """A pod, made when nothing was told of it before."""
        return self._pods.setdefault(key, PodCauses())

    def known(self, key: str) -> PodCauses | None:
        """A pod of which anything was told."""
        return self._pods.get(key)

    def kubelet_started(self, ts_ns: int) -> None:
        """Its predecessor's causes count no more, save that a pod is to go."""
        self._began_ns = ts_ns
        self.began_again = bool(self._pods)
        for pod in self._pods.values():
            pod.added, pod.ending = False, None
            pod.failures.clear()

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
            self._pods[key] = PodCauses(
                added=True, found_until_ns=until_ns, ending=pod.ending, manifest=pod.manifest
            )
        elif body.operation in ("DELETE", "REMOVE"):
            pod.deleted = pod.deleted or record.seq
        else:
            pod.updated = record.seq

    def terminating(self, record: Record, body: PodTerminating, key: str) -> None:
        """The pod's worker began to stop it."""
        self.of(key).ending = Ending(record.seq, body.reason, body.grace_period_s)

    def preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        """A critical pod needs its place."""
        names = (body.victim_uid, body.victim_namespace, body.victim_pod)
        self.of(key_of(state.lifecycle, *names) or pod_key(*names) or "").victim = record.seq

    def transitioned(self, record: Record, body: ProbeTransitioned, key: str) -> None:
        """A probe's cached result changed; readiness kills nothing."""
        if body.probe_type != "readiness":
            failures, name = self.of(key).failures, (body.container, body.probe_type)
            if body.to_result == "failure":
                failures[name] = record
            else:
                failures.pop(name, None)

    def container_started(self, key: str, container: str | None, container_id: str) -> None:
        """Another instance runs: what failed the one before is over."""
        pod = self._pods.get(key)
        for name, failure in list(pod.failures.items()) if pod is not None else ():
            if name[0] == container and getattr(failure.body, "container_id", None) != container_id:
                del failure, pod.failures[name]  # type: ignore[union-attr] # there is a pod
