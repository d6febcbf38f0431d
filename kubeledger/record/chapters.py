"""A chapter: the file that holds what was observed, batch after batch.

A batch is one frame: ``KLB1``, the length and the CRC-32 of what follows, and, packed with zstd,
what was observed and the cursors from which the sources go on. So the two are durable together or
not at all, and a frame that a crash cut is known. Those after a damaged one are found by the mark.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard

from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.kept import FRAME_BYTES_MAX, HEAD, MARK
from kubeledger.ledger.storage import open_regular
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_ts
from kubeledger.record.observations import Document, Gap, Lines, Observation, size_of

GAPS = "gaps.jsonl"
"""The file in which an import finds the gaps of a chapter."""

_LEVEL = 3
_WINDOW = 1 << 20
_CACHED = 2
_CHUNK_BYTES = 64 << 10
"""What is read at once: some milliseconds of an import's time."""


class Batch(msgspec.Struct, frozen=True):
    """What became durable together.

    Attributes:
        at_ns: when, UTC.
        cursors: source -> from where it goes on; those that changed.
    """

    at_ns: int
    cursors: dict[str, str]
    seen: tuple[Observation, ...]


class _Content(msgspec.Struct):
    """One file of a chapter, as an import sees it."""

    frames: list[int]
    at_ns: int


def packed(batch: Batch) -> bytes:
    """The frame of a batch."""
    data = zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(batch))
    return HEAD.pack(MARK, len(data), zlib.crc32(data)) + data


def gap_line(gap: Gap, at_ns: int) -> bytes:
    """A gap, noticed at ``at_ns``, as the line that an import reads."""
    line = {
        "gap": gap.stream,
        "at": format_ts(at_ns),
        "reason": gap.reason,
        "since": None if gap.since_ns is None else format_ts(gap.since_ns),
        "until": None if gap.until_ns is None else format_ts(gap.until_ns),
    }
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def batches(path: Path, begin: int, upto: int | None = None) -> Iterator[tuple[int, int, Batch]]:
    """Whole batches of a chapter's file, each with begin and end of its frame.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        yield from _frames(file, begin, upto)


def documents_in(path: Path, places: Mapping[str, int]) -> list[Document]:
    """The last documents of those names in the frames that begin at those places.

    Raises:
        OSError: the file cannot be read.
    """
    found: dict[str, Document] = {}
    for name, begin in places.items():
        *_, batch = next(batches(path, begin))
        for each in batch.seen:
            if isinstance(each, Document) and kind_of(each) == name:
                found[name] = each
    return list(found.values())


def kind_of(document: Document) -> str:
    """What is called so shows the same thing, at another time."""
    return document.name.rpartition("/")[2]


def _nothing() -> None:
    """Nobody wants to hear."""


class Chapter:
    """What a chapter's file holds; read once, when it is opened.

    Attributes:
        cursors: source -> from where it goes on.
        newest: kind of document -> place of the frame with the last one.
        with_gaps: names of lines, and of sources, that some is missing of.
        size_bytes: of the observations, unpacked.
        begun_ns, at_ns: times of the first and the last batch; None without one.
        sound_bytes: end of the last whole frame; what follows was never acknowledged.
        damaged: bytes before that which are no frame.
    """

    def __init__(
        self, path: Path, end: int | None = None, goes_on: Callable[[], None] = _nothing
    ) -> None:
        """Read the file.

        Args:
            end: how much of it is read; None for all.
            goes_on: called between the pieces that are read, of its files, too.

        Raises:
            OSError: it cannot be read.
        """
        self.path = path
        self.goes_on = goes_on
        self.cursors: dict[str, str] = {}
        self.newest: dict[str, int] = {}
        self.with_gaps: set[str] = set()
        self.size_bytes = self.sound_bytes = self.damaged = 0
        self.begun_ns: int | None = None
        self.at_ns: int | None = None
        self._contents: dict[str, _Content] = {}
        self._cache: OrderedDict[int, Batch] = OrderedDict()
        with open_regular(path) as file:
            for begin, frame_end, batch in _frames(file, 0, end):
                self.damaged += begin - self.sound_bytes
                self.sound_bytes = frame_end
                self._take(begin, batch)
                goes_on()

    def _take(self, offset: int, batch: Batch) -> None:
        self.cursors |= batch.cursors
        self.begun_ns = batch.at_ns if self.begun_ns is None else self.begun_ns
        self.at_ns = batch.at_ns
        self.size_bytes += size_of(batch.seen)
        for each in batch.seen:
            content = self._contents.setdefault(_name(each), _Content([], batch.at_ns))
            content.at_ns = batch.at_ns
            if isinstance(each, Gap):
                self.with_gaps.add(each.stream)
            elif isinstance(each, Document):
                content.frames.clear()
                self.newest[kind_of(each)] = offset
            if content.frames[-1:] != [offset]:
                content.frames.append(offset)

    def files(self) -> list[SourceFile]:
        """The files that an import reads, sorted by name."""
        return [
            _CapturedFile(self, name, content.frames, content.at_ns)
            for name, content in sorted(self._contents.items())
        ]

    def batch_at(self, offset: int) -> Batch:
        """The batch whose frame begins there.

        Raises:
            BadInputError: it is not whole any more.
        """
        batch = self._cache.get(offset)
        if batch is None:
            with open_regular(self.path) as file:
                batch = _read(file, offset)
            if batch is None:
                raise BadInputError("was changed while it was read", file=str(self.path))
            self._cache[offset] = batch
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return batch


class _CapturedFile(SourceFile):
    """A file of a chapter."""

    def __init__(self, chapter: Chapter, name: str, frames: list[int], at_ns: int) -> None:
        super().__init__(name, chapter.path, at_ns)
        self._chapter = chapter
        self._frames = frames

    @property
    def is_one_kubelets(self) -> bool:
        """As ``SourceFile.is_one_kubelets``: a node that often boots gives process IDs again."""
        return True

    @property
    def is_as_written(self) -> bool:
        """As ``SourceFile.is_as_written``: what could not be read comes late."""
        return self.name not in self._chapter.with_gaps

    def chunks(self) -> Iterator[bytes]:
        """The content; a document that was observed again is as it was then."""
        for offset in self._frames:
            batch = self._chapter.batch_at(offset)
            for each in batch.seen:
                if _name(each) == self.name:
                    data = gap_line(each, batch.at_ns) if isinstance(each, Gap) else each.data
                    for begin in range(0, len(data), _CHUNK_BYTES):
                        self._chapter.goes_on()
                        yield data[begin : begin + _CHUNK_BYTES]


def _name(observation: Observation) -> str:
    match observation:
        case Lines():
            return observation.stream
        case Document():
            return observation.name
        case Gap():
            return GAPS


def _frames(file: BinaryIO, begin: int, upto: int | None) -> Iterator[tuple[int, int, Batch]]:
    """Begin and end of the whole frames of a file, or of a part of it, and what they hold."""
    at: int | None = begin
    while at is not None and (upto is None or at < upto):
        batch = _read(file, at)
        if batch is None:
            at = _next_mark(file, at + 1)
        else:
            begin, at = at, file.tell()
            yield begin, at, batch


def _read(file: BinaryIO, at: int) -> Batch | None:
    """The batch whose frame begins there; None where none does, or not all of it is there."""
    file.seek(at)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    mark, length, crc = HEAD.unpack(head)
    if mark != MARK or length > FRAME_BYTES_MAX:
        return None
    data = file.read(length)
    return _unpacked(data, crc) if len(data) == length else None


def _next_mark(file: BinaryIO, at: int) -> int | None:
    """Where a frame may begin next."""
    file.seek(at)
    window = b""
    while piece := file.read(_WINDOW):
        window = window[1 - len(MARK) :] + piece
        found = window.find(MARK)
        if found >= 0:
            return file.tell() - len(window) + found
    return None


def _unpacked(data: bytes, crc: int) -> Batch | None:
    if zlib.crc32(data) != crc:
        return None
    try:
        if not 0 <= zstandard.frame_content_size(data) <= FRAME_BYTES_MAX:
            return None
        text = zstandard.ZstdDecompressor().decompress(data)
        return msgspec.msgpack.decode(text, type=Batch)
    except (zstandard.ZstdError, msgspec.MsgspecError):
        return None
