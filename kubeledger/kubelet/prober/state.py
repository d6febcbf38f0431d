"""What the prober holds: one worker a container and probe type, and its result."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.prober import ProbeResult, ProbeType

INITIAL_RESULT: dict[ProbeType, ProbeResult] = {
    "liveness": "success",
    "readiness": "failure",
    "startup": "unknown",
}
"""Result that a worker caches when it sees a container for the first time."""


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
