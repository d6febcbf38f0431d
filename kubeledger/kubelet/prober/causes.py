"""Why a step left an attribute of a worker as it is: the clause that follows "because".

Each attribute has causes of its own: a step that ends early because the initial delay is
not over may still have met a new container and cached a first result for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.prober.attempts import ATTEMPTS_MAX, COUNTS_AS
from kubeledger.kubelet.prober.decider import Tick
from kubeledger.kubelet.prober.instants import instant_ns
from kubeledger.kubelet.prober.results import Result, Results
from kubeledger.kubelet.prober.worker import (
    ERRORED,
    NOT_RESTARTED,
    NOT_RUNNING,
    ON_HOLD,
    POD_DELETED,
    ProbeWorker,
    do_probe,
)
from kubeledger.model.bodies.prober import TickResult

_CACHES = (NOT_RUNNING, NOT_RESTARTED, POD_DELETED)
"""Ways out of a step that store a result of their own."""


class _Stored(Results):
    """A cache that notes what is stored in it, changed or not."""

    __slots__ = ("stored",)

    def __init__(self, cache: dict[str, Result] | None = None) -> None:
        super().__init__(cache)
        self.stored: list[Result] = []

    def set(self, container_id: str, result: Result) -> None:
        """Note and store a result."""
        self.stored.append(result)
        super().set(container_id, result)


class _Step(msgspec.Struct, frozen=True):
    """What is known of one step.

    Attributes:
        worker: after it.
        last: of its executions; None without any.
        run_before: executions in a row before it.
        result_before: their result.
        held_before: the worker was on hold.
        met: it turned to a container it had not seen before.
        first: results cached for that container, in order.
        then: the result stored after that; None for none.
    """

    worker: ProbeWorker
    last: TickResult | None
    run_before: int
    result_before: Result
    held_before: bool
    met: bool
    first: list[Result]
    then: Result | None


def cause(worker: ProbeWorker, ticks: Sequence[Tick], name: str) -> str:
    """What an attribute of the outcome of the last of some ticks comes from.

    Args:
        worker: that has seen nothing yet; updated in place.
        ticks: (n,) in order, at least one.
        name: an attribute of ``TickOutcome``, but for ``events``.
    """
    worker.results = results = _Stored(worker.results.cache)
    for tick in ticks[:-1]:
        do_probe(worker, tick.pod_status, instant_ns(tick.at), tick.attempts)
    results.stored.clear()
    results.take_updates()
    container_id, held = worker.container_id, worker.on_hold
    run, before = worker.result_run, worker.last_result
    tick = ticks[-1]
    do_probe(worker, tick.pod_status, instant_ns(tick.at), tick.attempts)
    used, stored = worker.attempts_used, results.stored
    stores = worker.skipped is None or worker.skipped in _CACHES
    step = _Step(
        worker=worker,
        last=tick.attempts[used - 1] if used else None,
        run_before=run,
        result_before=before,
        held_before=held,
        met=worker.container_id != container_id,
        first=stored[:-1] if stores else stored,
        then=stored[-1] if stores and stored else None,
    )
    match name:
        case "attempts":
            return _of_attempts(step)
        case "result_run":
            return _of_result_run(step)
        case "on_hold":
            return _of_on_hold(step)
        case "keep_going":
            return _of_keep_going(step)
        case _:
            return _of_stored(step, updates=name == "updates")


def _end(step: _Step) -> str:
    """How the step ended."""
    skipped = step.worker.skipped
    return "the threshold is reached" if skipped is None else skipped.text


def _nothing_executed(step: _Step) -> str:
    return f"nothing is executed: {_end(step)}"


def _of_attempts(step: _Step) -> str:
    if step.last is None:
        return _end(step)
    used = step.worker.attempts_used
    if step.last == "error":
        return f"an error is tried again, but not after {ATTEMPTS_MAX} executions"
    return f"execution {used} came to {step.last}, and only an error is tried again"


def _of_result_run(step: _Step) -> str:
    if step.last is None:
        kept = (
            ", and a new container does not begin a new run" if step.met and step.run_before else ""
        )
        return f"{_nothing_executed(step)}{kept}"
    counted = COUNTS_AS.get(step.last)
    if counted is None:
        return ERRORED.text
    worker = step.worker
    if worker.on_hold:
        return "the threshold is reached, and the run begins anew when the worker goes on hold"
    if counted == step.result_before:
        return f"this is one more {counted} in a row after {step.run_before}"
    return f"{counted} comes after {step.result_before}, so a new run begins"


def _of_on_hold(step: _Step) -> str:
    if step.last is not None:
        if step.worker.skipped is not None or step.worker.on_hold:
            return _end(step)
        return f"{step.then} of a {step.worker.probe_type} probe does not end the probing"
    if step.met:
        held = ", which ends the hold" if step.held_before else ", and nothing is executed yet"
        return f"there is a new container{held}"
    if step.worker.on_hold:
        if step.worker.skipped is ON_HOLD:
            return ON_HOLD.text
        return f"only a new container ends the hold, and {_end(step)}"
    return _nothing_executed(step)


def _of_keep_going(step: _Step) -> str:
    skipped = step.worker.skipped
    if skipped is None or skipped.keep_going:
        return f"nothing here ends a worker: {_end(step)}"
    return skipped.text


def _of_stored(step: _Step, *, updates: bool) -> str:
    """Of the cached result and its updates; the last of them is what stays."""
    causes = []
    if step.first:
        causes.append(f"there is a new container, for which {step.first[-1]} is cached first")
    elif step.met:
        causes.append("the container is older than the kubelet, so nothing is cached for it first")
    if step.then is not None:
        same = updates and not step.worker.results.updates
        known = f", but {step.then} was cached before" if same else ""
        causes.append(f"{_end(step)}{known}")
    if step.then is not None and not updates:
        return causes[-1]
    return " and ".join(causes) or f"nothing is stored: {_end(step)}"
