"""What the outcomes of the four handlers mean, before retries and thresholds.

An *error* is tried again and then thrown away: it never makes a probe fail. A *failure*
counts. Most of what goes wrong with HTTP, TCP and gRPC is a failure; what goes wrong with
executing a command, other than its exit code and its timeout, is an error.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kubeledger.kubelet.kube.urls import host_port
from kubeledger.kubelet.prober.transport import DEADLINE
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import TickResult
from kubeledger.model.units import NS_PER_S, format_go_duration

OUTPUT_BYTES_MAX: Final = 10 * 1024
"""Output of a command and body of a reply are cut here."""

GRPCStatus = Literal["SERVING", "NOT_SERVING", "UNKNOWN", "SERVICE_UNKNOWN"]

ErrorState = Literal["unknown", "failure"]
"""The result that the kubelet holds beside an error, and names in the event since 1.33."""


class Execution(msgspec.Struct, frozen=True):
    """One execution: the outcome, its output or the error's text, and the state of an error."""

    outcome: TickResult
    text: str = ""
    state: ErrorState = "unknown"


class GRPCConnection(msgspec.Struct, frozen=True):
    """Where a gRPC probe goes: host, port, and the probe's timeout in seconds."""

    host: str
    port: int
    timeout_s: int = 1

    @property
    def address(self) -> str:
        """``host:port``, with an IPv6 address in brackets."""
        return host_port(self.host, self.port)

    @property
    def timeout(self) -> str:
        """In Go's notation."""
        return format_go_duration(self.timeout_s * NS_PER_S)


class GRPCError(msgspec.Struct, frozen=True):
    """A call that came to a gRPC status instead of a reply."""

    code: str
    message: str


def exec_execution(
    facts: ProberFacts,
    *,
    exit_code: int | None = None,
    output: str = "",
    timed_out: str | None = None,
    error: str = "",
) -> Execution:
    """Outcome of a command: exit code 0 succeeds, any other fails.

    Args:
        facts: of the kubelet version.
        exit_code: None when the command did not get that far.
        output: of the command, stdout and stderr.
        timed_out: what the runtime said of the timeout; None when there was none.
        error: what else went wrong, such as a runtime that does not answer.

    Source: v1.36.2 pkg/probe/exec/exec.go Probe; v1.20.2
    Differs: the caller detects the timeout; of a command that timed out no output
        is left, as with every CRI runtime.
    """
    if timed_out is not None:
        if not facts.exec_timeout_fails:
            return Execution("error", timed_out)
        return Execution("failure", timed_out if facts.exec_timeout_in_output else "")
    if exit_code is None:
        return Execution("error", error)
    return Execution("success" if exit_code == 0 else "failure", _cut(output))


def http_execution(
    facts: ProberFacts,
    *,
    status: int | None = None,
    body: str = "",
    request_error: str = "",
    transport_error: str = "",
    body_error: str = "",
) -> Execution:
    """Outcome of an HTTP GET: 2xx succeeds, 3xx left after following warns, others fail.

    Redirects are followed while the host name stays that of the first request, at most ten.

    Args:
        facts: of the kubelet version.
        status: status code of the last reply; None when none came.
        body: of that reply.
        request_error: why the request could not be made at all, such as a path that is none.
        transport_error: why no reply came: refused, timeout, TLS, too many redirects.
        body_error: why the body could not be read; it makes the execution an error, beside
            which the kubelet holds a failure.

    Source: v1.36.2 pkg/probe/http/http.go DoHTTPProbe, request.go newProbeRequest; v1.20.2
    Differs: the request is not made here.
    """
    if request_error:
        return Execution("error" if facts.bad_request_errors else "failure", request_error)
    if status is None:
        return Execution("failure", transport_error)
    if body_error:
        return Execution("error", body_error, "failure")
    if 200 <= status < 300:
        return Execution("success", _cut(body))
    if 300 <= status < 400:
        words = "Probe terminated redirects, Response body: " if facts.redirect_in_output else ""
        return Execution("warning", f"{words}{_cut(body)}")
    return Execution("failure", f"HTTP probe failed with statuscode: {status}")


def tcp_execution(*, dial_error: str | None = None) -> Execution:
    """Outcome of a dial: a connection succeeds, anything else fails.

    Source: v1.36.2 pkg/probe/tcp/tcp.go DoTCPProbe
    Differs: the dial is not made here.
    """
    return Execution("success") if dial_error is None else Execution("failure", dial_error)


def grpc_execution(
    to: GRPCConnection,
    *,
    status: GRPCStatus | None = None,
    dial_error: str | None = None,
    error: GRPCError | None = None,
) -> Execution:
    """Outcome of a health check call: SERVING succeeds, all else fails and is no error.

    Args:
        to: whom it was made to.
        status: what the service answered; None when it did not.
        dial_error: why there was no connection; ``context deadline exceeded`` is a timeout.
        error: how the call ended without an answer.

    Source: v1.36.2 pkg/probe/grpc/grpc.go Probe
    Differs: the call is not made here; whether a version has such probes is asked of
        ``addressing.handler_of``.
    """
    if dial_error is not None:
        return Execution("failure", _no_connection(to, dial_error))
    if error is not None:
        return Execution("failure", _no_reply(to, error))
    if status == "SERVING":
        return Execution("success", "service healthy")
    return Execution("failure", f'service unhealthy (responded with "{status or "UNKNOWN"}")')


def _no_connection(to: GRPCConnection, error: str) -> str:
    if error == DEADLINE:
        return f'timeout: failed to connect service "{to.address}" within {to.timeout}: {error}'
    return f'error: failed to connect service at "{to.address}": {error}'


def _no_reply(to: GRPCConnection, error: GRPCError) -> str:
    match error.code:
        case "Unimplemented":
            return (
                "error: this server does not implement the grpc health protocol "
                f"(grpc.health.v1.Health): {error.message}"
            )
        case "DeadlineExceeded":
            return f"timeout: health rpc did not complete within {to.timeout}"
        case _:
            return (
                "error: health rpc probe failed: "
                f"rpc error: code = {error.code} desc = {error.message}"
            )


def _cut(output: str) -> str:
    """The first bytes of an output; of a character that is cut through, a mark is left.

    Source: v1.36.2 pkg/kubelet/util/ioutils/ioutils.go LimitWriter; k8s.io/utils/io ReadAtMost
    Differs: the kubelet keeps the broken bytes; they become marks when the event is sent.
    """
    return output.encode()[:OUTPUT_BYTES_MAX].decode(errors="replace")
