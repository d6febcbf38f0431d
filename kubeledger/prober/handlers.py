"""What the outcomes of the four handlers mean, before retries and thresholds.

An *error* is tried again and then thrown away: it never makes a probe fail. A *failure*
counts. Most of what goes wrong with HTTP, TCP and gRPC is a failure; what goes wrong with
executing a command, other than its exit code and its timeout, is an error.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.prober.records import TickResult
from kubeledger.profile.prober import ProberFacts

__all__ = [
    "OUTPUT_BYTES_MAX",
    "Execution",
    "exec_execution",
    "grpc_execution",
    "http_execution",
    "tcp_execution",
]

OUTPUT_BYTES_MAX = 10 * 1024
"""Output of a command and body of a reply are cut here."""

GRPCStatus = Literal["SERVING", "NOT_SERVING", "UNKNOWN", "SERVICE_UNKNOWN"]


class Execution(msgspec.Struct, frozen=True):
    """One execution: the outcome, and its output or the error's text."""

    outcome: TickResult
    text: str = ""


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

    Source: v1.36.2 pkg/probe/exec/exec.go Probe
    Differs: the timeout is told apart by the caller.
    """
    if timed_out is not None:
        return Execution("failure" if facts.exec_timeout_fails else "error", timed_out)
    if exit_code is None:
        return Execution("error", error)
    return Execution("success" if exit_code == 0 else "failure", output)


def http_execution(
    *, status: int | None = None, body: str = "", transport_error: str = "", body_error: str = ""
) -> Execution:
    """Outcome of an HTTP GET: 2xx succeeds, 3xx left after following warns, others fail.

    Redirects are followed while the host name stays that of the first request, at most ten.

    Args:
        status: status code of the last reply; None when none came.
        body: of that reply.
        transport_error: why none came: refused, timeout, TLS, too many redirects.
        body_error: why the body could not be read; it makes the execution an error.

    Source: v1.36.2 pkg/probe/http/http.go DoHTTPProbe
    Differs: the request is not made here; 1.20 leaves out the words before a warning's body.
    """
    if status is None:
        return Execution("failure", transport_error)
    if body_error:
        return Execution("error", body_error)
    if 200 <= status < 300:
        return Execution("success", body)
    if 300 <= status < 400:
        return Execution("warning", f"Probe terminated redirects, Response body: {body}")
    return Execution("failure", f"HTTP probe failed with statuscode: {status}")


def tcp_execution(*, dial_error: str | None = None) -> Execution:
    """Outcome of a dial: a connection succeeds, anything else fails.

    Source: v1.36.2 pkg/probe/tcp/tcp.go DoTCPProbe
    Differs: the dial is not made here.
    """
    return Execution("success") if dial_error is None else Execution("failure", dial_error)


def grpc_execution(
    facts: ProberFacts, *, status: GRPCStatus | None = None, error: str = ""
) -> Execution:
    """Outcome of a health check call: SERVING succeeds, all else fails and is no error.

    Args:
        facts: of the kubelet version; one that has no such probes knows no handler for it.
        status: what the service answered; None when it did not.
        error: why not.

    Source: v1.36.2 pkg/probe/grpc/grpc.go Probe
    Differs: the call is not made here.
    """
    if not facts.grpc_probes:
        return Execution("error", "missing probe handler")
    if status is None:
        return Execution("failure", error)
    if status == "SERVING":
        return Execution("success", "service healthy")
    return Execution("failure", f'service unhealthy (responded with "{status}")')
