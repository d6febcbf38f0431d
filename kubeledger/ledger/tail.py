"""The open end of one node's log: the only place where records are written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kubeledger.ledger.batch import Batch
from kubeledger.ledger.index import begin_segment, note_records
from kubeledger.ledger.manifest import NodeInfo
from kubeledger.ledger.names import segment_file
from kubeledger.ledger.storage import (
    OWN_FILE,
    WRITE_OWN,
    make_directory,
    storage_errors,
    sync_directory,
    write_all,
)
from kubeledger.model.errors import DamagedLedgerError, LedgerUnavailableError

_APPEND = os.O_CREAT | os.O_APPEND | WRITE_OWN


class Tail:
    """The last segment of a node, open for appending.

    Attributes:
        directory: of the node's segments.
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
                "an earlier write failed; the ledger must be opened again",
                file=str(self.directory),
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
