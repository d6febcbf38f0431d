"""gRPC probes: one health check over a connection of its own. Needs grpcio."""

from __future__ import annotations

import time
from typing import Any

from kubeledger.kubelet.prober.handlers import GRPCConnection, GRPCError, grpc_execution
from kubeledger.kubelet.prober.transport import DEADLINE
from kubeledger.probe.attempt import Attempt, Exchange, TransportError, Watch
from kubeledger.probe.dial import dial

__all__ = ["grpc_attempt", "need_grpcio"]

_CHECK = "/grpc.health.v1.Health/Check"
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_LOOK_NS = 1_000_000_000


def need_grpcio() -> None:
    """Fail now rather than between two probes.

    Raises:
        BadQuestionError: it is not installed.
    """
    from importlib.util import find_spec

    from kubeledger.model.errors import BadQuestionError

    if find_spec("grpc") is None:
        raise BadQuestionError(
            "gRPC probes need grpcio, which is not installed",
            advice="pip install 'kubeledger[probe]', or leave them out with --probe",
        )


def grpc_attempt(to: GRPCConnection, service: str, timeout_ns: int, agent: str) -> Attempt:
    """Execute a gRPC probe.

    Args:
        to: host and port; its ``timeout_s`` is what the kubelet's texts name.
        service: empty for the whole server.
        timeout_ns: for connection and call together.
        agent: of ``user_agent``; grpcio appends its own name, as the kubelet's library does.

    Source: v1.36.2 pkg/probe/grpc/grpc.go Probe
    Differs: grpcio in place of grpc-go, so the text of an error that came from no server is
        grpcio's.
    """
    import grpc

    watch = Watch(timeout_ns)
    exchange = Exchange(
        sent=(f"POST {_CHECK}", f"user-agent: {agent}", f"service: {service!r}"),
        address=to.address,
    )
    family = "ipv6" if ":" in to.host else "ipv4"
    options = [
        ("grpc.primary_user_agent", agent),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    with grpc.insecure_channel(f"{family}:{to.address}", options=options) as channel:
        try:
            with watch.phase(exchange, "connect"):
                grpc.channel_ready_future(channel).result(timeout=watch.left_s())
        except (grpc.FutureTimeoutError, TransportError):
            watch.end()
            exchange.received = (_what_tcp_says(to),)
            execution = grpc_execution(to, dial_error=DEADLINE)
        else:
            execution = _called(grpc, channel, to, service, watch, exchange)
            watch.end()
    return Attempt(execution=execution, exchanges=(exchange,), total_ns=watch.elapsed_ns())


def _called(
    grpc: Any,  # noqa: ANN401 # the module
    channel: Any,  # noqa: ANN401 # grpcio has no types
    to: GRPCConnection,
    service: str,
    watch: Watch,
    exchange: Exchange,
) -> Any:  # noqa: ANN401
    call = channel.unary_unary(
        _CHECK, request_serializer=_request_bytes, response_deserializer=_status_of
    )
    began_ns = time.monotonic_ns()
    try:
        status = call(service, timeout=watch.left_s())
    except TransportError:
        return grpc_execution(to, error=GRPCError("DeadlineExceeded", ""))
    except grpc.RpcError as error:
        code = "".join(part.capitalize() for part in error.code().name.split("_"))
        exchange.received = (f"code: {code}", f"message: {error.details()}")
        code = "Canceled" if code == "Cancelled" else code
        return grpc_execution(to, error=GRPCError(code, error.details() or ""))
    finally:
        exchange.phases_ns["first_byte"] = time.monotonic_ns() - began_ns
    exchange.received = (f"status: {status}",)
    return grpc_execution(to, status=status)


def _what_tcp_says(to: GRPCConnection) -> str:
    """Why there is no connection, of which the kubelet's text says only that it took too long."""
    exchange = Exchange()
    try:
        dial(to.host, to.port, Watch(_LOOK_NS), exchange, lingers=True).close()
    except TransportError as error:
        return f"a TCP connection made afterwards: {error.text}"
    return "a TCP connection made afterwards: connected, so the peer speaks no HTTP/2 in clear text"


def _request_bytes(service: str) -> bytes:
    """HealthCheckRequest: field 1, the service."""
    data = service.encode()
    return b"\x0a" + _varint(len(data)) + data if data else b""


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _status_of(data: bytes) -> str:
    """HealthCheckResponse: field 1, the status; absent when it is UNKNOWN."""
    number = data[1] if len(data) == 2 and data[0] == 0x08 else 0 if not data else -1
    if number < 0:
        raise ValueError("no HealthCheckResponse")
    return _STATUSES[number] if number < len(_STATUSES) else str(number)
