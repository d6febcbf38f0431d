"""What is known of lines that a kubelet's log lost, and what follows for verdicts.

Where a log lost some lines among others, no line that is missing proves anything: what was
not logged may have been. A verdict or a contradiction that would rest on it is none.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted, LogThinned
from kubeledger.units import NS_PER_S

__all__ = ["Loss", "Losses"]

_BEFORE_NS = 300 * NS_PER_S
"""What a decision needs may come behind it: the end of a run, the next reading of counters."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that one kubelet process lost, as far as verdicts go.

    Attributes:
        from_ts_ns, to_ts_ns: from a little before the loss was first seen to the end of the
            process: what it did later may rest on what the lost lines told; ``to_ts_ns`` is
            None while no next process is known.
        seq: the record that tells of it.
        phrase: the lost lines as a noun phrase.
    """

    from_ts_ns: int
    to_ts_ns: int | None
    seq: int
    phrase: str


class Losses:
    """The losses of all kubelet processes of one node, from the first reading."""

    def __init__(self) -> None:
        self._told: list[tuple[int, LogThinned]] = []
        self._starts: list[int] = []
        self._losses: list[Loss] = []

    def note(self, record: Record) -> None:
        """Take in a record of the first reading; others than those it knows change nothing."""
        if isinstance(record.body, LogThinned):
            self._told.append((record.seq, record.body))
        elif isinstance(record.body, KubeletStarted):
            self._starts.append(record.ts_ns)

    def settle(self) -> None:
        """The first reading is over."""
        self._starts.sort()
        for seq, body in self._told:
            after = bisect_right(self._starts, body.to_ts_ns)
            count = f"{body.beats_missing} of {body.beats_expected} beats are missing"
            loss = Loss(
                from_ts_ns=body.from_ts_ns - _BEFORE_NS,
                to_ts_ns=self._starts[after] if after < len(self._starts) else None,
                seq=seq,
                phrase=f"the lines that the log lost ({count})",
            )
            self._losses.append(loss)

    def at(self, ts_ns: int) -> Loss | None:
        """The loss that a verdict at a time must reckon with."""
        for loss in self._losses:
            if loss.from_ts_ns <= ts_ns and (loss.to_ts_ns is None or ts_ns < loss.to_ts_ns):
                return loss
        return None
