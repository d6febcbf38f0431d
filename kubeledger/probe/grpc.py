"""gRPC probes: one health check over a connection of its own. Needs h2."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING

from kubeledger.kubelet.prober.prober import (
    DEADLINE,
    Execution,
    GRPCConnection,
    GRPCError,
    GRPCStatus,
    grpc_execution,
)
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.probe.attempt import Attempt, Exchange, TransportError, Watch
from kubeledger.probe.dial import Connection, dial

if TYPE_CHECKING:
    from kubeledger.record.sources.grpc_call import UnaryCall

_CHECK = "/grpc.health.v1.Health/Check"
_STATUSES: tuple[GRPCStatus, ...] = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_BACKOFF = 1.6
"""Source: grpc-go backoff.DefaultConfig: a second, then 1.6 times as long each time."""
_TIMEOUT_MAX = 99_999_999
"""The most digits of a ``grpc-timeout``."""
_TIMEOUT_UNITS = (("u", 1_000), ("m", 1_000_000), ("S", 1_000_000_000), ("M", 60_000_000_000))


def need_h2() -> None:
    """Fail now rather than between two probes.

    Raises:
        BadQuestionError: it is not installed.
    """
    from importlib.util import find_spec

    from kubeledger.model.errors import BadQuestionError

    if find_spec("h2") is None:
        raise BadQuestionError(
            "gRPC probes need h2, which is not installed",
            advice="pip install 'kubeledger[probe]', or leave them out with --probe",
        )


def grpc_attempt(
    to: GRPCConnection, service: str, timeout_ns: int, facts: ProberFacts, agent: str
) -> Attempt:
    """Execute a gRPC probe.

    Args:
        to: host and port; its ``timeout_s`` is what the kubelet's texts name.
        service: empty for the whole server.
        timeout_ns: for connection and call together.
        agent: of ``user_agent``; grpc-go's own name follows it.

    Source: v1.36.2 pkg/probe/grpc/grpc.go Probe
    Differs: the version of grpc-go is left out of the user agent, the pauses between attempts to
        connect have no jitter, a call is not made again after a GOAWAY that ends it, and one with
        an error code always ends it.
    """
    watch = Watch(timeout_ns)
    agent = f"{agent} grpc-go"
    exchange = Exchange(
        sent=(f"POST {_CHECK}", f"user-agent: {agent}", f"service: {service!r}"), address=to.address
    )
    lingers = facts.grpc_dials_like_others and facts.sockets_linger_a_second
    try:
        with watch.phase(exchange, "connect"):
            connection, call = _connected(to, watch, exchange, lingers=lingers)
    except TransportError:
        watch.end()
        execution = grpc_execution(to, dial_error=DEADLINE)
    else:
        with closing(connection):
            with watch.phase(exchange, "first_byte"):
                execution = _called(call, to, service, agent, watch, exchange)
            watch.end()
    return Attempt(execution=execution, exchanges=(exchange,), total_ns=watch.elapsed_ns())


def _connected(
    to: GRPCConnection, watch: Watch, exchange: Exchange, *, lingers: bool
) -> tuple[Connection, UnaryCall]:
    """A connection to a server of HTTP/2; whatever else comes, it is tried until the timeout."""
    from kubeledger.record.sources.grpc_call import GRPCStatusError, UnaryCall

    for retry in count():
        tried = Exchange()
        try:
            connection = dial(to.host, to.port, watch, tried, lingers=lingers)
            exchange.received = ("connected, but the peer speaks no HTTP/2 in clear text",)
            try:
                call = UnaryCall(connection)
            except BaseException:
                connection.close()
                raise
            exchange.local, exchange.received = connection.local, ()
            return connection, call
        except TransportError as error:
            if not exchange.received or not (tried.local or error.timed_out):
                exchange.received = (error.text,)
        except GRPCStatusError as error:
            exchange.received = (*exchange.received, error.message)
        time.sleep(min(_BACKOFF**retry, watch.left_s()))
    raise AssertionError


def _called(
    call: UnaryCall, to: GRPCConnection, service: str, agent: str, watch: Watch, exchange: Exchange
) -> Execution:
    from kubeledger.record.sources.grpc_call import GRPCStatusError

    name = service.encode()
    request = b"\x0a" + _varint(len(name)) + name if name else b""  # field 1 of the request
    try:
        left = ("grpc-timeout", _timeout(int(watch.left_s() * 1e9)))
        answer = call.made(to.address, _CHECK, request, ("user-agent", agent), left)
        status = _status_of(answer)
    except TransportError as error:
        code = "DeadlineExceeded" if error.timed_out else "Unavailable"
        failed = GRPCError(code, f"error reading from server: {error.text}")
    except GRPCStatusError as error:
        failed = GRPCError(error.code, error.message)
    except ValueError as error:
        text = f"grpc: failed to unmarshal the received message: {error}"
        failed = GRPCError("Internal", text)
    else:
        exchange.received = (f"status: {status}",)
        return grpc_execution(to, status=status)
    exchange.received = (f"code: {failed.code}", f"message: {failed.message}")
    return grpc_execution(to, error=failed)


def _timeout(left_ns: int) -> str:
    """A ``grpc-timeout``: the finest unit whose number has room, rounded up.

    Source: grpc-go internal/grpcutil encode_duration.go EncodeDuration
    """
    for unit, unit_ns in _TIMEOUT_UNITS:
        number = -(-left_ns // unit_ns)
        if number <= _TIMEOUT_MAX:
            return f"{number}{unit}"
    return f"{_TIMEOUT_MAX}M"


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _status_of(data: bytes) -> GRPCStatus:
    """HealthCheckResponse: field 1, the status; absent when it is UNKNOWN."""
    number = data[1] if len(data) == 2 and data[0] == 0x08 else 0 if not data else -1
    if number < 0:
        raise ValueError("no HealthCheckResponse")
    known = number < len(_STATUSES)
    return _STATUSES[number] if known else str(number)  # type: ignore[return-value] # of a newer API
