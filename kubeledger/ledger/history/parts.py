"""Writing one part of the history: proved lines in, Parquet files by date and their index out."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from itertools import takewhile
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple
from zlib import crc32

import msgspec

from kubeledger.ledger.engine import duckdb, engine
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reader import Verify
from kubeledger.ledger.segments import LINE_BYTES_MAX
from kubeledger.ledger.storage import (
    OWN_DIRECTORY,
    OWN_FILE,
    TEMPORARY_SUFFIX,
    file_crc,
    node_directory,
    read_regular,
    write_atomically,
)
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.wire.catalogue import BODY_TYPES, UpcastError, upcast
from kubeledger.model.wire.codec import chain_of

# Lines as DuckDB reads them, and the rows that are kept of them.
#
# Both the Parquet files and the live tail hold these rows, so a view never knows which of
# them it reads. DuckDB's own JSON reader parses the lines, without Python per row.

EVIDENCE_TYPE = 'STRUCT(file VARCHAR, line BIGINT, "offset" BIGINT, "text" VARCHAR)[]'
_LINE_COLUMNS = {
    "node": "VARCHAR",
    "seq": "BIGINT",
    "ts_ns": "BIGINT",
    "role": "VARCHAR",
    "kind": "VARCHAR",
    "v": "INTEGER",
    "cause": "BIGINT",
    "evidence": EVIDENCE_TYPE,
    "body": "JSON",
}

ROW_COLUMNS = (
    *("node", "seq", "ts", "ts_ns", "role", "kind", "v", "cause_seq"),
    *("namespace", "pod", "pod_uid", "container", "source_file", "source_line"),
    *("evidence", "body"),
)
"""Columns of a row: those of the view ``events`` and the evidence."""


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def create_lines(
    table: str,
    path: str | None,
    *,
    kinds: frozenset[str] | None = None,
    evidence: bool = True,
) -> str:
    """The statement that fills a new table with lines.

    Args:
        table: its name; the columns are those of a line, without chain and CRC.
        path: file of whole lines, with no pattern in its name; None: the table stays empty.
        kinds: only records of these kinds; None means all.
        evidence: read it too; else it is NULL.
    """
    where = ""
    if kinds is not None:
        where = f"WHERE kind IN ({', '.join(quoted(kind) for kind in sorted(kinds) or [''])})"
    columns = [name for name in _LINE_COLUMNS if evidence or name != "evidence"]
    missing = "" if evidence else f", NULL::{EVIDENCE_TYPE} AS evidence"
    return f"CREATE TABLE {table} AS SELECT *{missing} FROM {_scan(path, columns)} {where}"


def _scan(path: str | None, columns: list[str]) -> str:
    if path is None:
        empty = ", ".join(f"NULL::{_LINE_COLUMNS[name]} AS {name}" for name in columns)
        return f"(SELECT {empty} WHERE false)"
    typed = ", ".join(f"{quoted(name)}: {quoted(_LINE_COLUMNS[name])}" for name in columns)
    return (
        f"read_json({quoted(path)}, format = 'newline_delimited', columns = {{{typed}}},"
        f" maximum_object_size = {LINE_BYTES_MAX})"
    )


_ABOUT = (
    *("namespace", "victim_namespace", "preemptor_namespace", "pod", "victim_pod", "preemptor_pod"),
    *("pod_uid", "victim_uid", "preemptor_uid", "container", "object_kind"),
)
"""Fields of bodies that name whom a record is about."""


def rows_sql(table: str) -> str:
    """A query that gives the rows (``ROW_COLUMNS``) of a table of lines, in its order.

    A preemption is about its victim, a failed preemption about the preemptor. A reason may
    be about the node; then ``pod`` in the body holds the node's name.
    """
    # One call for all fields parses each body once.
    paths = ", ".join(quoted(f"$.{name}") for name in _ABOUT)
    field = {name: f"fields[{n}]" for n, name in enumerate(_ABOUT, 1)}
    return f"""
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    ts_ns,
    role,
    kind,
    v,
    cause AS cause_seq,
    CASE WHEN about_pod THEN coalesce(
        {field["namespace"]}, {field["victim_namespace"]}, {field["preemptor_namespace"]}
    ) END AS namespace,
    CASE WHEN about_pod THEN coalesce(
        {field["pod"]}, {field["victim_pod"]}, {field["preemptor_pod"]}
    ) END AS pod,
    CASE
        WHEN NOT about_pod THEN NULL
        WHEN kind = 'preemption.PodPreempted' THEN {field["victim_uid"]}
        WHEN kind = 'preemption.PreemptionFailed' THEN {field["preemptor_uid"]}
        ELSE {field["pod_uid"]}
    END AS pod_uid,
    {field["container"]} AS container,
    evidence[1].file AS source_file,
    evidence[1].line AS source_line,
    evidence,
    body
FROM (
    SELECT
        *,
        kind <> 'lifecycle.ReasonReported' OR {field["object_kind"]} = 'Pod' AS about_pod
    FROM (SELECT *, json_extract_string(body, [{paths}]) AS fields FROM {table})
)"""


# Records of an old schema version among parsed lines: those few go through the upcasters.

_FETCH_ROWS = 10_000


def upcast_lines(connection: duckdb.DuckDBPyConnection, table: str, scratch: Path) -> None:
    """Bring all records of a table of lines to the current schema versions.

    Args:
        connection: holds the table.
        scratch: directory for a file of the moment.

    Raises:
        DamagedLedgerError: there are records of a newer version.
    """
    current = ", ".join(f"({quoted(kind)}, {body.v})" for kind, body in BODY_TYPES.items())
    old = connection.cursor().execute(
        f"SELECT node, seq, kind, v, body FROM {table}"
        f" WHERE (kind, v) NOT IN (VALUES {current}) ORDER BY node, seq"
    )
    rows = old.fetchmany(_FETCH_ROWS)
    if not rows:
        return
    # Through a file: the rows of a big old ledger never stand in memory at once.
    upcasted = scratch / "upcasted.jsonl"
    with upcasted.open("wb") as file:
        while rows:
            file.write(msgspec.json.Encoder().encode_lines([_upcasted(row) for row in rows]))
            rows = old.fetchmany(_FETCH_ROWS)
    connection.execute(
        f"UPDATE {table} AS lines SET v = fresh.v, body = fresh.body"
        f" FROM read_json({quoted(str(upcasted))}, format = 'newline_delimited',"
        " columns = {node: 'VARCHAR', seq: 'BIGINT', v: 'INTEGER', body: 'JSON'}) AS fresh"
        " WHERE lines.node = fresh.node AND lines.seq = fresh.seq"
    )
    upcasted.unlink()


def _upcasted(row: tuple[str, int, str, int, str]) -> dict[str, object]:
    node, seq, kind, v, body = row
    try:
        if kind not in BODY_TYPES:
            raise UpcastError(f"unknown kind {kind!r}")
        fresh = upcast(kind, v, msgspec.json.decode(body, type=dict))
    except UpcastError as error:
        raise DamagedLedgerError(
            f"record {seq} of {node}: {error}",
            advice="a newer kubeledger wrote this ledger: read it with that version",
        ) from None
    return {"node": node, "seq": seq, "v": BODY_TYPES[kind].v, "body": fresh}


# ``history/index.json``: which records the Parquet files hold, and what proves it.
#
# The index is a cache like the files it names. It carries a CRC over itself, a CRC of each
# file, and for each part the chain digest of its last record: what does not fit is made again.

HISTORY = "history"
INDEX = "index.json"
_BYTES_MAX = 256 << 20
_VERSION = 1
_CRC_DIGITS = 8

_NAME = re.compile(r"node=(?!\.\.?/)[^/\x00]+/date=[-+\d]+/\d{20}-\d{20}\.parquet")
_SCHEMA = repr((ROW_COLUMNS, sorted((kind, body.v) for kind, body in BODY_TYPES.items())))
FORM = f"{_VERSION}.{crc32(_SCHEMA.encode()):08x}"
"""Names the form of the rows: version of this code, columns, schema version of each kind.
Rows hold bodies that are upcast already, so files of another form are made again."""


class PartFile(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file.

    Attributes:
        name: path below the history's directory: ``node=.../date=.../FIRST-LAST.parquet``.
        size_bytes: of the file.
        crc: CRC-32 of its bytes, 8 hex digits.
    """

    name: str
    size_bytes: int
    crc: str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive records of one node and one segment, one file for each date.

    Attributes:
        first_seq, last_seq: the records.
        chain: chain digest of the last, 64 hex digits. It stands for all records before too.
        files: (n,) by date.
    """

    first_seq: int
    last_seq: int
    chain: str
    files: tuple[PartFile, ...]


class Index(msgspec.Struct, kw_only=True):
    """The whole index: node -> its parts, in the order of seq, without a gap."""

    form: str = FORM
    nodes: dict[str, list[Part]] = {}


class BadIndexError(Exception):
    """The index is not as it was written."""


class _Form(msgspec.Struct):
    form: str


def load_index(root: Path) -> Index:
    """The index of a history's directory; empty when it is missing, damaged or of another form.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        index = read_index(root)
    except BadIndexError:
        return Index()
    return index if index is not None and index.form == FORM else Index()


def read_index(root: Path) -> Index | None:
    """The index of a history's directory; None when there is none.

    One of another form names no parts: its files are not read.

    Raises:
        BadIndexError: it is damaged.
        OSError: it is there and cannot be read.
    """
    try:
        data = read_regular(root / INDEX, _BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    text, crc = data[: -_CRC_DIGITS - 1], data[-_CRC_DIGITS - 1 :]
    if crc != b"%08x\n" % crc32(text):
        raise BadIndexError
    try:
        form = msgspec.json.decode(text, type=_Form).form
        if form != FORM:
            return Index(form=form)
        index = msgspec.json.decode(text, type=Index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadIndexError from error
    names = [file.name for parts in index.nodes.values() for part in parts for file in part.files]
    if not all(map(_NAME.fullmatch, names)):
        raise BadIndexError
    return index


def save_index(root: Path, index: Index) -> None:
    """Write the index atomically.

    Raises:
        OSError: as the operating system says.
    """
    text = msgspec.json.encode(index, order="deterministic") + b"\n"
    write_atomically(root / INDEX, text + b"%08x\n" % crc32(text))


PART_BYTES = 64 << 20
"""A part holds about as many bytes of lines at most: what is in memory while it is made."""

_COPY_OPTIONS = (
    "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, ROW_GROUP_SIZE 40960,"
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
            while raw is not None and raw.file == first.file and size < PART_BYTES:
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
