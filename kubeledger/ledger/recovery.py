"""What a writer does before its first write: find where the ledger ends, and what it lost.

A crash can leave: an unfinished line, or unfinished lines, at the end of the open segment;
an empty new segment; a half-sealed segment; a manifest that is behind. All of these are
put right, and what is missing is reported. Anything else is damage, which is never put right
silently: docs/internals/format.md holds the table.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kubeledger.ledger.base import begin_of
from kubeledger.ledger.dropping import settle
from kubeledger.ledger.manifest import (
    INDEXED_KINDS,
    Loss,
    NodeInfo,
    Run,
    SegmentInfo,
    begin_segment,
    note_records,
    without_dropped,
)
from kubeledger.ledger.sealing import finish_seals
from kubeledger.ledger.segments import Segment, blocks_of, lines_of, list_segments
from kubeledger.ledger.snapshots import SnapshotStore, derived_stores
from kubeledger.ledger.storage import WRITE_OWN, file_crc
from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Body
from kubeledger.model.wire.codec import (
    BadLineError,
    check_crc,
    check_line,
    decode_envelope,
    decode_line,
    is_complete_except_newline,
)


def loss_of(counted: NodeInfo, left: NodeInfo, found_ts_ns: int) -> Loss | None:
    """What is lost between what the manifest counts and what is there.

    Records of earlier losses are written again, and no loss; None if there are no others.

    Args:
        counted: by the manifest.
        left: counted from the segments alone; fewer records.
    """
    recorded = {loss.seq for loss in counted.losses}

    def is_lost(after_seq: int, run: Run) -> bool:
        later = range(max(after_seq, left.last_seq, run.first_seq - 1) + 1, run.last_seq + 1)
        return any(seq not in recorded for seq in later)

    def holds_others(run: Run) -> bool:
        own_seq = _own_seq(run)
        return own_seq is None or is_lost(own_seq, run)

    if recorded.issuperset(range(left.last_seq + 1, counted.last_seq + 1)):
        return None
    kept = {run.first_seq: run for run in left.runs}
    runs = [run for run in counted.runs if is_lost(0, run)]
    begins = [_rest_begins(run, kept.get(run.first_seq)) for run in runs]
    open_ = [run for run in runs if not _is_complete(kept.get(run.first_seq))]
    return Loss(
        first_seq=left.last_seq + 1,
        last_seq=counted.last_seq,
        chain=counted.head.hex(),
        first_ts_ns=min(begins, default=None),
        last_ts_ns=max((run.max_ts_ns for run in runs), default=None),
        imports=tuple(run.digest for run in open_ if run.digest is not None),
        others=len(open_) < len(runs) or not runs or any(map(holds_others, open_)),
        found_ts_ns=found_ts_ns,
    )


def drafts_of_losses(info: NodeInfo) -> list[Draft]:
    """The records that losses without one still need, at a time that changes no order."""
    latest = info.runs[-1].max_ts_ns if info.runs else None
    return [
        Draft((loss.first_ts_ns or 0) if latest is None else latest, loss.lost)
        for loss in info.losses
        if not loss.seq
    ]


def note_reopened(info: NodeInfo, known: NodeInfo) -> None:
    """Note where imports stand that are not complete: what is appended now may be anybody's.

    Args:
        info: what is there, as a writer finds it; changed in place.
        known: by the manifest; only what it counts is known to be of one writer.
    """
    before = {(run.first_seq, run.digest): run.reopened_seq for run in known.runs}
    for run in info.runs:
        reopened_seq = before.get((run.first_seq, run.digest))
        if reopened_seq:
            run.reopened_seq = min(reopened_seq, run.last_seq)
        elif run.digest is not None and not run.complete:
            run.reopened_seq = run.first_seq if reopened_seq is None else run.last_seq


def _rest_begins(run: Run, kept: Run | None) -> int:
    """No lost record of a run stands before this time in the order of replay."""
    return run.first_ts_ns if kept is None else kept.max_ts_ns


def _is_complete(kept: Run | None) -> bool:
    return kept is not None and kept.complete


def _own_seq(run: Run) -> int | None:
    """The records after this one may be others than the import's; None: all of them."""
    if run.digest is None or (run.reopened_seq is None and not run.complete):
        return None
    own_seq = run.end_seq if run.complete else run.last_seq
    return min(own_seq, run.reopened_seq or own_seq)


_OTHERS = (
    "the manifest counts another chain digest at record {}: these are not the records that it "
    "was written for, and were counted again"
)
_RESTORE = "nothing was changed; restore the file from a copy (`kubeledger audit` lists all damage)"


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What recovery found at the end of a node's log.

    Attributes:
        last_seq: the last record that is there.
        dropped_bytes: of unfinished lines after it, cut off.
        lost_seq: the last record that was acknowledged; None when all of these are there.
    """

    node: str
    file: str
    last_seq: int
    dropped_bytes: int
    lost_seq: int | None = None

    @property
    def message(self) -> str:
        """One sentence for the user."""
        cut = f"{self.dropped_bytes} bytes of an unfinished write were dropped"
        if self.lost_seq is None:
            return f"{self.node}: {cut}; record {self.last_seq} is the last"
        first_seq = self.last_seq + 1
        gone = (
            f"record {first_seq} was acknowledged and is gone"
            if first_seq == self.lost_seq
            else f"records {first_seq} to {self.lost_seq} were acknowledged and are gone"
        )
        return f"{self.node}: {gone} ({self.file} was cut); {cut}; a record says so from now on"


class CountedAnew(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest, or what it says of a node, was of no use.

    Attributes:
        problem: one sentence.
    """

    file: str
    problem: str

    @property
    def message(self) -> str:
        """One sentence for the user."""
        return f"{self.file}: {self.problem}"


class _Bad(msgspec.Struct):
    """The first line of a segment that is no good.

    Attributes:
        offset: where it begins.
        whole: it ends in a newline.
        sound_after: it, or a line after it, was a whole record, so it is no torn tail.
    """

    offset: int
    reason: str
    whole: bool
    sound_after: bool = False


def recover_node(
    node: str, directory: Path, known: NodeInfo
) -> tuple[NodeInfo, list[RecoveryReport | CountedAnew]]:
    """Bring a node's segments to a state that can be appended to.

    Args:
        directory: of its segments; may be missing.
        known: what the manifest counts; empty when there is no manifest.

    Returns:
        what is there now, and what was dropped or is lost. A new loss is among the counts,
        without a record: the writer appends it once they are in the manifest.

    Raises:
        DamagedLedgerError: damage that no crash explains; nothing was changed.
        OSError: as the operating system says.
    """
    if directory.is_dir():
        finish_seals(directory)
    listed = list_segments(directory)
    begin = begin_of(node, directory.parent, listed)
    if known.dropped_seq > begin.seq:  # its dropped segments were put back
        known = _losses_of(known)
    known = without_dropped(known, begin)
    segments = [segment for segment in listed if segment.first_seq > begin.seq]
    _check_all_there(segments, known, directory)
    info, report, same = _count(node, segments, known)
    reports: list[RecoveryReport | CountedAnew] = [] if report is None else [report]
    lost = report is not None and report.lost_seq is not None
    if lost or not same:
        # The manifest's counts hold what is gone: count again from the segments alone.
        info, _, _ = _count(node, segments, without_dropped(_losses_of(known), begin))
    if lost:
        loss = loss_of(known, info, time.time_ns())
        info.losses += [] if loss is None else [loss]
        # States of records that are gone: nobody could use them.
        snapshots = SnapshotStore(directory.parent, node)
        for store in (snapshots, *derived_stores(directory.parent, node)):
            store.drop(info.last_seq + 1)
    elif not same:
        reports.append(CountedAnew(file=str(directory), problem=_OTHERS.format(known.last_seq)))
    note_reopened(info, known if lost or same else NodeInfo())
    return settle(node, directory, begin, info), reports


def _count(
    node: str, segments: Sequence[Segment], known: NodeInfo
) -> tuple[NodeInfo, RecoveryReport | None, bool]:
    """Count what is there, and cut a torn tail off.

    Returns:
        the counts; what was cut off; whether the records are those that the manifest counts,
        as far as they had to be read.
    """
    info = msgspec.structs.replace(
        known,
        segments=[],
        runs=[msgspec.structs.replace(run) for run in known.runs],
        losses=[msgspec.structs.replace(loss) for loss in known.losses],
        superseded=list(known.superseded),
    )
    by_first = {segment.first_seq: segment for segment in known.segments}
    marks = dict.fromkeys([known.last_seq, *(loss.last_seq for loss in info.losses)], b"")
    report = None
    for segment in segments:
        if segment.first_seq != info.last_seq + 1:
            raise _damaged(segment, 0, f"record {info.last_seq + 1} should come here")
        counted = by_first.get(segment.first_seq)
        if counted and counted.sealed and segment.sealed and _size(segment) == counted.stored_bytes:
            info.segments.append(msgspec.structs.replace(counted))
            continue
        bad = _scan(node, segment, info, known.last_seq, marks)
        report = _settle_end(node, segment, info, counted, bad)
    # Lost records that were put back are lost no more; unless a record says that they were.
    info.losses = [
        loss for loss in info.losses if loss.seq or marks[loss.last_seq].hex() != loss.chain
    ]
    return info, report, marks[known.last_seq] in (b"", known.head)


def _losses_of(known: NodeInfo) -> NodeInfo:
    """Nothing but the losses, to be found in the records again, or recorded again."""
    losses = [msgspec.structs.replace(loss, seq=0) for loss in known.losses]
    return NodeInfo(losses=losses)


def _check_all_there(segments: list[Segment], known: NodeInfo, directory: Path) -> None:
    present = {segment.first_seq for segment in segments}
    for segment in known.segments:
        if segment.last_seq >= segment.first_seq and segment.first_seq not in present:
            raise DamagedLedgerError(
                f"the segment with records {segment.first_seq} to {segment.last_seq} is gone",
                advice=_RESTORE,
                file=str(directory),
            )


def _scan(
    node: str, segment: Segment, info: NodeInfo, counted_seq: int, marks: dict[int, bytes]
) -> _Bad | None:
    """Check a segment's lines and count the good ones into ``info``, up to the first bad one.

    The chain digests of the records named in ``marks`` are put there.
    """
    digest = info.head
    begin_segment(info, segment.first_seq, digest)
    for loss in info.losses:  # recorded in this segment, if the records are still there
        loss.seq = loss.seq if loss.seq < segment.first_seq else 0
    bad: _Bad | None = None
    for piece in lines_of(blocks_of(segment)):
        offset, noted = piece.offset, list[tuple[int, Body | None]]()
        for line in piece.lines:
            if bad is not None:
                bad.sound_after = bad.sound_after or _sound(line)
                continue
            try:
                seq = info.last_seq + len(noted) + 1
                digest, fact = _read(node, line, digest, seq)
            except BadLineError as error:
                bad = _Bad(offset, str(error), whole=True)
                continue
            noted.append(fact)
            if seq in marks:
                marks[seq] = digest
            offset += len(line)
        note_records(info, noted, offset - piece.offset, digest, counted_seq)
        if piece.rest and bad is None:
            whole = is_complete_except_newline(piece.rest)
            reason = "its newline was changed" if whole else "the segment ends inside a line"
            bad = _Bad(piece.offset, reason, whole=whole, sound_after=whole)
    info.segments[-1].sealed = segment.sealed
    info.segments[-1].stored_bytes = _size(segment)
    info.segments[-1].stored_crc = file_crc(segment.path) if segment.sealed else ""
    return bad


def _read(
    node: str, line: bytes, previous: bytes, seq: int
) -> tuple[bytes, tuple[int, Body | None]]:
    digest = check_line(line, previous)
    envelope = decode_envelope(line)
    if envelope.node != node or envelope.seq != seq:
        raise BadLineError(f"it is record {envelope.seq} of {envelope.node}, not {seq} of {node}")
    body = decode_line(line).body if envelope.kind in INDEXED_KINDS else None
    return digest, (envelope.ts_ns, body)


def _sound(line: bytes) -> bool:
    try:
        check_crc(line)
    except BadLineError:
        return False
    return True


def _settle_end(
    node: str, segment: Segment, info: NodeInfo, counted: SegmentInfo | None, bad: _Bad | None
) -> RecoveryReport | None:
    """Cut a torn tail off the open segment; refuse all else that is bad."""
    good_bytes = info.segments[-1].size_bytes
    acknowledged = counted.size_bytes if counted else 0
    size = _size(segment)
    cut_short = segment.open and size < acknowledged and (bad is None or not bad.whole)
    if not cut_short:
        if bad is None:
            return None
        if not segment.open or bad.offset < acknowledged or bad.sound_after:
            raise _damaged(segment, bad.offset, f"record {info.last_seq + 1}: {bad.reason}")
    if size > good_bytes:
        _truncate(segment.path, good_bytes)
    info.segments[-1].stored_bytes = good_bytes
    return RecoveryReport(
        node=node,
        file=str(segment.path),
        last_seq=info.last_seq,
        dropped_bytes=size - good_bytes,
        lost_seq=counted.last_seq if counted and cut_short else None,
    )


def _truncate(path: Path, size_bytes: int) -> None:
    descriptor = os.open(path, WRITE_OWN)
    try:
        os.ftruncate(descriptor, size_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(segment: Segment) -> int:
    return segment.path.stat().st_size


def _damaged(segment: Segment, offset: int, reason: str) -> DamagedLedgerError:
    return DamagedLedgerError(reason, advice=_RESTORE, file=str(segment.path), offset=offset)
