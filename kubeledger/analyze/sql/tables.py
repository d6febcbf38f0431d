"""What a query's views are made of, and who gives it: a ledger, or a lake of many nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import duckdb
import msgspec

from kubeledger.analyze.sql.views import Needs, View
from kubeledger.ledger.history.lines import quoted
from kubeledger.model.errors import KubeledgerError

_LINE_BYTES_MAX = 64 << 20

ROWS = "stored.rows"
"""All records, with the columns ``ROW_COLUMNS`` and ``body`` as JSON."""

VERIFIED = "stored.verified"
"""What verification says."""

VERIFIED_COLUMNS = {
    "node": "VARCHAR",
    "seq": "BIGINT",
    "ts_ns": "BIGINT",
    "kind": "VARCHAR",
    "subject": "VARCHAR",
    "verdict": "VARCHAR",
    "why": "VARCHAR",
    "missing": "VARCHAR[]",
    "expected": "JSON",
    "recorded": "JSON",
    "rule": "VARCHAR",
    "inferred": "BOOLEAN",
}
"""Column of ``VERIFIED`` -> its type."""


class Tables(Protocol):
    """Gives the tables that views read."""

    @property
    def views(self) -> Mapping[str, View]:
        """Name -> view that queries may read."""

    def state(self) -> Hashable:
        """The same as long as the same tables would be made.

        Raises:
            KubeledgerError: there is nothing that can be read.
        """

    def make(self, connection: duckdb.DuckDBPyConnection, needs: Needs, scratch: Path) -> list[str]:
        """Make ``ROWS`` and whatever else of the schema ``stored`` the views read.

        Args:
            connection: has the schema, and may still read files.
            needs: what is not needed may stay empty.
            scratch: directory for files that live as long as the tables, in a path without
                patterns.

        Returns:
            files that the tables continue reading.

        Raises:
            KubeledgerError: what should be there cannot be read.
            duckdb.Error: DuckDB cannot read it.
        """

    def damage(self, words: str) -> KubeledgerError | None:
        """Which of the files is at fault for DuckDB's refusal; None where none is found to be.

        Args:
            words: of the refusal; they may name a file.
        """


def create_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: Iterable[Mapping[str, object]],
    scratch: Path,
) -> None:
    """Create a table with these rows; they go through a file, not through memory.

    Args:
        connection: gets the table; it must still be allowed to read files.
        columns: column -> type.
        rows: each with values for the columns.
        scratch: directory for that file.

    Raises:
        OSError: it cannot be written.
    """
    typed = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
    connection.execute(f"CREATE TABLE {name} ({typed})")
    path = scratch / "rows.jsonl"
    encoder = msgspec.json.Encoder(order="deterministic")
    try:
        with path.open("wb") as file:
            for row in rows:
                file.write(encoder.encode({column: row[column] for column in columns}) + b"\n")
        types = ", ".join(f"{column}: {quoted(type_)}" for column, type_ in columns.items())
        if path.stat().st_size:  # even of an empty file its reader takes memory
            connection.execute(
                f"INSERT INTO {name} BY NAME FROM read_json({quoted(str(path))},"
                f" format = 'newline_delimited', columns = {{{types}}},"
                f" maximum_object_size = {_LINE_BYTES_MAX})"
            )
    finally:
        path.unlink(missing_ok=True)
