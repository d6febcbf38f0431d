"""gRPC probes against real servers."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from kubeledger.kubelet.prober.prober import GRPCConnection, dial_failed
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadQuestionError
from kubeledger.probe.attempt import Attempt
from kubeledger.probe.grpc import _timeout, grpc_attempt, need_h2
from kubeledger.probe.series import run_series
from kubeledger.probe.target import pod_target, probe_plans
from tests.kubelet.prober.worlds import facts_of
from tests.probe.http2_servers import Act, speaks
from tests.probe.pods import pod
from tests.probe.servers import Habit, Over, closed_port, hangs, serve, unhurried
from tests.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

BRIEF_NS = 300_000_000
LONG_NS = 8_000_000_000


Answer = Callable[[Any, threading.Event], bytes]


class Health:
    """A server whose health service answers by ``answer``.

    Attributes:
        asked: (service, user agent) of each call.
    """

    def __init__(self, answer: Answer | None) -> None:
        self.asked: list[tuple[bytes, str]] = []
        self.over = Over()
        self._answer = answer
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(self._check)
        service = "grpc.health.v1.Health" if answer else "another.Service"
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {"Check": handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def close(self) -> None:
        self.over.set()
        self._server.stop(None).wait(PATIENCE_S)

    def _check(self, request: bytes, context: Any) -> bytes:  # noqa: ANN401 # grpcio has no types
        agent = dict(context.invocation_metadata()).get("user-agent", "")
        self.asked.append((request, str(agent)))
        assert self._answer is not None
        return self._answer(context, self.over)


@contextmanager
def health(answer: Answer | None) -> Iterator[Health]:
    server = Health(answer)
    try:
        yield server
    finally:
        server.close()


def says(data: bytes) -> Answer:
    return lambda _context, _over: data


def aborts(context: Any, over: threading.Event) -> bytes:  # noqa: ANN401 # grpcio has no types
    context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    raise AssertionError


def waits(context: Any, over: threading.Event) -> bytes:  # noqa: ANN401 # grpcio has no types
    over.wait(PATIENCE_S)
    return b""


def probe(port: int, service: str = "", ns: int = LONG_NS) -> Attempt:
    """Execute it; the texts name a timeout of one second."""
    to = GRPCConnection("127.0.0.1", port, 1)
    return grpc_attempt(to, service, ns, facts_of("1.28.0"), "kube-probe/1.28")


ANSWERS: dict[str, tuple[Answer | None, str, str]] = {
    "SERVING": (says(b"\x08\x01"), "success", "service healthy"),
    "NOT_SERVING": (says(b"\x08\x02"), "failure",
                    'service unhealthy (responded with "NOT_SERVING")'),
    "UNKNOWN": (says(b""), "failure", 'service unhealthy (responded with "UNKNOWN")'),
    "a new one": (says(b"\x08\x07"), "failure", 'service unhealthy (responded with "7")'),
    "no answer to it": (says(b"\x12\x01"), "failure",
                        "error: health rpc probe failed: rpc error: code = Internal desc = grpc: "
                        "failed to unmarshal the received message: no HealthCheckResponse"),
    "status": (aborts, "failure",
               "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"),
    "unimplemented": (None, "failure",
                      "error: this server does not implement the grpc health protocol "
                      "(grpc.health.v1.Health): Method not found!"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    answer, outcome, text = ANSWERS[name]
    with health(answer) as server:
        attempt = probe(server.port)
    assert (attempt.execution.outcome, attempt.execution.text) == (outcome, text)
    assert list(attempt.exchanges[0].phases_ns) == ["connect", "first_byte"]


def test_service_and_user_agent() -> None:
    """The service's name is the request; the kubelet's user agent comes first."""
    with health(says(b"\x08\x01")) as server:
        probe(server.port)
        probe(server.port, "s" * 200)
    (empty, agent), (named, _) = server.asked
    assert agent.startswith("kube-probe/1.28 grpc-go")
    assert (empty, named) == (b"", b"\x0a\xc8\x01" + b"s" * 200)


def test_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    with health(waits) as server:
        unhurried(monkeypatch, server.over.silent)
        attempt = probe(server.port, ns=BRIEF_NS)
    assert attempt.execution.text == "timeout: health rpc did not complete within 1s"


def test_refused_is_reported_as_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet goes on connecting; what TCP says is beside its text."""
    port, refused = closed_port(), threading.Event()
    unhurried(monkeypatch, refused, goes=refused.is_set)

    def told(address: str, number: int) -> str:
        refused.set()
        return dial_failed(address, number)

    monkeypatch.setattr("kubeledger.probe.dial.dial_failed", told)
    attempt = probe(port, ns=BRIEF_NS)
    assert attempt.execution.text == (
        f'timeout: failed to connect service "127.0.0.1:{port}" within 1s: '
        "context deadline exceeded"
    )
    (exchange,) = attempt.exchanges
    assert "connection refused" in exchange.received[0]
    assert list(exchange.phases_ns) == ["connect"]


def test_a_server_of_another_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without HTTP/2 is none."""
    with serve(hangs) as server:
        unhurried(monkeypatch, server.silent, goes=server.silent.is_set)
        attempt = probe(server.port, ns=BRIEF_NS)
    assert attempt.execution.outcome == "failure"
    assert "speaks no HTTP/2" in attempt.exchanges[0].received[0]


def test_without_h2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(BadQuestionError) as caught:
        need_h2()
    assert "kubeledger[probe]" in caught.value.advice


WEB = [(":status", "404"), ("content-type", "text/html")]
GRPC = [(":status", "200"), ("content-type", "application/grpc")]


def _has_no_trailers(connection: Any, stream: int, asked: list[tuple[str, str]]) -> None:  # noqa: ANN401 # h2's
    connection.send_headers(stream, GRPC)
    connection.send_data(stream, b"\0\0\0\0\2\x08\1", end_stream=True)


@pytest.mark.parametrize(
    ("act", "code", "text"),
    [
        (lambda _c, _stream, _asked: None, "Unavailable", "error reading from server: EOF"),
        (lambda c, stream, _: c.send_headers(stream, WEB, end_stream=True), "Unimplemented",
         "unexpected HTTP status code received from server: 404 (Not Found); "
         'transport: received unexpected content-type "text/html"'),
        (lambda c, stream, _: c.reset_stream(stream, 7), "Unavailable",
         "stream terminated by RST_STREAM with error code: REFUSED_STREAM"),
        (lambda c, _stream, _asked: c.close_connection(0), "Unavailable",
         'closing transport due to: connection error: desc = "error reading from server: EOF", '
         'received prior goaway: code: NO_ERROR, debug data: ""'),
        (_has_no_trailers, "Internal", "server closed the stream without sending trailers"),
    ],
)  # fmt: skip
def test_what_is_no_answer_has_the_words_of_grpc_go(act: Act, code: str, text: str) -> None:
    with serve(speaks(act, then="closes")) as server:
        attempt = probe(server.port)
    assert attempt.exchanges[0].received == (f"code: {code}", f"message: {text}")
    assert attempt.execution.text.endswith(text)


LAST = 0x7FFFFFFF
"""Of the first of two GOAWAYs: all streams."""
AFTER_GOAWAY = (
    'message: closing transport due to: connection error: desc = "error reading from server: EOF", '
    'received prior goaway: code: {}, debug data: "bye"'
)


def goaway(last: int, code: int = 0) -> bytes:
    return struct.pack(">xHBBIII", 11, 7, 0, 0, last, code) + b"bye"


def sends(*frames: bytes | None, in_pieces: bool = False) -> Habit:
    """Sends these frames, a healthy reply's for None, then closes; each byte by itself or all."""
    import h2.config
    import h2.connection

    def habit(sock: socket.socket, head: bytes, over: threading.Event) -> None:
        config = h2.config.H2Configuration(client_side=False)
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        sock.sendall(connection.data_to_send())
        connection.receive_data(head)
        while connection.highest_inbound_stream_id < 1:
            connection.receive_data(sock.recv(65536))
        connection.data_to_send()
        connection.send_headers(1, GRPC)
        connection.send_data(1, b"\0\0\0\0\2\x08\1")
        connection.send_headers(1, [("grpc-status", "0")], end_stream=True)
        reply = connection.data_to_send()
        data = b"".join(reply if frame is None else frame for frame in frames)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), 1 if in_pieces else len(data)):
            sock.sendall(data[at : at + 1] if in_pieces else data)

    return habit


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    "frames",
    [(goaway(1), None), (None, goaway(1)), (goaway(LAST), goaway(1), None)],
    ids=["before", "after", "twice"],
)
def test_a_graceful_goaway_leaves_the_call_alone(
    frames: tuple[bytes | None, ...], in_pieces: bool
) -> None:
    """The server answers the streams up to the last that it names."""
    with serve(sends(*frames, in_pieces=in_pieces)) as server:
        attempt = probe(server.port)
    assert attempt.execution.text == "service healthy"


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ((goaway(1),), "NO_ERROR"),
        ((goaway(0), None), "NO_ERROR"),
        ((goaway(LAST), goaway(0), None), "NO_ERROR"),
        ((goaway(1, 2), None), "INTERNAL_ERROR"),
        ((goaway(1), goaway(1, 11), None), "ENHANCE_YOUR_CALM"),
    ],
    ids=["no reply", "stream not taken", "then not taken", "error", "then an error"],
)
def test_another_goaway_ends_the_call(frames: tuple[bytes | None, ...], code: str) -> None:
    with serve(sends(*frames)) as server:
        attempt = probe(server.port)
    assert attempt.execution.outcome == "failure"
    assert attempt.exchanges[0].received == ("code: Unavailable", AFTER_GOAWAY.format(code))


@pytest.mark.parametrize(
    ("left_ns", "header"),
    [
        (1, "1u"),
        (1_000_000_000, "1000000u"),
        (99_999_999_000, "99999999u"),
        (99_999_999_001, "100000m"),
        (300_000_000_001, "300001m"),
        (99_999_999_000_000, "99999999m"),
        (99_999_999_000_001, "100000S"),
        (2**31 * 10**9, "35791395M"),
    ],
)
def test_a_timeout_has_at_most_eight_digits(left_ns: int, header: str) -> None:
    """Rounded up, as grpc-go does."""
    assert _timeout(left_ns) == header


@pytest.mark.parametrize(("version", "asks"), [("1.24.0", True), ("1.28.0", False)])
def test_a_proxy_was_asked_before_1_27(version: str, asks: bool) -> None:
    with health(says(b"\x08\x01")) as server:
        target = pod_target(pod({"name": "app", "livenessProbe": {"grpc": {"port": server.port}}}))
        plans = probe_plans(target, resolve(version))
        (series,) = run_series(target, plans, version, {})
    assert series.ticks[0].text == "service healthy"
    assert ("proxy" in {each.what for each in series.differences}) == asks
