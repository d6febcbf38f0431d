"""The order in which a node's records are replayed, when its imports overlap in time.

Inside one run (see :class:`kubeledger.ledger.manifest.Run`) the order of the source counts:
a clock that steps back does not move a record. So a record's key is the latest time seen
in its run so far, then its seq. Runs that do not overlap are streamed one after the
other; of those that do, one open stream each is merged. Memory is flat either way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from kubeledger.ledger.manifest import Run
from kubeledger.machine import Record

__all__ = ["overlapping_runs", "replay_runs", "replays_in_seq_order"]

Keyed = tuple[int, int, Record]  # latest time so far, seq, record


def overlapping_runs(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs in groups: each group is over before the next one begins, in time."""
    groups: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.first_ts_ns, run.first_seq)):
        if groups and not _is_behind(run, groups[-1]):
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def _is_behind(run: Run, group: list[Run]) -> bool:
    ends = max((other.max_ts_ns, other.last_seq) for other in group)
    return ends < (run.first_ts_ns, run.first_seq)


def replays_in_seq_order(runs: Sequence[Run], upto_seq: int, upto_ts_ns: int) -> bool:
    """Whether a replay begins with records 1 to ``upto_seq``, in this order.

    Args:
        runs: all runs of the node, in the order of seq.
        upto_seq: last record of the beginning that is asked about.
        upto_ts_ns: latest time among these records.
    """
    before = [run for run in runs if run.first_seq <= upto_seq]
    behind = [run for run in runs if run.first_seq > upto_seq]
    in_order = all(earlier.max_ts_ns <= later.first_ts_ns for earlier, later in pairwise(before))
    return in_order and all(run.first_ts_ns >= upto_ts_ns for run in behind)


def replay_runs(
    runs: Sequence[Run],
    records_after: Callable[[int], Iterator[Record]],
    upto_ts_ns: int | None = None,
) -> Iterator[Record]:
    """Records of all runs in the order of replay.

    Args:
        runs: all runs of the node.
        records_after: opens a stream of the records behind a seq.
        upto_ts_ns: stop behind the last record whose key is not later; None: all.
    """
    for group in overlapping_runs(runs):
        streams = [_keyed(run, records_after(run.first_seq - 1)) for run in group]
        # A key is unique by its seq: two records are never compared.
        for latest, _, record in streams[0] if len(streams) == 1 else heapq.merge(*streams):
            if upto_ts_ns is not None and latest > upto_ts_ns:
                return
            yield record


def _keyed(run: Run, records: Iterator[Record]) -> Iterator[Keyed]:
    latest = run.first_ts_ns
    for record in islice(records, run.last_seq - run.first_seq + 1):
        latest = max(latest, record.ts_ns)
        yield latest, record.seq, record
