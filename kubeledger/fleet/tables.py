"""Parquet of one node: its records and verdicts, a file for each date, and its row.

The same ledger gives the same bytes on any machine (by the same :data:`WRITER`): one thread, a
total order, fixed options. Any engine that reads Parquet reads them: nested JSON is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import zstandard

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.sql.ledger_tables import DERIVED, DerivedTable, folded
from kubeledger.analyze.sql.tables import VERIFIED_COLUMNS
from kubeledger.fleet.identity import digest_of_code
from kubeledger.fleet.types import NodeSummary, columns_of
from kubeledger.ledger.engine import engine
from kubeledger.ledger.history.parts import (
    ROW_COLUMNS,
    create_lines,
    pieces_of,
    quoted,
    rows_sql,
    upcast_lines,
)
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.verify import Finding, Outcome
from kubeledger.verify.finding import Tally

WRITER = ", ".join(
    [
        digest_of_code(
            (
                *("fleet/sealed", "fleet/tables", "fleet/types", "ledger/history"),
                *("analyze/sql/ledger_tables", "analyze/sql/tables"),
            )
        ),
        f"duckdb {duckdb.__version__}",
        f"zstandard {zstandard.__version__}",
    ]
)
"""On what, beside the rules, the bytes depend; a part of the ID of a generation."""

NULLABLE = "SET disabled_optimizers = 'statistics_propagation'"
"""Else a column without NULLs is declared to have none, in this file and not in others."""

_MEMORY = "1GB"
"""More goes to scratch: many tasks share a machine."""

_COPY_OPTIONS = (
    "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 9, ROW_GROUP_SIZE 8192, PARQUET_VERSION v1"
)
_LINE_BYTES_MAX = 64 << 20

_JSON = ("body", "expected", "recorded")


class DateFile(NamedTuple):
    """Rows of one date (UTC).

    Attributes:
        date: ``YYYY-MM-DD``.
    """

    date: str
    path: Path
    rows: int


class NodeTables:
    """Makes the files of one node; a context manager.

    Attributes:
        directory: where they go, in a path without patterns.
        key: of the node in the lake; the column ``node`` of every table.
    """

    def __init__(self, directory: Path, key: str) -> None:
        self.directory = directory
        self.key = key
        self._connection = engine(directory)
        self._connection.execute(f"SET threads = 1; SET memory_limit = '{_MEMORY}'")
        self._connection.execute(NULLABLE)

    def __enter__(self) -> NodeTables:
        """Nothing is read yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of memory."""
        self._connection.close()

    def records(self, ledger: Ledger, node: str) -> list[DateFile]:
        """Write the records of a ledger's node, each one proved, without superseded ones.

        Raises:
            KubeledgerError: the ledger cannot be read.
            duckdb.Error, OSError: a file cannot be written.
        """
        self._connection.execute(
            f"CREATE TABLE superseded (seq BIGINT); {create_lines('part', None)};"
            f" CREATE TABLE records AS {rows_sql('part')}; DROP TABLE part"
        )
        for first, last in ledger.info(node).superseded:
            self._connection.execute(
                "INSERT INTO superseded SELECT unnest(range(?, ? + 1))", [first, last]
            )
        copy = self.directory / "lines.jsonl"
        for piece in pieces_of(ledger, node, 0, copy):
            try:
                self._connection.execute(create_lines("part", str(piece.path)))
            except duckdb.InvalidInputException as error:
                raise DamagedLedgerError(
                    "the segment holds a line that is not a record", file=piece.segment
                ) from error
            upcast_lines(self._connection, "part", self.directory)
            rows = f"SELECT * FROM ({rows_sql('part')}) ANTI JOIN superseded USING (seq)"
            self._connection.execute(f"INSERT INTO records BY NAME {rows}; DROP TABLE part")
        copy.unlink(missing_ok=True)
        columns = ", ".join(_column(name, self.key) for name in ROW_COLUMNS)
        return self._by_date("records", columns, "kind, seq")

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """Bodies of the records of a kind, in their order of time; after ``records``."""
        found = self._connection.execute(
            "SELECT body FROM records WHERE kind = ? ORDER BY ts_ns, seq", [kind]
        ).fetchall()
        return [msgspec.json.decode(body, type=dict) for (body,) in found]

    def span(self) -> tuple[int, int | None, int | None]:
        """How many records there are, and their first and last time, ns; after ``records``."""
        row = self._connection.execute(
            "SELECT count(*), min(ts_ns), max(ts_ns) FROM records"
        ).fetchone()
        assert row is not None, "an aggregate has a row"
        return row[0], row[1], row[2]

    def verdicts(self, outcomes: Iterable[Outcome]) -> tuple[list[DateFile], Tally]:
        """Write what verification says, by the date of the decision, and count it.

        Raises:
            KubeledgerError: the ledger cannot be read.
            duckdb.Error, OSError: a file cannot be written.
        """
        tally = Tally()
        encoder = msgspec.json.Encoder(order="deterministic")
        path = self.directory / "verdicts.jsonl"
        with path.open("wb") as file:
            for number, outcome in enumerate(outcomes):
                tally.add(outcome)
                if isinstance(outcome, Finding):
                    row = {name: getattr(outcome, name, self.key) for name in VERIFIED_COLUMNS}
                    file.write(encoder.encode({"number": number, **row}) + b"\n")
        types = {"number": "BIGINT", **VERIFIED_COLUMNS}
        self._load("verdicts", path, types)
        columns = ", ".join(_column(name, self.key) for name in VERIFIED_COLUMNS)
        columns = f"{columns}, make_timestamp(ts_ns // 1000) AS ts"
        return self._by_date("verdicts", columns, "kind, seq, number"), tally

    def episodes(self, history: History) -> dict[str, list[DateFile]]:
        """Write what the records add up to, each room's by the date of its begin.

        Raises:
            KubeledgerError: the ledger cannot be read.
            duckdb.Error, OSError: a file cannot be written.
        """
        made = folded(DERIVED.values(), history)
        return {table.room: self._episodes(table, rows) for table, rows in made}

    def _episodes(
        self, table: DerivedTable, rows: Iterable[Mapping[str, object]]
    ) -> list[DateFile]:
        encoder = msgspec.json.Encoder(order="deterministic")
        path = self.directory / f"{table.room}.jsonl"
        with path.open("wb") as file:
            for number, row in enumerate(rows):
                known = {name: row[name] for name in table.columns if name != "node"}
                file.write(encoder.encode({"number": number, **known}) + b"\n")
        self._load(table.room, path, {"number": "BIGINT", **table.columns})
        columns = ", ".join(_column(name, self.key) for name in table.columns)
        columns = f"{columns}, make_timestamp(ts_ns // 1000) AS ts"
        return self._by_date(table.room, columns, "seq, number")

    def summary(self, summary: NodeSummary) -> Path:
        """Write the node's row."""
        path = self.directory / "summary.jsonl"
        path.write_bytes(msgspec.json.encode(summary))
        self._load("summary", path, columns_of(NodeSummary))
        file = self.directory / "summary.parquet"
        self._copy("SELECT * FROM summary", file)
        return file

    def read_summary(self, path: Path) -> NodeSummary:
        """The row of a file that :meth:`summary` wrote, here or elsewhere.

        Raises:
            duckdb.Error, msgspec.ValidationError: it is none.
        """
        read = f"FROM read_parquet({quoted(str(path))}, hive_partitioning = false)"
        found = self._connection.execute(read)
        names = [column[0] for column in found.description or ()]
        row = found.fetchone() or ()
        return msgspec.convert(dict(zip(names, row, strict=True)), NodeSummary)

    def _load(self, table: str, path: Path, types: dict[str, str]) -> None:
        typed = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        self._connection.execute(f"CREATE OR REPLACE TABLE {table} ({typed})")
        if path.stat().st_size:
            columns = ", ".join(f"{name}: {quoted(type_)}" for name, type_ in types.items())
            self._connection.execute(
                f"INSERT INTO {table} BY NAME FROM read_json({quoted(str(path))},"
                f" format = 'newline_delimited', columns = {{{columns}}},"
                f" maximum_object_size = {_LINE_BYTES_MAX})"
            )
        path.unlink()

    def _by_date(self, table: str, columns: str, order: str) -> list[DateFile]:
        date = "strftime(make_timestamp(ts_ns // 1000), '%Y-%m-%d')"
        dates = self._connection.execute(
            f"SELECT {date} AS date, count(*) FROM {table} GROUP BY date ORDER BY date"
        ).fetchall()
        files = []
        for day, rows in dates:
            path = self.directory / f"{table}-{day}.parquet"
            self._copy(
                f"SELECT {columns} FROM {table} WHERE {date} = {quoted(day)} ORDER BY {order}", path
            )
            files.append(DateFile(day, path, rows))
        return files

    def _copy(self, query: str, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._connection.execute(f"COPY ({query}) TO {quoted(str(path))} ({_COPY_OPTIONS})")


def _column(name: str, key: str) -> str:
    if name == "node":
        return f"{quoted(key)} AS node"
    return f"{name}::VARCHAR AS {name}" if name in _JSON else name
