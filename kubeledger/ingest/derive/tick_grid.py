"""Lines that a kubelet repeats at a fixed period, and which of them its log lost or cut.

Theory of operation. The sync loop cleans up at the ticks of a ticker of two seconds, and
says so at verbosity 4. A ticker keeps its grid. Where a handler takes long, one tick waits
in the ticker's channel and is served when the loop is free again, off the grid; the others
are dropped. So a step of two or three periods from tick to tick, both on the grid, is no
slow handler: it is a line that was lost. (Longer steps alone show nothing: a call that the
container runtime does not answer ends after whole minutes. On the grid, off the minute and
again and again, they are what a rate limit leaves.) Since 1.22 the end of each
clean-up is logged, too: of begin and end none comes without the other.

The eviction manager logs the begin of a round and, if it evicts nothing, its end, at
verbosity 3, and sleeps ten seconds then: it is never twenty to the begin of the next round.

Where such a line never comes at its period, in a process of minutes, a store kept one of all lines
that say the same, or few of them: no two are left between which one would be missing.
"""

from __future__ import annotations

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, takes
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import CutLine, Fact, LogLine
from kubeledger.model.bodies.node import LogThinned
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_TICK_NS = 2 * NS_PER_S
_ROUND_NS = 10 * NS_PER_S
_TICK_SLACK_NS = 20_000_000
_ROUND_SLACK_NS = 150_000_000
_SURE_STEPS = 3
"""Periods up to which a step on the grid is a lost line, whatever else the log holds."""
_MINUTE_STEPS = 30
_LONG_STEPS = 3
"""So many longer steps, none of whole minutes, are not on the grid by chance."""
_NEVER_NS = 60 * NS_PER_S
_BY_CHANCE = 2
"""In so long a time a periodic line comes at its period, and more often than a few times."""

_HOLE_NS = 25 * NS_PER_S
"""A shorter time without lines is no hole to those who miss rounds of the eviction manager."""

_HOLES = 3
"""So many times without any line are a log that is cut off again and again."""

_SLOW_SHARE = 4
"""Of so many slow handlers one may end on the grid by chance, at the very most."""

_EVIDENCE_MAX = 8


class Missing(msgspec.Struct):
    """Ticks of one name that one kubelet process logged, and that are missing.

    Attributes:
        expected: ticks that were due; ``certain``, ``probable`` and ``cut``: missing ones, by a
            pair that is torn, by a step on the grid, and in times without any line.
        slow: steps that a slow handler explains; ``holes`` times without any line.
        steady: steps of one period, in which nothing is missing.
        long: (n,) lines between which ticks are missing where there are enough such pairs, and
            how many.
        from_ts_ns, to_ts_ns: around the missing ones; 0 without any.
        evidence: lines around the first of them.
    """

    expected: int = 0
    certain: int = 0
    probable: int = 0
    cut: int = 0
    slow: int = 0
    holes: int = 0
    steady: int = 0
    long: list[tuple[LogLine, LogLine, int]] = []
    from_ts_ns: int = 0
    to_ts_ns: int = 0
    evidence: list[Evidence] = []

    @property
    def is_proven(self) -> bool:
        """More is missing than slow handlers explain."""
        return self.certain > 0 or self.probable * _SLOW_SHARE > self.slow or self.holes >= _HOLES

    @property
    def count(self) -> int:
        """Missing ticks; those of times without any line count only if there are several."""
        cut = self.cut if self.holes >= _HOLES else 0
        return self.certain + self.probable + cut

    def between(self, before: LogLine, after: LogLine) -> None:
        """Something is missing between two lines."""
        self.from_ts_ns = min(self.from_ts_ns or before.ts_ns, before.ts_ns)
        self.to_ts_ns = max(self.to_ts_ns, after.ts_ns)
        if len(self.evidence) < _EVIDENCE_MAX:
            self.evidence += [before.evidence, after.evidence]

    def close(self) -> Missing:
        """No more come: whether long steps are too many for slow handlers."""
        if len(self.long) >= _LONG_STEPS and len(self.long) * _SLOW_SHARE > self.slow:
            for before, after, ticks in self.long:
                self.expected += ticks
                self.probable += ticks
                self.between(before, after)
        return self


class _Density:
    """How many lines a log has from one tick to the next, on average."""

    def __init__(self) -> None:
        self._lines = 0
        self._steps = 0

    def add(self, lines: int) -> None:
        """A step in which nothing is missing."""
        self._lines += lines
        self._steps += 1

    def are_few(self, lines: int, periods: float) -> bool:
        """So few lines are not what so many periods hold."""
        return self._steps > 0 and lines * self._steps < self._lines * periods


class HousekeepingTicks:
    """``SyncLoop (housekeeping)``, its end, and its being skipped.

    Attributes:
        begins, ends: what is missing of each; ``ends`` expects none where the kubelet does
            not log them.
    """

    def __init__(self) -> None:
        self.begins = Missing()
        self.ends = Missing()
        self._density = _Density()
        self._last: LogLine | None = None
        self._open = False
        self._had_end = False
        self._took_long = False

    def begin(self, line: LogLine, *, skipped: bool = False) -> None:
        """A tick; a skipped one has no end."""
        last = self._last
        if last is not None and last.source == line.source and line.ts_ns > last.ts_ns:
            if self._open and self._had_end and line.ts_ns - last.ts_ns < _TICK_NS * 3 // 2:
                self.ends.certain += 1
                self.ends.expected += 1
                self.ends.between(last, line)
            self._step(last, line)
        self._last, self._open, self._took_long = line, not skipped, False

    def end(self, line: LogLine) -> None:
        """The end of a clean-up."""
        last = self._last
        self.ends.expected += 1
        self._had_end = True
        if last is None or last.source != line.source:
            return
        if self._open:
            self._took_long = line.ts_ns - last.ts_ns >= _TICK_NS
        elif 0 < line.ts_ns - last.ts_ns < _TICK_NS * 3 // 2:
            # Its begin is not there; it was little before.
            self.begins.expected += 1
            self.begins.certain += 1
            self.begins.between(last, line)
            self._last, self._took_long = line, False
        self._open = False

    def _step(self, last: LogLine, line: LogLine) -> None:
        begins = self.begins
        step_ns, lines = line.ts_ns - last.ts_ns, line.line - last.line
        periods = round(step_ns / _TICK_NS)
        is_quiet = self._density.are_few(lines, 2)
        begins.expected += 1
        if periods <= 1:
            begins.steady += 1
            self._density.add(lines)
        elif self._took_long or abs(step_ns - periods * _TICK_NS) > _TICK_SLACK_NS:
            begins.slow += 1
        elif (is_single := periods <= _SURE_STEPS) or is_quiet:
            begins.expected += periods - 1
            begins.holes += not is_single
            if is_single or step_ns < _HOLE_NS:
                begins.probable += periods - 1
            else:
                begins.cut += periods - 1
            begins.between(last, line)
        elif 1 < periods % _MINUTE_STEPS < _MINUTE_STEPS - 1:
            begins.long.append((last, line, periods - 1))


class EvictionTicks:
    """Rounds of the eviction manager: begin, and end without an eviction.

    Attributes:
        rounds: what is missing of their begins.
    """

    def __init__(self) -> None:
        self.rounds = Missing()
        self._density = _Density()
        self._over: LogLine | None = None
        self._holes = 0

    def end(self, line: LogLine, holes: int) -> None:
        """No resources are starved; ``holes`` are those of the log so far."""
        over = self._over
        if (
            over is not None
            and over.source == line.source
            and 0 < line.ts_ns - over.ts_ns < _ROUND_NS * 3 // 2
        ):
            self.rounds.expected += 1
            self.rounds.certain += 1
            self.rounds.between(over, line)
        self._over, self._holes = line, holes

    def begin(self, line: LogLine, holes: int) -> None:
        """The next round."""
        over, self._over = self._over, None
        if over is None or over.source != line.source:
            return
        step_ns, lines = line.ts_ns - over.ts_ns, line.line - over.line
        periods = round(step_ns / _ROUND_NS)
        self.rounds.expected += 1
        if periods <= 1:
            self.rounds.steady += 1
            self._density.add(lines)
        elif step_ns - periods * _ROUND_NS > periods * _ROUND_SLACK_NS:
            self.rounds.slow += 1
        elif (
            step_ns >= periods * _ROUND_NS - _TICK_SLACK_NS
            and periods <= _SURE_STEPS
            and holes == self._holes
            and not self._density.are_few(lines, periods / 3)
        ):
            self.rounds.expected += periods - 1
            self.rounds.probable += periods - 1
            self.rounds.between(over, line)


# Lines that a log lost, shown by periodic lines that are missing; and lines that it cut.

_SKIPPED = "SyncLoop (housekeeping, skipped): sources aren't ready yet"


class LostLinesAssembler(Assembler):
    """Watches the periodic lines of each kubelet process; reports at its end what is missing."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._pid: int | None = None
        self._steady = 0
        self._begin_process()

    def end(self, ts_ns: int) -> None:
        """The last process."""
        self._report(min(ts_ns, self.context.logged_until_ns or ts_ns))

    def _begin_process(self) -> None:
        self._cuts: list[CutLine] = []
        self._lines_cut = 0
        self._first: LogLine | None = None
        self._housekeeping = HousekeepingTicks()
        self._eviction = EvictionTicks()

    @reads("Starting kubelet main sync loop")
    def _starting(self, entry: Entry) -> None:
        self._start(entry.line)

    def _start(self, line: LogLine) -> None:
        """The sync loop of a process begins: what the log of the one before lost."""
        self._report(line.ts_ns)
        self._pid = line.pid
        self._begin_process()

    @takes(CutLine)
    def _cut(self, cut: CutLine) -> None:
        if cut.line.pid not in (None, self._pid):
            self._start(cut.line)
        self._lines_cut += 1
        self._cuts[1:] = [cut] if self._cuts else []
        self._cuts = self._cuts or [cut]

    @reads("SyncLoop (housekeeping)", _SKIPPED)
    def _begin(self, entry: Entry) -> None:
        self._housekeeping_of(entry).begin(entry.line, skipped=entry.message == _SKIPPED)

    @reads("SyncLoop (housekeeping) end")
    def _end(self, entry: Entry) -> None:
        self._housekeeping_of(entry).end(entry.line)

    @reads("Eviction manager: synchronize housekeeping")
    def _round(self, entry: Entry) -> None:
        self._eviction.begin(entry.line, self._housekeeping_of(entry).begins.holes)

    @reads("Eviction manager: no resources are starved")
    def _calm(self, entry: Entry) -> None:
        self._eviction.end(entry.line, self._housekeeping_of(entry).begins.holes)

    def _housekeeping_of(self, entry: Entry) -> HousekeepingTicks:
        if entry.line.pid != self._pid:
            self._start(entry.line)
        self._first = self._first or entry.line
        return self._housekeeping

    def _report(self, ts_ns: int) -> None:
        found = {
            "housekeeping": self._housekeeping.begins.close(),
            "end of housekeeping": self._housekeeping.ends,
            "eviction manager": self._eviction.rounds,
        }
        self._steady += sum(missing.steady for missing in found.values())
        first = self._first
        if first is not None and self._steady <= _BY_CHANCE and ts_ns - first.ts_ns > _NEVER_NS:
            rounds = (ts_ns - first.ts_ns) // _ROUND_NS
            found["eviction manager"] = Missing(
                expected=rounds + 1, certain=rounds, from_ts_ns=first.ts_ns, to_ts_ns=ts_ns,
                evidence=[first.evidence],
            )  # fmt: skip
        certain = [missing for missing in found.values() if missing.is_proven and missing.count]
        if not certain and not self._cuts:
            return
        counted = {name: missing for name, missing in found.items() if missing.count and certain}
        times = [(missing.from_ts_ns, missing.to_ts_ns) for missing in counted.values()]
        times += [(cut.ts_ns, cut.ts_ns) for cut in self._cuts]
        body = LogThinned(
            from_ts_ns=min(first_ns for first_ns, _ in times),
            to_ts_ns=max(last_ns for _, last_ns in times),
            beats_expected=sum(missing.expected for missing in found.values()),
            beats_missing=sum(missing.count for missing in counted.values()),
            beats={name: missing.count for name, missing in counted.items()},
            lines_cut=self._lines_cut,
            cut_at=self._cuts[0].cut_at if self._cuts else None,
        )
        evidence = [piece for missing in certain for piece in missing.evidence]
        evidence += [cut.evidence for cut in self._cuts]
        self.queue.add(Fact(ts_ns, body, tuple(dict.fromkeys(evidence))))
