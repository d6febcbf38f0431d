"""SQL over a lake: the views of a single ledger over all nodes, and what a lake has besides.

What is read is what the newest markers name, and nothing else: no folder is listed, so that files
of an import that continues, or died, do not show. The rows of ``nodes`` come with the markers,
which must be read in any case; the files ``nodes/N/ID.parquet`` would be one more to open for each
node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import duckdb
import msgspec

from kubeledger.analyze.sql.api import DEFAULT_TIMEOUT_S, Queryable
from kubeledger.analyze.sql.ledger_tables import DERIVED
from kubeledger.analyze.sql.tables import ROWS, VERIFIED, VERIFIED_COLUMNS, create_table
from kubeledger.analyze.sql.views import Needs, ShippedQuery, View, load_library, load_views
from kubeledger.fleet.compaction import JSON_COLUMNS, ReadFile, files_to_read, register_files
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import COMPACT, DONE, FAILURES
from kubeledger.fleet.types import Failure, Head, LakeFile, NodeSummary, columns_of
from kubeledger.ledger.history.parts import ROW_COLUMNS, create_lines, quoted, rows_sql
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.remote.store import StorageError

_LATE = "inferred"
"""Column of verdicts that older lakes do not have."""
_NODES = "stored.nodes"
_FAILURES = "stored.failures"
_FILES = "stored.files"
_NOTHING = "stored.nothing"
_JSON = frozenset(chain.from_iterable(JSON_COLUMNS.values()))
_PACKAGE = "kubeledger.fleet"
_FAILURE_COLUMNS = columns_of(Failure)
_FILE_COLUMNS = {"node": "VARCHAR", "url": "VARCHAR", **columns_of(LakeFile)}
_NODE_COLUMNS = {**columns_of(NodeSummary), "generation": "BIGINT", "sources": "VARCHAR[]"}


class LakeTables:
    """The tables of all nodes of a lake.

    Raises:
        BadQuestionError: there is none.
        DamagedLedgerError, StorageError: as ``Lake.open``.
    """

    def __init__(self, url: str) -> None:
        self._lake = Lake.open(url)

    @property
    def views(self) -> Mapping[str, View]:
        """Those of any ledger, ``nodes``, ``failures`` and ``files``."""
        return load_views(_PACKAGE)

    def state(self) -> Hashable:
        """Names and tags of markers, failures and compacted files."""
        store = self._lake.store
        return tuple(
            (each.path, each.tag) for room in (DONE, FAILURES, COMPACT) for each in store.list(room)
        )

    def span(self) -> tuple[int, int]:
        """First and last time of all records, ns.

        Raises:
            BadQuestionError: there are none.
        """
        summaries = [head.summary for head in self._lake.heads().values()]
        firsts = [each.first_ts_ns for each in summaries if each.first_ts_ns is not None]
        lasts = [each.last_ts_ns for each in summaries if each.last_ts_ns is not None]
        if not firsts or not lasts:
            raise BadQuestionError("the lake holds no records")
        return min(firsts), max(lasts)

    def make(self, connection: duckdb.DuckDBPyConnection, needs: Needs, scratch: Path) -> list[str]:
        """Views over the files that the newest markers name; the rest as tables.

        Raises:
            DamagedLedgerError, StorageError: a marker cannot be read.
        """
        heads = self._lake.heads().values()
        tables = {VERIFIED: ("verdicts", VERIFIED_COLUMNS)}
        tables |= {name: (table.room, table.columns) for name, table in DERIVED.items()}
        rooms = {"records": needs.records}
        rooms |= {room: name in needs.tables for name, (room, _) in tables.items()}
        wanted = [room for room, is_wanted in rooms.items() if is_wanted]
        read = {room: files_to_read(self._lake, heads, room) for room in wanted}
        address = register_files(
            connection, self._lake, [f for found in read.values() for f in found]
        )
        connection.execute("SET parquet_metadata_cache = true")  # views read a file several times
        connection.execute(create_lines(_NOTHING, None))
        if read.get("records"):
            _read(connection, ROWS, ROW_COLUMNS, read["records"], address)
        else:
            connection.execute(f"CREATE VIEW {ROWS} AS {rows_sql(_NOTHING)}")
        for name, (room, columns) in tables.items():
            if read.get(room):
                _read(connection, name, columns, read[room], address)
            else:
                create_table(connection, name, columns, (), scratch)
        create_table(connection, _NODES, _NODE_COLUMNS, map(_node_row, heads), scratch)
        named = map(self._file_rows, heads) if _FILES in needs.tables else ()
        create_table(connection, _FILES, _FILE_COLUMNS, chain.from_iterable(named), scratch)
        failures = self._lake.failures() if _FAILURES in needs.tables else []
        rows = map(msgspec.structs.asdict, failures)
        create_table(connection, _FAILURES, _FAILURE_COLUMNS, rows, scratch)
        return [address(file.path) for file in chain.from_iterable(read.values())]

    def damage(self, words: str) -> DamagedLedgerError | None:
        """The first file that is not as it was written; see :class:`Tables`.

        One that the words name is read, and so are all where DuckDB does not say which one it
        was; sizes are compared in any case.
        """
        try:
            for file in self._files_at_fault(words):
                return self._lake.damaged(file)
        except (StorageError, OSError):  # then that is what is wrong, and the words say it
            pass
        return None

    def _files_at_fault(self, words: str) -> Iterator[LakeFile]:
        heads = self._lake.heads().values()
        compacted = (each.file for each in self._lake.compacted())
        named = (file for head in heads for file in head.files)
        known = {file.path: file for file in chain(compacted, named)}
        read = (files_to_read(self._lake, heads, room) for room in JSON_COLUMNS)
        files = [known[file.path] for file in chain.from_iterable(read)]
        suspects = [file for file in files if file.path in words]
        for file in suspects or files:
            stored = self._lake.store.stat(file.path)
            if stored is None or stored.size_bytes != file.size_bytes:
                yield file
        for file in suspects or ([] if ".parquet" in words else files):
            if self._lake.store.digest(file.path) != file.digest:
                yield file

    def _file_rows(self, head: Head) -> Iterator[dict[str, object]]:
        for file in head.files:
            url = self._lake.store.address(file.path)
            yield {"node": head.node, "url": url, **msgspec.structs.asdict(file)}


def connect_lake(
    url: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, memory_limit: str | None = None
) -> Queryable:
    """Open a lake for SQL: all views over all of its nodes, and ``nodes`` and ``failures``.

    Args:
        url: of the lake: a directory, ``s3://``, ``gs://`` or ``az://``.
        timeout_s: seconds that one query may take.
        memory_limit: memory for data and queries, as DuckDB writes it (``2GB``); what does
            not fit goes to a temporary directory. None is DuckDB's default.

    Raises:
        BadQuestionError: there is none.
        DamagedLedgerError: it is of a newer layout.
        StorageError: it cannot be read.
    """
    return Queryable(LakeTables(url), timeout_s=timeout_s, memory_limit=memory_limit)


def fleet_queries() -> dict[str, ShippedQuery]:
    """Name -> shipped query over a lake, sorted by name."""
    return load_library(_PACKAGE)


def _read(
    connection: duckdb.DuckDBPyConnection,
    view: str,
    columns: Iterable[str],
    files: Iterable[ReadFile],
    address: Callable[[str], str],
) -> None:
    names = ", ".join(f"{name}::JSON AS {name}" if name in _JSON else name for name in columns)
    # Apart, for the types of JSON columns are other ones, and so may be the nodes that count.
    parts: dict[tuple[bool, str], list[str]] = {}
    for file in files:
        nodes = ", ".join(map(quoted, file.without))
        where = f" WHERE node NOT IN ({nodes})" if nodes else ""
        parts.setdefault((file.is_compacted, where), []).append(address(file.path))
    # The partitions' names repeat what the rows hold.
    options = "hive_partitioning = false"
    late = ""
    if _LATE in columns:  # files of an earlier version lack it
        options += ", union_by_name = true"
        late = f"SELECT NULL::BOOLEAN AS {_LATE} WHERE false UNION ALL BY NAME "
    selects = (
        f"SELECT {names} FROM ({late}FROM read_parquet([{', '.join(map(quoted, paths))}],"
        f" {options})){where}"
        for (_, where), paths in parts.items()
    )
    connection.execute(f"CREATE VIEW {view} AS {' UNION ALL '.join(selects)}")


def _node_row(head: Head) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(head.summary),
        "generation": head.generation,
        "sources": [source.url for source in head.sources],
    }
