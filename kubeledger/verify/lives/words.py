"""Sentences about probes."""

from __future__ import annotations

from kubeledger.prober.records import ProbeExecuted, ProbeResult
from kubeledger.verify.lives.common import at
from kubeledger.verify.lives.steps import Change
from kubeledger.verify.lives.worker import RebuiltWorker

__all__ = ["doubt", "idle_since", "idle_tick", "missing_ticks", "run_reached"]

_DID: dict[ProbeResult, str] = {
    "success": "succeeded",
    "failure": "failed",
    "unknown": "was unknown",
}


def run_reached(worker: RebuiltWorker, change: Change) -> str:
    """``liveness failed 3 times in a row (threshold 3), last at ...``."""
    times = "once" if change.run == 1 else f"{change.run} times in a row"
    least = "" if change.run_is_sure else "at least "
    return (
        f"{worker.probe_type} {_DID[change.after]} {least}{times} (threshold {change.threshold}), "
        f"last at {at(change.tick.ts_ns)}"
    )


def idle_tick(worker: RebuiltWorker, to_result: ProbeResult) -> str:
    """Why the newest tick cannot have led to a result."""
    assert worker.last is not None
    body = worker.last.body
    assert isinstance(body, ProbeExecuted)
    last, when = worker.last_result, at(worker.last.ts_ns)
    if body.result == "error":
        return f"the {worker.probe_type} tick at {when} errored, which is thrown away"
    if last != to_result:
        return (
            f"the {worker.probe_type} tick at {when} was a {body.result}, which cannot make the "
            f"cached result {to_result}"
        )
    if worker.cached == to_result:
        return f"the cached {worker.probe_type} result was {to_result} already at {when}"
    times = "once" if worker.run == 1 else f"{worker.run} times in a row"
    return (
        f"{worker.probe_type} had {_DID[last]} {times} by {when}, and the threshold is "
        f"{worker.threshold(to_result) if to_result != 'unknown' else 0}"
    )


def idle_since(worker: RebuiltWorker, to_result: ProbeResult) -> int:
    """From when on no tick may be missing for :func:`idle_tick` to hold, in nanoseconds."""
    assert worker.last is not None
    if worker.last_result == to_result and worker.cached == to_result:
        return worker.held_from_ns + 1
    if worker.last_result == to_result:
        return worker.run_from_ns
    return worker.last.ts_ns + 1


def missing_ticks(worker: RebuiltWorker) -> str:
    """What to name as missing when a worker's memory is not sure."""
    if worker.age_is_open:
        return "when the container began, to the second"
    name = f"the {worker.probe_type} ticks"
    if worker.gaps:
        return f"{name} that are missing in the log"
    if worker.last is None:
        return f"{name} of the container"
    return f"{name} before the log begins"


def doubt(worker: RebuiltWorker, from_ns: int, to_ns: int) -> str | None:
    """What is missing to be sure that no tick was lost between these times; None: nothing.

    ``to_ns`` is the time of something that a lost tick may have led to.
    """
    newest_ns = worker.grid.newest_ns
    if newest_ns is None or not worker.grid.is_whole(from_ns):
        lost = f"before {at(newest_ns)}" if newest_ns is not None else "in the log"
    elif to_ns - newest_ns > worker.period_ns * 3 // 5:
        lost = f"after {at(newest_ns)}"
    else:
        return None
    return f"{worker.probe_type} ticks that may be missing {lost}"
