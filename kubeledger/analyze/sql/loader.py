"""Sets up DuckDB for queries: the tables, then the locks, and views as queries name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb

from kubeledger.analyze.sql.guard import one_line
from kubeledger.analyze.sql.tables import ROWS, Tables
from kubeledger.analyze.sql.views import RECORDS, Needs, View
from kubeledger.ledger.history.lines import quoted
from kubeledger.model.errors import BadQuestionError

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

_WORD = re.compile(r"\w+")


def load(
    tables: Tables, needs: Needs, *, memory_limit: str | None, spill: Path
) -> duckdb.DuckDBPyConnection:
    """A locked connection with the tables, and without views.

    Args:
        tables: of a ledger or a lake.
        needs: what else there is may not be loaded.
        memory_limit: as DuckDB writes it (``2GB``); None is DuckDB's default.
        spill: directory for what does not fit into memory.

    Raises:
        BadQuestionError: the memory limit is not a size.
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
            f"{memory_limit!r} is not a size of memory: {one_line(str(error))}",
            advice="write it as 500MB or 2GB",
        ) from error
    connection.execute("CREATE SCHEMA stored")
    files = tables.make(connection, needs, spill)
    if files:
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def create_views(
    connection: duckdb.DuckDBPyConnection,
    views: Mapping[str, View],
    names: Iterable[str],
    made: set[str],
) -> None:
    """Create views, and before them those that they read.

    Args:
        connection: with the tables.
        names: of those to create; a name of none is passed over.
        made: names of those that were created before; the others are added.

    Raises:
        duckdb.Error: a view cannot be created.
    """
    for name in names:
        view = views.get(name)
        if view is not None and name not in made:
            read = [word for word in dict.fromkeys(_WORD.findall(view.sql)) if word != name]
            create_views(connection, views, read, made)
            _create_view(connection, view)
            made.add(name)


def _create_view(connection: duckdb.DuckDBPyConnection, view: View) -> None:
    columns = ", ".join(column.name for column in view.columns)
    connection.execute(
        f"CREATE VIEW {RECORDS} AS SELECT {columns} FROM {ROWS}"
        if view.name == RECORDS
        else view.sql
    )


def comment_on(connection: duckdb.DuckDBPyConnection, views: Iterable[View]) -> None:
    """Comment on columns, for queries of the catalogue; it takes longer than to create the views.

    Args:
        connection: with these views.
        views: those of which the catalogue says nothing yet.
    """
    for view in views:
        for column in view.columns:
            comment = f"COMMENT ON COLUMN {view.name}.{column.name} IS {quoted(column.comment)}"
            connection.execute(comment)
