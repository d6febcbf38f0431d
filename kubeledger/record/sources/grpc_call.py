"""One unary call of gRPC over a connection, on HTTP/2 by ``h2``; and messages of protobuf."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from kubeledger.record.sources.state_files import CONTENT_BYTES_MAX

# Reading protobuf messages (proto3) by a table of their fields, as protobuf's JSON has them.
#
# Protobuf's own library and gRPC's take 20 MiB, a third of what a recorder may use; what one
# kubelet
# answers to two questions needs neither.

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BITS_MAX = 64
_DEPTH_MAX = 16
_DEFAULTS = {"string": "", "int": "0"}


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        kind: ``string``, ``int`` (a varint; decimal text in JSON, as 64 bits are), or a message.
    """

    number: int
    name: str
    kind: str
    repeated: bool = False


Messages = Mapping[str, tuple[Field, ...]]
"""By name."""


def messages_of(table: str) -> Messages:
    """Messages that are told as ``NAME NUMBER NAME KIND, ...``, a line each; ``*``: repeated."""
    rows = (line.split(maxsplit=1) for line in table.split("\n") if line)
    return {message: tuple(map(_field, fields.split(","))) for message, fields in rows}


def _field(text: str) -> Field:
    number, name, kind = text.split()
    return Field(int(number), name, kind.removesuffix("*"), kind.endswith("*"))


def decode(messages: Messages, message: str, data: bytes) -> dict[str, Any]:
    """A message as JSON; fields without a value have their default, messages are left out.

    Raises:
        ValueError: the bytes are not such a message.
    """
    return _decode(messages, message, memoryview(data), _DEPTH_MAX)


def _decode(messages: Messages, message: str, data: memoryview, depth: int) -> dict[str, Any]:
    if depth == 0:
        raise ValueError("messages are nested too deep")
    fields = {field.number: field for field in messages[message]}
    found: dict[str, Any] = {
        field.name: [] if field.repeated else _DEFAULTS[field.kind]
        for field in fields.values()
        if field.repeated or field.kind in _DEFAULTS
    }
    for number, value in _values(data):
        field = fields.get(number)
        if field is None:  # of a newer version
            continue
        values = _of_kind(messages, field, value, depth)
        if field.repeated:
            found[field.name] += values
        elif values:
            found[field.name] = values[-1]
    return found


def _of_kind(messages: Messages, field: Field, value: int | memoryview, depth: int) -> list[Any]:
    """The values that one entry holds: numbers may be packed."""
    if field.kind == "int":
        numbers = [value] if isinstance(value, int) else list(_packed(value))
        return [str(each - 2**64 if each >= 2**63 else each) for each in numbers]
    if isinstance(value, int):  # of another type, so of another version
        return []
    if field.kind == "string":
        return [bytes(value).decode("utf-8")]
    return [_decode(messages, field.kind, value, depth - 1)]


def _values(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number of a field, and a number or bytes; none of ours is of fixed width."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif form == _BYTES:
            size, position = _varint(data, position)
            if size > len(data) - position:
                raise ValueError("a field ends after its message")
            yield number, data[position : position + size]
            position += size
        elif form in _FIXED_BYTES:
            position += _FIXED_BYTES[form]
        else:
            raise ValueError(f"a field of unknown form {form}")


def _packed(data: memoryview) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS_MAX, 7):
        if position >= len(data):
            raise ValueError("it ends in the middle of a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number has more than 64 bits")


_STREAM = 1
_HEAD = struct.Struct(">?I")
_FRAME_HEAD = 9
_TYPE = 3
"""Where a frame's head has it."""
_GOAWAY = 0x07
_UNKNOWN = 0xFF
_GOAWAY_FIELDS = struct.Struct(">5xIII")
"""The frame's stream, the last stream that the server takes, the error code."""
_STREAM_BITS = 0x7FFFFFFF
_CODES = (
    *("OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound"),
    *("AlreadyExists", "PermissionDenied", "ResourceExhausted", "FailedPrecondition"),
    *("Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss"),
    "Unauthenticated",
)
_CODE_OF_HTTP: dict[int, str] = {
    HTTPStatus.BAD_REQUEST: "Internal",
    HTTPStatus.UNAUTHORIZED: "Unauthenticated",
    HTTPStatus.FORBIDDEN: "PermissionDenied",
    HTTPStatus.NOT_FOUND: "Unimplemented",
    HTTPStatus.TOO_MANY_REQUESTS: "Unavailable",
    HTTPStatus.BAD_GATEWAY: "Unavailable",
    HTTPStatus.SERVICE_UNAVAILABLE: "Unavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Unavailable",
}
_CODE_OF_RESET: dict[int | None, str] = {
    ErrorCodes.CANCEL: "Canceled",
    ErrorCodes.ENHANCE_YOUR_CALM: "ResourceExhausted",
    ErrorCodes.FLOW_CONTROL_ERROR: "ResourceExhausted",
    ErrorCodes.INADEQUATE_SECURITY: "PermissionDenied",
    ErrorCodes.REFUSED_STREAM: "Unavailable",
}


class GRPCStatusError(Exception):
    """A call that came to a status instead of a message.

    Attributes:
        code: as Go names it: ``NotFound``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Stream(Protocol):
    """A connection; its own errors are passed on."""

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes: ...


class UnaryCall:
    """The only call of a connection."""

    def __init__(self, stream: Stream) -> None:
        """Wait until the server has shown that it speaks HTTP/2.

        Raises:
            GRPCStatusError: it closed the connection, or speaks something else.
        """
        self._stream = stream
        self._http = H2Connection()
        self._held = bytearray()
        self._goaway: bytes | None = None
        self._answer = bytearray()
        self._status: int | None = None
        self._message = b""
        self._ended = self._is_http2 = self._called = False
        self._http.initiate_connection()
        while not self._is_http2:
            self._step("error reading server preface")

    def made(self, authority: str, method: str, request: bytes, *headers: tuple[str, str]) -> bytes:
        """The message that a method answers.

        Args:
            method: ``/PACKAGE.SERVICE/METHOD``.

        Raises:
            GRPCStatusError: there is none.
        """
        fields = [
            *((":method", "POST"), (":scheme", "http"), (":path", method)),
            *((":authority", authority), ("content-type", "application/grpc"), ("te", "trailers")),
            *headers,
        ]
        self._http.send_headers(_STREAM, fields)
        self._http.send_data(_STREAM, _HEAD.pack(False, len(request)) + request, end_stream=True)
        self._called = True
        while not self._ended:
            self._step("error reading from server")
        return self._content()

    def _step(self, doing: str) -> None:
        self._stream.send(self._http.data_to_send())
        data = self._stream.receive()
        if not data:
            if self._goaway is not None:
                raise _ended_by_goaway(ErrorCodes.NO_ERROR, self._goaway)
            raise GRPCStatusError("Unavailable", f"{doing}: EOF")
        try:
            events = self._http.receive_data(self._frames(data))
        except ProtocolError as error:
            raise GRPCStatusError("Unavailable", f"{doing}: {error}") from None
        for event in events:
            self._take(event)
        self._stream.send(self._http.data_to_send())

    def _frames(self, data: bytes) -> bytes:
        """The frames that are whole by now; a graceful GOAWAY becomes one that h2 passes over.

        After a GOAWAY h2 takes nothing more; the server still answers the streams it has taken.

        Source: grpc-go internal/transport http2_client.go handleGoAway
        """
        self._held += data
        frames = bytearray()
        while len(self._held) >= _FRAME_HEAD:
            size = _FRAME_HEAD + int.from_bytes(self._held[:_TYPE])
            if len(self._held) < size:
                break
            frame = self._held[:size]
            del self._held[:size]
            if frame[_TYPE] == _GOAWAY and self._called and _is_graceful(frame):
                frame[_TYPE] = _UNKNOWN
                self._goaway = bytes(frame[_GOAWAY_FIELDS.size :])
            frames += frame
            if frame[_TYPE] == _GOAWAY:
                break  # nothing counts after it
        return bytes(frames)

    def _take(self, event: Event) -> None:
        """Source: grpc-go internal/transport http2_client.go operateHeaders, handleRSTStream."""
        match event:
            case RemoteSettingsChanged():
                self._is_http2 = True
            case ResponseReceived() | TrailersReceived():
                headers = dict(event.headers or ())
                if isinstance(event, ResponseReceived):
                    _check_head(headers)
                if headers.get(b"grpc-status", b"").isdigit():
                    self._status = int(headers[b"grpc-status"])
                self._message = headers.get(b"grpc-message", self._message)
            case DataReceived():
                self._answer += event.data or b""
                if len(self._answer) > CONTENT_BYTES_MAX:
                    text = f"the answer is larger than {CONTENT_BYTES_MAX} bytes"
                    raise GRPCStatusError("ResourceExhausted", text)
                size_bytes = event.flow_controlled_length or 0
                self._http.acknowledge_received_data(size_bytes, _STREAM)
            case StreamEnded():
                self._ended = True
            case StreamReset():
                text = f"stream terminated by RST_STREAM with error code: {_name(event.error_code)}"
                code = _CODE_OF_RESET.get(event.error_code, "Internal")
                raise GRPCStatusError(code, text)
            case ConnectionTerminated():
                raise _ended_by_goaway(event.error_code, event.additional_data or b"")
            case _:
                pass

    def _content(self) -> bytes:
        """The message without what gRPC puts before it."""
        if self._status is None:
            text = "server closed the stream without sending trailers"
            raise GRPCStatusError("Internal", text)
        if self._status:
            known = self._status < len(_CODES)
            code = _CODES[self._status] if known else f"Code({self._status})"
            raise GRPCStatusError(code, unquote(self._message.decode("ascii", "replace")))
        if len(self._answer) < _HEAD.size:
            raise GRPCStatusError("Internal", "the answer holds no message")
        is_packed, size = _HEAD.unpack_from(self._answer)
        if is_packed or size != len(self._answer) - _HEAD.size:
            raise GRPCStatusError("Internal", "the answer is packed, or holds several messages")
        return bytes(self._answer[_HEAD.size :])


def _check_head(headers: dict[bytes, bytes]) -> None:
    status = int(headers[b":status"])
    kind = headers.get(b"content-type")
    wrong = []
    if status != HTTPStatus.OK:
        known = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        wrong.append(f"unexpected HTTP status code received from server: {status} ({known})")
    if kind is None:
        wrong.append("malformed header: missing HTTP content-type")
    elif not kind.startswith(b"application/grpc"):
        shown = kind.decode("utf-8", "replace")
        wrong.append(f'transport: received unexpected content-type "{shown}"')
    if wrong:
        raise GRPCStatusError(_CODE_OF_HTTP.get(status, "Unknown"), "; ".join(wrong))


def _is_graceful(goaway: bytearray) -> bool:
    """No error, and the call is among the streams that the server takes."""
    if len(goaway) < _GOAWAY_FIELDS.size:
        return False
    stream, last, code = (int(field) for field in _GOAWAY_FIELDS.unpack_from(goaway))
    is_connection = not stream & _STREAM_BITS
    return is_connection and (last & _STREAM_BITS) >= _STREAM and code == ErrorCodes.NO_ERROR


def _ended_by_goaway(code: object, debug: bytes) -> GRPCStatusError:
    return GRPCStatusError(
        "Unavailable",
        'closing transport due to: connection error: desc = "error reading from server: EOF", '
        f"received prior goaway: code: {_name(code)}, "
        f'debug data: "{debug.decode("utf-8", "replace")}"',
    )


def _name(code: object) -> str:
    return str(getattr(code, "name", None) or f"unknown error code {code!r}")
