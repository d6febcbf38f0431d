"""What the prober holds, one worker a container and probe type: records to state.

Workers live in the kubelet's memory: they end with their pod or with the process. A new container
ID puts the cached result back to the initial value and ends the hold, but keeps the run, as the
kubelet does.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeResult,
    ProbeTicksFolded,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)

INITIAL_RESULT: Final[dict[ProbeType, ProbeResult]] = {
    "liveness": "success",
    "readiness": "failure",
    "startup": "unknown",
}
"""Result that a worker caches when it sees a container for the first time."""
_COUNTED: Final[dict[TickResult, ProbeResult]] = {
    "success": "success",
    "warning": "success",
    "failure": "failure",
    "unknown": "failure",
}
"""Probe result -> result of the tick; an errored probe does not count at all."""


class CountersState(msgspec.Struct, kw_only=True):
    """The kubelet's own counts of one worker when they were last read."""

    read_ts_ns: int
    successful: int
    failed: int
    unknown: int


class WorkerState(msgspec.Struct, kw_only=True):
    """One probe worker.

    Attributes:
        container_id: the container it probes; None until known.
        cached_result: what the rest of the kubelet sees; the initial value of the probe type
            until a change is recorded.
        last_result: ``success`` or ``failure`` of the last tick that counted (a warning is a
            success); None before the first.
        run: ticks in a row with ``last_result``. As in the kubelet it survives a new
            container, and begins again when a failure put the worker on hold.
        on_hold: no tick until a new container, after a liveness or startup failure.
        last_tick_ts_ns: None before the first tick.
        ticks: probe result -> ticks in the records since the kubelet process began.
        counters: the kubelet's counts; None when they were not read.
    """

    container_id: str | None = None
    cached_result: ProbeResult
    last_result: ProbeResult | None = None
    run: int = 0
    on_hold: bool = False
    last_tick_ts_ns: int | None = None
    ticks: dict[str, int] = {}
    counters: CountersState | None = None


class ProberState(msgspec.Struct, kw_only=True):
    """All workers of the kubelet process.

    Attributes:
        pods: pod key -> container -> probe type -> worker.
        transitions: changes of a cached result in the records so far.
    """

    pods: dict[str, dict[str, dict[ProbeType, WorkerState]]] = {}
    transitions: int = 0


def container_started(state: ProberState, key: str, container: str, container_id: str) -> None:
    """A container of a probed name runs under a new ID: its workers take it up."""
    for probe_type, worker in state.pods.get(key, {}).get(container, {}).items():
        _take_up(worker, probe_type, container_id)


def _worker(
    state: ProberState,
    body: ProbeExecuted | ProbeTicksFolded | ProbeTransitioned | ProbeCountersRead,
    container_id: str | None,
) -> WorkerState:
    """The worker that the record is about; made at the first record about it."""
    key = body.pod_uid or pod_key(None, body.namespace, body.pod) or ""
    probe_type = body.probe_type
    try:
        worker = state.pods[key][body.container][probe_type]
    except KeyError:
        worker = WorkerState(cached_result=INITIAL_RESULT[probe_type])
        state.pods.setdefault(key, {}).setdefault(body.container, {})[probe_type] = worker
    if container_id is not None and container_id != worker.container_id:
        _take_up(worker, probe_type, container_id)
    return worker


def _take_up(worker: WorkerState, probe_type: ProbeType, container_id: str) -> None:
    if worker.container_id is not None and worker.container_id != container_id:
        worker.cached_result = INITIAL_RESULT[probe_type]
        worker.on_hold = False
    worker.container_id = container_id


def _probe_executed(state: ProberState, ts_ns: int, body: ProbeExecuted) -> None:
    _count(_worker(state, body, body.container_id), ts_ns, body.result, 1)


def _ticks_folded(state: ProberState, ts_ns: int, body: ProbeTicksFolded) -> None:
    _count(_worker(state, body, body.container_id), body.last_ts_ns, body.result, body.count)


def _count(worker: WorkerState, ts_ns: int, result: TickResult, count: int) -> None:
    worker.last_tick_ts_ns = ts_ns
    worker.ticks[result] = worker.ticks.get(result, 0) + count
    counted = _COUNTED.get(result)
    if counted is None:
        return
    # The kubelet does not probe while on hold: a tick shows that it has ended.
    worker.on_hold = False
    if counted == worker.last_result:
        worker.run += count
    else:
        worker.last_result = counted
        worker.run = count


def _probe_transitioned(state: ProberState, ts_ns: int, body: ProbeTransitioned) -> None:
    state.transitions += 1
    worker = _worker(state, body, body.container_id)
    worker.cached_result = body.to_result
    if body.run is not None and body.to_result != "unknown":
        worker.last_result = body.to_result
        worker.run = body.run
    if body.to_result == "failure" and body.probe_type != "readiness":
        worker.on_hold = True
        worker.run = 0


def _probe_counters_read(state: ProberState, ts_ns: int, body: ProbeCountersRead) -> None:
    _worker(state, body, None).counters = CountersState(
        read_ts_ns=ts_ns, successful=body.successful, failed=body.failed, unknown=body.unknown
    )


HANDLERS: Handlers[ProberState] = {
    ProbeCountersRead: _probe_counters_read,
    ProbeExecuted: _probe_executed,
    ProbeTicksFolded: _ticks_folded,
    ProbeTransitioned: _probe_transitioned,
}
"""Body type -> what it does to the state."""
