"""Sealed segments: zstd frames that begin at a line, and a table to find them by.

A sealed file is a plain zstd file (``zstd -d`` reads it). Its frames hold about a MiB of
whole lines each, with zstd's own checksum; after them comes the seek table of zstd's
seekable format: a skippable frame with both sizes of every frame.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import BinaryIO, NamedTuple, Protocol

import zstandard

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
