"""Ends that no line shows: pods that end by themselves, and those that a process leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.processes import Processes
from kubeledger.verify.evidence.restarting import Restarting
from kubeledger.verify.evidence.times import ROUND_NS

__all__ = ["inherited", "ran_out"]


def ran_out(ends: Mapping[str, HistoryEntry], policy: Restarting) -> bool:
    """Whether a pod has ended, as none of its containers is started again.

    Args:
        ends: container -> its last death; all that started are among them.
        policy: of the pod.
    """
    if policy.always or policy.has_sidecars:
        return False
    failed = [n for n, entry in ends.items() if policy.is_init(n) and entry.number not in (0, None)]
    if any(policy.fails(name) is True for name in failed):
        return True
    own = {name: entry for name, entry in ends.items() if not policy.is_init(name)}
    all_ended = policy.names is not None and own.keys() == set(policy.names)
    return all_ended and all(policy.again(n, entry.number) is False for n, entry in own.items())


def inherited(
    intervals: Sequence[PodActiveInterval], entries: Sequence[HistoryEntry], processes: Processes
) -> Iterator[PodActiveInterval]:
    """A pod's intervals in processes that show nothing of it, though nothing showed its end before.

    Each process is handed all pods again: that line may be lost, or the pod went meanwhile.

    Args:
        intervals: (n,) its other intervals, in order.
        entries: all that is shown of it, in order.
        processes: of the node.
    """
    lasts = {interval.process: interval for interval in intervals}
    last: PodActiveInterval | None = None
    for process in processes.all[min(lasts, default=len(processes.all)) :]:
        if process.number in lasts:
            last = lasts[process.number]
        elif last is not None and last.ending_ns is None and last.admitted is not False:
            gone = (
                entry.ts_ns + ROUND_NS
                for entry in entries
                if entry.listing is not None and not entry.listing.alive
                if entry.ts_ns >= process.started_ns
            )
            last = msgspec.structs.replace(
                last,
                process=process.number,
                since_ns=process.started_ns,
                add_seq=None,
                sure_ns=None,
                ended_ns=next(gone, None),
                decided_ns=None,
                admitted=None,
                start_time_unknown=True,
            )
            yield last
