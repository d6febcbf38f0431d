"""The bytes of a ledger as DuckDB reads them: its segments, without a torn tail.

A sealed segment is read where it is. The open one may grow while it is read, and may end
in a line that was cut by a crash: it is copied up to its last newline, so a query sees
whole lines of one moment. Segments are bounded in size, so the copy is cheap.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from kubeledger.errors import DamagedLedgerError
from kubeledger.ledger.manifest import Manifest, load_manifest
from kubeledger.ledger.names import (
    NODES,
    SEALED_SUFFIX,
    SEGMENT_SUFFIX,
    SEGMENTS,
    node_directory,
    segment_file,
)
from kubeledger.ledger.segments import LINE_BYTES_MAX, Segment, list_segments

__all__ = ["SCAN_COLUMNS", "SegmentFiles", "fingerprint", "quoted", "scan_sql"]

SCAN_COLUMNS = {
    "node": "VARCHAR",
    "seq": "BIGINT",
    "ts_ns": "BIGINT",
    "role": "VARCHAR",
    "kind": "VARCHAR",
    "v": "INTEGER",
    "cause": "BIGINT",
    "evidence": 'STRUCT(file VARCHAR, line BIGINT, "offset" BIGINT, "text" VARCHAR)[]',
    "body": "JSON",
}
"""Keys of a line and the DuckDB types they are read as."""

_BLOCK_BYTES = 1 << 16
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
            continue  # a writer sealed a segment between the listing and the look at it
    return _sizes(ledger)


class SegmentFiles:
    """The files to read for one query; a context manager.

    Attributes:
        paths: (n,) files that hold whole lines only, in the order of the records.
        originals: path in ``paths`` -> the segment it stands for.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._directory = TemporaryDirectory(prefix="kubeledger-")
        self.paths: list[str] = []
        self.originals: dict[str, str] = {}

    def __enter__(self) -> SegmentFiles:
        """Copy the open segments.

        Raises:
            BadQuestionError, DamagedLedgerError: see :func:`fingerprint`.
        """
        for attempt in range(_ATTEMPTS):
            try:
                self._collect()
            except FileNotFoundError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the copies."""
        self._directory.cleanup()

    @property
    def scratch(self) -> Path:
        """A directory for files that live as long as this."""
        return Path(self._directory.name)

    def _collect(self) -> None:
        self.paths.clear()
        self.originals.clear()
        for number, segment in enumerate(_segments(self._ledger)):
            # DuckDB takes a path for a pattern: the names it gets are ours.
            name = self.scratch / f"{number}{SEALED_SUFFIX if segment.sealed else SEGMENT_SUFFIX}"
            name.unlink(missing_ok=True)
            if segment.sealed:
                name.symlink_to(segment.path.resolve())
            elif not _copy_whole_lines(segment.path, name):
                continue
            self.paths.append(str(name))
            self.originals[str(name)] = str(segment.path)


def scan_sql(paths: list[str]) -> str:
    """A FROM item that reads lines of the given files with the columns of ``SCAN_COLUMNS``."""
    if not paths:
        columns = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in SCAN_COLUMNS.items())
        return f"(SELECT {columns} WHERE false)"
    files = ", ".join(quoted(path) for path in paths)
    columns = ", ".join(f"{quoted(name)}: {quoted(t)}" for name, t in SCAN_COLUMNS.items())
    return (
        f"read_json([{files}], format = 'newline_delimited', columns = {{{columns}}},"
        f" maximum_object_size = {LINE_BYTES_MAX})"
    )


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _sizes(ledger: Path) -> tuple[tuple[str, int], ...]:
    return tuple((str(item.path), item.path.stat().st_size) for item in _segments(ledger))


def _segments(ledger: Path) -> list[Segment]:
    """All segments: by node, then in the order they were written."""
    manifest = load_manifest(ledger)
    nodes = ledger / NODES
    directories = sorted(nodes.iterdir()) if nodes.is_dir() else []
    found = {directory.name: list_segments(directory / SEGMENTS) for directory in directories}
    if manifest is not None:
        _check_whole(ledger, manifest, found)
    return [segment for segments in found.values() for segment in segments]


def _check_whole(ledger: Path, manifest: Manifest, found: dict[str, list[Segment]]) -> None:
    """What the manifest counts was acknowledged: an answer without it would not be true."""
    for node, info in manifest.nodes.items():
        directory = node_directory(node)
        segments = {segment.first_seq: segment for segment in found.get(directory, [])}
        for counted in info.segments:
            segment = segments.get(counted.first_seq)
            least = counted.stored_bytes if segment and segment.sealed else counted.size_bytes
            if counted.sealed != (segment is not None and segment.sealed):
                least = 0  # it was sealed, or unpacked, since the manifest was written
            present = segment is not None and segment.path.stat().st_size >= least
            if present or counted.last_seq < counted.first_seq:
                continue
            name = segment_file(counted.first_seq, sealed=counted.sealed)
            raise DamagedLedgerError(
                f"not all of records {counted.first_seq} to {counted.last_seq} are there",
                advice="restore the file from a copy; `kubeledger audit` lists all damage",
                file=str(ledger / NODES / directory / SEGMENTS / name),
            )


def _copy_whole_lines(source: Path, target: Path) -> bool:
    """Copy up to the last newline; False when there is no whole line."""
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return True
            end = start
    return False
