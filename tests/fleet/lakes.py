"""Lakes for tests: a ledger's tables as the files of one node, committed as an import does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from kubeledger.fleet.lake import Lake, lake_file
from kubeledger.fleet.layout import LAYOUT, records_path, run_id, verdicts_path
from kubeledger.fleet.types import Head, LakeFile, NodeSummary
from kubeledger.history.lines import quoted
from kubeledger.query.ledger_tables import LedgerTables
from kubeledger.query.tables import ROWS, VERIFIED
from kubeledger.query.views import Needs

__all__ = ["put_node"]

_EVERYTHING = Needs(kinds=None, evidence=True, tables=frozenset({VERIFIED}))
_OPTIONS = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 8192"
_ROWS = (
    (ROWS, records_path, "kind, seq", "body::VARCHAR AS body"),
    (
        VERIFIED,
        verdicts_path,
        "kind, seq",
        "expected::VARCHAR AS expected, recorded::VARCHAR AS recorded",
    ),
)


def put_node(lake: Lake, ledger: Path, key: str, *, pool: str | None = None) -> Head:
    """Put a ledger of one node into a lake, as the next generation of the node of that key."""
    base = lake.head(key)
    with TemporaryDirectory() as directory:
        scratch = Path(directory)
        connection = duckdb.connect(":memory:")
        connection.execute("CREATE SCHEMA stored")
        LedgerTables(ledger).make(connection, _EVERYTHING, scratch)
        generation = 1 if base is None else base.generation + 1
        id_ = run_id([str(ledger), key], "", str(generation))
        files: dict[str, Path] = {}
        named: list[LakeFile] = []
        for table, place, order, texts in _ROWS:
            for (date,) in connection.execute(
                f"SELECT DISTINCT strftime(make_timestamp(ts_ns // 1000), '%Y-%m-%d') FROM {table}"
            ).fetchall():
                path = place(date, key, id_)
                file = scratch / str(len(files))
                rows = connection.execute(
                    f"COPY (SELECT * REPLACE ({quoted(key)} AS node, {texts}) FROM {table}"
                    f" WHERE strftime(make_timestamp(ts_ns // 1000), '%Y-%m-%d') = '{date}'"
                    f" ORDER BY {order}) TO '{file}' ({_OPTIONS})"
                ).fetchall()[0][0]
                files[path] = file
                named.append(lake_file(path, file, rows))
        head = Head(
            layout=LAYOUT,
            id=id_,
            generation=generation,
            sources=(),
            files=tuple(sorted(named, key=lambda each: each.path)),
            summary=_summary(connection, key, pool),
        )
        lake.commit(head, files, base)
    return head


def _summary(connection: duckdb.DuckDBPyConnection, key: str, pool: str | None) -> NodeSummary:
    records, first, last, versions = connection.execute(
        "SELECT count(*), min(ts_ns), max(ts_ns), coalesce(list(DISTINCT body ->> "
        "'kubelet_version' ORDER BY body ->> 'kubelet_version')"
        f" FILTER (kind = 'node.KubeletStarted'), []) FROM {ROWS}"
    ).fetchall()[0]
    verdicts = dict(
        connection.execute(f"SELECT verdict, count(*) FROM {VERIFIED} GROUP BY verdict").fetchall()
    )
    return NodeSummary(
        node=key,
        name=key,
        pool=pool,
        kubelet_versions=tuple(versions),
        first_ts_ns=first,
        last_ts_ns=last,
        records=records,
        decisions=sum(verdicts.values()),
        **verdicts,
    )
