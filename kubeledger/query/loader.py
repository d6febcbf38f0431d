"""Sets up DuckDB for a query: Parquet history and live tail as one table, then locks it.

The history is read where it lies, as far as a query needs it. The tail behind it, a few
MiB, has every line's CRC and the chain checked and is parsed by DuckDB's own JSON reader.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from kubeledger.errors import BadQuestionError, DamagedLedgerError
from kubeledger.history.history import Coverage, History
from kubeledger.history.lines import ROW_COLUMNS, create_lines, quoted, rows_sql
from kubeledger.history.upcasting import upcast_lines
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import storage_errors
from kubeledger.query.guard import one_line
from kubeledger.query.verdicts import create_verdicts
from kubeledger.query.views import RECORDS, Needs, View, load_views

__all__ = ["load"]

_TAIL = "stored.tail"
_ROWS = "stored.rows"
_SUPERSEDED = "stored.superseded"
_LOCKS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Last of all: from then on the connection takes no setting, and reads no file but those of
the history."""


def load(
    history: History, needs: Needs, *, memory_limit: str | None, spill: Path
) -> duckdb.DuckDBPyConnection:
    """A locked connection with the table ``records`` and every view.

    Args:
        history: of the ledger.
        needs: records of other kinds are not loaded.
        memory_limit: as DuckDB writes it (``2GB``); None is DuckDB's default.
        spill: directory for what does not fit into memory.

    Raises:
        BadQuestionError: there is no ledger, or the memory limit is no size.
        duckdb.OutOfMemoryException: it does not suffice.
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
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise BadQuestionError(
            f"{memory_limit!r} is no size of memory: {one_line(str(error))}",
            advice="write it as 500MB or 2GB",
        ) from error
    connection.execute("CREATE SCHEMA stored")
    wanted = needs.kinds is None or bool(needs.kinds)
    covered = history.cover() if wanted else Coverage([], {})
    _load_tail(connection, history.ledger, covered if wanted else None, needs, spill)
    create_verdicts(connection, history.ledger, spill, verify=needs.verdicts)
    _create_rows(connection, covered.paths, _superseded(history.ledger))
    for view in load_views().values():
        _create_view(connection, view)
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def _load_tail(
    connection: duckdb.DuckDBPyConnection,
    ledger: Ledger,
    covered: Coverage | None,
    needs: Needs,
    scratch: Path,
) -> None:
    """Parse what stands behind the history; nothing at all where ``covered`` is None."""
    path = scratch / "tail.jsonl"
    try:
        if covered is not None:
            with storage_errors("copy the end of the ledger", path):
                _copy_tail(ledger, covered, path)
        source = str(path) if covered is not None else None
        connection.execute(create_lines(_TAIL, source, kinds=needs.kinds, evidence=needs.evidence))
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        raise DamagedLedgerError(
            f"the ledger cannot be read: {one_line(str(error)).partition(' in file ')[0]}",
            advice="`kubeledger audit` shows what is damaged and where",
            file=str(ledger.path),
        ) from error
    finally:
        path.unlink(missing_ok=True)
    upcast_lines(connection, _TAIL, scratch)


def _copy_tail(ledger: Ledger, covered: Coverage, path: Path) -> None:
    """Copy lines, each one proved: DuckDB would read one in which a bit has flipped."""
    with path.open("wb") as file:
        for node in ledger.nodes():
            after_seq = covered.ends.get(node, 0)
            file.writelines(raw.line for raw in ledger.raw_lines(node, after_seq))


def _superseded(ledger: Ledger) -> list[tuple[str, int, int]]:
    """Node, first and last record of each span that a later import superseded."""
    return [
        (node, first, last)
        for node in ledger.nodes()
        for first, last in ledger.info(node).superseded
    ]


def _create_rows(
    connection: duckdb.DuckDBPyConnection,
    paths: list[str],
    superseded: list[tuple[str, int, int]],
) -> None:
    columns = ", ".join(ROW_COLUMNS)
    rows = f"SELECT {columns} FROM ({rows_sql(_TAIL)})"
    if paths:
        files = f"[{', '.join(quoted(path) for path in paths)}]"
        connection.execute(f"SET allowed_paths = {files}")
        # The partitions' names repeat what the rows hold.
        history = f"read_parquet({files}, hive_partitioning = false)"
        rows = f"SELECT {columns} FROM {history} UNION ALL {rows}"
    if superseded:
        # Few spans stand for many records; as numbers they are joined by a hash.
        connection.execute(f"CREATE TABLE {_SUPERSEDED} (node VARCHAR, seq BIGINT)")
        connection.executemany(
            f"INSERT INTO {_SUPERSEDED} SELECT ?, unnest(range(?, ? + 1))", superseded
        )
        rows = (
            f"SELECT {columns} FROM ({rows}) AS r"
            f" ANTI JOIN {_SUPERSEDED} AS s ON r.node = s.node AND r.seq = s.seq"
        )
    connection.execute(f"CREATE VIEW {_ROWS} AS {rows}")
    names = ", ".join(column.name for column in load_views()[RECORDS].columns)
    connection.execute(f"CREATE VIEW {RECORDS} AS SELECT {names} FROM {_ROWS}")


def _create_view(connection: duckdb.DuckDBPyConnection, view: View) -> None:
    if view.sql:
        connection.execute(view.sql)
    for column in view.columns:
        comment = f"COMMENT ON COLUMN {view.name}.{column.name} IS {quoted(column.comment)}"
        connection.execute(comment)
