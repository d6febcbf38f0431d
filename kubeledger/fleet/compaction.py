"""Many small files as few: what is read of a lake, and what ``fleet compact`` writes.

A query opens each file that it reads. Of a thousand nodes that costs more than the rows do, and on
object storage a round trip or more for each file. A compacted file holds the rows of many nodes of
one date. It is a copy, and each reader decides by the heads what of it counts: rows of a node that
has a newer file since are left out, and the newer file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from kubeledger.analyze.sql.ledger_tables import DERIVED
from kubeledger.fleet.lake import Lake, lake_file
from kubeledger.fleet.layout import COMPACT, compact_path
from kubeledger.fleet.tables import NULLABLE
from kubeledger.fleet.types import Compacted, Head, LakeFile
from kubeledger.ledger.engine import engine
from kubeledger.ledger.history.parts import quoted

JSON_COLUMNS: dict[str, tuple[str, ...]] = {
    "records": ("body",),
    "verdicts": ("expected", "recorded"),
    **{table.room: () for table in DERIVED.values()},
}
"""Room -> its columns of JSON. In small files they are text, as other engines want it; compacted
files mark them as JSON, so that DuckDB need not prove at each question that they are."""

_ROWS_MAX = 20_000_000
"""Of a compacted file, about: it is sorted as a whole, on disk where memory does not suffice."""

_ROWS_FEW = _ROWS_MAX // 4
"""Compacted files of fewer rows are made again together with what is new."""

_STALE_MAX = 0.2
"""A compacted file of which more nodes do not count is not kept."""

_COPY_OPTIONS = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v1"


class ReadFile(NamedTuple):
    """A file to be read.

    Attributes:
        file: as it was written.
        without: (n,) nodes whose rows do not count; empty for most.
    """

    file: LakeFile
    without: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Below the lake's URL."""
        return self.file.path

    @property
    def is_compacted(self) -> bool:
        """Whether it is a copy of many nodes' files."""
        return self.path.startswith(COMPACT)


def files_to_read(lake: Lake, heads: Iterable[Head], room: str) -> list[ReadFile]:
    """The files that hold each node's rows once.

    Args:
        room: ``records``, ``verdicts`` or that of a table of episodes.
    """
    named = {
        file.path: file
        for head in heads
        for file in head.files
        if file.path.startswith(f"{room}/") and file.rows != 0
    }
    found: list[ReadFile] = []
    for each in lake.compacted():
        stale = tuple(node for node, path in each.nodes.items() if path not in named)
        if not each.file.path.startswith(f"{COMPACT}{room}/") or len(stale) == len(each.nodes):
            continue
        found.append(ReadFile(each.file, stale))
        for path in each.nodes.values():
            named.pop(path, None)
    return found + [ReadFile(file) for file in named.values()]


def register_files(
    connection: duckdb.DuckDBPyConnection, lake: Lake, files: Iterable[ReadFile]
) -> Callable[[str], str]:
    """Let DuckDB read files of a lake; returns what makes of a path the name for it.

    DuckDB does not see a flipped bit. So files of a directory are proved here, and objects when
    they are opened.

    Raises:
        DamagedLedgerError: one is not what was written.
    """
    named = [each.file for each in files]
    if lake.store.directory is not None:
        lake.prove(named)
        return lake.store.address
    from kubeledger.fleet.remote import PROTOCOL, RemoteFiles

    connection.register_filesystem(RemoteFiles(lake, named))
    return f"{PROTOCOL}://{{}}".format


def compact(lake: Lake, scratch: Path) -> tuple[Compacted, ...]:
    """Write compacted files of what no such file holds yet; returns the new ones.

    Whoever reads meanwhile reads the small files, which stay. Of two at once one wins; what the
    other one wrote is removed by the next sweep.

    Args:
        scratch: directory for files of the moment, as big as the lake's Parquet at most.

    Raises:
        StorageError: the lake cannot be read or written.
        duckdb.Error: a file of the lake cannot be read, or scratch is full.
    """
    heads = lake.heads().values()
    live = {file.path for head in heads for file in head.files}
    kept = [each for each in lake.compacted() if _stale(each, live) <= _STALE_MAX]
    grown = {place for place, files in _small(heads, kept).items() if len(files) > 1}
    kept = [
        each
        for each in kept
        if (each.file.rows or 0) >= _ROWS_FEW or _place(each.file.path, 1) not in grown
    ]
    made = (
        _compacted(lake, room, date.removeprefix("date="), part, scratch)
        for (room, date), files in sorted(_small(heads, kept).items())
        for part in _parts(files)
    )
    new = [each for each in made if each is not None]
    lake.put_compacted([*kept, *new])
    return tuple(new)


def _small(
    heads: Iterable[Head], kept: Iterable[Compacted]
) -> dict[tuple[str, str], list[tuple[str, LakeFile]]]:
    """Room and date -> node and file, of those that no compacted file holds."""
    covered = {path for each in kept for path in each.nodes.values()}
    small: dict[tuple[str, str], list[tuple[str, LakeFile]]] = {}
    for head in heads:
        for file in head.files:
            place = _place(file.path, 0)
            if place[0] in JSON_COLUMNS and file.rows and file.path not in covered:
                small.setdefault(place, []).append((head.node, file))
    return small


def _place(path: str, at: int) -> tuple[str, str]:
    """Room and date of a file, which begin at a segment of its path."""
    room, date = path.split("/")[at : at + 2]
    return room, date


def _stale(compacted: Compacted, live: set[str]) -> float:
    return sum(path not in live for path in compacted.nodes.values()) / len(compacted.nodes)


def _parts(files: Sequence[tuple[str, LakeFile]]) -> list[list[tuple[str, LakeFile]]]:
    """Split so that each part has about the most rows at most; none has one file only."""
    parts: list[list[tuple[str, LakeFile]]] = []
    rows = _ROWS_MAX
    for node, file in files:
        if rows >= _ROWS_MAX:
            parts.append([])
            rows = 0
        parts[-1].append((node, file))
        rows += file.rows or 0
    return [part for part in parts if len(part) > 1]


def _compacted(
    lake: Lake, room: str, date: str, files: Sequence[tuple[str, LakeFile]], scratch: Path
) -> Compacted | None:
    """One compacted file; None where a newer generation took the place of one of these files."""
    path = compact_path(room, date, [file.path for _, file in files])
    local = scratch / "compacted.parquet"
    connection = engine(scratch)
    try:
        connection.execute(NULLABLE)
        read = [ReadFile(file) for _, file in files]
        address = register_files(connection, lake, read)
        listed = ", ".join(quoted(address(file.path)) for file in read)
        casts = ", ".join(f"{name}::JSON AS {name}" for name in JSON_COLUMNS[room])
        columns, order = (f"* REPLACE ({casts})", "kind, node") if casts else ("*", "node")
        rows = connection.execute(
            f"COPY (SELECT {columns}"
            f" FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
            f" ORDER BY {order}, seq) TO {quoted(str(local))} ({_COPY_OPTIONS})"
        ).fetchall()[0][0]
        if not lake.store.create(path, local):  # left by one who died: that one counts
            local.unlink()
            lake.store.download(path, local)
        file = lake_file(path, local, rows)
    except duckdb.IOException:
        if {file for _, file in files} <= {
            file for head in lake.heads().values() for file in head.files
        }:
            raise
        return None
    finally:
        connection.close()
        local.unlink(missing_ok=True)
    return Compacted(file=file, nodes={node: file.path for node, file in files})
