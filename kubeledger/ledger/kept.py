"""What a ledger keeps besides records: sources, a capture, and what of it is stored elsewhere.

What a bundle shows follows from all of its files together. Where they come in pieces, each
import reads what came before again, and superseded records are told apart from those that
stay (``importers.ingest``). ``<digest of the import>.json`` lists its sources, with a CRC over
itself; ``<digest of the content>.zst`` is a source's content. Neither proves anything: what is
damaged or missing is not read again, and its records stay as they are; an audit tells it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import BinaryIO
from zlib import crc32

import msgspec
import zstandard

from kubeledger.ledger.manifest import NodeInfo
from kubeledger.ledger.sealing import load_sealed, save_sealed
from kubeledger.ledger.storage import (
    NODES,
    TEMPORARY_SUFFIX,
    make_directory,
    new_file,
    node_directory,
    open_regular,
    remove,
    storage_errors,
    sync,
    sync_directory,
)

# ``nodes/<node>/shipped.json``: what of a node is stored elsewhere, and may be dropped here.
#
# The mark is written after what it counts was read back from there. One that is lost or damaged
# counts as none: what is there already is then read back again, and nothing is stored twice.

SHIPPED = "shipped.json"
_BYTES_MAX = 256 << 20


class ShipMark(msgspec.Struct, kw_only=True):
    """What of a node is stored at one place.

    Attributes:
        url: of the place.
        prefix: of the node's copy, below the URL.
        info: counts of the copy.
        base_digest: of the newest base that is stored, as in its record; empty for none.
    """

    format: int = 1
    url: str
    prefix: str
    info: NodeInfo
    base_digest: str = ""


def load_mark(directory: Path) -> ShipMark | None:
    """The mark of a node; None when there is none, or a damaged one.

    Raises:
        LedgerUnavailableError: it is there and cannot be read.
    """
    path = directory / SHIPPED
    with storage_errors("read what was shipped", path):
        mark = load_sealed(path, ShipMark, _BYTES_MAX)
    return mark if mark and mark.format == 1 else None


def save_mark(directory: Path, mark: ShipMark) -> None:
    """Write the mark of a node atomically.

    Raises:
        LedgerUnavailableError: the operating system refused.
    """
    path = directory / SHIPPED
    with storage_errors("note what was shipped", path):
        save_sealed(path, mark)


# ``nodes/<node>/capture``: the frames of what a recorder observed and has not imported yet.
#
# What is in them is the recorder's (``record.chapters``). Here is how they stand in a file, and
# what of it is not as it was written: until its import a chapter is the only copy.

CAPTURE = "capture"
OPEN, ENDED = ".open", ".ended"
"""Of a chapter that is written, and of one that waits for its import."""

MARK = b"KLB1"
HEAD = Struct("<4sII")
"""Of a frame: the mark, length and CRC-32 of what follows."""

FRAME_BYTES_MAX = 1 << 28


def capture_flaws(ledger: Path, node: str) -> Iterator[tuple[Path, int, str]]:
    """Files and offsets of frames that a later import would not read, and why.

    Raises:
        LedgerUnavailableError: a file cannot be read.
    """
    directory = ledger / NODES / node_directory(node) / CAPTURE
    for path in sorted([*directory.glob(f"*{OPEN}"), *directory.glob(f"*{ENDED}")]):
        with storage_errors("read the capture", path):
            try:
                file = open_regular(path)
            except FileNotFoundError:  # imported meanwhile
                continue
            with file:
                at = _sound_bytes(file)
                file.seek(at)
                rest = file.read(FRAME_BYTES_MAX)
        if rest and not (path.suffix == OPEN and _is_unfinished(rest)):
            yield path, at, "what was captured from here on is damaged"


def _sound_bytes(file: BinaryIO) -> int:
    """Where the whole frames that a file begins with end."""
    size = os.fstat(file.fileno()).st_size
    at = 0
    while True:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return at
        mark, length, crc = HEAD.unpack(head)
        is_whole = mark == MARK and length <= min(FRAME_BYTES_MAX, size)
        data = file.read(length) if is_whole else b""
        if not is_whole or len(data) < length or crc32(data) != crc:
            return at
        at += HEAD.size + length


def _is_unfinished(rest: bytes) -> bool:
    """Whether this is the beginning of a frame, as a crash or a writer at work leaves it."""
    if len(rest) < HEAD.size:
        return MARK.startswith(rest[: len(MARK)])
    mark, length, _ = HEAD.unpack_from(rest)
    data = rest[HEAD.size :]
    if mark != MARK or len(data) >= length:
        return False
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        unpacker.decompress(data)
    except zstandard.ZstdError:
        return False
    return not unpacker.eof  # else all of it is there, and the length was changed


KEPT = "kept"
REREAD_BYTES_MAX = 1 << 30
"""Bytes of content up to which sources are kept: each import reads all of them again."""

_LEVEL = 2
"""Of Zstandard: level 6 takes five times as long for an eighth less."""
_INDEX_SUFFIX = ".json"
_CONTENT_SUFFIX = ".zst"
_INDEX_BYTES_MAX = 64 << 20
_PIECE = 64 << 10


def _packed(chunks: Iterator[bytes], packer: zstandard.ZstdCompressor) -> Iterator[bytes]:
    """A content compressed; one of a single chunk at once, which needs tables of its size only."""
    first, second = next(chunks, b""), next(chunks, None)
    if second is None:
        yield packer.compress(first)
        return
    stream = packer.compressobj()
    for chunk in chain((first, second), chunks):
        yield stream.compress(chunk)
    yield stream.flush()


def _digest_of(path: Path) -> str | None:
    """Of what is compressed in a file; None where it cannot be unpacked."""
    digest = hashlib.blake2b(digest_size=32)
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("rb") as file:
            while not unpacker.eof and (piece := file.read(_PIECE)):
                digest.update(unpacker.decompress(piece))
    except zstandard.ZstdError:
        return None
    return digest.hexdigest() if unpacker.eof else None


class KeptSource(msgspec.Struct, frozen=True, kw_only=True):
    """One file that an import read.

    Attributes:
        file, format, size_bytes, digest: as in ``ledger.records.Source``.
        mtime_ns: its modification time.
        first_ts_ns, last_ts_ns: the times that the import gave to it.
    """

    file: str
    format: str
    size_bytes: int
    digest: str
    mtime_ns: int
    first_ts_ns: int
    last_ts_ns: int


class KeptImport(msgspec.Struct, frozen=True, kw_only=True):
    """One import whose sources are kept.

    Attributes:
        digest: as in ``ImportStarted``.
        number: of how many imports this is; they are read again in this order.
        name: of the bundle.
        kubelet_version, year: options that the user gave.
        sources: sorted by file; none where there is nothing but the import's records.
        has_contents: their contents are kept, too; else an import can only go on after them.
    """

    digest: str
    number: int
    name: str
    kubelet_version: str | None
    year: int | None
    sources: tuple[KeptSource, ...]
    has_contents: bool = True


class KeptSources:
    """The kept sources of one node."""

    def __init__(self, ledger: Path, node: str) -> None:
        """Nothing is read yet, and the node need not be there."""
        self._directory = ledger / NODES / node_directory(node) / KEPT

    def imports(self, completed: Iterable[str], unread: Collection[str] = ()) -> list[KeptImport]:
        """Imports whose sources are all there, in their order.

        Args:
            completed: digests of completed imports; others do not count.
            unread: digests of contents that need not be there.
        """
        found = []
        for digest in sorted(set(completed)):
            known = self._load(digest)
            if known is not None and self._is_there(known, unread):
                found.append(known)
        return sorted(found, key=lambda known: (known.number, known.digest))

    def _is_there(self, known: KeptImport, unread: Collection[str] = ()) -> bool:
        digests = [source.digest for source in known.sources]
        return bool(digests) and all(
            digest in unread or self.content(digest).is_file() for digest in digests
        )

    def is_whole(self, digest: str) -> bool:
        """Whether all that is to be kept of an import is there, as it was."""
        known = self._load(digest)
        return (
            known is not None
            and bool(known.sources)
            and not (known.has_contents and any(self._flaws_of(known, set())))
        )

    def left(self, completed: Iterable[str], reread: Collection[str]) -> set[bool]:
        """Why the sources of imports were not read again.

        Args:
            completed: digests of completed imports.
            reread: those of them whose sources were read.

        Returns:
            False where they were not kept, True where they were and are damaged, or gone.
        """
        found = (self._load(digest) for digest in completed if digest not in reread)
        return {known is None or known.has_contents for known in found}

    def content(self, digest: str) -> Path:
        """Where a source's content stands, compressed."""
        return self._directory / (digest + _CONTENT_SUFFIX)

    def keep(self, kept: KeptImport, contents: Iterable[tuple[str, Iterator[bytes]]]) -> None:
        """Keep an import's sources; contents that are there, and whole, are not written again.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        with storage_errors("keep the sources", self._directory):
            make_directory(self._directory)
            packer = zstandard.ZstdCompressor(level=_LEVEL)
            written: dict[Path, Path] = {}
            for digest, chunks in contents:
                path = self.content(digest)
                if path in written or (path.is_file() and _digest_of(path) == digest):
                    continue
                written[path] = path.with_name(path.name + TEMPORARY_SUFFIX)
                with new_file(written[path], durable=False) as file:
                    for piece in _packed(chunks, packer):
                        file.write(piece)
            for temporary in written.values():  # all of them: the disk works once, not for each
                sync(temporary)
            for path, temporary in written.items():
                temporary.replace(path)
            save_sealed(self._directory / (kept.digest + _INDEX_SUFFIX), kept)

    def begin(self, completed: Iterable[str]) -> None:
        """Where nothing is kept, note of completed imports that their sources are not here.

        So it is in a copy of a ledger; what is gone later can be told from that.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        if self._directory.is_dir():
            return
        # As a whole: where some have a list, one that has none has lost it.
        notes = self._directory.with_name(KEPT + TEMPORARY_SUFFIX)
        with storage_errors("note which sources are kept", self._directory):
            make_directory(notes)
            for number, digest in enumerate(completed):
                note = KeptImport(
                    digest=digest,
                    number=number,
                    name="",
                    kubelet_version=None,
                    year=None,
                    sources=(),
                    has_contents=False,
                )
                save_sealed(notes / (digest + _INDEX_SUFFIX), note)
            notes.replace(self._directory)
            sync_directory(notes.parent)

    def flaws(
        self, completed: Collection[str] = (), *, keeps: bool = False
    ) -> Iterator[tuple[Path, str]]:
        """Each file that a later import would not read again, and why.

        Args:
            completed: digests of completed imports, of which each has a list. Where one has none,
                a copy that no list names is its; else it is what an import left that died.
            keeps: the ledger counts on them; else none at all are no loss (a restored copy).

        Raises:
            LedgerUnavailableError: a file cannot be read.
        """
        if not (self._directory.is_dir() or keeps):
            return
        proved: set[str] = set()
        with storage_errors("read the kept sources", self._directory):
            lists = {path.name for path in self._directory.glob(f"*{_INDEX_SUFFIX}")}
            lost = {digest + _INDEX_SUFFIX for digest in completed} - lists
            for name in sorted(lists | lost):
                known = self._load(name.removesuffix(_INDEX_SUFFIX))
                if known is None:
                    how = "is not there" if name in lost else "is damaged"
                    yield self._directory / name, f"the list of an import's kept sources {how}"
                elif known.has_contents:
                    yield from self._flaws_of(known, proved)
            for path in sorted(self._directory.glob(f"*{_CONTENT_SUFFIX}")):
                if lost and path.name.removesuffix(_CONTENT_SUFFIX) not in proved:
                    yield path, "the list that named this kept copy is lost"

    def _flaws_of(self, known: KeptImport, proved: set[str]) -> Iterator[tuple[Path, str]]:
        for source in known.sources:
            if source.digest in proved:
                continue
            proved.add(source.digest)
            content = self.content(source.digest)
            if not content.is_file():
                yield content, f"the kept copy of {source.file} is not there"
            elif _digest_of(content) != source.digest:
                yield content, f"the kept copy of {source.file} is damaged"

    def forget_before(self, ts_ns: int, standing: Collection[str] = ()) -> None:
        """Remove imports all of whose sources are of a time up to ``ts_ns``, which was dropped.

        Args:
            standing: digests of imports of which records are left.

        Raises:
            LedgerUnavailableError: a file cannot be removed.
        """
        if not self._directory.is_dir():
            return
        with storage_errors("remove kept sources", self._directory):
            wanted = set()
            for path in sorted(self._directory.iterdir()):
                if path.name.endswith(_INDEX_SUFFIX):
                    known = self._load(path.name.removesuffix(_INDEX_SUFFIX))
                    is_old = known is None or all(s.last_ts_ns <= ts_ns for s in known.sources)
                    if is_old and path.name.removesuffix(_INDEX_SUFFIX) not in standing:
                        remove(path)
                    elif known is not None:
                        wanted |= {self.content(source.digest).name for source in known.sources}
            for path in sorted(self._directory.iterdir()):
                if not path.name.endswith(_INDEX_SUFFIX) and path.name not in wanted:
                    remove(path)

    def _load(self, digest: str) -> KeptImport | None:
        with suppress(OSError):
            path = self._directory / (digest + _INDEX_SUFFIX)
            kept = load_sealed(path, KeptImport, _INDEX_BYTES_MAX)
            return kept if kept and kept.digest == digest else None
        return None
