"""What is known of lines that a kubelet's log lost, and what follows for verdicts.

Where a log lost some lines among others, no line that is missing proves anything: what was
not logged may have been. The same is true of records that the ledger lost. A verdict or a
contradiction that would rest on it is none.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from kubeledger.ledger.records import FindingReported, RecordsDropped, RecordsLost
from kubeledger.lifecycle.disputes import LINES_DISAGREE, dispute_of, stamps_of
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted, LogThinned
from kubeledger.units import NS_PER_S
from kubeledger.verify.lost_records import LostRecords
from kubeledger.verify.untold_pods import UntoldPods

__all__ = ["Loss", "Losses"]

_BEFORE_NS = 300 * NS_PER_S
"""What a decision needs may come behind it: the end of a run, the next reading of counters."""

_STAMP_AROUND_NS = 60 * NS_PER_S
"""What rests on a line with a wrong stamp: the ticks and syncs around it."""

_FEW = 3
"""Fewer missing beats than that do not tell where the loss began and ended."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that one kubelet process lost, as far as verdicts go.

    Attributes:
        from_ts_ns, to_ts_ns: from before the loss was first seen to the end of the process:
            what it did later may rest on what the lost lines told. Lines may have been lost
            for three times as long as it takes to see it before the first sign, and behind
            the last. None: from the beginning, to the end.
        seq: the record that tells of it.
        phrase: the lost lines as a noun phrase.
    """

    from_ts_ns: int | None
    to_ts_ns: int | None
    seq: int
    phrase: str

    def holds(self, ts_ns: int) -> bool:
        """A time is in it."""
        return (self.from_ts_ns is None or self.from_ts_ns <= ts_ns) and (
            self.to_ts_ns is None or ts_ns < self.to_ts_ns
        )


class Losses:
    """The losses of all kubelet processes of one node, from the first reading."""

    def __init__(self) -> None:
        self._told: list[tuple[int, LogThinned]] = []
        self._starts: list[int] = []
        self._losses: list[Loss] = []
        self._drops: list[tuple[int, RecordsDropped]] = []
        self._stamps: list[tuple[int, tuple[int, ...]]] = []
        self._lost = LostRecords()
        self._untold = UntoldPods()

    def note(self, record: Record) -> None:
        """Take in a record of the first reading; others than those it knows change nothing."""
        self._untold.note(record)
        if isinstance(record.body, LogThinned):
            self._told.append((record.seq, record.body))
        elif isinstance(record.body, RecordsDropped):
            self._drops.append((record.seq, record.body))
        elif isinstance(record.body, KubeletStarted):
            self._starts.append(record.ts_ns)
        elif isinstance(record.body, FindingReported):
            self._note_stamp(record.seq, record.body)
        else:
            self._lost.note(record)

    def _note_stamp(self, seq: int, body: FindingReported) -> None:
        dispute = dispute_of(body.message) if body.finding == LINES_DISAGREE else None
        stamps = stamps_of(dispute) if dispute is not None else ()
        if stamps:
            self._stamps.append((seq, stamps))

    def settle(self) -> None:
        """The first reading is over."""
        self._starts.sort()
        self._losses = [self._loss(seq, body) for seq, body in self._told]
        self._losses += [self._drop(seq, body) for seq, body in self._drops]
        self._losses += [self._lost_by_ledger(seq, body) for seq, body in self._lost.missing()]
        self._losses += [_out_of_place(seq, stamps) for seq, stamps in self._stamps]
        self._losses += [
            Loss(
                from_ts_ns=pod.from_ts_ns,
                to_ts_ns=pod.to_ts_ns,
                seq=pod.seq,
                phrase=f"the log's lines about pod {pod.name}, which are lost",
            )
            for pod in self._untold.found()
        ]

    def _loss(self, seq: int, body: LogThinned) -> Loss:
        phrase = (
            f"the ends of lines that were cut ({body.lines_cut} of those that are read)"
            if body.lines_cut
            else f"the lines that the log lost ({body.beats_missing} of {body.beats_expected} beats"
            " are missing)"
        )
        if 0 < body.beats_missing < _FEW:
            return Loss(from_ts_ns=None, to_ts_ns=None, seq=seq, phrase=phrase)
        reach_ns = (
            3 * (body.to_ts_ns - body.from_ts_ns) // max(1, body.beats_missing + body.lines_cut)
        )
        end_ns = self._start_behind(body.to_ts_ns)
        return Loss(
            from_ts_ns=body.from_ts_ns - max(reach_ns, _BEFORE_NS),
            to_ts_ns=None if end_ns is None else max(end_ns, body.to_ts_ns + reach_ns),
            seq=seq,
            phrase=phrase,
        )

    def _drop(self, seq: int, body: RecordsDropped) -> Loss:
        """Records that were dropped left a state, but not all that led to it."""
        return Loss(
            from_ts_ns=None,
            to_ts_ns=self._start_behind(body.latest_ts_ns),
            seq=seq,
            phrase=f"records 1 to {body.last_seq}, which were dropped",
        )

    def _lost_by_ledger(self, seq: int, body: RecordsLost) -> Loss:
        """Records that were not found again left no state at all."""
        first_ns, last_ns = body.first_ts_ns, body.last_ts_ns
        return Loss(
            from_ts_ns=None if first_ns is None else first_ns - _BEFORE_NS,
            to_ts_ns=None if last_ns is None else self._start_behind(last_ns),
            seq=seq,
            phrase=f"records {body.first_seq} to {body.last_seq}, which the ledger lost",
        )

    def _start_behind(self, ts_ns: int) -> int | None:
        """The next start of a kubelet; None when none is recorded."""
        following = bisect_right(self._starts, ts_ns)
        return self._starts[following] if following < len(self._starts) else None

    def at(self, ts_ns: int) -> Loss | None:
        """The loss that a verdict at a time must reckon with."""
        return next((loss for loss in self._losses if loss.holds(ts_ns)), None)


def _out_of_place(seq: int, stamps: tuple[int, ...]) -> Loss:
    """The stamp of a line is wrong, or the line was moved: nothing tells which."""
    return Loss(
        from_ts_ns=min(stamps) - _STAMP_AROUND_NS,
        to_ts_ns=max(stamps) + _STAMP_AROUND_NS,
        seq=seq,
        phrase="the right time of a line whose stamp does not go with those around it",
    )
