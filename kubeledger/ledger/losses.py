"""Losses of acknowledged records: what is known of them, as a record will say it."""

from __future__ import annotations

from kubeledger.ledger.batch import Draft
from kubeledger.ledger.manifest import Loss, NodeInfo, Run


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
