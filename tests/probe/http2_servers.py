"""Habits of HTTP/2 servers; for ``servers.serve`` with a context that offers ``h2``."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.probe.servers import Habit
from tests.waiting import PATIENCE_S

Act = Callable[[Any, int, list[tuple[str, str]]], None]
"""Gets the connection of h2, the stream and the request's headers."""


def speaks(act: Act, *, then: str = "waits") -> Habit:
    """Answers the first request by ``act``; then waits until the test ends, or closes."""
    import h2.config
    import h2.connection
    import h2.events

    def habit(sock: socket.socket, head: bytes, over: threading.Event) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        sock.sendall(connection.data_to_send())
        data = head
        while data:
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    assert event.stream_id is not None
                    act(
                        connection,
                        event.stream_id,
                        [(str(n), str(v)) for n, v in event.headers or ()],
                    )
                    sock.sendall(connection.data_to_send())
                    if then == "closes":
                        return
                    over.wait(PATIENCE_S)
                    return
            sock.sendall(connection.data_to_send())
            data = sock.recv(65536)

    return habit
