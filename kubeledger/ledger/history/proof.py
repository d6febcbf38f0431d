"""Is the history what the records give? For an audit, which believes no cache.

Readers use a part whose chain digest and CRCs fit. Whoever knows the format can fit them to
other rows; only the records themselves, made into rows again, distinguish those from true ones.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kubeledger.ledger.audit_walk import Finding
from kubeledger.ledger.engine import duckdb, engine
from kubeledger.ledger.history.history import LOCK, held_alone
from kubeledger.ledger.history.parts import (
    FORM,
    HISTORY,
    INDEX,
    ROW_COLUMNS,
    BadIndexError,
    Index,
    Part,
    PartFile,
    PartWriter,
    load_index,
    own_status,
    pieces_of,
    quoted,
    read_index,
)
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import file_crc, node_directory, storage_errors
from kubeledger.model.errors import DamagedLedgerError, LedgerUnavailableError, reason_of

_REBUILD = "no record is lost, `kubeledger index --rebuild` makes the history again"
_LINK = "no record is lost, and nothing is read through a link: remove it"


def check_history(ledger: Ledger) -> list[Finding]:
    """Check the index and the bytes of the files it names, and look for others.

    A history of another form, by another version of kubeledger, is not read by this one.

    Raises:
        LedgerUnavailableError: it cannot be read.
    """
    root = ledger.path / HISTORY
    with storage_errors("read the history", root):
        findings = _check(ledger, root)
        lock = root / LOCK
        if not findings or lock.is_symlink() or not lock.is_file() or not os.access(lock, os.W_OK):
            return findings
        with held_alone(root):  # somebody may be writing the files and the index just now
            return _check(ledger, root)


def prove_history(ledger: Ledger, scratch: Path) -> Iterator[Finding]:
    """Make the rows of all parts again and compare them; one part is in memory at a time.

    Args:
        ledger: its records are proved.
        scratch: empty directory for the while, in a path without patterns.

    Raises:
        KubeledgerError: the records cannot be read, or nothing be written to ``scratch``.
    """
    root = ledger.path / HISTORY
    if root.is_symlink() or not root.is_dir():
        return
    with storage_errors("prove the history", root):
        index = load_index(root)
        for finding in _Prover(ledger, root, scratch).run(index):
            if _still_named(root, index, finding):
                yield finding


def _find(
    path: Path, flaw: str, node: str | None = None, seq: int | None = None, advice: str = _REBUILD
) -> Finding:
    file = str(path).encode(errors="backslashreplace").decode()  # names may be no text
    return Finding(node, file, None, seq, f"{flaw}; {advice}")


def _still_named(root: Path, index: Index, finding: Finding) -> bool:
    """Whether the history is still the one that was read: others may renew it meanwhile."""
    now = load_index(root)
    return finding.node is not None and all(
        part in now.nodes.get(finding.node, [])
        for part in index.nodes[finding.node]
        if finding.seq == part.first_seq
    )


def _check(ledger: Ledger, root: Path) -> list[Finding]:
    if root.is_symlink():
        return [_find(root, "this is a link", advice=_LINK)]
    files = sorted(_parquet_files(root))
    try:
        index = read_index(root)
    except BadIndexError:
        return [_find(root / INDEX, "the index of the history is damaged")]
    except OSError as error:
        reason = reason_of(error).lower()
        return [_find(root / INDEX, f"the index of the history cannot be read: {reason}")]
    if index is None:
        left_over = all(_is_left_over(ledger, Index(), name) for name in files)
        return [] if left_over else [_find(root / INDEX, "the index of the history is lost")]
    if index.form != FORM:
        return []
    findings = [
        _find(root / file.name, flaw, node, part.first_seq)
        for node, parts in index.nodes.items()
        for part in parts
        for file in part.files
        if (flaw := _flaw(root / file.name, file)) is not None
    ]
    named = {file.name for parts in index.nodes.values() for part in parts for file in part.files}
    findings += [
        _find(root / name, "the index does not name this file")
        for name in files
        if name not in named and not _is_left_over(ledger, index, name)
    ]
    for node, parts in index.nodes.items():
        problem = _misfit(ledger, node, parts)
        if problem is not None:
            findings.append(_find(root / INDEX, problem, node))
    return findings


def _is_left_over(ledger: Ledger, index: Index, name: str) -> bool:
    """Whether a writer may have been cut off before it named the file: it begins the next part.

    The next writer takes it away.
    """
    directory, _, file = name.partition("/")
    for node in ledger.nodes():
        if directory == f"node={node_directory(node)}":
            parts = index.nodes.get(node, [])
            end = parts[-1].last_seq if parts else ledger.begin(node).seq
            return file.rpartition("/")[2].startswith(f"{end + 1:020d}-")
    return False


def _parquet_files(root: Path) -> Iterator[str]:
    for directory, _, names in os.walk(root):
        for name in names:
            if name.endswith(".parquet"):
                yield (Path(directory) / name).relative_to(root).as_posix()


def _flaw(path: Path, file: PartFile) -> str | None:
    try:
        status = own_status(path)
        if status is None:
            return "this is a link, or no regular file, and not read"
        changed = status.st_size != file.size_bytes or file_crc(path) != file.crc
    except (FileNotFoundError, NotADirectoryError):
        return "the index names this file, and it is missing"
    except OSError as error:
        return f"it cannot be read: {reason_of(error).lower()}"
    return "the bytes of this file were changed" if changed else None


def _misfit(ledger: Ledger, node: str, parts: list[Part]) -> str | None:
    """Why the parts of a node are not those of its records."""
    if node not in ledger.nodes():
        return f"the index names {node}, which has no records" if parts else None
    try:
        begin = last_seq = ledger.begin(node).seq
        later = [part for part in parts if part.last_seq > begin]  # others: of dropped records
        for part in later:
            if part.first_seq != last_seq + 1 or part.last_seq < part.first_seq:
                return f"the index names no part that begins with record {last_seq + 1} of {node}"
            last_seq = part.last_seq
        digest = ledger.digest_at(node, last_seq) if later else None
    except DamagedLedgerError:
        return None  # the records themselves are at fault, and reported as such
    if later and (digest is None or digest.hex() != later[-1].chain):
        return f"the index names another chain digest at record {last_seq} of {node}"
    return None


class _Prover:
    """Makes each part again, and compares file by file."""

    def __init__(self, ledger: Ledger, root: Path, scratch: Path) -> None:
        self._ledger = ledger
        self._root = root
        self._scratch = scratch
        self._made = scratch / "made"
        self._held = scratch / "held"  # DuckDB takes a path for a pattern: this one has none

    def run(self, index: Index) -> Iterator[Finding]:
        self._made.mkdir()
        self._held.symlink_to(self._root.resolve(), target_is_directory=True)
        with closing(PartWriter(self._made, self._scratch)) as writer:
            for node in sorted(set(index.nodes) & set(self._ledger.nodes())):
                begin = self._ledger.begin(node).seq
                for part in index.nodes[node]:
                    if part.last_seq > begin:
                        yield from self._part(node, part, writer)

    def _part(self, node: str, part: Part, writer: PartWriter) -> Iterator[Finding]:
        made = self._make(node, part, writer)
        if made is None:
            records = f"records {part.first_seq} to {part.last_seq} of {node}"
            problem = f"the part of {records} is not the one that these give"
            yield _find(self._root / INDEX, problem, node, part.first_seq)
            return
        fresh = {file.name for file in made.files}
        held = {file.name: file for file in part.files}
        flaw: str | None
        for name in sorted(fresh | set(held)):
            if name not in held:
                flaw = "the records give this file, and the index does not name it"
            elif name not in fresh:
                flaw = "the records give no such file"
            elif self._same_bytes(name) or _flaw(self._root / name, held[name]) is not None:
                flaw = None  # what is wrong with its bytes is reported by the check
            else:
                flaw = self._differs(name)
            if flaw is not None:
                yield _find(self._root / name, flaw, node, part.first_seq)
        for name in fresh:
            (self._made / name).unlink()

    def _make(self, node: str, part: Part, writer: PartWriter) -> Part | None:
        """The same part made of the records; None where they give another one."""
        path = self._scratch / "piece.jsonl"
        after, upto = part.first_seq - 1, part.last_seq  # of a chain that is proved
        pieces = pieces_of(self._ledger, node, after, path, upto_seq=upto, verify="crc")
        with closing(pieces):
            piece = next(pieces, None)
        recorded = (part.first_seq, part.last_seq, part.chain)
        if piece is None or (piece.first_seq, piece.last_seq, piece.chain) != recorded:
            return None
        try:
            return writer.write(node, piece)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise self._no_room() from error

    def _no_room(self) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            "there is no room to make the history again, and so to prove it",
            advice="make space in the directory for temporary files (TMPDIR)",
            file=str(self._scratch),
        )

    def _same_bytes(self, name: str) -> bool:
        try:
            return filecmp.cmp(self._root / name, self._made / name, shallow=False)
        except OSError:
            return False

    def _differs(self, name: str) -> str | None:
        """Why a file is not the one that was made; its bytes may be another DuckDB's."""
        held, made = (
            f"read_parquet({quoted(str(below / name))}, hive_partitioning = false)"
            for below in (self._held, self._made)
        )
        columns = ", ".join(ROW_COLUMNS)
        try:
            with closing(engine(self._scratch)) as database:
                types = [
                    database.execute(f"DESCRIBE FROM {one}").fetchall() for one in (held, made)
                ]
                if types[0] != types[1]:
                    return "its columns are not those of the history"
                other = database.execute(
                    f"(SELECT {columns} FROM {held} EXCEPT ALL SELECT {columns} FROM {made})"
                    f" UNION ALL"
                    f" (SELECT {columns} FROM {made} EXCEPT ALL SELECT {columns} FROM {held})"
                    " ORDER BY seq LIMIT 1"
                ).fetchone()
        except duckdb.OutOfMemoryException as error:
            raise self._no_room() from error
        except duckdb.Error:
            return "it cannot be read as Parquet"
        if other is None:
            return None
        return f"its rows are not what the records give (record {other[1]})"
