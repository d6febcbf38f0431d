"""Files as streams of decompressed bytes, with limits on what is taken in."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard

from kubeledger.errors import BadInputError

__all__ = ["CHUNK", "DOCUMENT_MAX", "Digests", "SourceFile", "digest_chunks"]

CHUNK = 1 << 20
DOCUMENT_MAX = 256 << 20
"""Bytes of a file that has to be read whole (JSON, YAML); logs have no such limit."""

_RATIO_MAX = 1000
_BOMB_FLOOR = 4 << 30
"""Decompressed bytes up to which any ratio is believed."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class SourceFile:
    """One regular file of a bundle.

    Attributes:
        name: path within the bundle, with ``/``; what records call it.
        path: where it is on this machine; never recorded.
        truncated: the compressed stream ended early or is damaged (known after reading).
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.truncated = False

    @property
    def plain_name(self) -> str:
        """Last part of the name, without a compression suffix."""
        return self.name.rpartition("/")[2].removesuffix(".gz").removesuffix(".zst")

    @property
    def mtime_ns(self) -> int:
        """Modification time of the file."""
        return self.path.stat().st_mtime_ns

    def chunks(self) -> Iterator[bytes]:
        """The decompressed content; ends early, and says so, where the stream is damaged.

        Raises:
            BadInputError: the file cannot be read, or unpacks to an absurd size.
        """
        try:
            with self.path.open("rb") as raw:
                yield from self._unpacked(raw)
        except OSError as error:
            raise BadInputError(
                f"cannot be read: {error.strerror or error}", file=str(self.path)
            ) from None

    def _unpacked(self, raw: BinaryIO) -> Iterator[bytes]:
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(_GZIP):
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        elif magic == _ZSTD:
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            stream = cast(BinaryIO, reader.stream_reader(raw, read_across_frames=True))
        else:
            while chunk := raw.read(CHUNK):
                yield chunk
            return
        yield from self._guarded(stream)

    def _guarded(self, stream: BinaryIO) -> Iterator[bytes]:
        limit = max(_BOMB_FLOOR, self.path.stat().st_size * _RATIO_MAX)
        total = 0
        while True:
            try:
                chunk = stream.read(CHUNK)
            except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError):
                self.truncated = True
                return
            if not chunk:
                return
            total += len(chunk)
            if total > limit:
                raise BadInputError(
                    f"unpacks to more than {limit} bytes",
                    file=str(self.path),
                    advice="unpack it by hand if that is right",
                )
            yield chunk

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


class Digests(msgspec.Struct, frozen=True):
    """Identity of a content: size, digest, and digests of its beginnings.

    Attributes:
        prefixes: length -> digest of that many first bytes, for the lengths asked for.
    """

    size: int
    digest: str
    prefixes: dict[int, str]


def digest_chunks(chunks: Iterator[bytes], lengths: Sequence[int] = ()) -> Digests:
    """BLAKE2b-256 of a content, and of its beginnings of these lengths."""
    digest = hashlib.blake2b(digest_size=32)
    wanted = sorted(set(lengths))
    prefixes: dict[int, str] = {}
    size = 0
    for chunk in chunks:
        done = 0
        while wanted and wanted[0] <= size + len(chunk):
            length = wanted.pop(0)
            digest.update(chunk[done : length - size])
            done = length - size
            prefixes[length] = digest.hexdigest()
        digest.update(chunk[done:] if done else chunk)
        size += len(chunk)
    return Digests(size, digest.hexdigest(), prefixes)
