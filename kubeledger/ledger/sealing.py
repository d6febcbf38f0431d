"""Sealed segments, compressed and found by a table; and small JSON documents under a CRC."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeVar
from zlib import crc32

import msgspec
import zstandard

from kubeledger.ledger.storage import (
    SEALED_SUFFIX,
    SEGMENT_SUFFIX,
    TEMPORARY_SUFFIX,
    file_crc,
    new_file,
    open_regular,
    read_regular,
    remove,
    sync_directory,
    write_atomically,
)
from kubeledger.model.errors import DamagedLedgerError

# Sealed segments: zstd frames that begin at a line, and a table to find them by.
#
# A sealed file is a plain zstd file (``zstd -d`` reads it). Its frames hold about a MiB of
# whole lines each, with zstd's own checksum; after them comes the seek table of zstd's
# seekable format: a skippable frame with both sizes of every frame.

_FRAME_BYTES = 1 << 20
_INPUT_BYTES = 4096  # small, so that a bomb cannot blow up more than a bounded piece at once
_SKIPPABLE = struct.Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A5E
_ENTRY = struct.Struct("<II")
_FOOTER = struct.Struct("<IBI")
_FOOTER_MAGIC = 0x8F92EAB1


class Frame(NamedTuple):
    """Where a frame begins: in the file, and in the lines."""

    stored_offset: int
    offset: int


class _Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...


def compress(source: BinaryIO, target: _Sink, level: int) -> int:
    """Write ``source`` as frames and a seek table.

    Returns:
        bytes of source read.
    """
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
    entries: list[bytes] = []
    total = 0
    while block := source.read(_FRAME_BYTES):
        block += source.readline()
        frame = compressor.compress(block)
        target.write(frame)
        entries.append(_ENTRY.pack(len(frame), len(block)))
        total += len(block)
    table = b"".join(entries) + _FOOTER.pack(len(entries), 0, _FOOTER_MAGIC)
    target.write(_SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(table)) + table)
    return total


def decompress(file: BinaryIO) -> Iterator[bytes]:
    """Blocks of the decompressed content from the file's position on; memory is flat.

    Raises:
        EOFError: the file ends inside a frame.
        zstandard.ZstdError: damaged.
    """
    decompressor = zstandard.ZstdDecompressor()
    frame: zstandard.ZstdDecompressionObj | None = None
    data = b""
    while data := data or file.read(_INPUT_BYTES):
        if frame is None:
            frame = decompressor.decompressobj()
        block = frame.decompress(data)
        data = frame.unused_data
        if frame.eof:
            frame = None
        if block:
            yield block
    if frame is not None:
        raise EOFError("the file ends inside a compressed frame")


def seek_table(file: BinaryIO) -> list[Frame]:
    """Frames of a sealed segment; empty when the file holds no such table.

    The table is only an index: what is read through it is checked like all else.
    """
    size = file.seek(0, os.SEEK_END)
    if size < _FOOTER.size:
        return []
    file.seek(size - _FOOTER.size)
    count, flags, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    table_bytes = count * _ENTRY.size
    if magic != _FOOTER_MAGIC or flags or table_bytes + _FOOTER.size + _SKIPPABLE.size > size:
        return []
    file.seek(size - _FOOTER.size - table_bytes)
    entries = list(_ENTRY.iter_unpack(file.read(table_bytes)))
    stored = accumulate((entry[0] for entry in entries), initial=0)
    plain = accumulate((entry[1] for entry in entries), initial=0)
    return [Frame(*starts) for starts in zip(stored, plain, strict=True)][:-1]


def seal(plain: Path, level: int) -> tuple[int, str]:
    """Compress a segment that nobody writes any more, then remove the plain file.

    A crash leaves a ``.tmp`` file, or both forms; :func:`finish_seals` tidies up.

    Returns:
        size of the sealed file in bytes, and its CRC (CRC-32, 8 hex digits).

    Raises:
        OSError: as the operating system says; the plain file is still there.
        DamagedLedgerError: what was compressed does not read back the same.
    """
    sealed = plain.with_name(plain.name.removesuffix(SEGMENT_SUFFIX) + SEALED_SUFFIX)
    temporary = sealed.with_name(sealed.name + TEMPORARY_SUFFIX)
    try:
        with open_regular(plain) as source, new_file(temporary) as target:
            compress(source, target, level)
        if not _same(plain, temporary):
            raise DamagedLedgerError("its compressed form differs", file=str(plain))
        crc = file_crc(temporary)
        os.replace(temporary, sealed)  # noqa: PTH105 - named as the system call it is
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(sealed.parent)
    remove(plain)
    return target.size_bytes, crc


def finish_seals(directory: Path) -> list[Path]:
    """After a crash: drop unfinished files, and plain files whose sealed form is whole.

    Returns:
        the files removed.

    Raises:
        DamagedLedgerError: both forms of a segment are there and differ.
        OSError: as the operating system says.
    """
    removed = sorted(directory.glob(f"*{TEMPORARY_SUFFIX}"))
    for sealed in sorted(directory.glob(f"*{SEALED_SUFFIX}")):
        plain = sealed.with_name(sealed.name.removesuffix(SEALED_SUFFIX) + SEGMENT_SUFFIX)
        if not plain.exists():
            continue
        if not _same(plain, sealed):
            raise DamagedLedgerError(
                f"this segment and its compressed form {sealed.name} differ",
                advice="keep the sound one (see `kubeledger audit`) and move the other away",
                file=str(plain),
            )
        removed.append(plain)
    for path in removed:
        remove(path)
    return removed


def _same(plain: Path, sealed: Path) -> bool:
    try:
        with open_regular(plain) as left, open_regular(sealed) as right:
            for block in decompress(right):
                if left.read(len(block)) != block:
                    return False
            return not left.read(1)
    except (EOFError, zstandard.ZstdError):
        return False


# Small JSON documents with a CRC over themselves as their last key: manifest and base.

T = TypeVar("T")

_CRC_KEY = b',\n  "crc": "'
_CRC_PART = b'%08x"\n}\n'


def save_sealed(path: Path, document: msgspec.Struct) -> None:
    """Write a document atomically.

    Raises:
        OSError: as the operating system says.
    """
    write_atomically(path, sealed(document))


def load_sealed(path: Path, type_: type[T], bytes_max: int) -> T | None:
    """The document of a file; None when there is none, or a damaged one.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        return unsealed(read_regular(path, bytes_max), type_)
    except (FileNotFoundError, NotADirectoryError):
        return None


def sealed(document: msgspec.Struct) -> bytes:
    """A document with its CRC."""
    encoded = msgspec.json.encode(document, order="deterministic")
    text = msgspec.json.format(encoded, indent=2).removesuffix(b"\n}")
    return text + _CRC_KEY + _CRC_PART % crc32(text)


def unsealed(data: bytes, type_: type[T]) -> T | None:
    """A document whose CRC fits; None where it does not, or fits to something else."""
    text, key, crc = data.rpartition(_CRC_KEY)
    if not key or crc != _CRC_PART % crc32(text):
        return None
    try:
        return msgspec.json.decode(text + b"}", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
