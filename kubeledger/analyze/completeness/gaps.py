"""Times without the periodic lines of a kubelet, and other signs that evidence is missing.

A gap in one of them concerns it alone: a worker that hung, lines that were dropped. Where
verification takes the log to have a hole, and nothing else is in it either, it has one: lines
were lost, or the kubelet hung.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from kubeledger.analyze.completeness.probes import ProbePeriods
from kubeledger.analyze.completeness.sources import Span
from kubeledger.analyze.histories.logs import LogEntry
from kubeledger.model.bodies.cgroups import QOSCgroupsUpdated
from kubeledger.model.bodies.images import EvictionSignalObserved, GarbageCollected, ImagesDetected
from kubeledger.model.bodies.ledger import ImportStarted
from kubeledger.model.bodies.node import ClockStepped, LogThinned
from kubeledger.model.record import Evidence, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.sync_loop import Gap, PeriodicActivity

SourceTime = Callable[[str], int | None]
"""When a source was taken, from its name; None when the name does not say."""

_QOS = "QoS cgroup write"
_ACTIVITIES: dict[type, tuple[str, int]] = {
    EvictionSignalObserved: ("eviction signals", 10),
    QOSCgroupsUpdated: (_QOS, 60),
    ImagesDetected: ("image list", 300),
    GarbageCollected: ("image GC", 300),
}
"""Kind -> name and period in seconds; the periods are constants of every version."""

_COVERED = frozenset(Coverage.KINDS)
_SILENCE_MIN_NS = 3 * NS_PER_S
_LEFT_NS = 10 * NS_PER_S

_SNAPSHOTS = "snapshot of the node"
_SNAPSHOTS_MIN = 4


class _Silence(msgspec.Struct, frozen=True):
    """A time in which no record rests on the log, between two lines of it."""

    from_ts_ns: int
    to_ts_ns: int
    before: Evidence
    after: Evidence


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """A time of which the log says nothing although periodic lines were due.

    Attributes:
        file, line_before, file_after, line_after: the records around it.
        lines_between: lines of the log in it, none of which has a fact; None when it lies
            between two files.
        activities: what is missing.
    """

    from_ts_ns: int
    to_ts_ns: int
    file: str
    line_before: int
    file_after: str
    line_after: int
    lines_between: int | None
    activities: list[Gap]


class Downtime(msgspec.Struct, frozen=True, kw_only=True):
    """From the last record of one kubelet process to the start of the next."""

    from_ts_ns: int
    to_ts_ns: int
    seq: int


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """The node's clock went back."""

    seq: int
    from_ts_ns: int
    to_ts_ns: int


class LostLines(msgspec.Struct, frozen=True, kw_only=True):
    """Single lines are missing while the log continues, as the import saw, or cut.

    Attributes:
        seq: the record that says so.
        missing, expected: periodic lines of its process; ``activities`` the missing ones by name.
        cut: lines that were cut; ``cut_at`` the length at which all were.
    """

    from_ts_ns: int
    to_ts_ns: int
    seq: int
    missing: int
    expected: int
    activities: dict[str, int]
    cut: int = 0
    cut_at: int | None = None


class ActivityCount(msgspec.Struct, kw_only=True):
    """What the search for gaps went by: periodic lines of one name in the records."""

    name: str
    period_ns: int
    seen: int = 0
    longest_ns: int = 0


class GapReport(msgspec.Struct, kw_only=True):
    """Section 3, without the counters.

    Attributes:
        activities: what was regular enough to go by, without the probe workers.
        probe_workers: how many probe workers there were; ``without_spec`` pods whose spec,
            and so whose period, is not known.
        gaps: periodic lines that are missing while the log continues.
        lost: where single lines are missing.
    """

    activities: list[ActivityCount]
    probe_workers: int
    without_spec: list[str]
    holes: list[Hole]
    gaps: list[Gap]
    downtimes: list[Downtime]
    clock_steps: list[ClockStep]
    lost: list[LostLines] = []


class GapPart:
    """Gathers section 3, without the counters."""

    def __init__(self, span: Span, pods: PodRegister, source_time: SourceTime) -> None:
        self._span = span
        self._source_time = source_time
        self._coverage = Coverage()
        self._activities: dict[str, PeriodicActivity] = {}
        self._probes = ProbePeriods(pods)
        self._begin_ns: int | None = None
        self._last: tuple[int, Evidence] | None = None
        self._silences: list[_Silence] = []
        self._snapshots: set[int] = set()
        self._seen: Counter[str] = Counter()
        self._counts: dict[str, ActivityCount] = {}
        self._gaps: list[Gap] = []
        self._downtimes: list[Downtime] = []
        self._steps: list[ClockStep] = []
        self._lost: list[LostLines] = []

    def see(self, entry: LogEntry) -> None:
        """Take in one record."""
        record, body, line = entry.record, entry.record.body, entry.line
        if type(body) in _COVERED:
            self._coverage.note(record)
        if isinstance(body, ImportStarted):
            times = (self._source_time(source.file) for source in body.sources)
            self._snapshots.update(ts_ns for ts_ns in times if ts_ns is not None)
        elif isinstance(body, ClockStepped):
            self._steps.append(
                ClockStep(seq=record.seq, from_ts_ns=body.from_ts_ns, to_ts_ns=body.to_ts_ns)
            )
        if isinstance(body, LogThinned):
            # Its lines stand further above: it is about the whole process.
            self._lost.append(_lost_lines(record.seq, body))
        elif entry.begins:
            self._restart(record, line)
        elif line is not None:
            self._note(record, line)
        self._probes.see(record)

    def _restart(self, record: Record, line: Evidence | None) -> None:
        if self._last is not None:
            self._downtimes.append(
                Downtime(from_ts_ns=self._last[0], to_ts_ns=record.ts_ns, seq=record.seq)
            )
        self._settle()
        self._begin_ns = record.ts_ns
        self._last = (record.ts_ns, line) if line is not None else None

    def _note(self, record: Record, line: Evidence) -> None:
        ts_ns = record.ts_ns
        if self._begin_ns is None:
            self._begin_ns = ts_ns
        if self._last is not None and ts_ns - self._last[0] > _SILENCE_MIN_NS:
            before_ns, before = self._last
            self._silences.append(_Silence(before_ns, ts_ns, before, line))
        if self._last is None or ts_ns >= self._last[0]:
            self._last = (ts_ns, line)
        known = _ACTIVITIES.get(type(record.body))
        if known is not None:
            name, period_s = known
            new = PeriodicActivity(name, period_s * NS_PER_S)
            self._count(self._activities.setdefault(name, new), ts_ns)

    def _count(self, activity: PeriodicActivity, ts_ns: int) -> None:
        self._seen[activity.name] += activity.note(ts_ns) and self._span.holds(ts_ns)

    def _settle(self) -> None:
        """A process is over: its periodic lines end with it."""
        end_ns = self._last[0] if self._last is not None else 0
        self._probes.end(end_ns)
        if _QOS not in self._activities:
            # Below verbosity 4 a collection that has nothing to do is not logged.
            self._activities.pop("image GC", None)
        for activity in self._activities.values():
            self._add_gaps(activity, self._begin_ns, end_ns)
        self._activities.clear()
        self._seen.clear()

    def _add_gaps(
        self, activity: PeriodicActivity, begin_ns: int | None, end_ns: int | None
    ) -> None:
        steps = (gap.to_ts_ns - gap.from_ts_ns for gap in activity.gaps())
        count = self._counts.setdefault(
            activity.name, ActivityCount(name=activity.name, period_ns=activity.period_ns)
        )
        count.seen += self._seen[activity.name]
        count.longest_ns = max(count.longest_ns, activity.longest_ns, *steps)
        if activity.is_regular:
            self._gaps += activity.gaps(begin_ns, end_ns)

    def report(self) -> GapReport:
        self._settle()
        self._coverage.settle()
        self._take_snapshots()
        span = self._span
        gaps = [
            gap
            for gap in (*self._gaps, *self._probes.gaps)
            if span.touches(gap.from_ts_ns, gap.to_ts_ns)
        ]
        holes, rest = self._holes(sorted(gaps, key=lambda gap: (gap.from_ts_ns, gap.activity)))
        return GapReport(
            activities=sorted(self._counts.values(), key=lambda count: count.period_ns),
            probe_workers=len(self._probes.workers),
            without_spec=sorted(self._probes.without_spec),
            holes=holes,
            gaps=rest,
            downtimes=[d for d in self._downtimes if span.touches(d.from_ts_ns, d.to_ts_ns)],
            lost=[lost for lost in self._lost if span.touches(lost.from_ts_ns, lost.to_ts_ns)],
            clock_steps=[s for s in self._steps if span.touches(s.to_ts_ns, s.from_ts_ns)],
        )

    def _take_snapshots(self) -> None:
        """The period of the agent's snapshots is what they show themselves."""
        times = sorted(self._snapshots)
        if len(times) < _SNAPSHOTS_MIN:
            return
        period_ns = int(statistics.median(b - a for a, b in pairwise(times)))
        activity = PeriodicActivity(_SNAPSHOTS, period_ns)
        for ts_ns in times:
            self._count(activity, ts_ns)
        self._add_gaps(activity, None, None)

    def _holes(self, gaps: list[Gap]) -> tuple[list[Hole], list[Gap]]:
        """Gaps in which the log is silent, by that silence; and the others."""
        by_silence: dict[_Silence, list[Gap]] = {}
        rest = []
        for gap in gaps:
            silence = next(self._silences_in(gap), None) if gap.activity != _SNAPSHOTS else None
            if silence is None:
                rest.append(gap)
            else:
                by_silence.setdefault(silence, []).append(gap)
        holes = []
        for silence, found in by_silence.items():
            if self._coverage.hole(silence.from_ts_ns, silence.to_ts_ns) is not None:
                holes.append(_hole(silence, found))
            else:
                rest += found
        return (
            sorted(holes, key=lambda hole: hole.from_ts_ns),
            sorted(rest, key=lambda gap: (gap.from_ts_ns, gap.activity)),
        )

    def _silences_in(self, gap: Gap) -> Iterator[_Silence]:
        """Silences that take up nearly all of a gap, but for a line or two around them."""
        left_ns = max(gap.period_ns, min(2 * gap.period_ns, _LEFT_NS))
        least_ns = gap.to_ts_ns - gap.from_ts_ns - left_ns
        for silence in self._silences:
            shared_ns = min(silence.to_ts_ns, gap.to_ts_ns) - max(
                silence.from_ts_ns, gap.from_ts_ns
            )
            if shared_ns >= max(least_ns, _SILENCE_MIN_NS):
                yield silence


def _lost_lines(seq: int, body: LogThinned) -> LostLines:
    return LostLines(
        from_ts_ns=body.from_ts_ns,
        to_ts_ns=body.to_ts_ns,
        seq=seq,
        missing=body.beats_missing,
        expected=body.beats_expected,
        activities=body.beats,
        cut=body.lines_cut,
        cut_at=body.cut_at,
    )


def _hole(silence: _Silence, gaps: list[Gap]) -> Hole:
    before, after = silence.before, silence.after
    line_before, line_after = before.line or 0, after.line or 0
    same = before.file == after.file
    return Hole(
        from_ts_ns=silence.from_ts_ns,
        to_ts_ns=silence.to_ts_ns,
        file=before.file,
        line_before=line_before,
        file_after=after.file,
        line_after=line_after,
        lines_between=max(0, line_after - line_before - 1) if same else None,
        activities=gaps,
    )
