"""Sealed segments stored below a URL, where a copy of each node's ledger grows.

A copy is laid out as a ledger, ``URL/<node>/<id>/nodes/<node>/segments/...``, so that any tool
that copies objects brings a ledger back. Its ID is the chain digest that its first record
follows on or has: another ledger of the same node is another copy. Segments go in their order,
each created only where there is none, then read back; after it the copy's manifest, and the
node's mark here. Whoever dies in between has left a copy that lacks its end, and goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from kubeledger.ledger.base import BASE, content_path, content_seqs, load_base
from kubeledger.ledger.kept import ShipMark, load_mark, save_mark
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, NodeInfo, without_dropped
from kubeledger.ledger.reading import Reading, count_lines
from kubeledger.ledger.sealing import sealed
from kubeledger.ledger.segments import Segment, list_segments
from kubeledger.ledger.storage import (
    MANIFEST,
    NODES,
    SEGMENTS,
    file_crc,
    node_directory,
    read_regular,
    storage_errors,
)
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.remote.store import StorageError, Store, absolute_url, digest_of_file

_ID_LENGTH = 16
_BASE_BYTES_MAX = 1 << 30


class ShipConflictError(StorageError):
    """Where a segment belongs, something else is stored; it was left as it is."""

    exit_code: ClassVar[int] = 4


class Shipment(NamedTuple):
    """A segment that is stored, and was read back.

    Attributes:
        first_seq, last_seq: its records.
        address: where it is.
        was_there: it had been stored before.
    """

    node: str
    first_seq: int
    last_seq: int
    size_bytes: int
    address: str
    was_there: bool


class Backlog(NamedTuple):
    """What is sealed and not stored yet."""

    segments: int
    size_bytes: int


def refuse_inside(ledger: Path, url: str) -> None:
    """A copy has its own place: in the ledger's directory it would be lost with it.

    Raises:
        BadQuestionError: the URL is the ledger's directory or one in it, or no URL.
    """
    place = absolute_url(url)
    if "://" not in place and Path(place).resolve().is_relative_to(ledger.resolve()):
        raise BadQuestionError(
            "is in the ledger itself", advice="name a directory outside of it", file=url
        )


class Shipper:
    """Ships one ledger to one place; nobody else may do so meanwhile (``ledger.storage``)."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self.ledger = ledger
        self.store = store
        self._marks: dict[str, ShipMark | None] = {}

    def backlog(self) -> Backlog:
        """What :meth:`ship` would store now, by the names and sizes of files.

        Raises:
            KubeledgerError: the ledger cannot be read.
        """
        waiting = [file for node in self.ledger.nodes() for file in self._waiting(node)]
        with storage_errors("read the ledger", self.ledger.path):
            return Backlog(len(waiting), sum(file.path.stat().st_size for file in waiting))

    def ship(self) -> Iterator[Shipment]:
        """Store what is sealed and not stored yet, of each node in its order.

        Raises:
            ShipConflictError: other records are stored where these belong.
            StorageError: storage fails; what was yielded is there.
            KubeledgerError: the ledger cannot be read, or is damaged.
        """
        for node in self.ledger.nodes():
            if self._waiting(node):
                with self.ledger.reading(node) as look:
                    yield from self._ship_node(look)

    def _waiting(self, node: str) -> list[Segment]:
        """Sealed segments after those that the mark counts, up to the first that is not sealed."""
        directory = self._directory(node)
        with storage_errors("read the ledger", directory):
            segments = list_segments(directory / SEGMENTS)
        if node not in self._marks:
            mark = load_mark(directory)
            self._marks[node] = mark if mark and mark.url == self.store.url else None
        known = self._marks[node]
        later = [s for s in segments if known is None or s.first_seq > known.info.last_seq]
        return list(takewhile(lambda segment: segment.sealed, later))

    def _ship_node(self, look: Reading) -> Iterator[Shipment]:
        mark = self._mark(look)
        mark = self._ship_base(look, mark)
        lines = look.raw_lines(mark.info.last_seq)
        later = [s for s in look.segments if s.first_seq > mark.info.last_seq]
        for segment, following in zip_longest(later, later[1:]):
            if not segment.sealed:
                return  # it is still written, or being sealed
            # As many as it must hold: what is wrong with the next one is not its fault.
            count = following.first_seq - segment.first_seq if following else None
            info = msgspec.json.decode(msgspec.json.encode(mark.info), type=NodeInfo)
            count_lines(info, islice(lines, count))
            mark = msgspec.structs.replace(mark, info=info)
            yield self._ship_segment(look.node, segment, mark)

    def _ship_segment(self, node: str, segment: Segment, mark: ShipMark) -> Shipment:
        """Store a segment that was proved line by line; ``mark`` counts it as the last one."""
        counted = mark.info.segments[-1]
        with storage_errors("read the ledger", segment.path):
            counted.sealed = True
            counted.stored_bytes = segment.path.stat().st_size
            counted.stored_crc = file_crc(segment.path)
        path = f"{_place(mark, node)}/{SEGMENTS}/{segment.path.name}"
        was_there = self._create(path, segment.path)
        manifest = Manifest(nodes={node: mark.info})
        self.store.replace(f"{mark.prefix}/{MANIFEST}", sealed(manifest))
        self._note(node, mark)
        return Shipment(
            node,
            counted.first_seq,
            counted.last_seq,
            counted.stored_bytes,
            self.store.address(path),
            was_there,
        )

    def _create(self, path: str, file: Path) -> bool:
        """Store a file where there is none, and read it back; whether it was there."""
        created = self.store.create(path, file)
        if self.store.digest(path) == digest_of_file(file):
            return not created
        if created:
            raise _unequal(self.store.address(path))
        raise ShipConflictError(
            f"something else than {file} is stored there, and was left as it is",
            advice="was this ledger restored from an older copy, and written since? "
            "Ship it to another URL",
            file=self.store.address(path),
        )

    def _ship_base(self, look: Reading, mark: ShipMark) -> ShipMark:
        """Store what stands in place of dropped records, before a segment that says so."""
        with storage_errors("read the ledger", look.directory):
            base = load_base(look.directory)
            if base is None or base.dropped.base_digest == mark.base_digest:
                return mark
            files = [content_path(look.directory, seq) for seq in content_seqs(look.directory)]
            for file in [*files, look.directory / BASE]:
                path = f"{_place(mark, look.node)}/{file.relative_to(look.directory).as_posix()}"
                self.store.replace(path, read_regular(file, _BASE_BYTES_MAX))
                if self.store.digest(path) != digest_of_file(file):
                    raise _unequal(self.store.address(path))
        mark = msgspec.structs.replace(mark, base_digest=base.dropped.base_digest)
        self._note(look.node, mark)
        return mark

    def _mark(self, look: Reading) -> ShipMark:
        """Where the node's copy is, and what it holds; a new one where there is none."""
        known = self._marks[look.node]
        if known is not None and known.info.last_seq >= look.begin.seq:
            digest = look.digest_at(known.info.last_seq) if known.info.last_seq else b""
            if known.info.last_seq and digest != known.info.head:
                raise ShipConflictError(
                    f"record {known.info.last_seq} of {look.node} is not the one that was shipped",
                    advice=f"if this ledger is to be shipped, remove {self._directory(look.node)}"
                    "/shipped.json",
                    file=str(look.directory),
                )
            return known
        # None, or records were dropped that it lacks: nothing can follow on what it holds.
        first = look.begin.chain if look.begin.seq else look.digest_at(1)
        if first is None:
            raise DamagedLedgerError("record 1 is missing", file=str(look.directory))
        info = without_dropped(NodeInfo(), look.begin)
        prefix = f"{node_directory(look.node)}/{first.hex()[:_ID_LENGTH]}"
        return ShipMark(url=self.store.url, prefix=prefix, info=info)

    def _note(self, node: str, mark: ShipMark) -> None:
        save_mark(self._directory(node), mark)
        self._marks[node] = mark

    def _directory(self, node: str) -> Path:
        return self.ledger.path / NODES / node_directory(node)


def _place(mark: ShipMark, node: str) -> str:
    """Of a node, in its copy, as in a ledger."""
    return f"{mark.prefix}/{NODES}/{node_directory(node)}"


def _unequal(address: str) -> StorageError:
    return StorageError(
        "what was stored does not read back the same",
        advice="remove it, and look at the storage",
        file=address,
    )
