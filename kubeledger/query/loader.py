"""Sets up DuckDB for a query: the tables, every view over them, then the locks."""

from __future__ import annotations

from pathlib import Path

import duckdb

from kubeledger.errors import BadQuestionError
from kubeledger.history.lines import quoted
from kubeledger.query.guard import one_line
from kubeledger.query.tables import ROWS, Tables
from kubeledger.query.views import RECORDS, Needs, View

__all__ = ["load"]

_LOCKS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Last of all: from then on the connection takes no setting, and reads no file but those that
its tables read."""


def load(
    tables: Tables, needs: Needs, *, memory_limit: str | None, spill: Path
) -> duckdb.DuckDBPyConnection:
    """A locked connection with the table ``records`` and every view.

    Args:
        tables: of a ledger or a lake.
        needs: what else there is may not be loaded.
        memory_limit: as DuckDB writes it (``2GB``); None is DuckDB's default.
        spill: directory for what does not fit into memory.

    Raises:
        BadQuestionError: the memory limit is no size.
        duckdb.OutOfMemoryException: it does not suffice.
        KubeledgerError, duckdb.Error: of the tables.
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
    files = tables.make(connection, needs, spill)
    for view in sorted(tables.views.values(), key=lambda view: view.name != RECORDS):
        _create_view(connection, view)
    if files:
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def _create_view(connection: duckdb.DuckDBPyConnection, view: View) -> None:
    columns = ", ".join(column.name for column in view.columns)
    connection.execute(
        f"CREATE VIEW {RECORDS} AS SELECT {columns} FROM {ROWS}"
        if view.name == RECORDS
        else view.sql
    )
    for column in view.columns:
        comment = f"COMMENT ON COLUMN {view.name}.{column.name} IS {quoted(column.comment)}"
        connection.execute(comment)
