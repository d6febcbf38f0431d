"""What a user's query may be: one SELECT over the views, and nothing else.

Three locks, each enough against most mistakes: this check of the parsed statement, a
read-only transaction, and a connection without file access whose settings are locked.
DuckDB's own serialised parse tree is read, so the check sees what DuckDB will run.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    import duckdb

_AFTER_MESSAGE = re.compile(r"\n\s*LINE \d+:|\s*Possible solutions:")
_LINE_END = re.compile(r"[!.]?\s*\n\s*")
_RAISED = re.compile(r"^[\w.]+Error: (.+)$", re.MULTILINE)
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?", re.IGNORECASE)

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Everything that only reads; DuckDB also has DELETE, INSERT and UPDATE inside WITH."""

_TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "json_each",
        "json_tree",
        "range",
        "repeat",
        "unnest",
    }
)
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
