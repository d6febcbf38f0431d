"""The order in which a node's records are replayed, when its imports overlap in time.

Inside one run (see :class:`kubeledger.ledger.manifest.Run`) the order of the source counts:
a clock that steps back does not move a record. So a record's key is the latest time seen
in its run so far, then its seq. A run is opened when the replay comes to its first key and
closed after its last record: where runs do not overlap, one stream is open at a time, and
where they do, one for each that is under way. Memory is flat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise

from kubeledger.ledger.manifest import Run
from kubeledger.ledger.superseded import Span, is_superseded
from kubeledger.model.record import Record

_Keyed = tuple[int, int, Record]  # latest time in the run so far, seq, record


def replays_in_seq_order(runs: Sequence[Run], upto_seq: int, upto_ts_ns: int) -> bool:
    """Whether a replay begins with records 1 to ``upto_seq``, in this order.

    Args:
        runs: all runs of the node, in the order of seq.
        upto_seq: last record of the beginning that is asked about.
        upto_ts_ns: latest time among these records.
    """
    before = [run for run in runs if run.first_seq <= upto_seq]
    after = [run for run in runs if run.first_seq > upto_seq]
    in_order = all(earlier.max_ts_ns <= later.first_ts_ns for earlier, later in pairwise(before))
    return in_order and all(run.first_ts_ns >= upto_ts_ns for run in after)


def replay_runs(
    runs: Sequence[Run],
    records_after: Callable[[int], Iterator[Record]],
    upto_ts_ns: int | None = None,
    superseded: Sequence[Span] = (),
) -> Iterator[Record]:
    """Records of all runs in the order of replay.

    Args:
        records_after: opens a stream of the records after a seq.
        upto_ts_ns: stop after the last record whose key is not later; None: all.
        superseded: spans of records that are left out; they count for the order.
    """
    for _, record in keyed_replay(runs, records_after, upto_ts_ns, superseded):
        yield record


def keyed_replay(
    runs: Sequence[Run],
    records_after: Callable[[int], Iterator[Record]],
    upto_ts_ns: int | None = None,
    superseded: Sequence[Span] = (),
) -> Iterator[tuple[int, Record]]:
    """As :func:`replay_runs`, each record with the latest time in its run so far."""
    waiting = deque(sorted(runs, key=_first_key))
    under_way: list[tuple[int, int, Record, Iterator[_Keyed]]] = []  # a heap; seqs are unique
    while waiting or under_way:
        while waiting and (not under_way or _first_key(waiting[0]) < under_way[0][:2]):
            run = waiting.popleft()
            stream = _keyed(run, records_after(run.first_seq - 1))
            first = next(stream, None)
            if first is not None:
                heappush(under_way, (*first, stream))
        latest, seq, record, stream = heappop(under_way)
        # Up to where another run has its say, this one is simply streamed.
        others = [under_way[0][:2]] if under_way else []
        until = min([*others, *([_first_key(waiting[0])] if waiting else [])], default=None)
        item: _Keyed | None = (latest, seq, record)
        while item is not None and (until is None or item[:2] < until):
            if upto_ts_ns is not None and item[0] > upto_ts_ns:
                return
            if not is_superseded(item[1], superseded):
                yield item[0], item[2]
            item = next(stream, None)
        if item is not None:
            heappush(under_way, (*item, stream))


def _first_key(run: Run) -> tuple[int, int]:
    return run.first_ts_ns, run.first_seq


def _keyed(run: Run, records: Iterator[Record]) -> Iterator[_Keyed]:
    latest = run.first_ts_ns
    for record in islice(records, max(run.last_seq - run.first_seq + 1, 0)):
        latest = max(latest, record.ts_ns)
        yield latest, record.seq, record
