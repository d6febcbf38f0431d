"""How a file's content is packed, from gzip to a binary journal; and temporary files for it.

The first bytes show it, never the name. What comes before a damage is not lost.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import mmap
import os
import shutil
import signal
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, BinaryIO, NamedTuple

import zstandard

from kubeledger.model.errors import BadInputError, reason_of

CHUNK = 1 << 20

_RATIO_MAX = 1000
_BOMB_FLOOR = 4 << 30
"""Decompressed bytes up to which any ratio is believed."""

_WINDOW_MAX = 1 << 27
"""Bytes of memory that a packed file may ask for."""

_UTF8_MARK = codecs.BOM_UTF8
_SAMPLE = 512
_SUFFIXES = (".gz", ".zst", ".xz", ".bz2", ".lzma")
_DAMAGED = (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError, ValueError)


class TooLargeError(Exception):
    """A file unpacks to more bytes than can be right; ``args[0]``: how many are the most."""


class _Packing(NamedTuple):
    """One way to pack.

    Attributes:
        magic: the first bytes.
        piece: packed bytes that are unpacked at once: bounds what one step of a bomb can take.
            A byte of gzip stands for a thousand at most, one of the others for tens of thousands.
        frame: makes what unpacks one frame.
    """

    magic: bytes
    piece: int
    frame: Callable[[], Any]


_PACKINGS = (
    _Packing(b"\x1f\x8b", 16 << 10, lambda: zlib.decompressobj(31)),
    _Packing(
        b"\x28\xb5\x2f\xfd",
        2 << 10,
        lambda: zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX).decompressobj(),
    ),
    _Packing(b"\xfd7zXZ\0", 2 << 10, lambda: lzma.LZMADecompressor(memlimit=_WINDOW_MAX)),
    _Packing(b"BZh", 2 << 10, bz2.BZ2Decompressor),
    _Packing(b"\x5d\0\0", 2 << 10, lambda: lzma.LZMADecompressor(memlimit=_WINDOW_MAX)),
)


def without_suffix(name: str) -> str:
    """A file's name without what says that it is packed."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def content_of(raw: BinaryIO, size: int, damaged: Callable[[], None]) -> Iterator[bytes]:
    """The unpacked bytes of a file; they end early where it is damaged or cut.

    Args:
        raw: at the beginning of the file.
        damaged: called where the content ends early.

    Raises:
        TooLargeError: it unpacks to an absurd size.
    """
    head = raw.read(8)
    raw.seek(0)
    packing = next((each for each in _PACKINGS if head.startswith(each.magic)), None)
    if packing is None:
        while chunk := raw.read(CHUNK):
            yield chunk
    else:
        yield from _frames(raw, packing, max(_BOMB_FLOOR, size * _RATIO_MAX), damaged)


def _frames(
    raw: BinaryIO, packing: _Packing, limit: int, damaged: Callable[[], None]
) -> Iterator[bytes]:
    """Unpack frame after frame."""
    total = 0
    unpacker = None
    while piece := raw.read(packing.piece):
        while piece:
            if unpacker is None and not (piece := piece.lstrip(b"\0")):
                break  # padding between or behind frames
            unpacker = unpacker or packing.frame()
            try:
                chunk = unpacker.decompress(piece)
            except _DAMAGED:
                damaged()
                return
            total += len(chunk)
            if total > limit:
                raise TooLargeError(limit)
            if chunk:
                yield chunk
            piece = unpacker.unused_data if unpacker.eof else b""
            unpacker = None if unpacker.eof else unpacker
    if unpacker is not None:
        damaged()


def as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A content as UTF-8, without a byte order mark: some editors and shells write one.

    Windows' tools write UTF-16, with a mark or without.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= _SAMPLE:
            break
    coding = _utf16_of(head[:_SAMPLE])
    if coding is None:
        if head := head.removeprefix(_UTF8_MARK):
            yield head
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(coding)("replace")
    yield decoder.decode(head).removeprefix("\ufeff").encode("utf-8", "replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    if rest := decoder.decode(b"", final=True):
        yield rest.encode("utf-8", "replace")


def _utf16_of(head: bytes) -> str | None:
    """The coding of a text in UTF-16; without a mark, every other byte of it is zero."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    if len(head) < 16 or b"\0" not in head:
        return None
    even, odd = head[::2], head[1::2]
    if even.isascii() and b"\0" not in even and odd.count(0) == len(odd):
        return "utf-16-le"
    if odd.isascii() and b"\0" not in odd and even.count(0) == len(even):
        return "utf-16-be"
    return None


# Temporary files: the directory that archives are unpacked into, contents without a name.


@contextmanager
def spool_directory() -> Iterator[Path]:
    """An empty directory that is gone afterwards, also when SIGTERM ends the process.

    Raises:
        BadInputError: there is no place for it.
    """
    try:
        directory = tempfile.TemporaryDirectory(prefix="kubeledger-import-")
    except OSError as error:
        raise BadInputError(
            f"no temporary directory can be made: {reason_of(error)}",
            advice="TMPDIR names the directory for it; it needs room",
        ) from None
    with directory, _terminated_by_exit():
        yield Path(directory.name)


def mapped(file: IO[bytes]) -> mmap.mmap | bytes:
    """The bytes of a temporary file, which stay when it is closed and has no name any more."""
    file.flush()
    size = os.fstat(file.fileno()).st_size
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def forget_pages(data: mmap.mmap | bytes) -> None:
    """Give back the memory in which pages of a mapped file were read."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


@contextmanager
def _terminated_by_exit() -> Iterator[None]:
    """Let SIGTERM unwind the stack, unless the program around has its own handler."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


# Binary journal files, read by systemd's own ``journalctl``.
#
# Their format changes with systemd; the export format, which it writes, does not.

JOURNAL_MAGIC = b"LPKSHHRH"

_FIELDS = (
    *("MESSAGE", "SYSLOG_IDENTIFIER", "_COMM", "_HOSTNAME", "_SYSTEMD_UNIT", "_PID", "_TRANSPORT"),
    *("_LINE_BREAK", "_SOURCE_REALTIME_TIMESTAMP"),
)


class JournalFile:
    """A journal file as ``journalctl -o export`` writes it, in a temporary file without a name."""

    def __init__(self, name: str, first: bytes, rest: Iterator[bytes]) -> None:
        """Read the journal.

        Args:
            name: of the file, for errors.

        Raises:
            BadInputError: there is no ``journalctl``, or it cannot read the file.
            OSError: there is no room.
        """
        program = shutil.which("journalctl")
        if program is None:
            raise _unread(name, "is a binary journal, and this machine has no journalctl")
        import subprocess  # few imports hold one

        with (
            tempfile.NamedTemporaryFile(prefix="kubeledger-", suffix=".journal") as journal,
            tempfile.TemporaryFile(prefix="kubeledger-journal-") as export,
        ):
            journal.write(first)
            for chunk in rest:
                journal.write(chunk)
            journal.flush()
            command = [program, "--quiet", "--no-pager", "--output=export"]
            command += [f"--output-fields={','.join(_FIELDS)}", f"--file={journal.name}"]
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=export,
                stderr=subprocess.PIPE,
                check=False,
            )
            self._export = mapped(export)
        if done.returncode != 0 and not self._export:
            words = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise _unread(name, f"is a binary journal that journalctl cannot read: {words[:200]}")

    def chunks(self) -> Iterator[bytes]:
        export = self._export
        for at in range(0, len(export), CHUNK):
            yield export[at : at + CHUNK]
            forget_pages(export)


def _unread(name: str, why: str) -> BadInputError:
    last = name.rpartition("/")[2]
    return BadInputError(
        why,
        file=name,
        advice=f"run `journalctl --file {last} -o export > {last}.export` where that works, and "
        "import what it writes",
    )
