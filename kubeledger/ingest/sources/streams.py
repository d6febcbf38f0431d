"""Files as streams of decompressed bytes, with limits on what is taken in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from kubeledger.ingest.sources.packing import (
    JOURNAL_MAGIC,
    JournalFile,
    TooLargeError,
    as_utf8,
    content_of,
    without_suffix,
)
from kubeledger.model.errors import BadInputError, reason_of

_HELD_MAX = 1 << 20
"""Bytes of a file that is held while it is looked at."""
_LARGE = 1 << 18
"""Bytes that are worth handing to another thread."""
DOCUMENT_MAX = 256 << 20
"""Bytes of a file that has to be read whole (JSON, YAML); logs have no such limit."""


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
        self._journal: JournalFile | None = None
        self._held: bytes | None = None

    @property
    def plain_name(self) -> str:
        """Last part of the name, without a compression suffix."""
        return without_suffix(self.name.rpartition("/")[2])

    @property
    def mtime_ns(self) -> int:
        """Modification time of the file, or of the one that it is a copy of."""
        return self.path.stat().st_mtime_ns if self._mtime_ns is None else self._mtime_ns

    def chunks(self) -> Iterator[bytes]:
        """The content, unpacked, as UTF-8 without a byte order mark.

        It ends early, and ``truncated`` says so, where what it is packed in is damaged. A binary
        journal is read as ``journalctl -o export`` writes it.

        Raises:
            BadInputError: the file cannot be read, or unpacks to an absurd size.
        """
        if self._held is not None:
            yield self._held
            return
        if self._journal is not None:
            yield from self._journal.chunks()
            return
        try:
            with self.path.open("rb") as raw:
                content = content_of(raw, self.path.stat().st_size, self._damaged)
                first = next(content, b"")
                if first.startswith(JOURNAL_MAGIC):
                    self._journal = JournalFile(self.name, first, content)
                    yield from self._journal.chunks()
                else:
                    yield from as_utf8(chain((first,), content))
        except TooLargeError as error:
            raise BadInputError(
                f"unpacks to more than {error.args[0]} bytes",
                file=str(self.path),
                advice="unpack it by hand if that is right",
            ) from None
        except OSError as error:
            raise BadInputError(
                f"cannot be read: {reason_of(error)}",
                file=str(self.path),
                advice=permission_advice(error),
            ) from None

    def _damaged(self) -> None:
        self.truncated = True

    @contextmanager
    def held(self) -> Iterator[bytes | None]:
        """While it is looked at, a small file is in memory: it is read once.

        Yields:
            its content; None for a large or an empty one.

        Raises:
            BadInputError: as :meth:`chunks`.
        """
        head = self.head(_HELD_MAX)
        self._held = head if 0 < len(head) < _HELD_MAX else None
        try:
            yield self._held
        finally:
            self._held = None

    def stored_chunks(self) -> Iterator[bytes]:
        """The content by which the file is known, whatever order its lines are read in.

        Raises:
            BadInputError: as :meth:`chunks`.
        """
        return self.chunks()

    @property
    def keeps_places(self) -> bool:
        """Lines of ``chunks()`` stand where they occur in the file."""
        return True

    @property
    def is_one_kubelets(self) -> bool:
        """It was followed where it is written: only hosts could tell other nodes' lines apart."""
        return False

    @property
    def is_as_written(self) -> bool:
        """Each line stands once, in the order of writing: where time goes back, a clock did."""
        return False

    @property
    def left_out(self) -> int:
        """Lines of other programs that ``chunks()`` leaves out."""
        return 0

    @property
    def twice(self) -> int:
        """Lines that stand in the file once more, and are left out."""
        return 0

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """Where a line of ``chunks()`` is in the file: its number and byte, both from 0."""
        return line, offset

    def head(self, size: int) -> bytes:
        """The first ``size`` bytes of the content, or fewer."""
        if self._held is not None:
            return self._held[:size]
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


class SourceView(SourceFile):
    """Another reading of a source, for which the source answers all that is not said here."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__(source.name, source.path, source.mtime_ns)
        self.truncated = source.truncated
        self._source = source

    def chunks(self) -> Iterator[bytes]:
        """As ``SourceFile.chunks``."""
        yield from self._source.chunks()
        self.truncated = self._source.truncated

    def stored_chunks(self) -> Iterator[bytes]:
        """As ``SourceFile.stored_chunks``."""
        return self._source.stored_chunks()

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return self._source.keeps_places

    @property
    def left_out(self) -> int:
        """As ``SourceFile.left_out``."""
        return self._source.left_out

    @property
    def twice(self) -> int:
        """As ``SourceFile.twice``."""
        return self._source.twice

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """As ``SourceFile.place``."""
        return self._source.place(line, offset)


class Digests(msgspec.Struct, frozen=True):
    """Identity of a content: size, digest, and digests of its beginnings.

    Attributes:
        prefixes: length -> digest of that many first bytes, for the lengths asked for.
    """

    size: int
    digest: str
    prefixes: dict[int, str]

    @classmethod
    def of(cls, content: bytes) -> Digests:
        """Of a content that is in memory."""
        return cls(len(content), _digest(content).hexdigest(), {})


_digest = partial(hashlib.blake2b, digest_size=32)


def digest_chunks(chunks: Iterator[bytes], lengths: Sequence[int] = ()) -> Digests:
    """BLAKE2b-256 of a content, and of its beginnings of these lengths.

    A large chunk is digested while the next one is made: hashing leaves the interpreter free.
    """
    from concurrent.futures import Future, ThreadPoolExecutor  # with logging and more

    digest = _digest()
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
