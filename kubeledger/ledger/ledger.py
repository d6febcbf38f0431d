"""A ledger: a directory of records, read by anyone, as it grows too, written by one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from kubeledger.ledger.base import Begin
from kubeledger.ledger.manifest import (
    Manifest,
    NodeInfo,
    is_superseded,
    load_manifest,
    save_manifest,
)
from kubeledger.ledger.reader import RawLine, Verify
from kubeledger.ledger.reading import Reading, reading
from kubeledger.ledger.recovery import CountedAnew, RecoveryReport, recover_node
from kubeledger.ledger.segments import blocks_of, lines_of, list_segments
from kubeledger.ledger.snapshots import SnapshotStore
from kubeledger.ledger.storage import (
    MANIFEST,
    NODES,
    SEGMENTS,
    SHARED_DIRECTORY,
    SNAPSHOTS,
    TEMPORARY_SUFFIX,
    NotRegularError,
    make_directory,
    node_directory,
    node_name,
    storage_errors,
    writer_lock,
)
from kubeledger.ledger.writer import LedgerWriter, WriterOptions
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import BadLineError, decode_envelope

_UNFINISHED = {MANIFEST + TEMPORARY_SUFFIX}
"""What a crash leaves of a ledger that was being made; it may be made again there."""

_LOST_MANIFEST = (
    "it was lost or damaged, and was made again from the records that are there; "
    "whether it counted more of them is not known"
)


class Ledger:
    """A handle on a ledger directory; it holds no file open and no state of its own."""

    def __init__(self, path: Path, options: WriterOptions) -> None:
        self.path = path
        self.options = options

    @classmethod
    def open(cls, path: str | Path, options: WriterOptions | None = None) -> Ledger:
        """Open a ledger that is there.

        Raises:
            BadQuestionError: the directory is not a ledger.
            DamagedLedgerError: written by a newer version; nothing was touched.
            LedgerUnavailableError: it cannot be read.
        """
        ledger = cls(Path(path), options or WriterOptions())
        ledger.manifest()
        return ledger

    @classmethod
    def create(cls, path: str | Path, options: WriterOptions | None = None) -> Ledger:
        """Make a new, empty ledger; an empty directory may be there already.

        Raises:
            BadQuestionError: something is there already.
            LedgerUnavailableError: the operating system refused.
        """
        ledger = cls(Path(path), options or WriterOptions())
        with storage_errors("make the ledger", ledger.path):
            if ledger.path.exists() and not ledger.path.is_dir():
                raise BadQuestionError(f"{path} is not a directory")
            if ledger.path.is_dir() and _names(ledger.path) - _UNFINISHED:
                raise BadQuestionError(
                    f"{path} is not empty", advice="name a new directory with --ledger DIR"
                )
            make_directory(ledger.path.parent, SHARED_DIRECTORY)
            make_directory(ledger.path)
            save_manifest(ledger.path, Manifest())
            make_directory(ledger.path / NODES)
        return ledger

    @classmethod
    def open_or_create(cls, path: str | Path, options: WriterOptions | None = None) -> Ledger:
        """Open the ledger at ``path``, or make one if nothing is there.

        Raises:
            KubeledgerError: as :meth:`open` and :meth:`create`.
        """
        directory = Path(path)
        there = (directory / MANIFEST).exists() or (directory / NODES).exists()
        return cls.open(path, options) if there else cls.create(path, options)

    def manifest(self) -> Manifest:
        """What the manifest counts now; empty when it is lost or damaged.

        Raises:
            KubeledgerError: as :meth:`open`.
        """
        with storage_errors("read the ledger", self.path / MANIFEST):
            return load_manifest(self.path) or Manifest()

    def nodes(self) -> list[str]:
        """Names of the nodes that have records, sorted."""
        with storage_errors("read the ledger", self.path):
            return sorted(self._node_directories(self.manifest()))

    def records(
        self,
        node: str | None = None,
        after_seq: int = 0,
        *,
        verify: Verify = "chain",
        kinds: Collection[str] | None = None,
        holding: Collection[str] = (),
        superseded: bool = False,
    ) -> Iterator[Record]:
        """Records in the order of seq; of all nodes, one node after the other, without ``node``.

        Only those of some ``kinds`` if these are given, those whose line has one of the texts
        ``holding`` if there are any, and those that a later import superseded if asked for.
        Memory is flat. Readers need no lock and see a prefix of what a writer writes.

        Raises:
            DamagedLedgerError: what is read is not what was written; all before it was.
            BadQuestionError: the ledger has no such node.
        """
        for name in self._chosen(node):
            with self.reading(name, after_seq) as look:
                left_out = [] if superseded else look.superseded
                for record in look.records(after_seq, verify=verify, kinds=kinds, holding=holding):
                    if not is_superseded(record.seq, left_out):
                        yield record

    def raw_lines(
        self, node: str, after_seq: int = 0, *, verify: Verify = "chain"
    ) -> Iterator[RawLine]:
        """Lines as they stand on disk, each with its file and offset.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        for name in self._chosen(node):
            with self.reading(name, after_seq) as look:
                yield from look.raw_lines(after_seq, verify=verify)

    def record(self, node: str, seq: int) -> Record | None:
        """One record, or None when there is no such one, or no more; reads only near it.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        with self.reading(node, seq - 1, 1) as look:
            return look.record(seq)

    def digest_at(self, node: str, seq: int) -> bytes | None:
        """Chain digest of a record, 32 raw bytes; None when it is not known.

        That of the last record dropped is known, too.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        with self.reading(node, seq - 1, 1) as look:
            return look.digest_at(seq)

    def begin(self, node: str) -> Begin:
        """Where the node's records begin: after a base, if some were dropped.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        with self.reading(node, 0, 0) as look:
            return look.begin

    def info(self, node: str) -> NodeInfo:
        """Counts of a node as of now: the manifest's, and what was written since.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        with self.reading(node) as look:
            return look.info()

    def span(self, node: str | None = None) -> tuple[int, int]:
        """First and last time of a node's records, or of all, ns; from the counts, not the records.

        Raises:
            BadQuestionError: there is no such node, or no record.
        """
        times = [
            ts_ns
            for name in self._chosen(node)
            for segment in self.info(name).segments
            for ts_ns in (segment.min_ts_ns, segment.max_ts_ns)
            if ts_ns is not None
        ]
        if not times:
            raise BadQuestionError(
                f"{self.path} holds no records yet", advice="take some in with `kubeledger import`"
            )
        return min(times), max(times)

    def replay(
        self, node: str, *, upto_ts_ns: int | None = None, verify: Verify = "chain"
    ) -> Iterator[Record]:
        """Records in the order of time, as a fold wants them (:mod:`kubeledger.ledger.reading`).

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        with self.reading(node) as look:
            yield from look.replay(upto_ts_ns=upto_ts_ns, verify=verify)

    @contextmanager
    def reading(
        self, node: str, after_seq: int = 0, held_max: int | None = None
    ) -> Iterator[Reading]:
        """Look at a node as it is now, for several questions about the same records.

        Args:
            after_seq: records before the one after this are asked for one by one, if at all.
            held_max: how many files to hold open at most; None: as many as is wise.

        Raises:
            BadQuestionError: the ledger has no such node.
            DamagedLedgerError: segments are gone.
            LedgerUnavailableError: it cannot be read.
        """
        self._chosen(node)
        with (
            storage_errors("read the ledger", self.path),
            reading(self.path, node, after_seq, held_max) as look,
        ):
            yield look

    def snapshots(self, node: str, place: str = SNAPSHOTS) -> SnapshotStore:
        """Where snapshots of a node's state are kept, or what else is derived from its records.

        Raises:
            BadQuestionError: the ledger has no such node.
        """
        self._chosen(node)
        return SnapshotStore(self.path / NODES / node_directory(node), node, place)

    @contextmanager
    def writer(self) -> Iterator[LedgerWriter]:
        """Recover if need be, and append; one writer at a time.

        Raises:
            LedgerBusyError: another writer is at work.
            DamagedLedgerError: there is damage that no crash explains; nothing was changed.
            LedgerUnavailableError: read-only, no permission, disk full.
        """
        self.manifest()  # refuses a newer version, before a lock file is made
        with writer_lock(self.path):
            with storage_errors("recover the ledger", self.path):
                manifest, reports = self._recover()
            writer = LedgerWriter(self.path, manifest, self.options, tuple(reports))
            try:
                writer.report_losses()
                yield writer
            finally:
                writer.close()

    def _recover(self) -> tuple[Manifest, list[RecoveryReport | CountedAnew]]:
        loaded = load_manifest(self.path)
        known = loaded or Manifest()
        fresh, reports = Manifest(), list[RecoveryReport | CountedAnew]()
        if loaded is None:
            reports.append(CountedAnew(file=str(self.path / MANIFEST), problem=_LOST_MANIFEST))
        for node, directory in sorted(self._node_directories(known).items()):
            info, found = recover_node(node, directory, known.nodes.get(node, NodeInfo()))
            fresh.nodes[node] = info
            reports += found
        if loaded is None or _differ(loaded, fresh):
            save_manifest(self.path, fresh)
        return fresh, reports

    def _segments(self, node: str) -> Path:
        return self.path / NODES / node_directory(node) / SEGMENTS

    def _chosen(self, node: str | None) -> list[str]:
        if node is not None and (info := self.manifest().nodes.get(node)) and info.last_seq:
            return [node]  # of many nodes, to list all for each takes longer than to read it
        nodes = self.nodes()
        if node is None:
            return nodes
        if node not in nodes:
            known = ", ".join(nodes) or "none"
            raise BadQuestionError(f"no node {node!r} in {self.path}", advice=f"there are: {known}")
        return [node]

    def _node_directories(self, manifest: Manifest) -> dict[str, Path]:
        """Node name -> directory of its segments; also of nodes that no manifest names yet."""
        found = {
            node: self._segments(node)
            for node, info in manifest.nodes.items()
            if info.last_seq or info.losses
        }
        taken = set(found.values())
        nodes = self.path / NODES
        for directory in sorted(nodes.iterdir()) if nodes.is_dir() else []:
            segments = directory / SEGMENTS
            if segments not in taken and (name := _name_of(directory, segments)):
                found[name] = segments
        return found


def _names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def _differ(left: Manifest, right: Manifest) -> bool:
    return msgspec.json.encode(left) != msgspec.json.encode(right)


def _name_of(directory: Path, segments: Path) -> str | None:
    """Node of a directory that no manifest names; None while it holds no record."""
    for segment in list_segments(segments)[:1]:
        name = node_name(directory.name)
        try:
            piece = next(lines_of(blocks_of(segment)), None)
        except NotRegularError:  # its reader gets the error
            return name
        if piece is None:
            return None
        if name is None and piece.lines:
            with suppress(BadLineError):
                name = decode_envelope(piece.lines[0]).node
        return name if name and node_directory(name) == directory.name else None
    return None


# Records as they are appended, for a reader beside the writer.


class Following:
    """Follows a ledger from now on.

    Attributes:
        seen: node -> the last record that was there, or was given.
    """

    def __init__(self, ledger: Ledger, node: str | None = None) -> None:
        """Take down how far each node is.

        Args:
            ledger: which may have no node yet.
            node: only this one; None: all, and those that come.

        Raises:
            KubeledgerError: as the ledger's.
        """
        self._ledger = ledger
        self._node = node
        self.seen = {name: ledger.info(name).last_seq for name in self._names()}

    def new(self) -> Iterator[Record]:
        """Records that were appended since, in the order of seq, one node after the other.

        What a later record supersedes is given, too: it was not yet when it was appended.

        Raises:
            KubeledgerError: as the ledger's.
        """
        for name in self._names():
            for record in self._ledger.records(name, self.seen.get(name, 0), superseded=True):
                self.seen[name] = record.seq
                yield record

    def _names(self) -> list[str]:
        return self._ledger.nodes() if self._node is None else [self._node]
