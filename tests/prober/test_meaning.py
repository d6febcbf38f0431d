"""What executions mean, the events they leave, what updates cause, what kills."""

from __future__ import annotations

import pytest

from kubeledger.errors import BadInputError
from kubeledger.prober.attempts import event_of, run_probe_with_retries
from kubeledger.prober.handlers import (
    Execution,
    exec_execution,
    grpc_execution,
    http_execution,
    tcp_execution,
)
from kubeledger.prober.instants import ZERO_TIME_NS, instant_ns, whole_seconds_since
from kubeledger.prober.records import ProbeType, TickResult
from kubeledger.prober.results import Result
from kubeledger.prober.syncloop import Reaction, kill_message, reaction_to
from kubeledger.units import NS_PER_S
from tests.prober.worlds import facts_of


@pytest.mark.parametrize(
    ("execution", "outcome"),
    [
        pytest.param(exec_execution(facts_of(), exit_code=0), "success", id="exit 0"),
        pytest.param(exec_execution(facts_of(), exit_code=1), "failure", id="exit 1"),
        pytest.param(exec_execution(facts_of(), error="no such file"), "error", id="exec error"),
        pytest.param(exec_execution(facts_of(), timed_out="2s"), "failure", id="exec timeout"),
        pytest.param(
            exec_execution(facts_of("1.19.16"), timed_out="2s"), "error", id="timeout in 1.19"
        ),
        pytest.param(http_execution(status=200), "success", id="200"),
        pytest.param(http_execution(status=299), "success", id="299"),
        pytest.param(http_execution(status=302), "warning", id="302 to another host"),
        pytest.param(http_execution(status=304), "warning", id="304"),
        pytest.param(http_execution(status=400), "failure", id="400"),
        pytest.param(http_execution(status=199), "failure", id="199"),
        pytest.param(http_execution(transport_error="refused"), "failure", id="refused"),
        pytest.param(http_execution(status=200, body_error="cut"), "error", id="body cut"),
        pytest.param(tcp_execution(), "success", id="connected"),
        pytest.param(tcp_execution(dial_error="refused"), "failure", id="not connected"),
        pytest.param(grpc_execution(facts_of(), status="SERVING"), "success", id="serving"),
        pytest.param(grpc_execution(facts_of(), status="NOT_SERVING"), "failure", id="not serving"),
        pytest.param(grpc_execution(facts_of(), error="timeout"), "failure", id="grpc timeout"),
        pytest.param(
            grpc_execution(facts_of("1.23.0"), status="SERVING"), "error", id="no grpc in 1.23"
        ),
    ],
)
def test_what_a_handler_says(execution: Execution, outcome: TickResult) -> None:
    """Errors are thrown away, failures count."""
    assert execution.outcome == outcome


@pytest.mark.parametrize(
    ("attempts", "used"),
    [
        (["success"], 1),
        (["failure", "success"], 1),
        (["unknown", "success"], 1),
        (["error", "warning", "error"], 2),
        (["error", "error", "error", "success"], 3),
    ],
)
def test_only_errors_are_tried_again(attempts: list[TickResult], used: int) -> None:
    """Three executions at most."""
    assert run_probe_with_retries(attempts) == used


@pytest.mark.parametrize("attempts", [[], ["error"], ["error", "error"]])
def test_an_execution_that_is_not_told(attempts: list[TickResult]) -> None:
    """It cannot be made up."""
    with pytest.raises(BadInputError, match="attempts"):
        run_probe_with_retries(attempts)


@pytest.mark.parametrize(
    ("version", "outcome", "event"),
    [
        ("1.36.2", "success", None),
        ("1.36.2", "failure", "Warning Unhealthy Startup probe failed: text"),
        ("1.36.2", "warning", "Warning ProbeWarning Startup probe warning: text"),
        ("1.36.2", "unknown", None),
        ("1.32.0", "unknown", "Warning Unhealthy Startup probe failed: text"),
        (
            "1.33.0",
            "error",
            "Warning Unhealthy Startup probe errored and resulted in unknown state: text",
        ),
        ("1.32.0", "error", "Warning Unhealthy Startup probe errored: text"),
    ],
)
def test_events(version: str, outcome: TickResult, event: str | None) -> None:
    """Word for word."""
    assert event_of("startup", outcome, "text", facts_of(version)) == event


@pytest.mark.parametrize(
    ("version", "probe_type", "result", "reaction"),
    [
        ("1.36.2", "liveness", "Failure", Reaction(syncs_pod=True)),
        ("1.36.2", "liveness", "Success", Reaction(syncs_pod=False)),
        ("1.36.2", "readiness", "Success", Reaction(ready=True, syncs_pod=True)),
        ("1.20.2", "readiness", "Failure", Reaction(ready=False, syncs_pod=False)),
        ("1.36.2", "startup", "UNKNOWN", Reaction(started=False, syncs_pod=True)),
        ("1.20.2", "startup", "Failure", Reaction(started=False, syncs_pod=False)),
    ],
)
def test_the_sync_loop(
    version: str, probe_type: ProbeType, result: Result, reaction: Reaction
) -> None:
    """Until 1.21 a failed startup probe waited for the next sync."""
    assert reaction_to(probe_type, result, facts_of(version)) == reaction


@pytest.mark.parametrize(
    ("liveness", "startup", "policy", "message"),
    [
        ("Success", "Success", "Always", None),
        (None, "UNKNOWN", "Always", None),
        (
            "Failure",
            "Failure",
            "Always",
            "Container app failed liveness probe, will be restarted",
        ),
        ("Success", "Failure", "Never", "Container app failed startup probe"),
    ],
)
def test_what_kills(
    liveness: Result | None, startup: Result | None, policy: str, message: str | None
) -> None:
    """Cached failures of liveness, then of startup."""
    assert kill_message("app", liveness, startup, restart_policy=policy) == message


@pytest.mark.parametrize(
    ("elapsed_ns", "seconds"),
    [
        (0, 0),
        (999_999_999, 0),
        (NS_PER_S, 1),
        (-999_999_999, 0),
        (-NS_PER_S, -1),
        (2**24 * NS_PER_S + 999_999_999, 2**24 + 1),
        (2**23 * NS_PER_S + 999_999_999, 2**23),
        ((2**31 - 2) * NS_PER_S, 2**31 - 2),
        (2**31 * NS_PER_S, -(2**31)),
        (2**63, -(2**31)),
        (-(2**63), -(2**31)),
    ],
)
def test_seconds_as_go_counts_them(elapsed_ns: int, seconds: int) -> None:
    """Truncated, through a float, into an int32."""
    assert whole_seconds_since(ZERO_TIME_NS, ZERO_TIME_NS + elapsed_ns) == seconds


def test_instants_are_remembered_without_growing() -> None:
    """The same answer after thousands of others."""
    first = instant_ns("2026-01-05T08:00:00Z")
    for index in range(10_000):
        instant_ns(f"2026-01-05T08:00:00.{index:09d}Z")
    assert instant_ns("2026-01-05T08:00:00Z") == first
    assert instant_ns("2026-01-05T09:00:00+01:00") == first
    assert instant_ns("0001-01-01T00:00:00Z") == ZERO_TIME_NS
