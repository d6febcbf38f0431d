"""Fills an in-memory DuckDB with what a query reads of a ledger, then locks it.

DuckDB's own JSON reader parses the lines, in parallel and without Python per row. Records
of an old schema version are the exception: those few go through the upcasters.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import duckdb
import msgspec

from kubeledger.errors import BadQuestionError, DamagedLedgerError
from kubeledger.ledger.ledger import Ledger
from kubeledger.query.guard import one_line
from kubeledger.query.segments import SCAN_COLUMNS, SegmentFiles, quoted, scan_sql
from kubeledger.query.views import RECORDS, Needs, View, load_views
from kubeledger.wire.catalogue import BODY_TYPES
from kubeledger.wire.upcast import UpcastError, upcast

__all__ = ["load"]

_FETCH_ROWS = 10_000
_LOCKS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Last of all: from then on the connection reads no file and takes no setting."""


def load(
    ledger: Path, needs: Needs, *, memory_limit: str | None, spill: Path
) -> duckdb.DuckDBPyConnection:
    """A locked connection with the table ``records`` and every view.

    Args:
        ledger: directory of the ledger.
        needs: records of other kinds are not loaded.
        memory_limit: as DuckDB writes it (``2GB``); None is DuckDB's default.
        spill: directory for what does not fit into memory.

    Raises:
        BadQuestionError: there is no ledger, or the memory limit is no size.
        DamagedLedgerError: a segment holds what is no record, or records of a newer version.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": str(spill),
    }
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    try:
        connection = duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise BadQuestionError(
            f"{memory_limit!r} is no size of memory: {one_line(str(error))}",
            advice="write it as 500MB or 2GB",
        ) from error
    with SegmentFiles(ledger) as files:
        _prove(ledger)
        _load_records(connection, files, needs)
        _upcast_records(connection, files.scratch)
    for view in load_views().values():
        _create_view(connection, view)
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def _prove(ledger: Path) -> None:
    """Check every line's CRC: DuckDB would answer from a line in which a bit has flipped.

    Raises:
        DamagedLedgerError: naming file and offset.
    """
    opened = Ledger.open(ledger)
    for node in opened.nodes():
        deque(opened.raw_lines(node, verify="crc"), maxlen=0)


def _load_records(connection: duckdb.DuckDBPyConnection, files: SegmentFiles, needs: Needs) -> None:
    paths = [] if needs.kinds is not None and not needs.kinds else files.paths
    where = ""
    if needs.kinds is not None:
        where = f"WHERE kind IN ({', '.join(quoted(kind) for kind in sorted(needs.kinds) or [''])})"
    evidence = "evidence" if needs.evidence else f"NULL::{SCAN_COLUMNS['evidence']} AS evidence"
    try:
        connection.execute(
            f"""CREATE TABLE {RECORDS} AS
            SELECT
                node, seq, make_timestamp(ts_ns // 1000) AS ts, ts_ns, role, kind, v,
                cause AS cause_seq, {evidence}, body
            FROM {scan_sql(paths)} {where}"""
        )
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        raise _damaged(files, str(error)) from error


def _damaged(files: SegmentFiles, message: str) -> DamagedLedgerError:
    # DuckDB counts lines by its own blocks, so only the file is worth telling.
    segment = next((files.originals[path] for path in files.paths if path in message), None)
    return DamagedLedgerError(
        f"a segment cannot be read: {one_line(message).partition(' in file ')[0]}",
        advice="`kubeledger audit` shows what is damaged and where",
        file=segment,
    )


def _upcast_records(connection: duckdb.DuckDBPyConnection, scratch: Path) -> None:
    current = ", ".join(f"({quoted(kind)}, {body.v})" for kind, body in BODY_TYPES.items())
    old = connection.cursor().execute(
        f"SELECT node, seq, kind, v, body FROM {RECORDS}"
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
        f"UPDATE {RECORDS} SET v = fresh.v, body = fresh.body"
        f" FROM read_json({quoted(str(upcasted))}, format = 'newline_delimited',"
        " columns = {node: 'VARCHAR', seq: 'BIGINT', v: 'INTEGER', body: 'JSON'}) AS fresh"
        f" WHERE {RECORDS}.node = fresh.node AND {RECORDS}.seq = fresh.seq"
    )


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


def _create_view(connection: duckdb.DuckDBPyConnection, view: View) -> None:
    if view.sql:
        connection.execute(view.sql)
    for column in view.columns:
        comment = f"COMMENT ON COLUMN {view.name}.{column.name} IS {quoted(column.comment)}"
        connection.execute(comment)
