"""Writing one part: proved lines in, Parquet files by date out."""

from __future__ import annotations

import os
from collections.abc import Generator
from itertools import takewhile
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import duckdb

from kubeledger.ledger.history.index import Part, PartFile
from kubeledger.ledger.history.lines import create_lines, quoted, rows_sql
from kubeledger.ledger.history.upcasting import upcast_lines
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.names import TEMPORARY_SUFFIX, node_directory
from kubeledger.ledger.reader import Verify
from kubeledger.ledger.regular import file_crc
from kubeledger.ledger.storage import OWN_DIRECTORY, OWN_FILE
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.wire.codec import chain_of

PART_BYTES = 64 << 20
"""A part holds about as many bytes of lines at most: what is in memory while it is made."""

_COPY_OPTIONS = (
    "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, ROW_GROUP_SIZE 122880,"
    " PARQUET_VERSION v2"
)


class Piece(NamedTuple):
    """Lines of one segment, each one proved, in a file of their own.

    Attributes:
        path: the file; it is overwritten when the next piece is taken.
        segment: path of the segment.
        chain: chain digest of the last record, 64 hex digits.
    """

    path: Path
    segment: str
    first_seq: int
    last_seq: int
    chain: str


def pieces_of(
    ledger: Ledger,
    node: str,
    after_seq: int,
    path: Path,
    piece_bytes: int = PART_BYTES,
    upto_seq: int | None = None,
    verify: Verify = "chain",
) -> Generator[Piece, None, None]:
    """Copy the lines after a record (up to one), CRC and chain of each one checked (or the CRC).

    What is parsed later is the copy, so nothing can change between the proof and the use.

    Raises:
        DamagedLedgerError: a line is not as it was written; pieces before it were given.
        OSError: the copy cannot be written.
    """
    lines = ledger.raw_lines(node, after_seq, verify=verify)
    if upto_seq is not None:
        lines = takewhile(lambda raw: raw.seq <= upto_seq, lines)
    raw = next(lines, None)
    while raw is not None:
        first, size = raw, 0
        with path.open("wb") as file:
            while raw is not None and raw.file == first.file and size < piece_bytes:
                size += file.write(raw.line)
                last, raw = raw, next(lines, None)
        yield Piece(path, first.file, first.seq, last.seq, chain_of(last.line).hex())


def own_status(path: Path) -> os.stat_result | None:
    """Of a file of a part; None where it, or a directory above it, is a link or no regular file.

    Raises:
        OSError: there is nothing, or it may not be looked at.
    """
    status = path.lstat()
    linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
    return None if linked or not S_ISREG(status.st_mode) else status


def engine(scratch: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB without extensions from elsewhere; what does not fit into memory goes to scratch."""
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": str(scratch),
        },
    )


class PartWriter:
    """Turns pieces into Parquet files below a directory; a context manager.

    Attributes:
        root: the history's directory.
    """

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root = root
        self._scratch = scratch
        self._connection = engine(scratch)

    def close(self) -> None:
        """Let go of memory."""
        self._connection.close()

    def write(self, node: str, piece: Piece) -> Part:
        """Write the files of a part.

        Raises:
            DamagedLedgerError: a line is not a record, or one of a newer version.
            duckdb.Error, OSError: a file cannot be written.
        """
        self._connection.execute("DROP TABLE IF EXISTS part")
        try:
            self._connection.execute(create_lines("part", str(piece.path)))
        except duckdb.InvalidInputException as error:
            raise DamagedLedgerError(
                "the segment holds a line that is not a record",
                advice="`kubeledger audit` shows what is damaged and where",
                file=piece.segment,
            ) from error
        upcast_lines(self._connection, "part", self._scratch)
        dates = self._connection.execute(
            "SELECT strftime(make_timestamp(ts_ns // 1000), '%Y-%m-%d') AS date, count(*)"
            " FROM part GROUP BY date ORDER BY date"
        ).fetchall()
        expected = piece.last_seq - piece.first_seq + 1
        if sum(count for _, count in dates) != expected:
            raise DamagedLedgerError(
                f"{expected} records were read as another number of rows", file=piece.segment
            )
        files = tuple(self._write_date(node, piece, date, count) for date, count in dates)
        self._connection.execute("DROP TABLE part")
        return Part(
            first_seq=piece.first_seq, last_seq=piece.last_seq, chain=piece.chain, files=files
        )

    def _write_date(self, node: str, piece: Piece, date: str, count: int) -> PartFile:
        name = (
            f"node={node_directory(node)}/date={date}/"
            f"{piece.first_seq:020d}-{piece.last_seq:020d}.parquet"
        )
        path = self.root / name
        for directory in (path.parent.parent, path.parent):
            directory.mkdir(OWN_DIRECTORY, exist_ok=True)
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        temporary.unlink(missing_ok=True)  # a link that stands there would be followed
        written = self._connection.execute(
            f"COPY ({rows_sql('part')} WHERE strftime(ts, '%Y-%m-%d') = {quoted(date)})"
            f" TO {quoted(str(temporary))} ({_COPY_OPTIONS})"
        ).fetchone()
        if written is None or written[0] != count:
            raise OSError(f"{path} was not written in full")
        temporary.chmod(OWN_FILE)
        file = PartFile(name=name, size_bytes=temporary.stat().st_size, crc=file_crc(temporary))
        os.replace(temporary, path)  # noqa: PTH105 - named as the system call it is
        return file
