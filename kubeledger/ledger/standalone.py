"""Records in a file of their own: ``*.ledger.jsonl``, or ``.zst`` of it. Same lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from kubeledger.ledger.sealing import decompress
from kubeledger.ledger.segments import lines_of
from kubeledger.ledger.storage import TEMPORARY_SUFFIX, storage_errors
from kubeledger.model.errors import BadInputError, reason_of
from kubeledger.model.record import Record
from kubeledger.model.wire.catalogue import flaw_of_values
from kubeledger.model.wire.codec import (
    GENESIS,
    BadLineError,
    chain_of,
    check_crc,
    check_line,
    decode_line,
    encode_line,
)

_BLOCK_BYTES = 256 << 10


def read_recording(path: str | Path, *, proved: bool = True) -> Iterator[Record]:
    """Records of a file, each checked; memory is flat.

    Lines of several nodes may be mixed; each node has its own chain and numbers. A node may
    begin at any record (an excerpt): the chain is proved from there on.

    Args:
        proved: CRC and chain of each line must fit; without, a line may have been changed by
            hand, and only its numbering and its types are checked.

    Raises:
        BadInputError: no such file, or a line is damaged (named with file and line).
    """
    place = Path(path)
    ends: dict[str, tuple[int, bytes]] = {}
    number = offset = 0
    try:
        with place.open("rb") as file:
            for piece in lines_of(blocks_of_recording(file)):
                for line in piece.lines:
                    number += 1
                    yield _checked(line, ends, proved=proved)
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
        reason = reason_of(error).lower()
        raise BadInputError(f"cannot be read: {reason}", file=str(path)) from error


def encode_recording(records: Iterable[Record]) -> Iterator[bytes]:
    """Lines of a recording; each node's chain begins again.

    Raises:
        BadInputError: a record cannot be written.
    """
    ends: dict[str, bytes] = {}
    for record in records:
        try:
            line, digest = encode_line(record, ends.get(record.node, GENESIS))
        except BadLineError as error:
            raise BadInputError(f"record {record.seq}: {error}") from error
        ends[record.node] = digest
        yield line


def write_recording(path: str | Path, records: Iterable[Record]) -> int:
    """Write a recording in place of the file at ``path``, if one is there; all of it or nothing.

    Args:
        path: compressed if it ends with ``.zst``.
        records: numbered without a gap, a node at a time or mixed.

    Returns:
        how many.

    Raises:
        BadInputError: a record cannot be written.
        LedgerUnavailableError: the operating system refused.
    """
    return write_lines(path, encode_recording(records))


def write_lines(path: str | Path, lines: Iterable[bytes]) -> int:
    """As :func:`write_recording`, for lines of records as they are."""
    place = Path(path)
    count = 0
    temporary = place.with_name(place.name + TEMPORARY_SUFFIX)
    with storage_errors("write the recording", place):
        try:
            with temporary.open("wb") as file, _compressed(place, file) as sink:
                for line in lines:
                    sink.write(line)
                    count += 1
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)
    return count


@contextmanager
def _compressed(path: Path, file: BinaryIO) -> Iterator[BinaryIO]:
    if path.suffix != ".zst":
        yield file
        return
    with zstandard.ZstdCompressor(level=19).stream_writer(file, closefd=False) as sink:
        yield cast(BinaryIO, sink)


def blocks_of_recording(file: BinaryIO) -> Iterator[bytes]:
    """Lines of a recording, decompressed if need be, in blocks.

    Raises:
        EOFError: the file ends inside a compressed frame.
        zstandard.ZstdError: it is damaged.
    """
    magic = file.read(4)
    file.seek(0)
    if magic == zstandard.FRAME_HEADER:
        yield from decompress(file)
        return
    while block := file.read(_BLOCK_BYTES):
        yield block


def _checked(line: bytes, ends: dict[str, tuple[int, bytes]], *, proved: bool) -> Record:
    if proved:
        check_crc(line)
    record = decode_line(line)
    # A ledger's own lines were checked when they were written; these may be anyone's.
    if (flaw := flaw_of_values(record)) is not None:
        raise BadLineError(flaw)
    seq, digest = ends.get(record.node, (record.seq - 1, GENESIS))
    if record.seq != seq + 1:
        raise BadLineError(f"record {record.seq} of {record.node} follows record {seq}")
    excerpt = not proved or (record.node not in ends and record.seq != 1)
    digest = chain_of(line) if excerpt else check_line(line, digest)
    ends[record.node] = (record.seq, digest)
    return record
