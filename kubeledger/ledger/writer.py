"""The writer of a ledger: numbers records, makes batches durable, seals full segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import msgspec

from kubeledger.ledger.base import Begin, begin_of
from kubeledger.ledger.dropping import finish_drop, prepare_drop
from kubeledger.ledger.manifest import (
    INDEXED_KINDS,
    Manifest,
    NodeInfo,
    SegmentInfo,
    save_manifest,
    without_dropped,
)
from kubeledger.ledger.recovery import CountedAnew, RecoveryReport, drafts_of_losses
from kubeledger.ledger.sealing import seal
from kubeledger.ledger.segments import list_segments
from kubeledger.ledger.storage import NODES, SEGMENTS, node_directory, segment_file, storage_errors
from kubeledger.ledger.tail import Batch, Draft, Tail, encode_batch
from kubeledger.model.bodies.ledger import RecordsDropped

_MANIFEST_EVERY_BYTES = 8 << 20  # bounds what a reader must count by itself


class WriterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How segments are kept.

    Attributes:
        segment_bytes: a segment that has reached this size is sealed.
        level: zstd level of sealed segments.
    """

    segment_bytes: int = 64 << 20
    level: int = 10


class LedgerWriter:
    """Appends to a ledger; made by ``Ledger.writer()``, which holds the lock meanwhile.

    Attributes:
        recovery: what was put right when the ledger was opened.
        appended_bytes: of the lines of all records since then.
        on_sealed: called after each segment that was sealed, by the thread that sealed it.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        options: WriterOptions,
        recovery: tuple[RecoveryReport | CountedAnew, ...],
    ) -> None:
        self.recovery = recovery
        self.appended_bytes = 0
        self.on_sealed: Callable[[], None] = _nothing
        self._directory = directory
        self._manifest = manifest
        self._options = options
        self._tails: dict[str, Tail] = {}
        self._bytes_uncounted = 0
        self._saved: bytes | None = None
        self._syncing = ThreadPoolExecutor(1, "kubeledger-sync")
        self._sealing = ThreadPoolExecutor(1, "kubeledger-seal")
        self._seals: list[tuple[SegmentInfo, Future[tuple[int, str]]]] = []
        for node, info in manifest.nodes.items():
            self._seal_left_open(node, info)

    def report_losses(self) -> None:
        """Append the records of losses that have none yet: the first thing after recovery.

        The manifest holds these losses until then. If this is cut off, the next writer finds
        the record or appends it.

        Raises:
            KubeledgerError: as :meth:`append`.
        """
        for node, info in self._manifest.nodes.items():
            drafts = drafts_of_losses(info)
            if drafts:
                self.append(node, drafts)

    def next_seq(self, node: str) -> int:
        """The number that the node's next record will get."""
        info = self._manifest.nodes.get(node)
        return info.last_seq + 1 if info else 1

    def info(self, node: str) -> NodeInfo:
        """Counts of a node: its segments and its runs, by which an import knows itself again.

        To be read only; empty for a node that the ledger does not hold.
        """
        return self._manifest.nodes.get(node, NodeInfo())

    def keeps_sources(self, node: str) -> None:
        """Sources of a node's imports are kept from now on: if they are gone, they are lost."""
        self._manifest.nodes.setdefault(node, NodeInfo()).keeps = True

    def append(self, node: str, drafts: Iterable[Draft]) -> list[int]:
        """Append a batch; it is on disk when this returns.

        A crash before that leaves nothing, all, or the first records of the batch.

        Args:
            drafts: (n,) in order; n == 0 does nothing.

        Returns:
            (n,) the records' seqs.

        Raises:
            BadInputError: a record cannot be stored; nothing of the batch is.
            LedgerUnavailableError: disk full and the like; nothing of the batch counts.
            DamagedLedgerError: something else changed the segment.
        """
        tail = self._tail(node)
        batch = encode_batch(node, drafts, tail.info.last_seq + 1, tail.info.head)
        if batch.seqs:
            tail.append(batch)
            self._account(tail, batch)
        return list(batch.seqs)

    def append_batches(self, node: str, batches: Iterable[Iterable[Draft]]) -> Iterator[list[int]]:
        """Append batch after batch, each with one fsync, and prepare one while one is synced.

        Args:
            batches: taken one ahead of what was yielded; causes may name seqs of batches
                that are not acknowledged yet. No other append of the node may come between.

        Yields:
            a batch's seqs, once it is on disk. Batches not yielded are not acknowledged.

        Raises:
            KubeledgerError: as :meth:`append`; the batches after the failed one are not there.
        """
        tail = self._tail(node)
        seq, digest = tail.info.last_seq + 1, tail.info.head
        pending: tuple[Batch, Future[None]] | None = None
        try:
            for drafts in batches:
                batch = encode_batch(node, drafts, seq, digest)
                if pending is not None:
                    done, pending = pending, None
                    yield self._acknowledge(tail, done)
                seq, digest = batch.seqs.stop, batch.digest
                if batch.seqs:
                    pending = (batch, self._syncing.submit(tail.append, batch))
            if pending is not None:
                done, pending = pending, None
                yield self._acknowledge(tail, done)
        finally:
            if pending is not None:  # the next batch was bad; this one is on its way
                self._acknowledge(tail, pending)

    def seal_open(self) -> int:
        """Leave and compress the open segment of every node, however small; how many there were.

        They are sealed in the background: :meth:`close` waits for it and reports failures.
        """
        count = 0
        for node, info in self._manifest.nodes.items():
            if info.segments and info.segments[-1].size_bytes and not info.segments[-1].sealed:
                segment = info.segments[-1]
                self._seal(segment, self._tail(node).leave_segment())
                count += 1
        return count

    def drop(self, node: str, dropped: RecordsDropped, content: bytes, ts_ns: int) -> int:
        """Drop the node's first segments; the record that says so is on disk before they go.

        If it fails on the way, the next writer takes it back or finishes it.

        Args:
            dropped: what the record will say; its ``last_seq`` ends a segment that is not the
                last one.
            content: what is kept in place of the records, whose digest the record holds.

        Returns:
            the record's number.

        Raises:
            LedgerUnavailableError: the operating system refused.
            BadInputError: the record cannot be stored; nothing was dropped.
        """
        tail = self._tail(node)
        wait([future for _, future in self._seals])  # none may be read while it is removed
        directory = self._segments(node)
        assert any(s.first_seq == dropped.last_seq + 1 for s in tail.info.segments)
        with storage_errors("prepare to drop records", directory):
            begin = begin_of(node, directory.parent, list_segments(directory))
            encode_batch(node, [Draft(ts_ns, dropped)], tail.info.last_seq + 1, tail.info.head)
            record_seq = tail.info.last_seq + 1
            base = prepare_drop(node, directory, begin, record_seq, dropped, content)
        # If this fails, the record may be there all the same: the next writer will see.
        (seq,) = self.append(node, [Draft(ts_ns, dropped)])
        with storage_errors("remove dropped records", directory):
            finish_drop(directory, base)
        fewer = without_dropped(tail.info, Begin(base))
        for field in fewer.__struct_fields__:
            setattr(tail.info, field, getattr(fewer, field))
        with suppress(OSError):  # only advice; closing the writer tries again
            self._save()
        return seq

    def close(self) -> None:
        """Wait for seals, write the manifest, close the files.

        Raises:
            LedgerUnavailableError: a segment could not be sealed or the manifest not be
                written; every acknowledged record is on disk all the same.
        """
        self._syncing.shutdown()
        self._sealing.shutdown()
        for tail in self._tails.values():
            tail.close()
        failed = next((future.exception() for _, future in self._seals if future.exception()), None)
        with storage_errors("finish the ledger's files", self._directory):
            self._save()
            if failed is not None:
                raise failed

    def _tail(self, node: str) -> Tail:
        tail = self._tails.get(node)
        if tail is None:
            directory = self._segments(node)
            info = self._manifest.nodes.setdefault(node, NodeInfo())
            tail = self._tails[node] = Tail(directory, info)
        return tail

    def _segments(self, node: str) -> Path:
        return self._directory / NODES / node_directory(node) / SEGMENTS

    def _acknowledge(self, tail: Tail, pending: tuple[Batch, Future[None]]) -> list[int]:
        batch, future = pending
        future.result()
        self._account(tail, batch)
        return list(batch.seqs)

    def _account(self, tail: Tail, batch: Batch) -> None:
        """Roll the segment over and write the manifest, where it is time to."""
        self.appended_bytes += len(batch.data)
        self._bytes_uncounted += len(batch.data)
        full = tail.size_bytes >= self._options.segment_bytes
        if full:
            segment = tail.info.segments[-1]
            self._seal(segment, tail.leave_segment())
        indexed = any(body is not None and body.kind in INDEXED_KINDS for _, body in batch.facts)
        if full or indexed or self._bytes_uncounted >= _MANIFEST_EVERY_BYTES:
            # The batch is on disk, and the manifest is only advice: a failure to write it
            # must not look like a failure to append. Closing the writer tries again.
            with suppress(OSError):
                self._save()

    def _seal_left_open(self, node: str, info: NodeInfo) -> None:
        """Seal what a crash left unsealed; only the last segment stays open."""
        for segment in info.segments[:-1]:
            if not segment.sealed:
                self._seal(segment, self._segments(node) / segment_file(segment.first_seq))

    def _seal(self, segment: SegmentInfo, path: Path) -> None:
        self._seals.append((segment, self._sealing.submit(self._sealed, path)))

    def _sealed(self, path: Path) -> tuple[int, str]:
        done = seal(path, self._options.level)
        self.on_sealed()
        return done

    def _save(self) -> None:
        for entry in [entry for entry in self._seals if entry[1].done()]:
            segment, future = entry
            if future.exception() is None:
                segment.sealed = True
                segment.stored_bytes, segment.stored_crc = future.result()
                self._seals.remove(entry)
        encoded = msgspec.json.encode(self._manifest)
        if encoded != self._saved:  # closing finds what an import's last batch has saved
            save_manifest(self._directory, self._manifest)
            self._saved = encoded
        self._bytes_uncounted = 0


def _nothing() -> None:
    """Nobody wants to hear."""
