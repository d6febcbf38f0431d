"""A kubelet's stand-in: what a recording holds, served over HTTPS and gRPC as a kubelet does.

It can be silent, break off in the middle, ask for a token, answer with an error. It listens on
loopback and on sockets only, and ends with the test.
"""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.json_format import ParseDict

from tests.certificates import Certificate
from tests.record.podresources_pb import SERVICE, message_type
from tests.waiting import PATIENCE_S

SILENCE = object()
"""Instead of an answer: nothing comes."""
Answer = Any
"""A message in protobuf's JSON, ``SILENCE``, or a status of gRPC."""
_MESSAGES = {"List": "ListPodResources", "GetAllocatableResources": "AllocatableResources"}

_FILES = {
    "configz.json": "/configz",
    "metrics-probes.txt": "/metrics/probes",
    "metrics.txt": "/metrics",
    "pods.json": "/pods",
    "stats-summary.json": "/stats/summary",
}


class Asked(NamedTuple):
    """A request that came."""

    path: str
    token: str | None


def answers_of(snapshot: Path) -> dict[str, bytes]:
    """Path -> content of a directory of a recording (``snapshots/TIME``)."""
    return {
        path: (snapshot / name).read_bytes()
        for name, path in _FILES.items()
        if (snapshot / name).exists()
    }


class Standin:
    """What it answers; all of it may be changed while it serves.

    Attributes:
        url: where it listens.
        answers: path -> content.
        token: that a request must bring; None: none.
        statuses: path -> status of an error.
        silent: paths that are not answered.
        half: paths of which half of the content is sent.
        asked: what was asked for, in this order.
    """

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self.url = ""
        self.answers = dict(answers)
        self.token: str | None = None
        self.statuses: dict[str, int] = {}
        self.silent: set[str] = set()
        self.half: set[str] = set()
        self.asked: list[Asked] = []
        self.ended = threading.Event()

    def paths(self) -> list[str]:
        """What was asked for since the last time."""
        paths = [each.path for each in self.asked]
        self.asked.clear()
        return paths


@contextmanager
def serve_kubelet(standin: Standin, certificate: Certificate, port: int = 0) -> Iterator[Standin]:
    """Let it serve on a port of loopback; 0: any that is free."""
    server = _Server(("127.0.0.1", port), _handler(standin))
    # Handshakes take place where a request is handled, so that one cannot hold up the others.
    server.socket = certificate.context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    standin.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield standin
    finally:
        standin.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # all are joined as the server is closed

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away, or does not trust the certificate, is what a test wants."""


def _handler(standin: Standin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE_S

        def do_GET(self) -> None:
            scheme, _, token = (self.headers["Authorization"] or "").partition(" ")
            standin.asked.append(Asked(self.path, token if scheme == "Bearer" else None))
            if self.path in standin.silent:
                standin.ended.wait(PATIENCE_S)
                self.close_connection = True
                return
            if standin.token is not None and token != standin.token:
                self._answer(401, b"Unauthorized")
            elif self.path in standin.statuses:
                self._answer(standin.statuses[self.path], b"Forbidden (user=recorder)")
            elif self.path not in standin.answers:
                self._answer(404, b"404 page not found\n")
            else:
                self._answer(200, standin.answers[self.path])

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.path in standin.half:
                content = content[: len(content) // 2]
                self.close_connection = True
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is written."""

    return Handler


@contextmanager
def serve_pod_resources(socket: Path, answers: Mapping[str, Answer]) -> Iterator[None]:
    """The pod-resources API over a socket.

    Args:
        socket: path of it.
        answers: method -> message in protobuf's JSON, or what is to happen instead; methods that
            are missing are not known to the kubelet.
    """
    ended = threading.Event()

    def handler(method: str) -> grpc.RpcMethodHandler:
        def answer(request: object, context: grpc.ServicerContext) -> object:
            told = answers[method]
            if told is SILENCE:
                ended.wait(PATIENCE_S)
                context.abort(grpc.StatusCode.CANCELLED, "over")
            if isinstance(told, grpc.StatusCode):
                context.abort(told, "no such\nthing")
            return ParseDict(told, message_type(_MESSAGES[method] + "Response")())

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=message_type(_MESSAGES[method] + "Request").FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    methods = {method: handler(method) for method in answers}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        ended.set()
        server.stop(0).wait(PATIENCE_S)
