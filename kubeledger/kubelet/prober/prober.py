"""What a probe asks, what comes of it, and the event it leaves: prober.go, and pkg/probe.

An *error* is tried again and then thrown away: it never makes a probe fail. A *failure*
counts. Most of what goes wrong with HTTP, TCP and gRPC is a failure; what goes wrong with
executing a command, other than its exit code and its timeout, is an error.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from kubeledger.kubelet.kube.gotexts import atoi, quoted
from kubeledger.kubelet.kube.urls import host_port
from kubeledger.kubelet.prober.objects import FAILURE, SUCCESS, Result
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, format_go_duration

# Texts of Go's network library, which the kubelet passes on as a probe's output.
#
# They were compared with net/http of Go 1.19, 1.21 and 1.25 against the servers of
# ``tests/probe``; kubelets before 1.25 were built with older ones.

DEADLINE: Final = "context deadline exceeded"
IO_TIMEOUT: Final = "i/o timeout"
AWAITING_HEADERS: Final = " (Client.Timeout exceeded while awaiting headers)"
READING_BODY: Final = " (Client.Timeout or context cancellation while reading body)"
BROKEN: Final = "net/http: HTTP/1.x transport connection broken: "

_ERRNO_TEXTS: Final = {
    errno.EACCES: "permission denied",
    errno.EADDRNOTAVAIL: "cannot assign requested address",
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by peer",
    errno.EHOSTUNREACH: "no route to host",
    errno.EINVAL: "invalid argument",
    errno.ENETUNREACH: "network is unreachable",
    errno.EPERM: "operation not permitted",
    errno.EPIPE: "broken pipe",
    errno.ETIMEDOUT: "connection timed out",
}
_ALERTS: Final = {
    0: "close notify",
    10: "unexpected message",
    20: "bad record MAC",
    40: "handshake failure",
    42: "bad certificate",
    47: "illegal parameter",
    48: "unknown certificate authority",
    50: "error decoding message",
    70: "protocol version not supported",
    71: "insufficient security level",
    80: "internal error",
    112: "unrecognized name",
    116: "certificate required",
    120: "no application protocol",
}


def get_failed(url: object, text: str) -> str:
    """The error of an HTTP GET: ``Get "http://10.0.0.7:80/": EOF``."""
    return f"Get {quoted(str(url))}: {text}"


def dial_failed(address: str, code: int) -> str:
    """The error of a connection that failed with an errno of Linux."""
    return f"dial tcp {address}: connect: {_errno_text(code)}"


def lookup_failed(name: str, server: str, text: str) -> str:
    """The error of a name that does not resolve; ``server`` is empty where none was asked."""
    where = f" on {server}" if server else ""
    return f"dial tcp: lookup {name}{where}: {text}"


def read_failed(local: str, remote: str, code: int) -> str:
    """The error of a read from a connection."""
    return f"read tcp {local}->{remote}: read: {_errno_text(code)}"


def alert_text(code: int) -> str:
    """The error of a TLS alert that the server sent."""
    return f"remote error: tls: {_ALERTS.get(code, f'alert({code})')}"


def _errno_text(code: int) -> str:
    return _ERRNO_TEXTS.get(code) or f"errno {code}"


Handler = Literal["exec", "http", "tcp", "grpc"]

_PORT_MAX: Final = 65535
OUTPUT_BYTES_MAX: Final = 10 * 1024
"""Output of a command and body of a reply are cut here."""

GRPCStatus = Literal["SERVING", "NOT_SERVING", "UNKNOWN", "SERVICE_UNKNOWN"]

ErrorState = Literal["unknown", "failure"]
"""The result that the kubelet holds beside an error, and names in the event since 1.33."""

ATTEMPTS_MAX: Final = 3

COUNTS_AS: Final[dict[TickResult, Result]] = {
    "success": SUCCESS,
    "warning": SUCCESS,
    "failure": FAILURE,
    "unknown": FAILURE,
}
"""What an execution adds to the streak; ``error`` is missing because it is thrown away."""


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


class PortAction(msgspec.Struct, rename="camel", frozen=True):
    """An action with a port: a number, or the name of one of the container's ports."""

    port: int | str = 0


class HTTPHeader(msgspec.Struct, rename="camel", frozen=True):
    """A header of the probe's spec; names may repeat."""

    name: str
    value: str = ""


class HTTPGetAction(PortAction, rename="camel", frozen=True):
    """An HTTP GET; an empty ``host`` is the pod's IP, an empty ``scheme`` see the profile."""

    path: str = ""
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] | None = None


class TCPSocketAction(PortAction, rename="camel", frozen=True):
    """A TCP connection; an empty ``host`` is the pod's IP."""

    host: str = ""


class GRPCAction(PortAction, rename="camel", frozen=True):
    """A gRPC health check, always of the pod's IP; no ``service`` asks for the whole server."""

    port: int = 0
    service: str | None = None


class ProbeHandler(msgspec.Struct, rename="camel", frozen=True):
    """The handlers of a probe; the API lets exactly one be set."""

    exec: dict[str, object] | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None


class ContainerPort(msgspec.Struct, rename="camel", frozen=True):
    """A port of a container, as far as a probe can name it."""

    name: str = ""
    container_port: int = 0


def handler_of(probe: ProbeHandler, facts: ProberFacts) -> Handler | None:
    """The handler that is asked, should there be several: the first in this order.

    Args:
        facts: of the kubelet version; older ones pass over a gRPC handler.

    Source: v1.36.2 pkg/kubelet/prober/prober.go runProbe
    """
    if probe.exec is not None:
        return "exec"
    if probe.http_get is not None:
        return "http"
    if probe.tcp_socket is not None:
        return "tcp"
    return "grpc" if probe.grpc is not None and facts.grpc_probes else None


def missing_handler(name: str, namespace: str, uid: str, container: str) -> Execution:
    """What comes of a probe without a handler that this version knows.

    Source: v1.36.2 pkg/kubelet/prober/prober.go runProbe; pkg/kubelet/util/format/pod.go
    """
    return Execution("error", f"missing probe handler for {name}_{namespace}({uid}):{container}")


def resolve_container_port(
    port: int | str, ports: Sequence[ContainerPort] | None
) -> int | Execution:
    """The number of a port of an HTTP or TCP handler, or what comes of one that has none.

    A name that no port has is read as a number. gRPC ports are not resolved.

    Source: v1.36.2 pkg/probe/util.go ResolveContainerPort; v1.20.2
        pkg/kubelet/prober/prober.go extractPort
    """
    if isinstance(port, str):
        named = next((p.container_port for p in ports or () if p.name == port), None)
        if named is None:
            try:
                named = atoi(port)
            except ValueError as error:
                return Execution("error", str(error))
        port = named
    return port if 0 < port <= _PORT_MAX else Execution("error", f"invalid port number: {port}")


class MissingAttemptError(BadInputError):
    """A tick executes the probe more often than the case has outcomes."""


def run_probe_with_retries(attempts: Sequence[TickResult]) -> int:
    """How many executions a tick takes: only an error is tried again, and at once.

    Returns:
        1 to 3; the last of them decides.

    Raises:
        MissingAttemptError: an execution is needed that is not given.

    Source: v1.20.2 pkg/kubelet/prober/prober.go runProbeWithRetries
    Differs: the outcomes are given.
    """
    used = 0
    for outcome in attempts:
        used += 1
        if outcome != "error" or used == ATTEMPTS_MAX:
            return used
    raise MissingAttemptError(
        f"{used} attempts are given, but the kubelet executes the probe once more",
        advice=f"give the outcome of up to {ATTEMPTS_MAX} executions a tick",
    )


def event_of(
    probe_type: ProbeType,
    outcome: TickResult,
    text: str,
    facts: ProberFacts,
    state: ErrorState = "unknown",
) -> str | None:
    """The event about the container that a tick's last execution leaves.

    It is sent for each such tick, before any threshold; the recorder may drop it.

    Args:
        text: its output, or the error's text.
        state: the result beside an error, as of ``Execution``.

    Returns:
        ``<type> <reason> <message>``, or None where nothing is said.

    Source: v1.36.2 pkg/kubelet/prober/prober.go probe
    """
    name = probe_type.capitalize()
    match outcome:
        case "success":
            return None
        case "warning":
            return f"Warning ProbeWarning {name} probe warning: {text}"
        case "unknown" if facts.unknown_without_error_sends_no_event:
            return None
        case "failure" | "unknown":
            return f"Warning Unhealthy {name} probe failed: {text}"
        case "error" if facts.errored_event_names_state:
            return f"Warning Unhealthy {name} probe errored and resulted in {state} state: {text}"
        case "error":
            return f"Warning Unhealthy {name} probe errored: {text}"


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
        status: status code of the last reply; None when none came.
        body: of that reply.
        request_error: why the request could not be made at all, such as an invalid path.
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
