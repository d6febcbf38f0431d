"""Probe workers: runs, cached results, holds."""

import pytest

from kubeledger.kubelet.prober.reducer import (
    HANDLERS,
    ProberState,
    WorkerState,
    container_started,
)
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)
from kubeledger.model.record import Body
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

evolve = evolver(HANDLERS)


def tick(
    result: TickResult,
    probe_type: ProbeType = "liveness",
    container_id: str | None = "1",
    uid: str | None = "u",
) -> ProbeExecuted:
    """One tick of container c of pod ns/p."""
    return ProbeExecuted(
        namespace="ns", pod="p", pod_uid=uid, container="c", container_id=container_id,
        probe_type=probe_type, result=result, output=None,
    )  # fmt: skip


def moved(
    to_result: ProbeResult, probe_type: ProbeType = "liveness", run: int | None = None
) -> ProbeTransitioned:
    return ProbeTransitioned(
        namespace="ns", pod="p", pod_uid="u", container="c", container_id="1",
        probe_type=probe_type, from_result="unknown", to_result=to_result, run=run,
    )  # fmt: skip


def after(*bodies: Body) -> ProberState:
    state = ProberState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def worker(state: ProberState, probe_type: ProbeType = "liveness", key: str = "u") -> WorkerState:
    return state.pods[key]["c"][probe_type]


@pytest.mark.parametrize(
    ("ticks", "last", "run"),
    [
        (("success",), "success", 1),
        (("success", "warning", "success"), "success", 3),
        (("success", "failure", "unknown"), "failure", 2),
        (("failure", "error", "failure"), "failure", 2),
        (("error",), None, 0),
        (("failure", "success"), "success", 1),
    ],
)
def test_runs(ticks: tuple[TickResult, ...], last: str | None, run: int) -> None:
    """A warning counts as success, unknown as failure, an error not at all."""
    kept = worker(after(*map(tick, ticks)))
    assert (kept.last_result, kept.run) == (last, run)
    assert sum(kept.ticks.values()) == len(ticks)
    assert kept.last_tick_ts_ns == len(ticks) * 10**9


@pytest.mark.parametrize(
    ("probe_type", "initial"),
    [("liveness", "success"), ("readiness", "failure"), ("startup", "unknown")],
)
def test_initial_values(probe_type: ProbeType, initial: ProbeResult) -> None:
    """Each probe type has its own until a change is recorded."""
    other: TickResult = "success" if initial == "failure" else "failure"
    assert worker(after(tick(other, probe_type)), probe_type).cached_result == initial


@pytest.mark.parametrize(
    ("probe_type", "to_result", "on_hold", "run"),
    [
        ("liveness", "failure", True, 0),
        ("startup", "failure", True, 0),
        ("readiness", "failure", False, 3),
        ("liveness", "success", False, 3),
    ],
)
def test_transitions(
    probe_type: ProbeType, to_result: ProbeResult, on_hold: bool, run: int
) -> None:
    """A liveness or startup failure puts the worker on hold and its run back to 0."""
    state = after(tick("failure", probe_type), moved(to_result, probe_type, run=3))
    kept = worker(state, probe_type)
    assert (kept.cached_result, kept.on_hold, kept.run) == (to_result, on_hold, run)
    assert state.transitions == 1


def test_a_new_container_resets_result_and_hold_but_not_the_run() -> None:
    """The kubelet keeps the run across containers, so an old failure counts for the new one."""
    state = after(tick("failure", "readiness"), tick("failure"), moved("failure"))
    assert worker(state).on_hold
    evolve(state, record(4, moved("success", "readiness", run=1)))
    container_started(state, "u", "c", "2")
    live, ready = worker(state), worker(state, "readiness")
    assert (live.container_id, live.cached_result, live.on_hold) == ("2", "success", False)
    assert (ready.container_id, ready.cached_result, ready.run) == ("2", "failure", 1)


def test_a_tick_that_names_a_new_container_does_the_same() -> None:
    state = after(moved("failure", "readiness"), moved("success", "readiness"))
    evolve(state, record(3, tick("failure", "readiness", container_id="2")))
    kept = worker(state, "readiness")
    assert (kept.container_id, kept.cached_result) == ("2", "failure")


def test_the_same_container_changes_nothing() -> None:
    """Nor does an ID that becomes known late."""
    state = after(tick("failure", container_id=None), moved("failure"))
    container_started(state, "u", "c", "1")
    container_started(state, "u", "other", "9")
    container_started(state, "v", "c", "9")
    assert (worker(state).cached_result, worker(state).container_id) == ("failure", "1")
    assert set(state.pods) == {"u"}


def test_counters_are_the_kubelets_own() -> None:
    """They stand beside the ticks that were recorded."""
    read = ProbeCountersRead(
        namespace="ns", pod="p", pod_uid="u", container="c", probe_type="startup",
        successful=1, failed=2, unknown=3,
    )  # fmt: skip
    kept = worker(after(read), "startup")
    assert kept.counters is not None
    assert (kept.counters.successful, kept.counters.failed, kept.counters.unknown) == (1, 2, 3)
    assert kept.ticks == {}


def test_a_change_to_unknown_leaves_the_run() -> None:
    """No result of a probe was unknown, whatever run the record has."""
    kept = worker(after(tick("success"), tick("success"), moved("unknown", run=1)))
    assert (kept.cached_result, kept.last_result, kept.run) == ("unknown", "success", 2)
    changed = moved("failure", "readiness", run=3)
    kept = worker(after(tick("success", "readiness"), changed), "readiness")
    assert (kept.cached_result, kept.last_result, kept.run) == ("failure", "failure", 3)
