"""Replies of HTTP/1 and HTTP/2 as Go reads them, with Go's errors for malformed ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final, Protocol

from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.prober.httpget import BAD_VALUE, HTTPRequest
from kubeledger.kubelet.prober.prober import BROKEN
from kubeledger.probe.attempt import TransportError

_HEAD_BYTES_MAX: Final = 10 * 1024 * 1024
_VERSION: Final = re.compile(r"HTTP/[0-9]\.[0-9]")
_STATUS: Final = re.compile(r"[0-9]{3}|[+][0-9]{2}|-00")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z -]+")
_LENGTH: Final = re.compile(r"[0-9]+")
_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]+")
_CHUNK_LINE_MAX: Final = 4096
_BODILESS: Final = (204, 304)


class Stream(Protocol):
    """A connection, with or without TLS."""

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes: ...

    def close(self) -> None: ...


class BodyError(Exception):
    """The body cannot be read; Go's text, or empty when the time was over."""


class Reply:
    """A reply, read as far as asked.

    Attributes:
        whole: True when the body that was read is all of it.
    """

    def __init__(self, stream: Stream, began: Callable[[], None]) -> None:
        """Read the head; ``began`` is called once with the first byte.

        Raises:
            TransportError: no valid head; with Go's text.
        """
        self._stream = stream
        self._buffer = bytearray()
        self._read = 0
        self.whole = False
        first = stream.receive()
        if not first:
            raise TransportError("EOF")
        self._buffer += first
        began()
        self._length: int | str = 0
        self.status, self.head = self._final_head()

    def body(self, bytes_max: int) -> bytes:
        """The body's first bytes.

        Raises:
            BodyError: it breaks off before.
        """
        try:
            if self._length == "chunked":
                return self._chunks(bytes_max)
            if self._length == "close":
                return self._until_close(bytes_max)
            return self._counted(int(self._length), bytes_max)
        except TransportError as error:
            raise BodyError("" if error.timed_out else error.text) from None

    def _final_head(self) -> tuple[int, tuple[str, ...]]:
        """The head after those of 1xx replies, which are passed over."""
        while True:
            status, lines = self._one_head()
            self._length = _length_of_body(status, lines)
            if status == 101 or not 100 <= status < 200:
                return status, lines

    def _one_head(self) -> tuple[int, tuple[str, ...]]:
        line = self._line()
        version, space, rest = line.partition(" ")
        if not space:
            raise _broken(f"malformed HTTP response {quoted(line)}")
        code = rest.lstrip(" ").partition(" ")[0]
        if not _STATUS.fullmatch(code):
            raise _broken(f"malformed HTTP status code {quoted(code)}")
        if not _VERSION.fullmatch(version):
            raise _broken(f"malformed HTTP version {quoted(version)}")
        return int(code), (line, *self._headers())

    def _headers(self) -> list[str]:
        """Lines of headers; one that begins with a space goes on with the one before it."""
        headers: list[str] = []
        while (line := self._line_after(headers)) != "":
            if line[0] not in " \t":
                if ":" not in line:
                    raise _broken(f"malformed MIME header: missing colon: {quoted(line)}")
                headers.append(line.strip(" \t"))
            elif headers:
                headers[-1] += " " + line.strip(" \t")
            else:
                raise _broken(f"malformed MIME header initial line: {line}")
        return headers

    def _line_after(self, headers: list[str]) -> str:
        """The next line; unless it goes on with the last header, that one is checked first."""
        line, broken = "", None
        try:
            line = self._line()
        except TransportError as error:
            if error.timed_out:
                raise
            broken = error
        if headers and line[:1] not in (" ", "\t"):
            _check_header(headers[-1])
        if broken is not None:
            raise broken
        return line

    def _line(self) -> str:
        """A line without its end; at the end of the stream what is there counts as one."""
        while (end := self._buffer.find(b"\n")) < 0:
            if self._read + len(self._buffer) > _HEAD_BYTES_MAX:
                text = (
                    f"net/http: server response headers exceeded {_HEAD_BYTES_MAX} bytes; aborted"
                )
                raise _broken(text)
            try:
                more = self._stream.receive()
            except TransportError as error:
                if error.timed_out or not self._buffer:
                    raise error if error.timed_out else _broken(error.text) from None
                more = b""
            if not more:
                if not self._buffer:
                    raise _broken("unexpected EOF")
                return self._taken(len(self._buffer))
            self._buffer += more
        line = self._taken(end + 1)
        return line.removesuffix("\n").removesuffix("\r")

    def _taken(self, count: int) -> str:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._read += count
        return data.decode("utf-8", "surrogateescape")

    def _counted(self, length: int, bytes_max: int) -> bytes:
        wanted = min(length, bytes_max)
        self._fill(wanted)
        self.whole = length <= bytes_max
        return bytes(self._buffer[:wanted])

    def _until_close(self, bytes_max: int) -> bytes:
        while len(self._buffer) < bytes_max:
            more = self._stream.receive()
            if not more:
                self.whole = True
                break
            self._buffer += more
        return bytes(self._buffer[:bytes_max])

    def _chunks(self, bytes_max: int) -> bytes:
        body = bytearray()
        while len(body) < bytes_max:
            size = self._chunk_size()
            if size == 0:
                self.whole = True
                break
            self._fill(min(size, bytes_max - len(body)))
            body += self._buffer[: min(size, bytes_max - len(body))]
            if len(body) >= bytes_max:
                break
            self._fill(size + 2)
            if self._buffer[size : size + 2] != b"\r\n":
                raise BodyError("malformed chunked encoding")
            del self._buffer[: size + 2]
        return bytes(body)

    def _chunk_size(self) -> int:
        while (end := self._buffer.find(b"\n", 0, _CHUNK_LINE_MAX)) < 0:
            if len(self._buffer) >= _CHUNK_LINE_MAX:
                raise BodyError("header line too long")
            self._fill(len(self._buffer) + 1)
        if self._buffer[end - 1 : end] != b"\r":
            raise BodyError("chunked line ends with bare LF")
        line = bytes(self._buffer[:end]).rstrip(b"\r \t").partition(b";")[0].rstrip(b" \t")
        del self._buffer[: end + 1]
        if not _CHUNK_SIZE.fullmatch(line):
            text = (
                "empty hex number for chunk length" if not line else "invalid byte in chunk length"
            )
            raise BodyError(text)
        if len(line) > 16:
            raise BodyError("http chunk length too large")
        return int(line, 16)

    def _fill(self, count: int) -> None:
        while len(self._buffer) < count:
            more = self._stream.receive()
            if not more:
                raise BodyError("unexpected EOF")
            self._buffer += more


def _length_of_body(status: int, head: tuple[str, ...]) -> int | str:
    """How long the body is: bytes, ``chunked``, or up to the ``close``.

    Source: Go 1.25 net/http transfer.go parseTransferEncoding, fixLength
    """
    encodings = _values(head, "transfer-encoding")
    chunked = bool(encodings) and not head[0].startswith(("HTTP/1.0", "HTTP/0"))
    if chunked and len(encodings) > 1:
        raise _broken(f"too many transfer encodings: {_listed(encodings)}")
    if chunked and encodings[0].lower() != "chunked":
        raise _broken(f"unsupported transfer encoding: {quoted(encodings[0])}")
    lengths = list(dict.fromkeys(_values(head, "content-length")))
    if len(lengths) > 1:
        text = "http: message cannot contain multiple Content-Length headers; got "
        raise _broken(text + _listed(_values(head, "content-length")))
    if lengths and not lengths[0]:
        raise _broken('invalid empty Content-Length ""')
    if lengths and not (_LENGTH.fullmatch(lengths[0]) and int(lengths[0]) < 2**63):
        raise _broken(f"bad Content-Length {quoted(lengths[0])}")
    if status in _BODILESS:
        return 0
    if chunked:
        return "chunked"
    return int(lengths[0]) if lengths else "close"


def _check_header(line: str) -> None:
    """Go's ``textproto.Reader.ReadMIMEHeader``: a name may hold spaces, a value no controls."""
    name, _, value = line.partition(":")
    if not _NAME.fullmatch(name) or BAD_VALUE.search(value):
        raise _broken(f"malformed MIME header line: {line}")


def _values(head: tuple[str, ...], name: str) -> list[str]:
    pairs = (line.partition(":") for line in head[1:])
    return [value.strip(" \t") for key, _, value in pairs if key.lower() == name]


def _listed(values: list[str]) -> str:
    return f"[{' '.join(quoted(each) for each in values)}]"


def _broken(text: str) -> TransportError:
    return TransportError(BROKEN + text)


# Replies of HTTP/2, for servers that choose it over TLS. Needs h2.

_STREAM: Final = 1
_FRAME_HEAD: Final = 9


def offered_protocols() -> list[str]:
    """What is offered by ALPN: as the kubelet does, where h2 is installed."""
    return ["h2", "http/1.1"] if find_spec("h2") else ["http/1.1"]


class HTTP2Reply:
    """A reply, read as far as asked; as ``http1.Reply``.

    Attributes:
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
