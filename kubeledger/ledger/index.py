"""Keeping the counts of a node up to date, one record or one batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.ledger.base import Begin
from kubeledger.ledger.manifest import Loss, NodeInfo, Run, SegmentInfo
from kubeledger.ledger.superseded import merged_spans
from kubeledger.model.bodies.ledger import (
    ImportCompleted,
    ImportStarted,
    RecordsLost,
    RecordsSuperseded,
)
from kubeledger.model.record import Body

IMPORT_KINDS = frozenset({ImportStarted.kind, ImportCompleted.kind})
INDEXED_KINDS = IMPORT_KINDS | {RecordsLost.kind, RecordsSuperseded.kind}
"""Kinds whose bodies the counts need."""


def begin_segment(info: NodeInfo, first_seq: int, head: bytes) -> SegmentInfo:
    """Add an empty segment."""
    segment = SegmentInfo(first_seq=first_seq, last_seq=first_seq - 1, head=head.hex())
    info.segments.append(segment)
    return segment


def note_records(
    info: NodeInfo,
    records: Sequence[tuple[int, Body | None]],
    size_bytes: int,
    head: bytes,
    counted_seq: int = 0,
) -> None:
    """Count records at the end of the last segment.

    Args:
        info: changed in place.
        records: (n,) time of each new record, and its body if that is of one of the indexed
            kinds (any other body may be given or left out).
        size_bytes: of their lines.
        head: chain digest of the last one, or of the one before when n == 0.
        counted_seq: the runs count the records up to here already.
    """
    segment = info.segments[-1]
    first_seq = segment.last_seq + 1
    segment.last_seq += len(records)
    times = [ts_ns for ts_ns, _ in records]
    _note_runs(info, records[max(0, counted_seq + 1 - first_seq) :], segment.last_seq)
    for seq, (_, body) in enumerate(records, first_seq):
        if isinstance(body, RecordsLost):
            _note_loss(info, seq, body)
        elif isinstance(body, RecordsSuperseded):
            spans = [(span.first_seq, span.last_seq) for span in body.spans]
            info.superseded = merged_spans([*info.superseded, *spans])
    known = [ts_ns for ts_ns in (segment.min_ts_ns, segment.max_ts_ns) if ts_ns is not None]
    segment.min_ts_ns = min(times + known, default=None)
    segment.max_ts_ns = max(times + known, default=None)
    segment.size_bytes += size_bytes
    segment.stored_bytes = segment.size_bytes
    segment.head = head.hex()


def without_dropped(info: NodeInfo, begin: Begin) -> NodeInfo:
    """Counts of what is there after a base; ``info`` itself where it knows of no other records.

    Args:
        info: as a manifest has it, maybe from before the drop.
        begin: where the records begin.
    """
    if begin.base is None or info.dropped_seq >= begin.seq:
        return info
    dropped = begin.base.dropped
    runs = [run for run in info.runs if run.first_seq > begin.seq]
    if dropped.open_run:
        across = [run for run in info.runs if run.first_seq <= begin.seq < run.last_seq]
        # Its place in the replay goes by the latest time so far, which was that of the base.
        going_on = Run(
            first_seq=begin.seq + 1,
            last_seq=across[0].last_seq if across else begin.seq,
            first_ts_ns=dropped.latest_ts_ns,
            max_ts_ns=max([dropped.latest_ts_ns, *(run.max_ts_ns for run in across)]),
            digest=dropped.open_import,
            complete=dropped.open_import_complete or any(run.complete for run in across),
            end_seq=max([run.end_seq for run in across if run.end_seq > begin.seq], default=0),
            reopened_seq=across[0].reopened_seq if across else None,
        )
        runs.insert(0, going_on)
    return NodeInfo(
        segments=[segment for segment in info.segments if segment.first_seq > begin.seq],
        runs=runs,
        losses=[loss for loss in info.losses if not 0 < loss.seq <= begin.seq],
        superseded=[span for span in info.superseded if span[1] > begin.seq],
        dropped_seq=begin.seq,
        dropped_head=dropped.chain,
    )


def _note_runs(info: NodeInfo, records: Sequence[tuple[int, Body | None]], last_seq: int) -> None:
    """Count records, the last of which is ``last_seq``, into the runs."""
    run = info.runs[-1] if info.runs else None
    for seq, (ts_ns, body) in enumerate(records, last_seq - len(records) + 1):
        if run is None or isinstance(body, ImportStarted):
            run = _run(seq, ts_ns, body.digest if isinstance(body, ImportStarted) else None)
            info.runs.append(run)
        run.last_seq = seq
        if ts_ns > run.max_ts_ns:
            run.max_ts_ns = ts_ns
        if isinstance(body, ImportCompleted) and run.digest == body.digest:
            run.complete, run.end_seq = True, seq
            run.reopened_seq = run.reopened_seq or 0


def _note_loss(info: NodeInfo, seq: int, body: RecordsLost) -> None:
    """Count a record of a loss, which may be known already."""
    noted = Loss.of(body, seq)
    for index, loss in enumerate(info.losses):
        if loss.lost == body:
            info.losses[index] = noted
            return
    info.losses.append(noted)


def _run(first_seq: int, ts_ns: int, digest: str | None) -> Run:
    return Run(
        first_seq=first_seq,
        last_seq=first_seq,
        first_ts_ns=ts_ns,
        max_ts_ns=ts_ns,
        digest=digest,
        reopened_seq=0,
    )
