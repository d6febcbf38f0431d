"""Replies of HTTP/2, for servers that choose it over TLS. Needs h2."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from kubeledger.kubelet.prober.httpget import HTTPRequest
from kubeledger.probe.attempt import TransportError
from kubeledger.probe.http1 import BodyError, Stream

_STREAM: Final = 1
_FRAME_HEAD: Final = 9


def offered_protocols() -> list[str]:
    """What is offered by ALPN: as the kubelet does, where h2 is installed."""
    return ["h2", "http/1.1"] if find_spec("h2") else ["http/1.1"]


class HTTP2Reply:
    """A reply, read as far as asked; as ``http1.Reply``.

    Attributes:
        status: its code.
        head: its lines, the status first.
        whole: True when the body that was read is all of it.
    """

    def __init__(self, stream: Stream, request: HTTPRequest, began: Callable[[], None]) -> None:
        """Send the request and read the head; ``began`` is called once with its first byte.

        Raises:
            TransportError: no valid head; with Go's text.
        """
        import h2.connection

        self._stream = stream
        self._connection = h2.connection.H2Connection()
        self._frames = bytearray()
        self._buffer = bytearray()
        self._goaway = ""
        self.status = 0
        self.head: tuple[str, ...] = ()
        self.whole = False
        self._connection.initiate_connection()
        self._connection.send_headers(_STREAM, request.fields, end_stream=True)
        stream.send(self._connection.data_to_send())
        while not self.status:
            self._step()
        began()

    def body(self, bytes_max: int) -> bytes:
        """The body's first bytes.

        Raises:
            BodyError: it breaks off before.
        """
        try:
            while len(self._buffer) < bytes_max and not self.whole:
                self._step()
        except TransportError as error:
            raise BodyError("" if error.timed_out else error.text) from None
        self.whole = self.whole and len(self._buffer) <= bytes_max
        return bytes(self._buffer[:bytes_max])

    def _step(self) -> None:
        """Read one frame: what a later one breaks does not touch what this one says."""
        import h2.exceptions

        try:
            events = self._connection.receive_data(self._frame())
        except h2.exceptions.InvalidBodyLengthError:
            raise TransportError("unexpected EOF") from None
        except h2.exceptions.ProtocolError as error:
            raise TransportError(f"http2: {error}") from None
        self._stream.send(self._connection.data_to_send())
        for event in events:
            self._take(event)

    def _frame(self) -> bytes:
        while (size := self._frame_size()) is None or len(self._frames) < size:
            data = self._stream.receive()
            if not data:
                raise TransportError(self._goaway or "unexpected EOF")
            self._frames += data
        frame = bytes(self._frames[:size])
        del self._frames[:size]
        return frame

    def _frame_size(self) -> int | None:
        """Its head says the length of what follows; None until it is there."""
        if len(self._frames) < _FRAME_HEAD:
            return None
        return _FRAME_HEAD + int.from_bytes(self._frames[:3])

    def _take(self, event: object) -> None:
        from h2 import events

        match event:
            case events.ResponseReceived():
                pairs = [(_text(name), _text(value)) for name, value in event.headers or ()]
                self.head = tuple(f"{name}: {value}" for name, value in pairs)
                self.status = int(dict(pairs)[":status"])
            case events.DataReceived():
                self._buffer += event.data or b""
            case events.StreamEnded():
                self.whole = True
            case events.StreamReset():
                code = _code_name(event.error_code)
                raise TransportError(
                    f"stream error: stream ID {_STREAM}; {code}; received from peer"
                )
            case events.ConnectionTerminated():
                debug = _text(event.additional_data or b"")
                self._goaway = (
                    "http2: server sent GOAWAY and closed the connection; "
                    f"LastStreamID={event.last_stream_id}, "
                    f'ErrCode={_code_name(event.error_code)}, debug="{debug}"'
                )
            case _:
                pass


def _code_name(code: object) -> str:
    return str(getattr(code, "name", None) or f"unknown error code 0x{code:x}")


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")
