"""The history of a ledger: what its Parquet files hold, brought up to date where that pays.

It stands below the ledger, where the ledger can be written; otherwise, for as long as the
:class:`History` is used, in a temporary directory. Nothing is believed: a part counts as long
as the ledger's chain digest at its last record is the one it was made from and every byte
of its files is as written. What does not count is made again from the segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kubeledger.ledger.engine import duckdb
from kubeledger.ledger.history.parts import (
    HISTORY,
    Index,
    Part,
    PartFile,
    PartWriter,
    load_index,
    own_status,
    pieces_of,
    save_index,
)
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import SegmentInfo
from kubeledger.ledger.segments import list_segments
from kubeledger.ledger.storage import (
    NODES,
    OWN_DIRECTORY,
    SEGMENTS,
    file_crc,
    locked_file,
    node_directory,
    storage_errors,
)
from kubeledger.model.errors import LedgerUnavailableError

GROW_BYTES = 16 << 20
"""So many bytes of lines after the history are read as they are; more become Parquet."""

LOCK = "history.lock"
_LOCK_WAIT_S = 600.0
_PACKED_RATIO = 8  # of a sealed segment that nobody counted; only decides when to grow


class Coverage(NamedTuple):
    """What can be read as Parquet.

    Attributes:
        paths: (n,) files, by node and record; their names hold no pattern.
        ends: node -> last record that they hold; what follows is the tail.
    """

    paths: list[str]
    ends: dict[str, int]


class _Held(NamedTuple):
    """A part, and the directory its files are below."""

    root: Path
    part: Part


class History:
    """The history of one ledger.

    Attributes:
        ledger: whose.
    """

    def __init__(self, ledger: Ledger, scratch: Path) -> None:
        """Nothing is read yet.

        Args:
            scratch: directory for files that live as long as this, in a path without
                patterns.
        """
        self.ledger = ledger
        self._scratch = scratch
        self._roots = (ledger.path / HISTORY, scratch / HISTORY)
        self._links = {root: scratch / f"root{n}" for n, root in enumerate(self._roots)}
        self._grown_below: Path | None = None
        self._proved: dict[Path, tuple[int, int, str]] = {}

    def cover(self, grow_bytes: int = GROW_BYTES) -> Coverage:
        """Prove what is there, and make what is missing if it is much.

        Args:
            grow_bytes: at most about so many bytes of a node's lines stay in the tail.

        Raises:
            DamagedLedgerError: the ledger holds what was not written so.
            LedgerUnavailableError: it cannot be read, or Parquet be written nowhere.
        """
        held = self._held()
        if self._to_grow(held, grow_bytes):
            for root in self._roots:
                with suppress(OSError, duckdb.IOException):
                    self._grow(root, grow_bytes)
                    self._grown_below = root
                    break
            else:
                raise LedgerUnavailableError(
                    "the ledger is too long to be read without an index, and none can be made",
                    advice="make space in it or in the directory for temporary files (TMPDIR)",
                    file=str(self._scratch),
                )
            held = self._held()
        items = [item for parts in held.values() for item in parts]
        files = [self._name_of(item.root, file) for item in items for file in item.part.files]
        last = {node: parts[-1].part.last_seq for node, parts in held.items() if parts}
        return Coverage(files, last)

    def require_kept(self) -> None:
        """Make sure that what was made stands below the ledger.

        Raises:
            LedgerUnavailableError: it could be made only in a temporary directory.
        """
        if self._grown_below == self._roots[1]:
            raise LedgerUnavailableError(
                "cannot write the history",
                advice="give this user write access to the ledger, or make space there",
                file=str(self._roots[0]),
            )

    def _name_of(self, root: Path, file: PartFile) -> str:
        # DuckDB takes a path for a pattern, and a ledger may stand anywhere: below a link.
        link = self._links[root]
        if not link.is_symlink():
            link.symlink_to(root.resolve(), target_is_directory=True)
        return str(link / file.name)

    def _held(self) -> dict[str, list[_Held]]:
        """Node -> parts that count, sorted by node."""
        with storage_errors("read the history", self._roots[0]):
            indexes = [(root, load_index(root)) for root in self._roots]
            own = [(root, index) for root, index in indexes if not root.is_symlink()]
            return {node: self._held_of(node, own) for node in self.ledger.nodes()}

    def _held_of(self, node: str, indexes: list[tuple[Path, Index]]) -> list[_Held]:
        first_seq = self.ledger.begin(node).seq + 1
        held: list[_Held] = []
        for root, index in indexes:
            for part in index.nodes.get(node, []):
                if part.first_seq == (held[-1].part.last_seq + 1 if held else first_seq):
                    held.append(_Held(root, part))
        while held:  # a digest stands for all records before it, so the last that fits will do
            digest = self.ledger.digest_at(node, held[-1].part.last_seq)
            if digest is not None and digest.hex() == held[-1].part.chain:
                break
            held.pop()
        return held[: self._count_of_sound(held)]

    def _count_of_sound(self, held: list[_Held]) -> int:
        """How many parts from the first on have all their files as they were written."""
        files = [
            (n, item.root / file.name, file)
            for n, item in enumerate(held)
            for file in item.part.files
        ]
        with ThreadPoolExecutor(os.cpu_count() or 1, "kubeledger-prove") as threads:
            sound = list(threads.map(lambda entry: self._is_sound(*entry[1:]), files))
        bad = (n for (n, _, _), good in zip(files, sound, strict=True) if not good)
        return min(bad, default=len(held))

    def _is_sound(self, path: Path, file: PartFile) -> bool:
        try:
            status = own_status(path)
            if status is None or status.st_size != file.size_bytes:
                return False
            stamp = (status.st_ino, status.st_mtime_ns, file.crc)
            if self._proved.get(path) != stamp:
                if file_crc(path) != file.crc:
                    return False
                self._proved[path] = stamp
        except OSError:
            return False
        return True

    def _to_grow(self, held: dict[str, list[_Held]], grow_bytes: int) -> list[str]:
        """Nodes whose records after the history are to become Parquet."""
        sizes = {node: self._bytes_after(node, held[node]) for node in held}
        left = sum(sizes.values())
        grow: list[str] = []
        for node in sorted(sizes, key=lambda node: -sizes[node]):
            # Many nodes may each have little; all of it together must not be much either.
            if sizes[node] < grow_bytes and left <= 4 * grow_bytes:
                break
            if sizes[node]:
                grow.append(node)
            left -= sizes[node]
        return sorted(grow)

    def _bytes_after(self, node: str, held: list[_Held]) -> int:
        end = held[-1].part.last_seq if held else 0
        info = self.ledger.manifest().nodes.get(node)
        counted = {s.first_seq: s for s in info.segments} if info else {}
        segments = list_segments(self._segments(node))
        following = [s.first_seq for s in segments[1:]] + [None]
        end = max(end, self.ledger.begin(node).seq)
        total = 0
        for segment, next_seq in zip(segments, following, strict=True):
            if next_seq is not None and next_seq <= end + 1:
                continue
            try:
                stored = segment.path.stat().st_size
            except FileNotFoundError:  # sealed in this moment
                stored = 0
            plain = stored * (_PACKED_RATIO if segment.sealed else 1)
            total += _rest_of(counted.get(segment.first_seq), plain, end)
        return total

    def _segments(self, node: str) -> Path:
        return self.ledger.path / NODES / node_directory(node) / SEGMENTS

    def _grow(self, root: Path, grow_bytes: int) -> None:
        """Make what is missing, below ``root``.

        Raises:
            OSError, duckdb.IOException: it cannot be written there, or others hold its lock.
            KubeledgerError: as :meth:`cover`.
        """
        if root.is_symlink():
            raise OSError(f"{root} is a link, which may lead anywhere")
        root.mkdir(OWN_DIRECTORY, exist_ok=True)
        with locked_file(root / LOCK, _LOCK_WAIT_S):
            held = self._held()  # another one may have done it meanwhile
            index = Index(nodes={})
            for node, parts in held.items():
                index.nodes[node] = [item.part for item in parts if item.root == root]
            _tidy(root, index)
            writer = PartWriter(root, self._scratch)
            try:
                for node in self._to_grow(held, grow_bytes):
                    end = held[node][-1].part.last_seq if held[node] else 0
                    for piece in pieces_of(self.ledger, node, end, self._scratch / "piece.jsonl"):
                        index.nodes[node].append(writer.write(node, piece))
                        save_index(root, index)
            finally:
                writer.close()
                (self._scratch / "piece.jsonl").unlink(missing_ok=True)


def forget_dropped(ledger: Ledger) -> None:
    """Remove the Parquet files of records that were dropped; nothing where there are none.

    Raises:
        LedgerUnavailableError: a file cannot be removed, or others hold the history's lock.
    """
    root = ledger.path / HISTORY
    if root.is_symlink() or not root.is_dir():
        return
    with storage_errors("remove dropped records from the history", root), held_alone(root):
        index = load_index(root)
        for node, parts in index.nodes.items():
            begin = ledger.begin(node).seq if node in ledger.nodes() else 0
            index.nodes[node] = [part for part in parts if part.first_seq > begin]
        save_index(root, index)
        _tidy(root, index)


@contextmanager
def held_alone(root: Path) -> Iterator[None]:
    """Hold the history's lock, when nobody else does any more.

    Raises:
        LedgerUnavailableError: others hold it for too long.
    """
    with ExitStack() as held:
        try:
            held.enter_context(locked_file(root / LOCK, _LOCK_WAIT_S))
        except TimeoutError:
            raise LedgerUnavailableError(
                "the history is in use", advice="run it again", file=str(root)
            ) from None
        yield


def _rest_of(counted: SegmentInfo | None, plain_bytes: int, end: int) -> int:
    """About how many bytes of a segment's lines follow record ``end``."""
    if counted is None or counted.last_seq < counted.first_seq:
        return plain_bytes
    if counted.sealed:
        plain_bytes = counted.size_bytes
    records = counted.last_seq - counted.first_seq + 1
    passed = min(max(end - counted.first_seq + 1, 0), records)
    return max(plain_bytes - counted.size_bytes * passed // records, 0)


def _tidy(root: Path, index: Index) -> None:
    """Remove files that no part names: left by a crash, or of parts that do not count.

    No link is followed: what it leads to is not the history's.
    """
    named = {file.name for parts in index.nodes.values() for part in parts for file in part.files}
    for node in _directories(root, "node=*"):
        for date in _directories(node, "date=*"):
            for path in date.iterdir():
                if path.relative_to(root).as_posix() not in named:
                    path.unlink(missing_ok=True)


def _directories(path: Path, pattern: str) -> Iterator[Path]:
    """Directories of that name; a link is removed itself."""
    for entry in sorted(path.glob(pattern)):
        if entry.is_symlink():
            entry.unlink(missing_ok=True)
        elif entry.is_dir():
            yield entry
