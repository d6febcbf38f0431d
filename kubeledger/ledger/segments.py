"""Segment files as streams of lines, each with the offset where it begins.

Offsets count the bytes of the lines, compressed or not. Nothing here trusts a line: see
:mod:`kubeledger.ledger.reader` for the checks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard

from kubeledger.ledger.sealing import decompress, seek_table
from kubeledger.ledger.storage import (
    SEALED_SUFFIX,
    NotRegularError,
    open_regular,
    segment_file,
    segment_first_seq,
)
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.patterns import regex

LINE_BYTES_MAX = 16 << 20
"""A longer line is damage; the writer refuses to write one."""

_BLOCK_BYTES = 256 << 10
_SEQ = regex(rb'\{"node":"(?:[^"\\]|\\.)*","seq":(\d{1,19}),')


_HELD_MAX = 100
"""So many files a reader holds open at once; processes get 1024 or less."""


class SegmentGoneError(DamagedLedgerError):
    """A segment that was listed is there in no form any more."""


class Segment(NamedTuple):
    """A segment file. ``open`` says that a writer may still append to it.

    ``descriptor`` is the file, held open; it is read from there even if its name is gone.
    """

    path: Path
    first_seq: int
    open: bool
    descriptor: int | None = None

    @property
    def sealed(self) -> bool:
        return self.path.name.endswith(SEALED_SUFFIX)

    @property
    def sealed_path(self) -> Path:
        """Where it stands once it is compressed."""
        return self.path.with_name(segment_file(self.first_seq, sealed=True))

    def file(self) -> BinaryIO:
        """Its bytes, from the first on; each call has a position of its own.

        Raises:
            FileNotFoundError: it is not held, and its name is gone.
        """
        if self.descriptor is None:
            return open_regular(self.path)
        return BufferedReader(_Held(self.descriptor), _BLOCK_BYTES)


class _Held(RawIOBase):
    """Reads a descriptor that others read, too; closing it leaves the descriptor open."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        start = starts[whence] if whence in starts else os.fstat(self._descriptor).st_size
        self._position = start + offset
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] # what it gets
        data = os.pread(self._descriptor, len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


@contextmanager
def hold(
    segments: Sequence[Segment], count: int = _HELD_MAX, *, irregular: bool = False
) -> Iterator[list[Segment]]:
    """Hold the first ``count`` files open: they can be read to the end, whatever is dropped.

    Args:
        count: how many at most.
        irregular: pass over what is not a regular file; reading it reports it.

    Raises:
        SegmentGoneError: one of them is gone already; nothing was read.
        OSError: it cannot be opened.
    """
    with ExitStack() as files:
        held = [_held(segment, files, irregular=irregular) for segment in segments[:count]]
        yield [*held, *segments[count:]]


def _held(segment: Segment, files: ExitStack, *, irregular: bool) -> Segment:
    sealed = segment._replace(path=segment.sealed_path, open=False)
    for form in (segment, sealed):  # it may have been sealed since it was listed
        try:
            file = files.enter_context(open_regular(form.path))
        except FileNotFoundError:
            continue
        except NotRegularError:
            if not irregular:
                raise
            return form
        return form._replace(descriptor=file.fileno())
    raise _gone(segment)


def _gone(segment: Segment) -> SegmentGoneError:
    return SegmentGoneError("the segment is gone", file=str(segment.path))


class Lines(NamedTuple):
    """Whole lines, one after the other.

    Attributes:
        offset: where the first begins.
        lines: (n,) with their newlines.
        rest: what follows the last newline of the file; empty but in the last piece.
    """

    offset: int
    lines: list[bytes]
    rest: bytes = b""


def list_segments(directory: Path) -> list[Segment]:
    """Segments of a node in the order of seq.

    Of a segment that is there twice (a crash while it was sealed) the plain file counts.
    """
    names = _names(directory)
    while (again := _names(directory)) != names:
        # A segment that is sealed while the directory is read can be missed in both forms.
        names = again
    found: dict[int, Path] = {}
    for name in sorted(names):  # ".jsonl" comes before ".jsonl.zst"
        first_seq = segment_first_seq(name)
        if first_seq is not None:
            found.setdefault(first_seq, directory / name)
    last = max(found, default=0)
    return [
        Segment(path, first, first == last and not path.name.endswith(SEALED_SUFFIX))
        for first, path in sorted(found.items())
    ]


def _names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def blocks_of(segment: Segment, offset: int = 0) -> Iterator[bytes]:
    """Content of a segment from ``offset`` on (a frame's start, if it is sealed).

    A plain file that the writer sealed in the meantime is read from its sealed file.

    Raises:
        DamagedLedgerError: the compressed file is damaged or cut, or the file is gone.
    """
    try:
        file = segment.file()
    except FileNotFoundError:
        if segment.sealed or not segment.sealed_path.exists():
            raise _gone(segment) from None
        sealed = Segment(segment.sealed_path, segment.first_seq, open=False)
        yield from _skip(blocks_of(sealed), offset)
        return
    with file:
        yield from _sealed_blocks(segment, file, offset) if segment.sealed else _plain(file, offset)


def _plain(file: BinaryIO, offset: int) -> Iterator[bytes]:
    file.seek(offset)
    while block := file.read(_BLOCK_BYTES):
        yield block


def _sealed_blocks(segment: Segment, file: BinaryIO, offset: int) -> Iterator[bytes]:
    # From the frame that holds the offset: what stands before it costs nothing.
    before = [frame for frame in seek_table(file) if frame.offset <= offset]
    start, stored_start = (before[-1].offset, before[-1].stored_offset) if before else (0, 0)
    file.seek(stored_start)
    position = start
    try:
        for block in _skip(decompress(file), offset - start):
            position += len(block)
            yield block
    except (EOFError, zstandard.ZstdError) as error:
        raise DamagedLedgerError(
            f"the compressed segment is damaged: {error}",
            advice="restore the file from a copy",
            file=str(segment.path),
            offset=position,
        ) from error


def _skip(blocks: Iterator[bytes], count: int) -> Iterator[bytes]:
    for block in blocks:
        if count < len(block):
            yield block[count:]
        count = max(0, count - len(block))


def lines_of(blocks: Iterator[bytes], offset: int = 0) -> Iterator[Lines]:
    """Cut blocks into lines; the last piece holds what follows the last newline."""
    rest = b""
    for block in blocks:
        lines = BytesIO(rest + block).readlines()  # splits at b"\\n" only, in C
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        if lines:
            yield Lines(offset, lines)
            offset += sum(map(len, lines))
        if len(rest) > LINE_BYTES_MAX:
            break
    if rest:
        yield Lines(offset, [], rest)


def locate(segment: Segment, seq: int) -> tuple[int, int]:
    """An offset where a line begins, near and not after record ``seq``, and that line's seq.

    It reads a few lines only and trusts what they say: the caller checks the line it wants.
    """
    starts = _starts(segment)
    low, high = (0, segment.first_seq), len(starts)
    first = 1
    while first < high:
        middle = (first + high) // 2
        found = _seq_at(segment, starts[middle])
        if found is not None and found[1] <= seq:
            low, first = found, middle + 1
        else:
            high = middle
    return low


def _starts(segment: Segment) -> Sequence[int]:
    """Places to look at: frames, or any places in a plain file (the next line there is meant)."""
    if segment.sealed:
        with segment.file() as file:
            return [frame.offset for frame in seek_table(file)]
    try:
        with segment.file() as file:
            return range(0, file.seek(0, os.SEEK_END), _BLOCK_BYTES)
    except FileNotFoundError:  # sealed in this moment: its start will do
        return ()


def _seq_at(segment: Segment, offset: int) -> tuple[int, int] | None:
    """Offset and seq of the first line that begins at or after ``offset``."""
    # One byte more shows whether a line begins right there; sealed frames always begin one.
    start = offset if segment.sealed else offset - 1
    data = b""
    for block in blocks_of(segment, start):
        data += block
        skipped = 0 if segment.sealed else data.find(b"\n") + 1
        if (skipped or segment.sealed) and (match := _SEQ.match(data, skipped)):
            return start + skipped, int(match[1])
        if len(data) > LINE_BYTES_MAX:
            break
    return None
