"""Which lines and records of a node may be missing, late or cut: asked by every rule.

Filled in a first reading (records come in any order), asked in the second. What it goes by:

====================  ===========================================================================
start of a process    a log that does not hold its first lines shows nothing from before them
eviction signals      come every ten seconds: where they stop, and no other line stands, is a hole
end of a process      from there to the next start nothing was written: that is no hole
``LogThinned``        lines that a kubelet repeats are missing, or lines were cut
``RecordsLost``       the ledger lost records (and did not get them back), or dropped them
``GapObserved``       a recorder could not read the kubelet's log for a time
doubtful stamps       two lines disagree about when something was
steps of the clock    from there on, lines and files may go by two clocks, until another process
config lines          a pod that the kubelet's list shows and no line shows: its lines are lost
classes of lines      a process that is seen to log none of a class: it was filtered out
names and IDs         where those of two sources do not join, nothing of them can be compared
findings about lists  what is pruned from lists, or masked in them, is not known
====================  ===========================================================================

Two questions are different. :meth:`Coverage.missing` asks whether a line can have been lost in a
span. :meth:`Coverage.at` asks whether a verdict at a time may rest on lost lines: a loss poisons
what the process does later, too, since nobody knows what the lost lines showed; and the verdict on
a kind of decision rests on classes of lines (:mod:`~kubeledger.verify.evidence.line_classes`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.lifecycle import disputes
from kubeledger.model.bodies import ledger
from kubeledger.model.bodies.cgroups import QOSCgroupsUpdated
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminating,
)
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted, LogThinned
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.line_classes import (
    OWED,
    RESTS_ON,
    LineClass,
    LoggedClasses,
    LostRecords,
)
from kubeledger.verify.evidence.sync_loop import PeriodicActivity, PodsWithoutAdd

SIGNALS_NS: Final = 10 * NS_PER_S
"""The eviction manager reads its signals so often, in every version."""
SILENCE_NS: Final = 25 * NS_PER_S
"""So long without eviction signals, and the log has a hole: two rounds are missing."""
EVICTING_NS: Final = 100 * NS_PER_S
"""A round that evicts waits for the kill, and up to 30 s for the cleanup."""
_BEFORE_NS: Final = 300 * NS_PER_S
"""What a decision needs may come after it: the end of a run, the next reading of counters."""
_OUT_OF_STEP: Final = 4
_DISORDERED: Final = "not_in_order"
"""What an import finds where a log's lines do not stand in the order of time."""
_STAMP_AROUND_NS: Final = 60 * NS_PER_S
"""What rests on a line with a wrong stamp: the ticks and syncs around it."""
_FEW: Final = 3
"""Fewer missing periodic lines than that do not say where the loss began and ended."""
_HOLES_MAX: Final = 4096
_LINES: Final = (
    *(ContainerDied, ContainerStarted, KubeletStarted, PodConfigChanged), QOSCgroupsUpdated,
)  # fmt: skip
"""Each stands on a line of the kubelet's log; the first and the last of them bound the log."""
_MORE_LINES: Final = (ContainerKilled, KubernetesEvent, PodAdmitted, PodRejected, PodTerminating)
"""Each stands on a line, too, but does not move the log's bounds."""
_BEFORE_LOG: Final = "the kubelet's log before its first line"
_AFTER_LOG: Final = "the kubelet's log after its last line"
_STEP: Final = "by which clock lines and files go after the clock was set back"
_NAMED: Final = "by which clock the lists beside the log are named"
_STAMP: Final = "the right time of a line whose stamp does not go with those around it"
_HOLE: Final = "the lines of the log's hole"
_MIXED: Final = "the order in which lines were logged"
_PRUNED: Final = "what the lists of pods leave out"
_MASKED: Final = "the values that the lists of pods hide"
_OF_ALL: Final = {
    disputes.LINES_MIXED: _MIXED,
    disputes.CLOCK_UNKNOWN: _NAMED,
    disputes.LISTS_PRUNED: _PRUNED,
    disputes.LISTS_MASKED: _MASKED,
}
_UNJOINED: Final = "names, UIDs and container IDs that are the same in all files"

Span = tuple[int | None, int | None]
"""From one time to another; None: from the beginning, to the end."""


class Loss(msgspec.Struct, frozen=True):
    """Lines or records that are missing, or may be.

    Attributes:
        phrase: what is missing, as a noun phrase.
        from_ts_ns, to_ts_ns: the time that it concerns; None: from the beginning, to the end.
        seq: the record that shows it; 0 when none does.
    """

    phrase: str
    from_ts_ns: int | None = None
    to_ts_ns: int | None = None
    seq: int = 0

    def touches(self, start_ns: int, end_ns: int) -> bool:
        has_begun = self.from_ts_ns is None or self.from_ts_ns <= end_ns
        return has_begun and (self.to_ts_ns is None or start_ns < self.to_ts_ns)


class Coverage:
    """What is missing of one node's records."""

    KINDS: tuple[type[Body], ...] = (
        *_LINES,
        *_MORE_LINES,
        EvictionSignalObserved,
        ledger.FindingReported,
        ledger.GapObserved,
        KubeletExited,
        LogThinned,
        PodEvicted,
        ledger.RecordsDropped,
        *LoggedClasses.KINDS,
        *LostRecords.KINDS,
        *PodsWithoutAdd.KINDS,
    )

    def __init__(self) -> None:
        self._thinned: list[tuple[int, LogThinned]] = []
        self._starts: list[tuple[int, int, bool]] = []
        self._start_times: list[int] = []
        self._poison: list[Loss] = []
        self._missing: list[Loss] = []
        self._gaps: list[Loss] = []
        self._drops: list[tuple[int, ledger.RecordsDropped]] = []
        self._unread: list[tuple[int, ledger.GapObserved]] = []
        self._stamps: list[tuple[int, tuple[int, ...]]] = []
        self._classes = LoggedClasses()
        self._lost = LostRecords()
        self._pods_without_add = PodsWithoutAdd()
        self._signals = PeriodicActivity("eviction signals", SIGNALS_NS)
        self._lines = PeriodicActivity("lines", SIGNALS_NS)
        self._exits: list[int] = []
        self._apart: list[tuple[int, int, int | None]] = []
        self._line_ends: tuple[int, int] | None = None
        self._evicted: list[int] = []
        self._holes: list[tuple[int, int]] = []
        self._hole_ends: list[int] = []
        self._whole: list[tuple[int, str]] = []
        self._is_disordered = self._has_parts = False
        self._served_ns: int | None = None

    # First reading -----------------------------------------------------------------------

    def note(self, record: Record) -> None:
        body, ts_ns = record.body, record.ts_ns
        self._classes.note(record)
        if isinstance(body, EvictionSignalObserved):
            self._signals.note(ts_ns)
            self._lines.note(ts_ns)
            return
        is_line = isinstance(body, (*_LINES, *_MORE_LINES))
        if is_line and all(piece.line is not None for piece in record.evidence):
            self._lines.note(ts_ns)
            if isinstance(body, _LINES):
                self._line(ts_ns)
        self._pods_without_add.note(record)
        self._lost.note(record)
        match body:
            case LogThinned():
                self._thinned.append((record.seq, body))
            case ledger.RecordsDropped():
                self._drops.append((record.seq, body))
            case ledger.GapObserved() if body.stream == ledger.KUBELET_LOG:
                self._unread.append((record.seq, body))
            case KubeletStarted():
                self._starts.append((ts_ns, record.seq, body.from_start))
            case KubeletExited():
                self._exits.append(ts_ns)
            case ledger.FindingReported():
                self._is_disordered |= body.finding == _DISORDERED
                if body.finding in _OF_ALL:
                    self._whole.append((record.seq, _OF_ALL[body.finding]))
                if stamps := disputes.stamps_of(disputes.dispute_of(body.message)):
                    self._stamps.append((record.seq, stamps))
            case PodEvicted():
                self._evicted.append(ts_ns)
            case PodListed() if body.listed_by == "kubelet":
                self._served_ns = min(ts_ns, self._served_ns or ts_ns)

    def _line(self, ts_ns: int) -> None:
        first, last = self._line_ends or (ts_ns, ts_ns)
        self._line_ends = (min(first, ts_ns), max(last, ts_ns))
        self._has_parts |= ts_ns % NS_PER_S > 0

    def forget(self, gone: Collection[str]) -> None:
        self._pods_without_add.forget(gone)

    def settle(
        self, two_clocks: Iterable[tuple[int, int, int | None]] = (), *, unjoined: bool = False
    ) -> None:
        """Find what is missing by all that was noted; as often as more of it was.

        Args:
            two_clocks: of ``Times.two_clocks``.
            unjoined: sources call pods by other names; see ``are_unjoined``.
        """
        self._poison, self._missing, self._gaps = [], [], []
        self._apart = list(two_clocks)
        self._starts.sort()
        self._start_times = [ts_ns for ts_ns, _, _ in self._starts]
        self._classes.settle(self._start_times)
        for ts_ns in self._signals.ends() or ():
            self._line(ts_ns)
            self._pods_without_add.logged(ts_ns)
        self._find_holes()
        for seq, body in self._thinned:
            self._thin(seq, body)
        for seq, phrase, first_ns, last_ns in self._all_lost():
            # What was lost left a state, but not all that led to it: up to the next process.
            end_ns = None if last_ns is None else self.next_start(last_ns)
            before_ns = None if first_ns is None else first_ns - _BEFORE_NS
            lost = first_ns, last_ns
            self._add(seq, phrase, poison=(before_ns, end_ns), missing=lost, gap=True)
        for seq, stamps in self._stamps:
            around = min(stamps) - _STAMP_AROUND_NS, max(stamps) + _STAMP_AROUND_NS
            self._add(seq, _STAMP, poison=around)
        for seq, from_ns, to_ns in self._apart:
            self._add(seq, _STEP, poison=(from_ns, to_ns))
        for seq, phrase in [*self._whole, *[(0, _UNJOINED)] * unjoined]:
            self._apart.append((seq * (phrase == _NAMED), 0, None))
            self._add(seq, phrase, poison=(None, None))
        for seq, name, began_ns, to_ns in self._pods_without_add.found():
            phrase = f"the log's lines about pod {name}, which are lost"
            self._add(seq, phrase, poison=(began_ns, to_ns), missing=(began_ns, to_ns))

    def _all_lost(self) -> Iterator[tuple[int, str, int | None, int | None]]:
        """Of what is lost with all lines of a span: record, words, from when to when."""
        for seq, drop in self._drops:
            yield seq, f"records 1 to {drop.last_seq}, which were dropped", None, drop.latest_ts_ns
        ended = {gap.since_ts_ns for _, gap in self._unread if gap.until_ts_ns is not None}
        for seq, gap in self._unread:
            if gap.until_ts_ns is None and gap.since_ts_ns in ended:
                continue  # the record of when it began
            phrase = f"the log's lines that were not recorded ({gap.reason})"
            yield seq, phrase, gap.since_ts_ns, gap.until_ts_ns
        for seq, lost in self._lost.missing():
            phrase = f"records {lost.first_seq} to {lost.last_seq}, which the ledger lost"
            yield seq, phrase, lost.first_ts_ns, lost.last_ts_ns

    def _add(
        self, seq: int, phrase: str, *, poison: Span, missing: Span | None = None, gap: bool = False
    ) -> None:
        """A loss: what it poisons, where lines are missing, and whether those are all lines."""
        self._poison.append(Loss(phrase, *poison, seq))
        if missing is not None:
            self._missing.append(Loss(phrase, *missing, seq))
            self._gaps += self._missing[-1:] if gap else []

    def _thin(self, seq: int, body: LogThinned) -> None:
        phrase = (
            f"the ends of lines that were cut ({body.lines_cut} of those that are read)"
            if body.lines_cut
            else f"the lines that the log lost ({body.beats_missing} of {body.beats_expected} "
            "periodic lines are missing)"
        )
        if 0 < body.beats_missing < _FEW:
            self._add(seq, phrase, poison=(None, None), missing=(None, None))
            return
        # Lines may have been lost for three times as long as it takes to see it.
        lost = max(1, body.beats_missing + body.lines_cut)
        reach_ns = 3 * (body.to_ts_ns - body.from_ts_ns) // lost
        end_ns, last_ns = self.next_start(body.to_ts_ns), body.to_ts_ns + reach_ns
        before_ns = self._unwatched_before(body.from_ts_ns - max(reach_ns, _BEFORE_NS))
        poison = before_ns, None if end_ns is None else max(end_ns, last_ns)
        self._add(seq, phrase, poison=poison, missing=(body.from_ts_ns - reach_ns, last_ns))

    def _unwatched_before(self, ts_ns: int) -> int:
        """The start of a process, where no regular signals show that nothing was lost since."""
        index = bisect_right(self._start_times, ts_ns)
        start_ns = self._start_times[index - 1] if index else ts_ns
        gaps = self._signals.gaps(start_ns)
        return start_ns if any(start_ns <= gap.from_ts_ns < ts_ns for gap in gaps) else ts_ns

    def _find_holes(self) -> None:
        """Gaps in lines of all kinds while there are signals, cut at the starts of processes.

        Signals alone are late while the node is overloaded.
        """
        self._evicted.sort()
        self._exits.sort()
        first_ns, last_ns = self._signals.ends() or (0, 0)
        gaps = [(gap.from_ts_ns, gap.to_ts_ns) for gap in self._lines.gaps()]
        inside = [gap for gap in gaps if first_ns <= gap[0] and gap[1] <= last_ns]
        self._holes = sorted(h for gap in inside for h in self._holes_between(*gap))[:_HOLES_MAX]
        self._hole_ends = [end for _, end in self._holes]

    def _holes_between(self, last_ns: int, next_ns: int) -> list[tuple[int, int]]:
        """What is missing between two periodic lines; a new process logs none for a while."""
        found: list[tuple[int, int]] = []
        from_ns = last_ns
        first = bisect_right(self._start_times, last_ns)
        for ts_ns, _, from_start in self._starts[first:]:
            if ts_ns > next_ns:
                break
            index = bisect_left(self._exits, from_ns)
            exit_ns = min([ts_ns, *self._exits[index : index + 1]])
            if not from_start or exit_ns - from_ns > SILENCE_NS:
                found.append((from_ns, ts_ns))
            from_ns = ts_ns
        index = bisect_left(self._evicted, from_ns - SIGNALS_NS)
        until_ns = min(from_ns + SIGNALS_NS, next_ns)
        evicts = any(ts_ns <= until_ns for ts_ns in self._evicted[index : index + 1])
        if next_ns - from_ns > (EVICTING_NS if evicts else SILENCE_NS):
            found.append((from_ns, next_ns))
        return found

    # Second reading ----------------------------------------------------------------------

    def at(
        self, ts_ns: int, kind: str = "", *, owed: bool = False, by_lines: bool = False
    ) -> Loss | None:
        """The loss that a verdict at a time must take into account; None when there is none.

        Args:
            kind: of the decision; classes of lines that it rests on may not be logged.
            owed: it is not there, and its own lines may not be logged.
            by_lines: lines between two steps of the clock are compared, and no file.
        """
        clocks = (_STEP, _NAMED) if by_lines else ()
        for loss in self._poison:
            if loss.touches(ts_ns, ts_ns) and not (loss.seq and loss.phrase in clocks):
                return loss
        classes = RESTS_ON.get(kind, ()) + (OWED.get(kind, ()) if owed else ())
        unlogged = self._classes.unlogged(ts_ns, classes)
        return None if unlogged is None else Loss(unlogged.phrase)

    def logs(self, ts_ns: int, of: LineClass) -> bool:
        """Whether the process of a time is seen to log a class of lines."""
        return self._classes.unlogged(ts_ns, (of,)) is None

    @property
    def is_of_log(self) -> bool:
        """Files were imported, which may have been filtered; else all was told."""
        return self._classes.is_read

    @property
    def is_out_of_step(self) -> bool:
        """Streams were out of step: lines that stand behind others are not wrong.

        An entry of several lines may be torn then, so that its absence proves nothing.
        """
        return self._is_disordered or len(self._stamps) >= _OUT_OF_STEP

    def is_apart(self, ts_ns: int, *, by_lines: bool = False, timeless: bool = False) -> bool:
        """Whether two sources, around that time, may not be compared, nor their times.

        Lines between two steps that the log shows go by one clock. What lists show whatever the
        clock was is not known where they were pruned or masked.
        """
        if timeless:
            return any(phrase in (_PRUNED, _MASKED) for _, phrase in self._whole)
        return any(
            start <= ts_ns and (end is None or ts_ns < end) and not (seq and by_lines)
            for seq, start, end in self._apart
        )

    def is_watched(self, ts_ns: int) -> bool:
        """Whether periodic lines around a time would show that lines before it are lost."""
        first_ns, last_ns = self._signals.ends() or (0, -1)
        return not self.is_of_log or first_ns <= ts_ns <= last_ns

    def missing(self, start_ns: int, end_ns: int) -> Loss | None:
        """Whether a line of the kubelet's log, or a record, may be missing in a span."""
        return self._lost_in(self._missing, start_ns, end_ns)

    def silent(self, start_ns: int, end_ns: int) -> Loss | None:
        """Whether all lines of some part of a span may be missing.

        Where single lines are lost among others, one line proves nothing by its absence; but of a
        pod that lives for a while some line is left.
        """
        last_ns = end_ns if self._line_ends is None else self._line_ends[1]
        near = end_ns - last_ns <= SILENCE_NS  # so long nothing need be logged
        return self._lost_in(self._gaps, start_ns, min(end_ns, last_ns) if near else end_ns)

    def _lost_in(self, losses: Sequence[Loss], start_ns: int, end_ns: int) -> Loss | None:
        if self._line_ends is None:
            return Loss("the kubelet's log")
        first_ns, last_ns = self._line_ends
        if start_ns < first_ns and not self._begins_complete:
            return Loss(_BEFORE_LOG, None, first_ns)
        if end_ns > last_ns:
            return Loss(_AFTER_LOG, last_ns)
        loss = next((loss for loss in losses if loss.touches(start_ns, end_ns)), None)
        if loss is not None:
            return loss
        hole = self.hole(start_ns, end_ns)
        return self._cut_start(start_ns, end_ns) if hole is None else Loss(_HOLE, *hole)

    def _cut_start(self, start_ns: int, end_ns: int) -> Loss | None:
        """A process whose log does not hold its first lines, in the middle of the log."""
        index = bisect_right(self._start_times, start_ns)
        for ts_ns, seq, from_start in self._starts[index:]:
            if ts_ns > end_ns:
                return None
            if not from_start:
                return Loss(_BEFORE_LOG, start_ns, ts_ns, seq)
        return None

    @property
    def is_coarse(self) -> bool:
        """Whether the stamps of all lines are of whole seconds, which hides their order."""
        return self._line_ends is not None and not self._has_parts

    @property
    def last_line_ns(self) -> int:
        """When the last line stands of those that this goes by; 0 without any."""
        return 0 if self._line_ends is None else self._line_ends[1]

    @property
    def _begins_complete(self) -> bool:
        """The log begins with a process, so that no kubelet line was written before.

        One that served a list before that ran before.
        """
        if not self._starts or not self._starts[0][2]:
            return False
        return self._served_ns is None or self._served_ns >= self._starts[0][0] - SIGNALS_NS

    def unbroken_from(self, ts_ns: int) -> int:
        """The earliest time from which on no part is :meth:`silent` up to a time."""
        if self._line_ends is None or ts_ns > self._line_ends[1]:
            return ts_ns + 1
        from_ns = 0 if self._begins_complete else self._line_ends[0]
        for loss in self._gaps:
            if loss.from_ts_ns is None or loss.from_ts_ns <= ts_ns:
                from_ns = max(from_ns, ts_ns + 1 if loss.to_ts_ns is None else loss.to_ts_ns)
        index = bisect_left(self._hole_ends, ts_ns)
        if index < len(self._holes) and self._holes[index][0] <= ts_ns:
            return ts_ns + 1
        if index:
            from_ns = max(from_ns, self._hole_ends[index - 1])
        past = bisect_right(self._start_times, ts_ns)
        for start_ns, _, from_start in reversed(self._starts[:past]):
            if not from_start:
                return max(from_ns, start_ns)
        return from_ns

    def hole(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """The first hole of the log that touches a span: between which times nothing is logged."""
        index = bisect_right(self._hole_ends, start_ns)
        if index < len(self._holes) and self._holes[index][0] <= end_ns:
            return self._holes[index]
        return None

    def next_start(self, ts_ns: int) -> int | None:
        """The next start of a kubelet; None when none is recorded."""
        index = bisect_right(self._start_times, ts_ns)
        return self._start_times[index] if index < len(self._start_times) else None
