"""Servers on loopback, each with one habit; they serve few connections and end with a test."""

import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

from kubeledger.probe.dial import Connection
from tests.waiting import PATIENCE_S, until

CONNECTIONS_MAX = 24

Habit = Callable[[socket.socket, bytes, threading.Event], None]
"""Gets the connection, the head of the request as it came, and an event set when the test ends."""


class Over(threading.Event):
    """Set when the test ends; who waits for that has said all it says.

    Attributes:
        silent: set when a server waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.silent = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Until the test ends."""
        self.silent.set()
        return super().wait(timeout)


def unhurried(
    monkeypatch: pytest.MonkeyPatch,
    silent: threading.Event,
    goes: Callable[[], bool] = lambda: False,
) -> None:
    """Let a probe's timeout count only what is to take long, on the slowest machine.

    Args:
        monkeypatch: of the test.
        silent: until this is set, whoever reads waits for what comes.
        goes: the clock stands still until then; each wait takes as long as what is left.
    """
    began_ns, since_ns, receive = time.monotonic_ns(), list[int](), Connection.receive

    def now_ns() -> int:
        if not since_ns and goes():
            since_ns.append(time.monotonic_ns())
        return began_ns + (time.monotonic_ns() - since_ns[0] if since_ns else 0)

    def patiently(connection: Connection, *, at_most_ns: int | None = None) -> bytes:
        sock = [connection._socket]
        until(lambda: silent.is_set() or select.select(sock, [], [], 0)[0])
        return receive(connection, at_most_ns=at_most_ns)

    monkeypatch.setattr("kubeledger.probe.attempt.time", SimpleNamespace(monotonic_ns=now_ns))
    monkeypatch.setattr(Connection, "receive", patiently)


class Server:
    """A server and what it was sent.

    Attributes:
        port: on 127.0.0.1.
        heads: the head of each request, in order of arrival.
        silent: set when it has said all it says, while the connection stays open.
    """

    def __init__(self, habit: Habit, context: ssl.SSLContext | None, family: int) -> None:
        self._listener = socket.create_server(
            ("::1" if family == socket.AF_INET6 else "127.0.0.1", 0),
            family=socket.AddressFamily(family),
        )
        self._listener.settimeout(PATIENCE_S)
        self._habit = habit
        self._context = context
        self._over = Over()
        self.silent = self._over.silent
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.heads: list[bytes] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        for _ in range(CONNECTIONS_MAX):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        with suppress(OSError), connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                head = _head(connection)
                self.heads.append(head)
                self._habit(connection, head, self._over)


def _head(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and len(received) < 65536:
        piece = connection.recv(4096)
        received += piece
        if not piece or received.startswith(b"\x16"):  # what a TLS client says first
            break
    return received


@contextmanager
def serve(
    habit: Habit, *, context: ssl.SSLContext | None = None, family: int = socket.AF_INET
) -> Iterator[Server]:
    server = Server(habit, context, family)
    try:
        yield server
    finally:
        server.close()


def says(data: bytes, *, then_hangs: bool = False) -> Habit:
    """Sends these bytes, then closes, or keeps silent until the test ends."""

    def habit(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        connection.sendall(data)
        if then_hangs:
            over.wait(PATIENCE_S)

    return habit


def answers(status: str, body: bytes = b"", *headers: str, keep_alive: bool = False) -> Habit:
    """Answers properly: ``answers("200 OK", b"fine", "X-A: 1")``."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return says("\r\n".join(lines).encode() + b"\r\n\r\n" + body, then_hangs=keep_alive)


def hangs(connection: socket.socket, head: bytes, over: threading.Event) -> None:
    over.wait(PATIENCE_S)


def resets(connection: socket.socket, head: bytes, over: threading.Event) -> None:
    """Closes with a reset instead of an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@contextmanager
def full_listener() -> Iterator[int]:
    """A port that answers no further connection: its backlog is full, and nobody accepts."""
    listener = socket.socket()
    waiting = [socket.socket() for _ in range(3)]
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for each in waiting:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(listener.getsockname())
        yield listener.getsockname()[1]
    finally:
        for each in (listener, *waiting):
            each.close()
