"""Sets up DuckDB for queries: the tables, then the locks; and what a user's query may be."""

from __future__ import annotations

import mmap
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.analyze.sql.tables import ROWS, Tables
from kubeledger.analyze.sql.views import RECORDS, Needs, View
from kubeledger.ledger.engine import duckdb
from kubeledger.ledger.history.parts import quoted
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.patterns import regex

_BYTES = 32 << 20
"""Its stack, and what it does before it could say that there is no more."""


def require_room() -> None:
    """See that there is room for a thread; not a byte of it is touched.

    Raises:
        MemoryError: there is none.
    """
    try:
        mmap.mmap(-1, _BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError from error


# What a user's query may be: one SELECT over the views, and nothing else.
#
# Three locks, each enough against most mistakes: this check of the parsed statement, a
# read-only transaction, and a connection without file access whose settings are locked.
# DuckDB's own serialised parse tree is read, so the check sees what DuckDB will run.

_AFTER_MESSAGE = regex(r"\n\s*LINE \d+:|\s*Possible solutions:")
_LINE_END = regex(r"[!.]?\s*\n\s*")
_RAISED = regex(r"^[\w.]+Error: (.+)$", re.MULTILINE)
_EXPLAIN = regex(r"\s*explain\s+(?:analyze\s+)?", re.IGNORECASE)

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Everything that only reads; DuckDB also has DELETE, INSERT and UPDATE inside WITH."""

_TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns", "duckdb_functions", "duckdb_tables", "duckdb_types", "duckdb_views",
        "generate_series", "json_each", "json_tree", "range", "repeat", "unnest",
    }
)  # fmt: skip
"""Functions that make rows out of nothing but their arguments, or describe the views."""

_REFUSED_FUNCTIONS = frozenset({"getenv", "nextval", "write_log"})
"""Scalar functions that look outside the ledger or change something."""


def check_query(
    connection: duckdb.DuckDBPyConnection, query: str, views: Container[str] = ()
) -> frozenset[str]:
    """Refuse what is not a single reading query.

    Args:
        connection: parses it.
        query: one statement.
        views: names that are read even where a WITH gives them another meaning, maybe in a part.

    Returns:
        Names of the tables and views it reads, in lower case.

    Raises:
        BadQuestionError: it is no SQL, several statements, or does more than read.
    """
    parsed = _parse(connection, _EXPLAIN.sub("", query, count=1))
    tables, given = set[str](), set[str]()
    for node in _nodes(parsed):
        _check_node(node)
        if ctes := node.get("cte_map"):
            given.update(str(each["key"]).lower() for each in ctes["map"])
        if str(node.get("type")) in {"BASE_TABLE", "SHOW_REF"}:
            tables.add(str(node.get("table_name", "")).strip('"').lower())
    given = {name for name in given if name not in views}
    return frozenset(tables - given - {""})  # DESCRIBE holds its table further down


def one_line(message: str) -> str:
    """DuckDB's message without its drawing of the place and its advice, on one line.

    Of an exception of ours that went through DuckDB, what it says.
    """
    if message.startswith("Traceback") and (raised := _RAISED.findall(message)):
        return str(raised[-1])
    head = _AFTER_MESSAGE.split(message, maxsplit=1)[0]
    return _LINE_END.sub("; ", head.strip())


def _parse(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    row = connection.execute("SELECT json_serialize_sql($query::VARCHAR)", {"query": query})
    answer = msgspec.json.decode((row.fetchone() or ("{}",))[0], type=dict[str, Any])
    if answer.get("error"):
        if answer.get("error_type") == "not implemented":
            raise BadQuestionError(
                "only queries that read are allowed",
                advice="write one SELECT (or FROM, WITH, VALUES, DESCRIBE, SUMMARIZE) statement",
            )
        raise BadQuestionError(
            one_line(str(answer.get("error_message", "not a query"))),
            advice="write one SELECT; `SHOW TABLES` and `DESCRIBE view` show over what",
        )
    if len(answer.get("statements", ())) != 1:
        raise BadQuestionError("give exactly one statement")
    return answer


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _check_node(node: dict[str, Any]) -> None:
    kind = node.get("type")
    if not isinstance(kind, str):
        return
    if kind.endswith("_NODE") and kind not in _QUERY_NODES:
        raise BadQuestionError("only queries that read are allowed")
    if kind == "TABLE_FUNCTION":
        name = str((node.get("function") or {}).get("function_name", "")).lower()
        if name not in _TABLE_FUNCTIONS:
            raise BadQuestionError(
                f"the table function {name}() is not allowed",
                advice="queries read the views and nothing else",
            )
    name = str(node.get("function_name", "")).lower()
    if kind == "FUNCTION" and name in _REFUSED_FUNCTIONS:
        raise BadQuestionError(f"the function {name}() is not allowed")


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

_WORD = regex(r"\w+")


def load(
    connection: duckdb.DuckDBPyConnection,
    tables: Tables,
    needs: Needs,
    *,
    memory_limit: str | None,
    spill: Path,
) -> None:
    """Make the tables, and no views, and lock the connection.

    Args:
        connection: of an empty database.
        tables: of a ledger or a lake.
        needs: what else there is may not be loaded.
        memory_limit: as DuckDB writes it (``2GB``); None is DuckDB's default.
        spill: directory for what does not fit into memory.

    Raises:
        BadQuestionError: the memory limit is not a size.
        duckdb.OutOfMemoryException: it does not suffice.
        KubeledgerError, duckdb.Error: of the tables.
    """
    if memory_limit is not None:
        try:
            connection.execute(f"SET memory_limit = {quoted(memory_limit)}")
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
