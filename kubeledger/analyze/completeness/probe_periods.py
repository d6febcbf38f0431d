"""Periodic lines of probe workers: one a period of the pod's spec, while the container runs."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.prober.objects import ProbeSpec
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodTerminated,
)
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTicksFolded, ProbeType
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.periodic import Gap
from kubeledger.verify.evidence.pods import ListedPod, PodRegister

_SEEN: frozenset[type[Body]] = frozenset(
    {
        *(ProbeExecuted, ProbeTicksFolded, PodTerminated, PodConfigChanged),
        *(ContainerStarted, ContainerDied, ContainerKilled, ContainerRestarted),
    }
)
_Worker = tuple[str, str, str]
"""Pod key, container, probe type."""


class _Last(msgspec.Struct):
    ts_ns: int
    tick: ProbeExecuted
    probe: ProbeSpec


class ProbePeriods:
    """Finds ticks that are missing between two of the same worker and container.

    Without the successes (they take verbosity 3) ticks are not periodic, and nothing is said.
    """

    def __init__(self, pods: PodRegister) -> None:
        self._pods = pods
        self._specs: dict[tuple[ListedPod | None, str, str], ProbeSpec | None] = {}
        self._last: dict[_Worker, _Last] = {}
        self._found: list[Gap] = []
        self._successes = False
        self.gaps: list[Gap] = []
        self.workers: set[_Worker] = set()
        self.without_spec: set[str] = set()

    def see(self, record: Record) -> None:
        if type(record.body) not in _SEEN:
            return
        match record.body:
            case ProbeExecuted() as tick:
                self._tick(tick, record.ts_ns, record.ts_ns)
            case ProbeTicksFolded() as ticks:
                self._tick(ticks.tick(), ticks.first_ts_ns, ticks.last_ts_ns)
            case (
                ContainerStarted() | ContainerDied() | ContainerKilled() | ContainerRestarted()
            ) as body:
                key = pod_key(body.pod_uid, body.namespace, body.pod)
                self._forget(key, body.container)
            case PodTerminated() | PodConfigChanged(operation="DELETE" | "REMOVE") as body:
                self._forget(pod_key(body.pod_uid, body.namespace, body.pod), None)

    def _tick(self, tick: ProbeExecuted, first_ns: int, last_ns: int) -> None:
        """One tick, or several in their time, of a worker."""
        key = pod_key(tick.pod_uid, tick.namespace, tick.pod) or ""
        worker = (key, tick.container, tick.probe_type)
        self._successes |= tick.result == "success"
        self.workers.add(worker)
        last = self._last.pop(worker, None)
        if last is not None and last.tick.container_id == tick.container_id:
            self._compare(last, first_ns)
        probe = self._probe(last_ns, tick)
        if probe is None:
            self.without_spec.add(f"{tick.namespace}/{tick.pod}")
        elif not (tick.probe_type == "startup" and tick.result == "success"):
            # A startup probe that succeeded is asked no more.
            self._last[worker] = _Last(last_ns, tick, probe)

    def _compare(self, last: _Last, ts_ns: int) -> None:
        length_ns, period_ns = ts_ns - last.ts_ns, last.probe.period_ns
        if length_ns > period_ns * 5 // 2 + last.probe.timeout_s * NS_PER_S:
            tick = last.tick
            gap = Gap(
                activity=f"{tick.probe_type} probe of {tick.namespace}/{tick.pod}/{tick.container}",
                period_ns=period_ns,
                from_ts_ns=last.ts_ns,
                to_ts_ns=ts_ns,
                missing=max(1, round(length_ns / period_ns) - 1),
            )
            self._found.append(gap)

    def _forget(self, key: str | None, container: str | None) -> None:
        for worker in [w for w in self._last if w[0] == key and container in {None, w[1]}]:
            del self._last[worker]

    def end(self, last_ts_ns: int) -> None:
        """The process, or the log, ended then: ticks that stopped long before are missing.

        A liveness or startup probe that failed may wait for another container, whose start
        is not in the log any more.
        """
        for worker, last in self._last.items():
            if worker[2] == "readiness":
                self._compare(last, last_ts_ns)
        self._last.clear()
        if self._successes:
            self.gaps += self._found
        self._found = []
        self._successes = False

    def _probe(self, ts_ns: int, tick: ProbeExecuted) -> ProbeSpec | None:
        listed = self._pods.at(ts_ns, tick.pod_uid, tick.namespace, tick.pod)
        asked = (listed, tick.container, tick.probe_type)
        if asked not in self._specs:
            self._specs[asked] = _probe_of(*asked)
        return self._specs[asked]


def _probe_of(listed: ListedPod | None, container: str, probe_type: ProbeType) -> ProbeSpec | None:
    for spec in () if listed is None else versions_of((listed,)):
        if (found := spec.container(container)) is not None:
            return found.probe(probe_type)
    return None
