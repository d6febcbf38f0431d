"""Whether what leads to a kill of some reason was there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.lifecycle.records import ContainerKilled
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeType
from kubeledger.units import format_ts
from kubeledger.verify.belief import Judgement, open_to, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.container_specs import PodSpec
from kubeledger.verify.rules.containers import Containers
from kubeledger.verify.rules.kill_causes import KillCauses, PodCauses
from kubeledger.verify.rules.kill_grace import PROBE_OF

__all__ = ["REASONS", "KillReasons"]

_ENDINGS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "pod_deleted": (("deleted", "removed"), "the pod was deleted"),
    "orphaned": (("orphaned",), "no config source had the pod"),
    "pod_ended": (("ended",), "the pod had ended but for this container"),
    "deadline_exceeded": (("ended",), "the pod had been active for activeDeadlineSeconds"),
    "node_shutdown": (("shutdown",), "the node shuts down"),
}
"""Reason of a kill -> reasons for which a pod's worker stops it, and what that means."""
_SANDBOX: Final = "sandbox_changed"
REASONS: Final = frozenset(
    {*PROBE_OF, *_ENDINGS, "preempted", "evicted", "spec_changed", "post_start_hook"}
)
"""Reasons of which the kubelet's words are known."""


class KillReasons:
    """Judges the reason of a kill by the causes and containers of the node."""

    def __init__(self, bench: Bench, causes: KillCauses, containers: Containers) -> None:
        self._bench = bench
        self._causes = causes
        self._containers = containers

    def judge(
        self, record: Record, body: ContainerKilled, state: NodeState, key: str, spec: PodSpec
    ) -> Judgement:
        """Whether what leads to such a kill is there."""
        pod, name, reason = self._causes.of(key), body.container or "", body.reason or ""
        if reason in PROBE_OF:
            return self._probe_failed(record, key, name, PROBE_OF[reason], spec)
        known = state.lifecycle.pods.get(key)
        seq: int | None = None
        if reason == "preempted":
            seq, told = pod.victim, "the pod was chosen to make room for a critical pod"
            if seq is None and (event := self._causes.preempting(key)) is not None:
                seq, told = event, "the pod was preempted for a critical pod, as its event says"
        elif reason == "evicted":
            seq, told = (
                pod.evicted or self._causes.eviction(key),
                "the eviction manager chose the pod",
            )
        elif reason == "post_start_hook":
            entry = spec.container(name)
            if entry is None or not entry.has_post_start:
                return same(False, f"container {name} has no post-start hook")
            seq, told = spec.seq, f"the post-start hook of container {name} failed"
        elif reason == "spec_changed":
            seq, told = pod.updated, f"the definition of container {name} changed"
            if seq is None and self._causes.began_again:
                seq = spec.seq
        elif reason in _ENDINGS:
            meant, told = _ENDINGS[reason]
            seq = None if pod.ending is None or pod.ending.reason not in meant else pod.ending.seq
            if reason == "pod_deleted":
                leaving = known is not None and (known.deleting or known.removed)
                seq = pod.deleted or seq or (spec.seq if leaving else None)
                told = f"the static pod's manifest was {pod.manifest}" if pod.manifest else told
            elif seq is None and pod.ending is None:
                if reason != "pod_ended" or not self._others_ended(spec, key, name):
                    return _lacking(f"the records that show that {told}")
                seq = spec.seq
        elif reason == _SANDBOX:
            return _lacking(f"a rule for the reason {reason}")
        else:
            return same(False, f"{reason} is no reason of a kill")
        if seq is not None:
            return same(True, told, inputs=[seq])
        if not pod.added or reason == "spec_changed":
            return _lacking(f"the records that show that {told}")
        if reason == "pod_deleted" and record.ts_ns < pod.found_until_ns:
            return _lacking("whether the pod was being deleted when this process found it")
        return same(False, f"no record shows that {told}")

    def _probe_failed(
        self, record: Record, key: str, name: str, probe_type: ProbeType, spec: PodSpec
    ) -> Judgement:
        failure = self._causes.of(key).failures.get((name, probe_type))
        probe = f"the {probe_type} probe of container {name}"
        if failure is not None:
            why = f"{probe} failed at {format_ts(failure.ts_ns)}"
            return same(True, why, inputs=[failure.seq])
        entry = spec.container(name)
        if entry is None or entry.probe(probe_type) is None:
            return same(False, f"container {name} has no {probe_type} probe")
        cached = self._bench.cached_results.cached(key, name, probe_type, record.ts_ns)
        if cached is None:
            return _lacking(f"the results of the {probe_type} probe before the kill")
        if cached.may_be == {"failure"}:
            return same(True, f"{probe} had failed", inputs=cached.seqs)
        said = " or ".join(sorted(cached.may_be - {"failure"}))
        why = f"the cached result of the {probe_type} probe was {said}, and only a failure kills"
        if "failure" not in cached.may_be:
            return same(False, why, inputs=cached.seqs)
        missing = " and ".join(cached.missing) or f"the {probe_type} ticks before the kill"
        return open_to(missing, denied=why, inputs=cached.seqs)

    def _others_ended(self, spec: PodSpec, key: str, sidecar: str) -> bool:
        """Whether every container of a pod that is not a sidecar was seen to have ended."""
        found = [self._containers.find(key, each.name) for each in spec.spec.containers]
        newest = [None if container is None else container.at(0) for container in found]
        ended = all(instance is not None and instance.has_ended for instance in newest)
        return sidecar in spec.sidecars and ended

    def other(self, container: str, pod: PodCauses) -> str | None:
        """What does lead to a kill of the container."""
        for reason, probe_type in PROBE_OF.items():
            if (container, probe_type) in pod.failures:
                return reason
        by_pod = {"preempted": pod.victim, "evicted": pod.evicted, "pod_deleted": pod.deleted}
        return next((reason for reason, seq in by_pod.items() if seq is not None), None)


def _lacking(missing: str) -> Judgement:
    why = f"cannot be decided again without {missing}"
    return Judgement(verdict="unverifiable", why=why, missing=(missing,))
