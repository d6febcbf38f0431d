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
    SEGMENTS,
    node_directory,
    segment_file,
    segment_first_seq,
)

__all__ = ["SCAN_COLUMNS", "SegmentFiles", "fingerprint", "quoted", "scan_sql", "segment_paths"]

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

_LINE_BYTES_MAX = 1 << 30
_BLOCK = 1 << 16
_ATTEMPTS = 3


def segment_paths(ledger: Path) -> list[Path]:
    """All segments of a ledger: by node, then in the order they were written.

    Raises:
        BadQuestionError: there is no ledger at this path.
        DamagedLedgerError: a newer version wrote it, or a segment is gone or cut short.
    """
    manifest = load_manifest(ledger)
    paths: dict[tuple[str, int], Path] = {}
    for path in (ledger / NODES).glob(f"*/{SEGMENTS}/*"):
        first_seq = segment_first_seq(path.name)
        if first_seq is None:
            continue
        key = (path.parent.parent.name, first_seq)
        # While a segment is being sealed both forms are there and say the same.
        if key not in paths or path.name.endswith(SEALED_SUFFIX):
            paths[key] = path
    if manifest is not None:
        _check_whole(ledger, manifest, paths)
    return [paths[key] for key in sorted(paths)]


def _check_whole(ledger: Path, manifest: Manifest, paths: dict[tuple[str, int], Path]) -> None:
    """What the manifest counts was acknowledged: an answer without it would be a lie."""
    for node, info in manifest.nodes.items():
        for segment in info.segments:
            path = paths.get((node_directory(node), segment.first_seq))
            whole = path is not None and (
                path.name.endswith(SEALED_SUFFIX) or path.stat().st_size >= segment.size_bytes
            )
            if not whole and segment.last_seq >= segment.first_seq:
                name = segment_file(segment.first_seq, sealed=segment.sealed)
                raise DamagedLedgerError(
                    f"not all of records {segment.first_seq} to {segment.last_seq} are there",
                    advice="`kubeledger audit` shows what is damaged and where",
                    file=str(ledger / NODES / node_directory(node) / SEGMENTS / name),
                )


def fingerprint(ledger: Path) -> tuple[tuple[str, int], ...]:
    """Names and sizes of all segments: equal as long as nothing was appended."""
    return tuple((str(path), path.stat().st_size) for path in segment_paths(ledger))


class SegmentFiles:
    """The files to read for one query; a context manager.

    Attributes:
        paths: (n,) files that hold whole lines only, in the order of the records.
        originals: copy -> the segment it was made from.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._directory = TemporaryDirectory(prefix="kubeledger-")
        self.paths: list[str] = []
        self.originals: dict[str, str] = {}

    def __enter__(self) -> SegmentFiles:
        """Copy the open segments."""
        for attempt in range(_ATTEMPTS):
            try:
                self._collect()
            except FileNotFoundError:
                # A writer sealed a segment between the listing and the copy.
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                break
        return self

    def _collect(self) -> None:
        self.paths.clear()
        self.originals.clear()
        for number, path in enumerate(segment_paths(self._ledger)):
            if path.name.endswith(SEALED_SUFFIX):
                self.paths.append(str(path))
                continue
            copy = Path(self._directory.name) / f"{number}.jsonl"
            if _copy_whole_lines(path, copy):
                self.paths.append(str(copy))
                self.originals[str(copy)] = str(path)

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


def scan_sql(paths: list[str]) -> str:
    """A FROM item that reads lines of the given files with the columns of ``SCAN_COLUMNS``."""
    if not paths:
        columns = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in SCAN_COLUMNS.items())
        return f"(SELECT {columns} WHERE false)"
    files = ", ".join(quoted(path) for path in paths)
    columns = ", ".join(f"{quoted(name)}: {quoted(t)}" for name, t in SCAN_COLUMNS.items())
    return (
        f"read_json([{files}], format = 'newline_delimited', columns = {{{columns}}},"
        f" maximum_object_size = {_LINE_BYTES_MAX})"
    )


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _copy_whole_lines(source: Path, target: Path) -> bool:
    """Copy up to the last newline; False when there is no whole line."""
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return True
            end = start
    return False
