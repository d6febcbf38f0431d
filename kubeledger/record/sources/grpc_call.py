"""One unary call of gRPC over a unix socket, on HTTP/2 by ``h2``."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from kubeledger.record.sources.snapshots import CONTENT_BYTES_MAX

__all__ = ["CallError", "call"]

_READ_BYTES = 64 << 10
_HEAD = struct.Struct(">?I")
_STATUS_OK = 0
_STATUS_UNIMPLEMENTED = 12
_STATUSES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
_SHOWN = 200


class CallError(Exception):
    """There is no answer; the text says why."""


def call(path: Path, method: str, request: bytes, timeout_s: float) -> bytes:
    """The message that a method answers.

    Args:
        path: of the socket.
        method: ``/PACKAGE.SERVICE/METHOD``.
        request: the message.
        timeout_s: for all of it.

    Raises:
        CallError: there is none.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            return _Call(connected, timeout_s).made(path, method, request)
    except TimeoutError:
        raise CallError("no answer in time") from None
    except OSError as error:
        raise CallError(f"no connection to {path}: {error.strerror or error}") from None
    except ProtocolError as error:
        raise CallError(f"not spoken as HTTP/2: {error}") from None


class _Call:
    """A call under way."""

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        self._socket = connected
        self._end = time.monotonic() + timeout_s
        self._http = H2Connection(H2Configuration(client_side=True))
        self._answer = bytearray()
        self._status: int | None = None
        self._message = b""
        self._ended = False

    def made(self, path: Path, method: str, request: bytes) -> bytes:
        self._wait()
        self._socket.connect(str(path))
        http = self._http
        http.initiate_connection()
        stream = http.get_next_available_stream_id()
        http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            ],
        )
        http.send_data(stream, _HEAD.pack(False, len(request)) + request, end_stream=True)
        while not self._ended:
            self._wait()
            self._socket.sendall(http.data_to_send())
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise CallError("the answer ends in the middle")
            for event in http.receive_data(data):
                self._take(event)
        return self._content()

    def _wait(self) -> None:
        """Let the next step take the time that is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived() | TrailersReceived():
                headers = dict(event.headers or ())
                status = headers.get(b":status", b"200")
                if status != b"200":
                    raise CallError(f"answered {status.decode('ascii', 'replace')}")
                if headers.get(b"grpc-status", b"").isdigit():
                    self._status = int(headers[b"grpc-status"])
                self._message = headers.get(b"grpc-message", self._message)
            case DataReceived():
                self._answer += event.data or b""
                if len(self._answer) > CONTENT_BYTES_MAX:
                    raise CallError(f"the answer is larger than {CONTENT_BYTES_MAX} bytes")
                self._http.acknowledge_received_data(
                    event.flow_controlled_length or 0, event.stream_id or 0
                )
            case StreamEnded():
                self._ended = True
            case StreamReset() | ConnectionTerminated():
                raise CallError(f"the answer breaks off: {event.error_code!r}")
            case _:
                pass

    def _content(self) -> bytes:
        """The message without what gRPC puts before it."""
        if self._status == _STATUS_UNIMPLEMENTED:
            raise CallError("this kubelet does not answer it")
        if self._status is None:
            raise CallError("the answer has no status")
        if self._status != _STATUS_OK:
            known = self._status < len(_STATUSES)
            name = _STATUSES[self._status] if known else f"status {self._status}"
            message = unquote(self._message.decode("ascii", "replace"))
            raise CallError(f"{name}: {' '.join(message.split())[:_SHOWN]}")
        if len(self._answer) < _HEAD.size:
            raise CallError("the answer holds no message")
        is_packed, size = _HEAD.unpack_from(self._answer)
        if is_packed or size != len(self._answer) - _HEAD.size:
            raise CallError("the answer holds another message than was asked for")
        return bytes(self._answer[_HEAD.size :])
