"""What executions mean, the events they leave, what updates cause, what kills."""

import pytest

from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns, whole_seconds_since
from kubeledger.kubelet.prober.objects import Result
from kubeledger.kubelet.prober.prober import (
    ContainerPort,
    Execution,
    GRPCAction,
    GRPCConnection,
    GRPCError,
    Handler,
    HTTPGetAction,
    ProbeHandler,
    TCPSocketAction,
    event_of,
    grpc_execution,
    handler_of,
    http_execution,
    missing_handler,
    resolve_container_port,
    run_probe_with_retries,
    tcp_execution,
)
from kubeledger.kubelet.prober.prober_manager import KnownOfPod, Reaction, reaction_to
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from tests.kubelet.prober.worlds import facts_of

NEW, OLD = facts_of("1.36.2"), facts_of("1.20.2")
PEER = GRPCConnection("10.0.0.7", 8080, 65)
REDIRECTED = "Probe terminated redirects, Response body: moved"


@pytest.mark.parametrize(
    ("execution", "outcome", "text"),
    [
        pytest.param(http_execution(NEW, status=200, body="ok"), "success", "ok", id="200"),
        pytest.param(http_execution(NEW, status=299), "success", "", id="299"),
        pytest.param(http_execution(NEW, status=302, body="moved"), "warning", REDIRECTED,
                     id="302"),
        pytest.param(http_execution(facts_of("1.24.0"), status=304, body="moved"), "warning",
                     REDIRECTED, id="304, 1.24"),
        pytest.param(http_execution(facts_of("1.23.17"), status=302, body="moved"), "warning",
                     "moved", id="302, 1.23"),
        pytest.param(http_execution(NEW, status=400, body="secret"), "failure",
                     "HTTP probe failed with statuscode: 400", id="400"),
        pytest.param(http_execution(NEW, status=199), "failure",
                     "HTTP probe failed with statuscode: 199", id="199"),
        pytest.param(http_execution(NEW, transport_error="refused"), "failure", "refused",
                     id="refused"),
        pytest.param(http_execution(NEW, status=200, body_error="unexpected EOF"), "error",
                     "unexpected EOF", id="body cut off"),
        pytest.param(http_execution(facts_of("1.26.0"), request_error="parse"), "error", "parse",
                     id="1.26"),
        pytest.param(http_execution(facts_of("1.25.16"), request_error="parse"), "failure", "parse",
                     id="no request, 1.25"),
        pytest.param(tcp_execution(), "success", "", id="connected"),
        pytest.param(tcp_execution(dial_error="refused"), "failure", "refused", id="not connected"),
        pytest.param(grpc_execution(PEER, status="SERVING"), "success", "service healthy",
                     id="serving"),
        pytest.param(grpc_execution(PEER, status="NOT_SERVING"), "failure",
                     'service unhealthy (responded with "NOT_SERVING")', id="not serving"),
        pytest.param(grpc_execution(PEER), "failure",
                     'service unhealthy (responded with "UNKNOWN")', id="no status"),
        pytest.param(grpc_execution(PEER, dial_error="context deadline exceeded"), "failure",
                     'timeout: failed to connect service "10.0.0.7:8080" within 1m5s: '
                     "context deadline exceeded", id="no connection in time"),
        pytest.param(grpc_execution(GRPCConnection("fd00::7", 8080), dial_error="refused"),
                     "failure", 'error: failed to connect service at "[fd00::7]:8080": refused',
                     id="no connection"),
        pytest.param(grpc_execution(PEER, error=GRPCError("Unimplemented", "unknown service")),
                     "failure",
                     "error: this server does not implement the grpc health protocol "
                     "(grpc.health.v1.Health): unknown service", id="no health service"),
        pytest.param(grpc_execution(PEER, error=GRPCError("DeadlineExceeded", "too late")),
                     "failure", "timeout: health rpc did not complete within 1m5s",
                     id="no reply in time"),
        pytest.param(grpc_execution(PEER, error=GRPCError("NotFound", "unknown service")),
                     "failure",
                     "error: health rpc probe failed: rpc error: code = NotFound desc = unknown "
                     "service", id="another status"),
    ],
)  # fmt: skip
def test_what_a_handler_says(execution: Execution, outcome: TickResult, text: str) -> None:
    """Errors are thrown away, failures count; the text goes into the event."""
    assert (execution.outcome, execution.text) == (outcome, text)


@pytest.mark.parametrize("facts", [pytest.param(OLD, id="1.20"), pytest.param(NEW, id="1.36")])
def test_output_is_cut(facts: ProberFacts) -> None:
    """After 10 KiB; what is cut through becomes a mark."""
    long = "x" * 10_239 + "é" + "y"
    kept = "x" * 10_239 + "\N{REPLACEMENT CHARACTER}"
    assert http_execution(facts, status=200, body=long).text == kept
    assert http_execution(facts, status=302, body=long).text.endswith(kept)
    assert http_execution(facts, status=200, body="x" * 10_240).text == "x" * 10_240


@pytest.mark.parametrize(
    ("version", "execution", "event"),
    [
        pytest.param("1.33.0", http_execution(NEW, status=200, body_error="unexpected EOF"),
                     "Warning Unhealthy Liveness probe errored and resulted in failure state: "
                     "unexpected EOF", id="a body that breaks off"),
        pytest.param("1.32.0", http_execution(NEW, status=200, body_error="unexpected EOF"),
                     "Warning Unhealthy Liveness probe errored: unexpected EOF", id="before 1.33"),
        pytest.param("1.36.2", missing_handler("web", "prod", "u-1", "app"),
                     "Warning Unhealthy Liveness probe errored and resulted in unknown state: "
                     "missing probe handler for web_prod(u-1):app", id="no handler"),
    ],
)  # fmt: skip
def test_what_an_execution_leaves(version: str, execution: Execution, event: str) -> None:
    """Its event, with the state that the kubelet holds beside an error."""
    reported = event_of(
        "liveness", execution.outcome, execution.text, facts_of(version), execution.state
    )
    assert reported == event


@pytest.mark.parametrize(
    ("probe", "version", "handler"),
    [
        (ProbeHandler(exec={}, http_get=HTTPGetAction(1), tcp_socket=TCPSocketAction(1)), "1.36.2",
         "exec"),
        (ProbeHandler(http_get=HTTPGetAction(1), tcp_socket=TCPSocketAction(1)), "1.36.2", "http"),
        (ProbeHandler(tcp_socket=TCPSocketAction(1), grpc=GRPCAction(1)), "1.36.2", "tcp"),
        (ProbeHandler(grpc=GRPCAction(1)), "1.24.0", "grpc"),
        (ProbeHandler(grpc=GRPCAction(1)), "1.23.17", None),
        (ProbeHandler(), "1.36.2", None),
    ],
)  # fmt: skip
def test_which_handler_is_asked(probe: ProbeHandler, version: str, handler: Handler | None) -> None:
    """The first of several; gRPC since 1.24."""
    assert handler_of(probe, facts_of(version)) == handler


@pytest.mark.parametrize(
    ("port", "resolved"),
    [
        (8080, 8080),
        ("web", 80),
        ("9090", 9090),
        ("+9090", 9090),
        (65535, 65535),
        (0, "invalid port number: 0"),
        (65536, "invalid port number: 65536"),
        ("-1", "invalid port number: -1"),
        ("none", 'strconv.Atoi: parsing "none": invalid syntax'),
        ("", 'strconv.Atoi: parsing "": invalid syntax'),
        ("8_0", 'strconv.Atoi: parsing "8_0": invalid syntax'),
        ("9" * 30, f'strconv.Atoi: parsing "{"9" * 30}": value out of range'),
        ("broken", "invalid port number: 0"),
    ],
)
def test_ports(port: int | str, resolved: int | str) -> None:
    """By name, else as a number; an error otherwise."""
    ports = [ContainerPort("web", 80), ContainerPort("web", 81), ContainerPort("broken")]
    found = resolve_container_port(port, ports)
    assert found == (resolved if isinstance(resolved, int) else Execution("error", resolved))


@pytest.mark.parametrize("attempts", [[], ["error"], ["error", "error"]])
def test_an_execution_that_is_not_told(attempts: list[TickResult]) -> None:
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
        ("1.33.0", "error",
         "Warning Unhealthy Startup probe errored and resulted in unknown state: text"),
        ("1.32.0", "error", "Warning Unhealthy Startup probe errored: text"),
    ],
)  # fmt: skip
def test_events(version: str, outcome: TickResult, event: str | None) -> None:
    assert event_of("startup", outcome, "text", facts_of(version)) == event


@pytest.mark.parametrize(
    ("version", "probe_type", "result", "reaction"),
    [
        ("1.36.2", "liveness", "Failure", Reaction(syncs_pod=True, logged="unhealthy")),
        ("1.36.2", "liveness", "Success", Reaction(syncs_pod=False)),
        ("1.36.2", "readiness", "Success", Reaction(ready=True, syncs_pod=True, logged="ready")),
        ("1.32.0", "readiness", "Failure",
         Reaction(ready=False, syncs_pod=True, logged="not ready")),
        ("1.31.0", "readiness", "Failure", Reaction(ready=False, syncs_pod=True, logged="")),
        ("1.20.2", "readiness", "Failure", Reaction(ready=False, syncs_pod=False)),
        ("1.36.2", "startup", "Success", Reaction(started=True, syncs_pod=True, logged="started")),
        ("1.36.2", "startup", "UNKNOWN",
         Reaction(started=False, syncs_pod=True, logged="unhealthy")),
        ("1.20.2", "startup", "Failure", Reaction(started=False, syncs_pod=False)),
    ],
)  # fmt: skip
def test_the_sync_loop(
    version: str, probe_type: ProbeType, result: Result, reaction: Reaction
) -> None:
    """Until 1.21 a failed startup probe waited for the next sync."""
    assert reaction_to(probe_type, result, facts_of(version)) == reaction


@pytest.mark.parametrize(
    ("probe_type", "known", "reaction"),
    [
        ("readiness", KnownOfPod(status=False),
         Reaction(dropped="Container readiness changed before pod has synced", syncs_pod=True,
                  logged="not ready")),
        ("startup", KnownOfPod(container=False),
         Reaction(dropped="Container startup changed for unknown container", syncs_pod=True,
                  logged="unhealthy")),
        ("readiness", KnownOfPod(pod=False),
         Reaction(dropped="Pod has been deleted, no need to update readiness", syncs_pod=False,
                  logged="not ready")),
        ("liveness", KnownOfPod(pod=False), Reaction(syncs_pod=False, logged="unhealthy")),
        ("liveness", KnownOfPod(status=False), Reaction(syncs_pod=True, logged="unhealthy")),
    ],
)  # fmt: skip
def test_updates_that_come_to_nothing(
    probe_type: ProbeType, known: KnownOfPod, reaction: Reaction
) -> None:
    """A failure for a pod that is gone, not synced yet, or with another container."""
    assert reaction_to(probe_type, "Failure", NEW, known) == reaction


def test_an_update_that_is_dropped_in_1_20() -> None:
    """Nothing is synced either: the next sync takes it from the cache."""
    reaction = reaction_to("startup", "Success", OLD, KnownOfPod(container=False))
    dropped = "Container startup changed for unknown container"
    assert reaction == Reaction(dropped=dropped, syncs_pod=False)


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
