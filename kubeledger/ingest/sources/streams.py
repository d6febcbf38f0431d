"""Files as streams of decompressed bytes, with limits on what is taken in."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from kubeledger.model.errors import BadInputError

__all__ = ["CHUNK", "DOCUMENT_MAX", "Digests", "SourceFile", "digest_chunks", "permission_advice"]

CHUNK = 1 << 20
_LARGE = 1 << 18
"""Bytes that are worth handing to another thread."""
DOCUMENT_MAX = 256 << 20
"""Bytes of a file that has to be read whole (JSON, YAML); logs have no such limit."""

_RATIO_MAX = 1000
_BOMB_FLOOR = 4 << 30
"""Decompressed bytes up to which any ratio is believed."""

_GZIP_PIECE, _ZSTD_PIECE = 16 << 10, 2 << 10
"""Packed bytes that are unpacked at once: bounds what one step of a bomb can take.

A byte of gzip stands for a thousand at most, one of zstd for thirty thousand.
"""

_GZIP_FRAME = 31
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def permission_advice(error: Exception) -> str:
    """What to do where reading is not allowed; empty for other errors."""
    if isinstance(error, PermissionError):
        return "run as a user who may read it, or take a copy that you may read"
    return ""


class SourceFile:
    """One regular file of a bundle.

    Attributes:
        name: path within the bundle, with ``/``; what records call it.
        path: where it is on this machine; never recorded.
        truncated: the compressed stream ended early or is damaged (known after reading).
    """

    def __init__(self, name: str, path: Path, mtime_ns: int | None = None) -> None:
        self.name = name
        self.path = path
        self._mtime_ns = mtime_ns
        self.truncated = False

    @property
    def plain_name(self) -> str:
        """Last part of the name, without a compression suffix."""
        return self.name.rpartition("/")[2].removesuffix(".gz").removesuffix(".zst")

    @property
    def mtime_ns(self) -> int:
        """Modification time of the file, or of the one that it is a copy of."""
        return self.path.stat().st_mtime_ns if self._mtime_ns is None else self._mtime_ns

    def chunks(self) -> Iterator[bytes]:
        """The decompressed content; ends early, and says so, where the stream is damaged.

        A byte order mark at its beginning is no part of it: some editors and shells write one.

        Raises:
            BadInputError: the file cannot be read, or unpacks to an absurd size.
        """
        try:
            with self.path.open("rb") as raw:
                yield from _without_mark(self._unpacked(raw))
        except OSError as error:
            raise BadInputError(
                f"cannot be read: {error.strerror or error}",
                file=str(self.path),
                advice=permission_advice(error),
            ) from None

    def _unpacked(self, raw: BinaryIO) -> Iterator[bytes]:
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(_GZIP):
            yield from self._guarded(raw, _GZIP_PIECE, lambda: zlib.decompressobj(_GZIP_FRAME))
        elif magic == _ZSTD:
            context = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            yield from self._guarded(raw, _ZSTD_PIECE, context.decompressobj)
        else:
            while chunk := raw.read(CHUNK):
                yield chunk

    def _guarded(
        self, raw: BinaryIO, piece_bytes: int, frame: Callable[[], Any]
    ) -> Iterator[bytes]:
        """Unpack frame after frame; what came before a damage is not lost."""
        limit = max(_BOMB_FLOOR, self.path.stat().st_size * _RATIO_MAX)
        total = 0
        unpacker = None
        while piece := raw.read(piece_bytes):
            while piece:
                if unpacker is None and not piece.strip(b"\0"):
                    break  # padding after the last frame
                unpacker = unpacker or frame()
                try:
                    chunk = unpacker.decompress(piece)
                except (zlib.error, zstandard.ZstdError):
                    self.truncated = True
                    return
                total += len(chunk)
                if total > limit:
                    raise self._bomb(limit)
                if chunk:
                    yield chunk
                piece = unpacker.unused_data if unpacker.eof else b""
                unpacker = None if unpacker.eof else unpacker
        self.truncated = unpacker is not None

    def _bomb(self, limit: int) -> BadInputError:
        return BadInputError(
            f"unpacks to more than {limit} bytes",
            file=str(self.path),
            advice="unpack it by hand if that is right",
        )

    def stored_chunks(self) -> Iterator[bytes]:
        """The content by which the file is known, whatever order its lines are read in.

        Raises:
            BadInputError: as :meth:`chunks`.
        """
        return self.chunks()

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """Where a line of ``chunks()`` stands in the file: its number and byte, both from 0."""
        return line, offset

    def head(self, size: int) -> bytes:
        """The first ``size`` bytes of the content, or fewer."""
        parts: list[bytes] = []
        missing = size
        for chunk in self.chunks():
            parts.append(chunk[:missing])
            missing -= len(parts[-1])
            if missing <= 0:
                break
        return b"".join(parts)

    def content(self) -> bytes:
        """The whole content of a document.

        Raises:
            BadInputError: larger than ``DOCUMENT_MAX``.
        """
        data = self.head(DOCUMENT_MAX + 1)
        if len(data) > DOCUMENT_MAX:
            raise BadInputError(
                f"is larger than {DOCUMENT_MAX} bytes, too large for one document",
                file=str(self.path),
            )
        return data


def _without_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A content without a byte order mark, wherever it is cut."""
    begin = b""
    for chunk in chunks:
        begin += chunk
        if len(begin) >= len(_BYTE_ORDER_MARK):
            break
    if begin := begin.removeprefix(_BYTE_ORDER_MARK):
        yield begin
    yield from chunks


class Digests(msgspec.Struct, frozen=True):
    """Identity of a content: size, digest, and digests of its beginnings.

    Attributes:
        prefixes: length -> digest of that many first bytes, for the lengths asked for.
    """

    size: int
    digest: str
    prefixes: dict[int, str]


def digest_chunks(chunks: Iterator[bytes], lengths: Sequence[int] = ()) -> Digests:
    """BLAKE2b-256 of a content, and of its beginnings of these lengths.

    A large chunk is digested while the next one is made: hashing leaves the interpreter free.
    """
    digest = hashlib.blake2b(digest_size=32)
    wanted = sorted(set(lengths))
    prefixes: dict[int, str] = {}
    size = 0
    pending: Future[None] | None = None
    with ThreadPoolExecutor(1, "kubeledger-digest") as worker:  # starts its thread when asked
        for chunk in chunks:
            if pending is not None:
                pending.result()
                pending = None
            done = 0
            while wanted and wanted[0] <= size + len(chunk):
                length = wanted.pop(0)
                digest.update(chunk[done : length - size])
                done = length - size
                prefixes[length] = digest.hexdigest()
            rest = chunk[done:] if done else chunk
            if len(rest) < _LARGE:
                digest.update(rest)
            else:
                pending = worker.submit(digest.update, rest)
            size += len(chunk)
    return Digests(size, digest.hexdigest(), prefixes)
