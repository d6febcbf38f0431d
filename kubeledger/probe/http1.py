"""Replies of HTTP/1 as Go reads them, with Go's words for those that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.prober.transport import BROKEN
from kubeledger.probe.attempt import TransportError

__all__ = ["BodyError", "Reply", "Stream"]

_HEAD_BYTES_MAX: Final = 10 * 1024 * 1024
_VERSION: Final = re.compile(r"HTTP/[0-9]\.[0-9]")
_LENGTH: Final = re.compile(r"[0-9]+")
_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]+")
_BODILESS: Final = (204, 304)


class Stream(Protocol):
    """A connection, with or without TLS."""

    local: str
    remote: str

    def send(self, data: bytes) -> None: ...  # noqa: D102

    def receive(self) -> bytes: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


class BodyError(Exception):
    """The body cannot be read; Go's text, or empty when the time was over."""


class Reply:
    """A reply, read as far as asked.

    Attributes:
        status: its code.
        head: its lines.
        whole: True when the body that was read is all of it.
    """

    def __init__(self, stream: Stream, began: Callable[[], None]) -> None:
        """Read the head; ``began`` is called once with the first byte.

        Raises:
            TransportError: there is none; with Go's text.
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
        self.status, self.head = self._final_head()
        self._length = self._length_of_body()

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
            if status == 101 or not 100 <= status < 200:
                return status, lines

    def _one_head(self) -> tuple[int, tuple[str, ...]]:
        line = self._line()
        version, space, rest = line.partition(" ")
        if not space:
            raise _broken(f"malformed HTTP response {quoted(line)}")
        code = rest.lstrip(" ").partition(" ")[0]
        if len(code) != 3 or not (code.isascii() and code.isdigit()):
            raise _broken(f"malformed HTTP status code {quoted(code)}")
        if not _VERSION.fullmatch(version):
            raise _broken(f"malformed HTTP version {quoted(version)}")
        lines = [line]
        while (line := self._line()) != "":
            if len(lines) == 1 and line[0] in " \t":
                raise _broken(f"malformed MIME header initial line: {line}")
            if ":" not in line and line[0] not in " \t":
                raise _broken(f"malformed MIME header: missing colon: {quoted(line)}")
            lines.append(line)
        return int(code), tuple(lines)

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

    def _values(self, name: str) -> list[str]:
        pairs = (line.partition(":") for line in self.head[1:])
        return [value.strip() for key, _, value in pairs if key.lower() == name]

    def _length_of_body(self) -> int | str:
        """How long the body is: bytes, ``chunked``, or up to the ``close``."""
        encodings = self._values("transfer-encoding")
        http_1_0 = self.head[0].startswith("HTTP/1.0")
        if encodings and not http_1_0:
            if len(encodings) > 1:
                listed = " ".join(quoted(each) for each in encodings)
                raise _broken(f"too many transfer encodings: [{listed}]")
            if encodings[0].lower() != "chunked":
                raise _broken(f"unsupported transfer encoding: {quoted(encodings[0])}")
            return 0 if self.status in _BODILESS else "chunked"
        lengths = list(dict.fromkeys(self._values("content-length")))
        if len(lengths) > 1:
            listed = " ".join(quoted(each) for each in lengths)
            raise _broken(
                f"http: message cannot contain multiple Content-Length headers; got [{listed}]"
            )
        if lengths and not _LENGTH.fullmatch(lengths[0]):
            raise _broken(f"bad Content-Length {quoted(lengths[0])}")
        if self.status in _BODILESS:
            return 0
        return int(lengths[0]) if lengths else "close"

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
        while (end := self._buffer.find(b"\n")) < 0:
            self._fill(len(self._buffer) + 1)
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


def _broken(text: str) -> TransportError:
    return TransportError(BROKEN + text)
