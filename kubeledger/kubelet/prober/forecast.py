"""What follows when a probe continues like this: how many ticks until its cached result changes."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.prober.attempts import COUNTS_AS
from kubeledger.kubelet.prober.results import FAILURE, Result
from kubeledger.kubelet.prober.worker import ProbeWorker, count_result
from kubeledger.model.bodies.prober import TickResult
from kubeledger.model.units import NS_PER_S


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a result is cached.

    Attributes:
        result: that will be cached; None where such ticks never change it.
        ticks: like this one in a row, this one among them.
        within_ns: from the start of the first of them to the end of the last.
        kills: the container is killed then.
    """

    result: Result | None = None
    ticks: int = 0
    within_ns: int = 0
    kills: bool = False


def forecast(worker: ProbeWorker, outcome: TickResult, tick_ns: int) -> Forecast:
    """Let a worker with no streak take such ticks until one of them reaches its threshold.

    Args:
        worker: gives thresholds, period and type; left as it is.
        outcome: of each tick; an error never counts.
        tick_ns: how long one takes; the next begins a period after it began, or at its end.

    Source: v1.36.2 pkg/kubelet/prober/worker.go doProbe, run
    Differs: the first tick does not wait for jitter.
    """
    result = COUNTS_AS.get(outcome)
    if result is None:
        return Forecast()
    alone = msgspec.structs.replace(worker, last_result=result, result_run=0, on_hold=False)
    ticks = 1
    while not count_result(alone, result):
        ticks += 1
    period_ns = max(worker.spec.period_seconds * NS_PER_S, tick_ns)
    return Forecast(
        result=result,
        ticks=ticks,
        within_ns=(ticks - 1) * period_ns + tick_ns,
        kills=result == FAILURE and worker.probe_type != "readiness",
    )
