"""``nodes/<node>/capture``: the frames of what a recorder observed and has not imported yet.

What is in them is the recorder's (``record.chapters``). Here is how they stand in a file, and
what of it is not as it was written: until its import a chapter is the only copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO
from zlib import crc32

import zstandard

from kubeledger.ledger.names import NODES, node_directory
from kubeledger.ledger.regular import open_regular
from kubeledger.ledger.storage import storage_errors

__all__ = ["CAPTURE", "ENDED", "FRAME_BYTES_MAX", "HEAD", "MARK", "OPEN", "capture_flaws"]

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
