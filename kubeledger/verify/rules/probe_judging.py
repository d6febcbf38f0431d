"""What one state of a worker says to a recorded change: the rulings that are judged together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.prober.machine import SAYS, Span, State
from kubeledger.kubelet.prober.results import FAILURE, SUCCESS, Result
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeResult, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Ruling, World
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.probe_worker import Worker

STORES: Final[dict[ProbeResult, Result]] = {said: result for result, said in SAYS.items()}
_DID: Final[dict[Result, str]] = {SUCCESS: "succeeded", FAILURE: "failed"}
_OPTIONAL: Final = ("run", "threshold", "container_id")


class Case(NamedTuple):
    """A state of a worker after a recorded change, and what it says to that."""

    state: State
    ruling: Ruling


def _times(run: int) -> str:
    return "once" if run == 1 else f"{run} times in a row"


def expected_of(worker: Worker, state: State) -> Fields:
    """What the record of a change must say."""
    assert worker.spec is not None
    expected: Fields = {
        "to_result": SAYS[state.cached],
        "threshold": worker.spec.threshold(SAYS[state.cached]),
    }
    if state.was is not None:
        expected["from_result"] = SAYS[state.was]
    if not state.at_least:
        expected["run"] = state.ticks
    if worker.seen and worker.container_id is not None:
        expected["container_id"] = worker.container_id
    return expected


def reached(worker: Worker, state: State, ts_ns: int) -> str:
    """``liveness failed 3 times in a row (threshold 3), last at ..., so ...``."""
    assert worker.spec is not None
    least = "at least " if state.at_least else ""
    threshold = worker.spec.threshold(SAYS[state.cached])
    return (
        f"{worker.probe_type} {_DID[state.cached]} {least}{_times(state.ticks)} (threshold "
        f"{threshold}), last at {format_ts(ts_ns)}, so the cached result went from "
        f"{SAYS[state.was or state.cached]} to {SAYS[state.cached]}"
    )


def after(worker: Worker, world: World[State], record: Record, body: ProbeTransitioned) -> Case:
    """The newest tick led to the change, or not."""
    state, tick = world.state, worker.newest
    assert worker.spec is not None
    assert tick is not None
    inputs = (worker.spec_seq or 0, *worker.streak)
    if state.was is None:
        why = _idle(worker, state, tick, body.to_result)
        return Case(state, Ruling(allowed=False, why=why, assumes=world.assumes, inputs=inputs))
    expected = expected_of(worker, state)
    for name in _OPTIONAL:
        if getattr(body, name) is None:
            expected.pop(name, None)
    differ = [name for name, value in expected.items() if getattr(body, name) != value]
    why = reached(worker, state, tick.ts_ns)
    if differ:
        text = ", ".join(f"{n} {getattr(body, n)} instead of {expected[n]}" for n in differ)
        why = f"{why}; recorded is {text}"
    ruling = Ruling(
        allowed=not differ, why=why, expected=expected, assumes=world.assumes, inputs=inputs
    )
    return Case(state, ruling)


def _idle(worker: Worker, state: State, tick: Record, to_result: ProbeResult) -> str:
    """Why the newest tick cannot have led to a result."""
    body, when = tick.body, format_ts(tick.ts_ns)
    name = f"the {worker.probe_type} tick at {when}"
    if isinstance(body, ProbeExecuted) and body.result == "error":
        return f"{name} errored, which is thrown away"
    wanted = STORES[to_result]
    if state.last != wanted:
        return f"{name} {_DID[state.last]}, which cannot make the cached result {to_result}"
    if state.cached == wanted:
        return f"the cached {worker.probe_type} result was {to_result} already at {when}"
    assert worker.spec is not None
    least = "at least " if state.at_least else ""
    return (
        f"{worker.probe_type} had {_DID[wanted]} {least}{_times(state.run)} by {when}, and the "
        f"threshold is {worker.spec.threshold(to_result)}"
    )


def without_tick(
    worker: Worker,
    worlds: Sequence[World[State]],
    record: Record,
    body: ProbeTransitioned,
    *,
    ended: bool | None,
    logs_all: bool,
) -> list[Case]:
    """No tick is known to have led to the change; ``ended``: its container had, None: perhaps."""
    cases: list[Case] = []
    if body.to_result == "failure" and ended is not False:
        why = "a probe worker caches a failure for a container that does not run"
        cases = [
            Case(each.state._replace(cached=FAILURE, was=None), _from(worker, each, body, why))
            for each in worlds
        ]
    if ended and cases:
        return cases
    if body.to_result == "success" and not logs_all:
        return _unlogged(worker, worlds, record, body)
    lost = (f"the end of container {worker.container}",)
    unseen = [
        Case(state, msgspec.structs.replace(ruling, assumes=(*ruling.assumes, *lost)))
        for state, ruling in cases
        if ruling.allowed and body.run is body.threshold is None
    ]
    return [*_of_lost_tick(worker, worlds, record, body), *unseen]


def _from(
    worker: Worker, world: World[State], body: ProbeTransitioned, why: str, *, chosen: bool = True
) -> Ruling:
    """A change that may have come then, if it began where the record says."""
    cached = SAYS[world.state.cached]
    if cached != body.from_result:
        why = f"the cached result was {cached}, so it cannot have changed from {body.from_result}"
    assert worker.spec is not None
    return Ruling(
        allowed=cached == body.from_result,
        chosen=chosen,
        why=why,
        expected={"to_result": body.to_result, "from_result": cached},
        assumes=world.assumes,
        inputs=(worker.spec_seq or 0,),
    )


def _unlogged(
    worker: Worker, worlds: Sequence[World[State]], record: Record, body: ProbeTransitioned
) -> list[Case]:
    """A success in a log that leaves out successful ticks: was there time for them?

    What an errored probe returned is thrown away: successes may continue.
    """
    assert worker.spec is not None
    needed, period_ns = worker.spec.successes, worker.spec.period_ns
    since_ns = None if worker.failed_ns is None else record.ts_ns - worker.failed_ns
    if since_ns is not None and since_ns < (needed - 1) * period_ns * 4 // 5:
        why = (
            f"{worker.probe_type} needs {needed} successes in a row, one every "
            f"{worker.spec.period_s} s, and failed {since_ns / NS_PER_S:.1f} s before"
        )
        return [
            Case(each.state, Ruling(allowed=False, why=why, assumes=each.assumes))
            for each in worlds
        ]
    why = (
        f"the kubelet logged the change; the {worker.probe_type} probe's successes are not "
        f"logged at this verbosity, and there was time for {needed} of them since it failed"
    )
    return [
        Case(
            each.state._replace(last=SUCCESS, run=needed, at_least=True, cached=SUCCESS, was=None),
            _from(worker, each, body, why, chosen=False),
        )
        for each in worlds
    ]


def _of_lost_tick(
    worker: Worker, worlds: Sequence[World[State]], record: Record, body: ProbeTransitioned
) -> list[Case]:
    """A tick whose line is missing may have led to it, if there was time for one."""
    assert worker.machine is not None
    assert worker.spec is not None
    tick, inputs = worker.newest, (worker.spec_seq or 0, *worker.streak)
    missing_ticks = worker.missing_ticks_until(record.ts_ns)
    since = "of the container" if tick is None else f"after {format_ts(tick.ts_ns)}"
    lost = f"the {worker.probe_type} ticks {since}"
    cases: list[Case] = []
    for world in worlds:
        if tick is None:
            why = "no tick is recorded that led to it"
        else:
            why = _idle(worker, world.state, tick, body.to_result)
        ruling = Ruling(allowed=False, why=why, assumes=world.assumes, inputs=inputs)
        cases.append(Case(world.state._replace(was=None), ruling))
        triggered = worker.machine.triggers and world.state.cached != SUCCESS
        span = Span(max(missing_ticks, triggered), counted=worker.is_next_counted)
        for state in worker.machine.lost(world.state, span) if span.most else ():
            expected = (SAYS[state.was] if state.was else None, SAYS[state.cached])
            fits = body.run in (None, state.ticks) or state.at_least
            if expected == (body.from_result, body.to_result) and fits:
                assumes = (*world.assumes, lost)
                ruling = Ruling(allowed=True, why="", assumes=assumes, inputs=inputs)
                cases.append(Case(state._replace(was=None), ruling))
    return cases
