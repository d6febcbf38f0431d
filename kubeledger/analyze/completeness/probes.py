"""Probes: the kubelet's own count, and one line a period, against the ticks that records show."""

from __future__ import annotations

import msgspec

from kubeledger.analyze.completeness.sources import Span
from kubeledger.analyze.histories.logs import LogEntry
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.kubelet.prober.objects import ProbeSpec
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodTerminated,
)
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeType,
)
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.pods import ListedPod, PodRegister
from kubeledger.verify.evidence.sync_loop import Gap

_EARLY_NS = 2 * NS_PER_S
_LATE_NS = 5 * NS_PER_S
"""A reading is dated by its snapshot's name, and was taken around that second."""

_Worker = tuple[str, str, str]
_Run = tuple[int, int, int]
"""Time of the first tick, period in nanoseconds, number of ticks."""


class WorkerCount(msgspec.Struct, frozen=True, kw_only=True):
    """The last reading of one worker's counter in one kubelet process.

    Attributes:
        readings: how many there are.
        seq: record of the last.
        successful, failed: what the kubelet counted since it started.
        recorded_successful, recorded_failed: ticks that records show by then.
        missing: ticks that the kubelet counted and no record shows, at least.
        too_many: ticks that records show and the kubelet had not counted, at least.
    """

    namespace: str
    pod: str
    container: str
    probe_type: str
    readings: int
    seq: int
    ts_ns: int
    successful: int
    failed: int
    recorded_successful: int
    recorded_failed: int
    missing: int
    too_many: int


class _Reading(msgspec.Struct):
    seq: int
    ts_ns: int
    body: ProbeCountersRead
    number: int


class CounterPart:
    """Compares counters with ticks, process by process."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._ticks: dict[tuple[_Worker, str], list[_Run]] = {}
        self._readings: dict[_Worker, _Reading] = {}
        self._counts: list[WorkerCount] = []

    def see(self, entry: LogEntry) -> None:
        """Take in one record."""
        record, body = entry.record, entry.record.body
        if entry.begins:
            self._settle()
        elif isinstance(body, ProbeExecuted):
            self._ticked(body, (record.ts_ns, 1, 1))
        elif isinstance(body, ProbeTicksFolded):
            self._ticked(body.tick(), (body.first_ts_ns, max(body.period_ns, 1), body.count))
        elif isinstance(body, ProbeCountersRead) and self._span.holds(record.ts_ns):
            before = self._readings.get(_worker(body))
            number = before.number + 1 if before is not None else 1
            self._readings[_worker(body)] = _Reading(record.seq, record.ts_ns, body, number)

    def _ticked(self, body: ProbeExecuted, run: _Run) -> None:
        # A warning counts as a success, and an error is not counted at all.
        result = "success" if body.result == "warning" else body.result
        self._ticks.setdefault((_worker(body), result), []).append(run)

    def _settle(self) -> None:
        """The process is over: its counters start from nothing again."""
        self._counts += [self._count(worker, r) for worker, r in self._readings.items()]
        self._readings.clear()
        self._ticks.clear()

    def _count(self, worker: _Worker, reading: _Reading) -> WorkerCount:
        body, ts_ns = reading.body, reading.ts_ns
        missing = too_many = 0
        recorded = []
        for result, counted in (("success", body.successful), ("failure", body.failed)):
            ticks = self._ticks.get((worker, result), [])
            missing += max(0, counted - _until(ticks, ts_ns + _LATE_NS))
            too_many += max(0, _until(ticks, ts_ns - _EARLY_NS) - counted)
            recorded.append(_until(ticks, ts_ns))
        return WorkerCount(
            namespace=body.namespace,
            pod=body.pod,
            container=body.container,
            probe_type=body.probe_type,
            readings=reading.number,
            seq=reading.seq,
            ts_ns=ts_ns,
            successful=body.successful,
            failed=body.failed,
            recorded_successful=recorded[0],
            recorded_failed=recorded[1],
            missing=missing,
            too_many=too_many,
        )

    def report(self) -> list[WorkerCount]:
        """One entry a worker and process, in the order of their first readings."""
        self._settle()
        return self._counts


def _until(runs: list[_Run], ts_ns: int) -> int:
    """How many ticks there were by then."""
    return sum(
        min(count, (ts_ns - first_ns) // period_ns + 1)
        for first_ns, period_ns, count in runs
        if first_ns <= ts_ns
    )


def _worker(body: ProbeExecuted | ProbeCountersRead) -> _Worker:
    key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
    return (key, body.container, body.probe_type)


# Periodic lines of probe workers: one a period of the pod's spec, while the container runs.

_SEEN: frozenset[type[Body]] = frozenset(
    {
        *(ProbeExecuted, ProbeTicksFolded, PodTerminated, PodConfigChanged),
        *(ContainerStarted, ContainerDied, ContainerKilled, ContainerRestarted),
    }
)


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
        worker = _worker(tick)
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
