"""The kubelet's own count of probes against the ticks that records show."""

from __future__ import annotations

import msgspec

from kubeledger.analyze.completeness.span import Span
from kubeledger.analyze.histories.logs import LogEntry
from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeExecuted, ProbeTicksFolded
from kubeledger.model.units import NS_PER_S

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
