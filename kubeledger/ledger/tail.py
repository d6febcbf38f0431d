"""The open end of one node's log: the only place where records are written, as batches."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kubeledger.ledger.manifest import NodeInfo, begin_segment, note_records
from kubeledger.ledger.segments import LINE_BYTES_MAX
from kubeledger.ledger.storage import (
    OWN_FILE,
    WRITE_OWN,
    make_directory,
    segment_file,
    storage_errors,
    sync_directory,
    write_all,
)
from kubeledger.model.errors import BadInputError, DamagedLedgerError, LedgerUnavailableError
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.codec import BadLineError, encode_parts


class Draft(NamedTuple):
    """A record without its number.

    Attributes:
        ts_ns: when, UTC.
        body: observation or decision.
        evidence: (n,) where it stands.
        cause: seq of an earlier record of the same node that led to it, or None.
        is_sound: its body was found to be readable: that is not asked again.
    """

    ts_ns: int
    body: Body
    evidence: tuple[Evidence, ...] = ()
    cause: int | None = None
    is_sound: bool = False


class Batch(NamedTuple):
    """Lines that go to disk together.

    Attributes:
        previous: chain digest before the first, 32 raw bytes.
        digest: chain digest of the last.
        facts: (n,) time and body of each.
    """

    seqs: range
    data: bytes
    previous: bytes
    digest: bytes
    facts: list[tuple[int, Body | None]]


def encode_batch(node: str, drafts: Iterable[Draft], first_seq: int, previous: bytes) -> Batch:
    """Number the drafts from ``first_seq`` and write their lines after ``previous``.

    Raises:
        BadInputError: a record cannot be stored; nothing of the batch is.
    """
    parts: list[bytes] = []
    facts: list[tuple[int, Body | None]] = []
    seq, digest = first_seq, previous
    for ts_ns, body, evidence, cause, is_sound in drafts:
        if cause is not None and not 0 < cause < seq:
            raise BadInputError(f"{body.kind}: its cause, record {cause}, is not before it ({seq})")
        record = Record(
            node=node,
            seq=seq,
            ts_ns=ts_ns,
            role=body.role,
            kind=body.kind,
            v=body.v,
            cause=cause,
            evidence=evidence,
            body=body,
        )
        try:
            payload, frame, digest = encode_parts(record, digest, is_sound=is_sound)
        except BadLineError as error:
            raise BadInputError(f"record {seq} of {node}: {error}") from error
        if len(payload) + len(frame) > LINE_BYTES_MAX:
            raise BadInputError(f"record {seq} of {node}: {len(payload)} bytes are too many")
        parts += (payload, frame)
        facts.append((ts_ns, body))
        seq += 1
    return Batch(range(first_seq, seq), b"".join(parts), previous, digest, facts)


_APPEND = os.O_CREAT | os.O_APPEND | WRITE_OWN


class Tail:
    """The last segment of a node, open for appending.

    Attributes:
        info: counts of what is acknowledged; changed only when a batch is on disk.
        broken: a write failed and could not be taken back; only recovery may continue.
    """

    def __init__(self, directory: Path, info: NodeInfo) -> None:
        self.directory = directory
        self.info = info
        self.broken = False
        self._descriptor: int | None = None

    @property
    def size_bytes(self) -> int:
        """Of the open segment; 0 when none is open."""
        segments = self.info.segments
        return segments[-1].size_bytes if segments and not segments[-1].sealed else 0

    def append(self, batch: Batch) -> None:
        """Write a batch and make it durable with one fsync.

        Raises:
            LedgerUnavailableError: the operating system refused; nothing of the batch counts.
            DamagedLedgerError: something else changed the segment.
        """
        if self.broken:
            raise LedgerUnavailableError(
                "an earlier write failed; the ledger must be opened again", file=str(self.directory)
            )
        assert (batch.seqs.start, batch.previous) == (self.info.last_seq + 1, self.info.head)
        with storage_errors("open a segment", self.directory):
            descriptor = self._open()
        with storage_errors("write the ledger", self._path):
            self._check_untouched(descriptor)
            self._write(descriptor, batch.data)
        note_records(self.info, batch.facts, len(batch.data), batch.digest)

    def leave_segment(self) -> Path:
        """Close the open segment for good; the next append begins a new one.

        Returns:
            path of the one left.
        """
        path = self._path
        self.close()
        begin_segment(self.info, self.info.last_seq + 1, self.info.head)
        return path

    def close(self) -> None:
        """Close the file; all of it is on disk already."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with suppress(OSError):  # each batch was synced; what a close says is of no more use
                os.close(descriptor)

    @property
    def _path(self) -> Path:
        return self.directory / segment_file(self.info.segments[-1].first_seq)

    def _open(self) -> int:
        """The open segment's file; made, with its name on disk, if need be."""
        if self._descriptor is not None:
            return self._descriptor
        make_directory(self.directory)
        if not self.info.segments or self.info.segments[-1].sealed:
            begin_segment(self.info, self.info.last_seq + 1, self.info.head)
        descriptor = os.open(self._path, _APPEND, OWN_FILE)
        try:
            sync_directory(self.directory)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor

    def _check_untouched(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_size != self.size_bytes or status.st_nlink == 0:
            self.broken = True
            raise DamagedLedgerError(
                "the segment was changed or removed while it was written",
                advice="nothing more was written; `kubeledger audit` shows what is left",
                file=str(self._path),
                offset=self.size_bytes,
            )

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            write_all(descriptor, data)
        except BaseException:  # an interrupt too must not leave half a batch
            self._take_back(descriptor)
            raise
        try:
            os.fsync(descriptor)
        except BaseException:
            # The kernel may have dropped the pages and forgotten the error: another fsync
            # would prove nothing. Only reading the file again shows what is on disk.
            self._take_back(descriptor)
            self.broken = True
            raise

    def _take_back(self, descriptor: int) -> None:
        """Cut off what a failed append wrote; if that fails, recovery will."""
        self.broken = True
        with suppress(OSError):
            os.ftruncate(descriptor, self.size_bytes)
            os.fsync(descriptor)
            self.broken = False
