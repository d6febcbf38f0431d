"""Records in a file of their own: ``*.ledger.jsonl``, or ``.zst`` of it. Same lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from kubeledger.errors import BadInputError
from kubeledger.ledger.compression import decompress
from kubeledger.ledger.segments import lines_of
from kubeledger.machine import Record
from kubeledger.wire.codec import (
    GENESIS,
    BadLineError,
    chain_of,
    check_crc,
    check_line,
    decode_line,
)

__all__ = ["read_recording"]

_BLOCK_BYTES = 256 << 10


def read_recording(path: str | Path) -> Iterator[Record]:
    """Records of a file, each checked; memory is flat.

    Lines of several nodes may be mixed; each node has its own chain and numbers. A node may
    begin at any record (an excerpt): the chain is proved from there on.

    Raises:
        BadInputError: no such file, or a line is damaged (named with file and line).
    """
    place = Path(path)
    ends: dict[str, tuple[int, bytes]] = {}
    number = offset = 0
    try:
        with place.open("rb") as file:
            for piece in lines_of(_blocks(file)):
                for line in piece.lines:
                    number += 1
                    yield _checked(line, ends)
                    offset += len(line)
                if piece.rest:
                    number += 1
                    raise BadLineError("the file ends inside a record")
    except (BadLineError, EOFError, zstandard.ZstdError) as error:
        raise BadInputError(
            f"{error} (record at byte {offset})",
            advice="get an undamaged copy of the file",
            file=str(path),
            line=max(number, 1),
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot be read: {reason}", file=str(path)) from error


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    magic = file.read(4)
    file.seek(0)
    if magic == zstandard.FRAME_HEADER:
        yield from decompress(file)
        return
    while block := file.read(_BLOCK_BYTES):
        yield block


def _checked(line: bytes, ends: dict[str, tuple[int, bytes]]) -> Record:
    check_crc(line)
    record = decode_line(line)
    seq, digest = ends.get(record.node, (record.seq - 1, GENESIS))
    if record.seq != seq + 1:
        raise BadLineError(f"record {record.seq} of {record.node} follows record {seq}")
    excerpt = record.node not in ends and record.seq != 1
    digest = chain_of(line) if excerpt else check_line(line, digest)
    ends[record.node] = (record.seq, digest)
    return record
