"""What a query's views are made of, who gives it, and whether anything was appended since."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from kubeledger.analyze.sql.views import Needs, View
from kubeledger.ledger.base import begin_of
from kubeledger.ledger.engine import duckdb
from kubeledger.ledger.history.parts import quoted
from kubeledger.ledger.manifest import Manifest, load_manifest
from kubeledger.ledger.segments import Segment, list_segments
from kubeledger.ledger.storage import NODES, SEGMENTS, node_directory, segment_file
from kubeledger.model.errors import DamagedLedgerError, KubeledgerError

_ATTEMPTS = 3


def fingerprint(ledger: Path) -> tuple[tuple[str, int], ...]:
    """Names and sizes of all segments: equal as long as nothing was appended.

    Raises:
        BadQuestionError: there is no ledger at this path.
        DamagedLedgerError: a newer version wrote it, or a segment is gone or cut short.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _sizes(ledger)
        except FileNotFoundError:
            continue  # a segment was dropped or unpacked between the listing and the look at it
    return _sizes(ledger)


def _sizes(ledger: Path) -> tuple[tuple[str, int], ...]:
    looked = map(_looked_at, _segments(ledger))
    return tuple((str(path), size_bytes) for path, size_bytes in looked)


def _looked_at(segment: Segment) -> tuple[Path, int]:
    """File and size of a segment, which a writer may have sealed since it was listed.

    Raises:
        FileNotFoundError: it is gone, or was unpacked or dropped since.
    """
    try:
        return segment.path, segment.path.stat().st_size
    except FileNotFoundError:
        sealed = segment.path.with_name(segment_file(segment.first_seq, sealed=True))
        return sealed, sealed.stat().st_size


def _segments(ledger: Path) -> list[Segment]:
    """All segments: by node, then in the order they were written."""
    manifest = load_manifest(ledger)
    nodes = ledger / NODES
    directories = sorted(nodes.iterdir()) if nodes.is_dir() else []
    found = {directory.name: list_segments(directory / SEGMENTS) for directory in directories}
    if manifest is not None:
        _check_whole(ledger, manifest, found)
    return [segment for segments in found.values() for segment in segments]


def _holds(segment: Segment, least_bytes: int) -> bool:
    path, size_bytes = _looked_at(segment)
    return size_bytes >= least_bytes or path != segment.path


def _check_whole(ledger: Path, manifest: Manifest, found: dict[str, list[Segment]]) -> None:
    """What the manifest counts was acknowledged: an answer without it would not be true."""
    for node, info in manifest.nodes.items():
        directory = node_directory(node)
        listed = found.get(directory, [])
        begin = begin_of(node, ledger / NODES / directory, listed)
        segments = {segment.first_seq: segment for segment in listed}
        for counted in info.segments:
            if counted.first_seq <= begin.seq:
                continue
            segment = segments.get(counted.first_seq)
            least = counted.stored_bytes if segment and segment.sealed else counted.size_bytes
            if counted.sealed != (segment is not None and segment.sealed):
                least = 0  # it was sealed, or unpacked, since the manifest was written
            present = segment is not None and _holds(segment, least)
            if present or counted.last_seq < counted.first_seq:
                continue
            name = segment_file(counted.first_seq, sealed=counted.sealed)
            raise DamagedLedgerError(
                f"some of records {counted.first_seq} to {counted.last_seq} are missing",
                advice="restore the file from a copy; `kubeledger audit` lists all damage",
                file=str(ledger / NODES / directory / SEGMENTS / name),
            )


_LINE_BYTES_MAX = 64 << 20

ROWS = "stored.rows"
"""All records, with the columns ``ROW_COLUMNS`` and ``body`` as JSON."""

VERIFIED = "stored.verified"
"""What verification says."""


def columns_of(text: str) -> dict[str, str]:
    """Column -> type, of ``name TYPE, name TYPE``; ``node``, ``seq`` and ``ts_ns`` stand first."""
    columns = f"node VARCHAR, seq BIGINT, ts_ns BIGINT, {text}".split(", ")
    return dict(column.split(" ", 1) for column in columns)


VERIFIED_COLUMNS = columns_of(
    "kind VARCHAR, subject VARCHAR, verdict VARCHAR, why VARCHAR, missing VARCHAR[],"
    " expected JSON, recorded JSON, rule VARCHAR, inferred BOOLEAN"
)
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
