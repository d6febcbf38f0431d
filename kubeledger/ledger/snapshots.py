"""Snapshots: a state as of a record, so that no reader has to fold from the beginning.

A snapshot is a cache. It is bound to its record by that record's chain digest, and to its
own bytes by a CRC; one that does not fit is passed over with a note, never trusted. It
stands for "records 1 to seq, folded in the order of seq", so it may be used only where
the replay begins with just these records: see ``replays_in_seq_order``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from zlib import crc32

import msgspec
import zstandard

import kubeledger
from kubeledger.ledger.manifest import Run
from kubeledger.ledger.reading import replays_in_seq_order
from kubeledger.ledger.storage import (
    DERIVED,
    SNAPSHOTS,
    make_directory,
    read_regular,
    remove,
    storage_errors,
    write_atomically,
)

_NAME = re.compile(r"(\d{20})\.snapshot")
_LEVEL = 3
_STATE_BYTES_MAX = 1 << 30
_FILE_BYTES_MAX = _STATE_BYTES_MAX + (1 << 20)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A state as of one record.

    Attributes:
        seq: the last record that is in the state.
        ts_ns: the latest time among records 1 to ``seq``.
        version: of the state's form, as its owner names it; another one is stale.
        chain: chain digest of record ``seq``, 64 hex digits.
        state: the owner's bytes.
    """

    seq: int
    ts_ns: int
    version: str
    chain: str
    state: bytes


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a snapshot file; the compressed state and a CRC line follow it."""

    format: int = 1
    place: str = SNAPSHOTS
    node: str
    seq: int
    ts_ns: int
    version: str
    chain: str
    size_bytes: int


class SnapshotStore:
    """The snapshots of one node: of its state, or of something else that records give.

    Attributes:
        place: name of their directory.
        notes: why snapshots were passed over, one sentence each.
    """

    def __init__(self, directory: Path, node: str, place: str = SNAPSHOTS) -> None:
        self.place = place
        self._directory = directory / place
        self._node = node
        self.notes: list[str] = []

    def save(self, snapshot: Snapshot) -> Path:
        """Store a snapshot atomically; one of the same record is replaced.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        header = _Header(
            place=self.place,
            node=self._node,
            seq=snapshot.seq,
            ts_ns=snapshot.ts_ns,
            version=snapshot.version,
            chain=snapshot.chain,
            size_bytes=len(snapshot.state),
        )
        packed = zstandard.ZstdCompressor(level=_LEVEL).compress(snapshot.state)
        data = msgspec.json.encode(header) + b"\n" + packed
        path = self.path(snapshot.seq)
        with storage_errors("save a snapshot", path):
            make_directory(self._directory)
            write_atomically(path, data + b"%08x\n" % crc32(data))
        return path

    def seqs(self) -> list[int]:
        """Records that there are snapshots of, ascending."""
        with storage_errors("read the snapshots", self._directory):
            names = self._directory.iterdir() if self._directory.is_dir() else ()
            return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name.name)))

    def newest(
        self,
        version: str,
        runs: Sequence[Run],
        digest_at: Callable[[int], bytes | None],
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        upto_ts_ns: int | None = None,
    ) -> Snapshot | None:
        """The newest snapshot that may be used; None when there is none.

        Args:
            version: form of the state that the caller can read.
            digest_at: chain digest of a record as the ledger holds it.
            after_seq: only snapshots of later records; those before were dropped.
            upto_seq: only snapshots of this record or an earlier one.
            upto_ts_ns: only snapshots that hold no record with a later time.
        """
        for seq in reversed(self.seqs()):
            if seq <= after_seq or (upto_seq is not None and seq > upto_seq):
                continue
            snapshot = self.load(seq, version)
            if snapshot is None or (upto_ts_ns is not None and snapshot.ts_ns > upto_ts_ns):
                continue
            if not replays_in_seq_order(runs, seq, snapshot.ts_ns):
                self._pass_over(seq, "records imported later belong before its end")
                continue
            digest = digest_at(seq)
            if digest is None or digest.hex() != snapshot.chain:
                self._pass_over(seq, "the ledger's chain is not the one it was made from")
                continue
            return snapshot
        return None

    def peek(self, seq: int) -> bytes | None:
        """A snapshot's state, of any version and its place in the chain not proved.

        For names to offer, not for answers; None when the file cannot be read or is damaged.
        """
        read = self._read(seq)
        return None if isinstance(read, str) else read[1]

    def drop(self, first_seq: int = 0, last_seq: int | None = None) -> None:
        """Remove the snapshots of these records, or of all; they are made again at need.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        for seq in self.seqs():
            if first_seq <= seq and (last_seq is None or seq <= last_seq):
                with storage_errors("remove a snapshot", self.path(seq)):
                    remove(self.path(seq))

    def path(self, seq: int) -> Path:
        """Where the snapshot of a record is kept."""
        return self._directory / f"{seq:020d}.snapshot"

    def _pass_over(self, seq: int, reason: str) -> None:
        self.notes.append(f"the snapshot of record {seq} of {self._node} is not used: {reason}")

    def flaw(self, seq: int, chain: str | None) -> str | None:
        """What is wrong with a snapshot's bytes, or its place in the chain; None: nothing.

        Args:
            seq: the record it is named after.
            chain: that record's digest, 64 hex digits; None when there is no such record.
        """
        read = self._read(seq)
        if isinstance(read, str):
            return read
        header, _ = read
        if not self._is_its_own(header, seq):
            return "it belongs elsewhere"
        return None if header.chain == chain else "it was made from another chain"

    def load(self, seq: int, version: str) -> Snapshot | None:
        """The snapshot of a record, its place in the chain not proved; None with a note why."""
        read = self._read(seq)
        if isinstance(read, str):
            self._pass_over(seq, read)
            return None
        header, state = read
        if not self._is_its_own(header, seq) or header.version != version:
            self._pass_over(seq, f"it is of another form ({header.version})")
            return None
        return Snapshot(
            seq=seq, ts_ns=header.ts_ns, version=version, chain=header.chain, state=state
        )

    def _is_its_own(self, header: _Header, seq: int) -> bool:
        own = (1, self.place, self._node, seq)
        return (header.format, header.place, header.node, header.seq) == own

    def _read(self, seq: int) -> tuple[_Header, bytes] | str:
        """Header and state of a snapshot, or why it cannot be used."""
        try:
            data = read_regular(self.path(seq), _FILE_BYTES_MAX)
        except OSError as error:  # removed in this moment, or not readable: only a cache
            return (error.strerror or "cannot be read").lower()
        content, crc = data[:-9], data[-9:]
        head, _, packed = content.partition(b"\n")
        try:
            header = msgspec.json.decode(head, type=_Header)
            if crc != b"%08x\n" % crc32(content) or header.size_bytes > _STATE_BYTES_MAX:
                raise ValueError
            if zstandard.frame_content_size(packed) != header.size_bytes:
                raise ValueError  # before memory is taken for what the frame claims
            return header, zstandard.ZstdDecompressor().decompress(packed)
        except (ValueError, zstandard.ZstdError):
            return "its bytes are damaged"


@cache
def modules_version(rooms: tuple[str, ...]) -> str:
    """Digest of the version and of the modules and tables of some rooms, by their sizes and times.

    What they made is theirs alone: a change of any gives another; so may a copy of the program
    elsewhere.
    """
    root = Path(kubeledger.__file__).parent
    known = hashlib.blake2b(kubeledger.__version__.encode(), digest_size=12)
    for room in rooms:
        for name, size_bytes, mtime_ns in sorted(_modules(root / room)):
            known.update(f"{room} {name} {size_bytes} {mtime_ns}\n".encode())
    return known.hexdigest()


def _modules(directory: Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _modules(Path(entry.path))
            elif entry.name.endswith((".py", ".txt")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns


def derived_stores(directory: Path, node: str) -> list[SnapshotStore]:
    """What is kept of a node beside its state; ``directory`` is the node's."""
    return [SnapshotStore(directory, node, place) for place in DERIVED]
