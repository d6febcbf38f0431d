"""One timeline of processes, settings, pods and containers, for all rules.

Made in the first reading, from records in any order; asked in the second, with times::

    timeline.process(ts)          the kubelet process: version, settings, whether its log is whole
    timeline.active(start, end)   the pods that counted: those that surely did, and that may have
    timeline.pod(ts, uid, ...)    the history of a pod: its intervals and its containers' runs
    timeline.specs.at(ts, ...)    the pod's object as lists show it

What is asked of pods holds under loss: ``must <= truth <= may``, where lines may be missing
(:mod:`~kubeledger.verify.evidence.coverage`), too. A pod of which no record at all is left
cannot be in ``may``: then :attr:`Active.loss` says what is missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Body, Record
from kubeledger.verify.evidence.builder import Surroundings
from kubeledger.verify.evidence.coverage import Coverage, Loss
from kubeledger.verify.evidence.gather import Gathered, are_unjoined, gather, is_gone, still_asked
from kubeledger.verify.evidence.history_entries import ENTRY_KINDS, HistoryEntry
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval, PodHistory
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process, Processes
from kubeledger.verify.evidence.sync_loop import LoopIterations
from kubeledger.verify.evidence.times import Times

_BACK_NS: Final = 150_000_000_000
"""Rules ask about times so long past without making the timeline search again."""


class Active(msgspec.Struct, frozen=True):
    """The pods that counted as active in a span.

    Attributes:
        must: key -> interval of the pods that counted all the time.
        may: key -> interval of those that counted at some instant; ``must`` among them.
        loss: why there may have been pods besides; None when there were none.
    """

    must: dict[str, PodActiveInterval]
    may: dict[str, PodActiveInterval]
    loss: Loss | None


class Timeline:
    """Everything that lives on one node."""

    KINDS: tuple[type[Body], ...] = (*Processes.KINDS, *ENTRY_KINDS)

    def __init__(self, coverage: Coverage, specs: PodRegister, times: Times) -> None:
        """All of these are filled beside this, and settled before it."""
        self.coverage = coverage
        self.specs = specs
        self.processes = Processes()
        self.iterations = LoopIterations(times)
        self.pods: dict[str, PodHistory] = {}
        self._entries: dict[str, dict[str | None, list[HistoryEntry]]] = {}
        self._lists: dict[str, set[int]] = {"kubelet": set(), "api": set()}
        self._gathered = Gathered()
        self._by_name: dict[str, list[str]] = {}
        self._intervals: list[list[PodActiveInterval]] = []
        self._starts: list[list[int]] = []
        self._window: dict[int, tuple[int, int, list[PodActiveInterval]]] = {}

    # First reading -----------------------------------------------------------------------

    def note(self, record: Record) -> None:
        kind = type(record.body)
        if kind in Processes.KINDS:
            self.processes.note(record)
            return
        if kind in LoopIterations.KINDS:
            self.iterations.note(record)
        elif isinstance(record.body, PodListed) and record.body.listed_by != "manifest":
            self._lists[record.body.listed_by].add(record.ts_ns)
        read = ENTRY_KINDS.get(kind)
        if read is not None and (found := read(record, record.body)) is not None:
            (uid, namespace, name), entry = found
            self._entries.setdefault(f"{namespace}/{name}", {}).setdefault(uid, []).append(entry)

    def forget(self, before_ns: int) -> set[str]:
        """Nobody asks for earlier times: what another state took the place of by then goes.

        Returns:
            UIDs of the pods that were gone by then, and of which nothing is known any more.
        """
        self.iterations.forget(before_ns)
        gone: set[str] = set()
        for of_name in self._entries.values():
            for uid, entries in [*of_name.items()]:
                if uid is not None and is_gone(entries, before_ns):
                    gone.add(uid)
                    del of_name[uid]
                    self.pods.pop(uid, None)
                else:
                    of_name[uid] = still_asked(entries, before_ns)
        self._entries = {name: of_name for name, of_name in self._entries.items() if of_name}
        return gone

    def settle(self) -> None:
        self.processes.settle(self.coverage)
        self.iterations.settle(self.coverage.unbroken_from)
        lists = {source: sorted(times) for source, times in self._lists.items()}
        around = Surroundings(self.processes, self.iterations, self.coverage, self.specs)
        self._gathered = gather(self._entries, lists, around, self._gathered)
        self.pods = {**self.pods, **self._gathered.pods}  # one whose UID is known now keeps its key
        self._by_name, self._window = {}, {}
        for key, pod in self._gathered.pods.items():
            self._by_name.setdefault(f"{pod.namespace}/{pod.name}", []).append(key)
        self._intervals = [[] for _ in range(max(len(self.processes.all), 1))]
        for pod in self._gathered.pods.values():
            for interval in pod.intervals:
                self._intervals[interval.process].append(interval)
        for intervals in self._intervals:
            intervals.sort(key=lambda interval: (interval.since_ns, interval.seq))
        self._starts = [[each.since_ns for each in intervals] for intervals in self._intervals]

    def are_unjoined(self) -> bool:
        """Whether sources call the same pods by other names, as far as was noted."""
        return are_unjoined(self._entries, self.specs)

    def let_go(self) -> None:
        """Nothing more will be noted, so that what was is not needed again."""
        self._entries = {}
        self.iterations.let_go()

    # Second reading ----------------------------------------------------------------------

    def process(self, ts_ns: int) -> Process | None:
        """The kubelet process that runs at a time; None when no record shows any."""
        return self.processes.at(ts_ns)

    def is_found(self, ts_ns: int, since_ns: int = 0) -> bool:
        """Whether the first relist of a process that began since told what may be of one before."""
        process = self.process(ts_ns)
        began_ns = 0 if process is None else process.started_ns
        return began_ns >= since_ns and self.iterations.is_first(began_ns, ts_ns)

    def pod(
        self, ts_ns: int, uid: str | None, namespace: str | None = None, name: str | None = None
    ) -> PodHistory:
        """A pod; without ``uid`` the newest of its name that had come by then, else the first."""
        if uid is not None and uid in self.pods:
            return self.pods[uid]
        found = [self.pods[key] for key in self._by_name.get(f"{namespace}/{name}", ())]
        if uid is not None:
            found = [pod for pod in found if pod.uid is None][:1]
        come = [pod for pod in found if pod.intervals and pod.intervals[0].since_ns <= ts_ns]
        if come and uid is None:
            return max(come, key=_first_ns)
        return min(found, key=_first_ns, default=self.history(""))

    def of(self, record: Record) -> PodHistory:
        body: Any = record.body
        return self.pod(record.ts_ns, body.pod_uid, body.namespace, body.pod)

    def history(self, key: str) -> PodHistory:
        """A pod by its key; of one of which nothing is known, an empty history."""
        return self.pods.get(key) or PodHistory(key="", uid=None, namespace="", name="")

    def named(self, namespace: str, name: str) -> list[PodHistory]:
        """All pods that ever had a name."""
        return [self.pods[key] for key in self._by_name.get(f"{namespace}/{name}", ())]

    def interval(
        self, ts_ns: int, uid: str | None, namespace: str | None = None, name: str | None = None
    ) -> PodActiveInterval | None:
        """The pod's interval at a time, or the last before it, in the process that runs then."""
        return self.pod(ts_ns, uid, namespace, name).at(ts_ns, self._number(ts_ns))

    def interval_of(self, record: Record) -> PodActiveInterval | None:
        """The same of the pod that a record is about."""
        return self.of(record).at(record.ts_ns, self._number(record.ts_ns))

    def goes_on(self, since: Record, until_ns: int) -> bool:
        """Whether the pod of a record was handed over, and has not begun to end by then."""
        interval, process = self.interval_of(since), self.process(until_ns)
        return (
            interval is not None
            and interval.add_seq is not None
            and (interval.ending_ns is None or interval.ending_ns > until_ns)
            and process is not None
            and process.number == interval.process
        )

    def active(self, start_ns: int, end_ns: int) -> Active:
        """The pods that the kubelet counted as active in a span of one process.

        ``must <= truth <= may``: ``must`` counted all the time, ``may`` at some instant. These
        are the pods that admission, cgroup sums, eviction rankings and the device manager
        count (``GetActivePods``). Where another process starts within the span, none counts
        all the time.
        """
        must: dict[str, PodActiveInterval] = {}
        may: dict[str, PodActiveInterval] = {}
        complete_from_ns = self.coverage.unbroken_from(end_ns)
        first, last = self._number(start_ns), self._number(end_ns)
        processes = range(first, last + 1)
        for interval in (each for n in processes for each in self._around(n, start_ns, end_ns)):
            may[interval.key] = interval
            # The lines of its end may be lost where nothing shows it alive later.
            known_ns = max(interval.seen_ns, interval.sure_ns or 0)
            is_told = interval.seen_ns >= end_ns or complete_from_ns <= known_ns
            if first == last and is_told and interval.must_count(start_ns, end_ns):
                must[interval.key] = interval
        return Active(must, may, self.unknown_pods(start_ns) or self.unknown_pods(end_ns))

    def admission(self, interval: PodActiveInterval, by_ns: int | None = None) -> Active:
        """The pods that counted when a pod was admitted, without itself.

        The loop takes the pods of one config line one after the other, the older first; those of
        the same age, and static pods, in an order that only the topology manager's records show.

        Args:
            by_ns: it was judged by then, where a record shows that better than the decision.
        """
        start_ns, end_ns = self.admission_span(interval, by_ns)
        found = self.active(start_ns, end_ns)
        must, may = {}, {}
        for key, other in found.may.items():
            earlier = _comes_before(other, interval, self.pods)
            is_over = other.ended_ns is not None and other.ended_ns <= start_ns
            refused = other.admitted is False and other.decided_ns is not None
            is_refused = refused and (other.decided_ns or 0) <= end_ns
            if key == interval.key or earlier is False or is_refused or is_over:
                continue
            may[key] = other
            # One that was handed over just before counts by its order.
            goes_on = other.ending_ns is None or other.ending_ns > end_ns
            counts = key in found.must or (earlier and other.admitted and goes_on)
            undecided = other.add_seq is not None and other.decided_ns is None
            if counts and earlier is not None and not undecided:
                must[key] = other
        return Active(must, may, found.loss)

    def admission_span(
        self, interval: PodActiveInterval, by_ns: int | None = None
    ) -> tuple[int, int]:
        """When a pod that a config line added was admitted or rejected: earliest and latest.

        What was killed for a pod before it in the same turn was killed before. Arguments as in
        :meth:`admission`.
        """
        came_ns = interval.since_ns if interval.added_ns is None else interval.added_ns
        over_ns = self.iterations.over_by(came_ns)
        ends = [ts_ns for ts_ns in (over_ns, interval.decided_ns, by_ns) if ts_ns is not None]
        end_ns = max(came_ns, min(ends, default=came_ns))
        killed = self._gathered.preempted_for
        others = [other for other in self._added_with(interval) if other.key in killed]
        before = (o for o in others if _comes_before(o, interval, self.pods) is not False)
        waits = [killed[other.key] for other in before]
        return max([came_ns, *(ts_ns for ts_ns in waits if ts_ns <= end_ns)]), end_ns

    def last_added(self, ts_ns: int) -> list[PodActiveInterval]:
        """The pods that the last config line by a time added, if it added any.

        The sync loop puts them through admission before it reads the next one.
        """
        own = self._intervals[self._number(ts_ns)]
        come = [(each.added_ns, each.add_line or 0) for each in own if each.added_ns is not None]
        last = max((place for place in come if place[0] <= ts_ns), default=None)
        return [each for each in own if (each.added_ns, each.add_line or 0) == last]

    def _added_with(self, interval: PodActiveInterval) -> Iterator[PodActiveInterval]:
        """Other pods that the same line added."""
        intervals, starts = self._intervals[interval.process], self._starts[interval.process]
        for index in range(bisect_left(starts, interval.since_ns), len(intervals)):
            if starts[index] != interval.since_ns:
                return
            if intervals[index] is not interval:
                yield intervals[index]

    def is_listed_from(self, ts_ns: int) -> bool:
        return any(ts_ns <= listed_ns for times in self._lists.values() for listed_ns in times)

    def unknown_pods(self, ts_ns: int) -> Loss | None:
        """Why pods may have counted at a time that no record shows; None when none can.

        Every pod is known from a time on, and to a time back, at which all are known: the start of
        the process, or a list of the kubelet's. What came or went in between has its lines.
        """
        process = self.process(ts_ns)
        if process is None:
            return self.coverage.missing(ts_ns, ts_ns)
        loss = Loss("the pods that were there before the log", seq=process.seq)
        for known_ns in self._gathered.complete_times(process, ts_ns):
            found = self.coverage.silent(min(known_ns, ts_ns), max(known_ns, ts_ns))
            if found is None:
                return None
            loss = found
        return loss

    def _number(self, ts_ns: int) -> int:
        process = self.process(ts_ns)
        return 0 if process is None else process.number

    def _around(self, number: int, start_ns: int, end_ns: int) -> Iterator[PodActiveInterval]:
        """Intervals of a process that may count in a span.

        Times mostly continue from one question to the next, so those that ended long before are
        not looked at again.
        """
        past_ns, index, window = self._window.get(number, (0, 0, []))
        if start_ns < past_ns:
            past_ns, index, window = 0, 0, []
        until = bisect_right(self._starts[number], end_ns)
        if until > index:
            window = window + self._intervals[number][index:until]
            index = until
        if start_ns - past_ns > 2 * _BACK_NS:
            past_ns = start_ns - _BACK_NS
            window = [e for e in window if e.ended_ns is None or e.ended_ns >= past_ns]
        self._window[number] = (past_ns, index, window)
        for interval in window:
            is_over = interval.ended_ns is not None and interval.ended_ns < start_ns
            if interval.since_ns <= end_ns and not is_over:
                yield interval


def _comes_before(
    other: PodActiveInterval, interval: PodActiveInterval, pods: Mapping[str, PodHistory]
) -> bool | None:
    """Whether ``other`` is admitted before; None when that is random.

    One that no line of its process added was there before, unless it was let in later.
    """
    if other is interval:
        return False
    if other.add_seq is None or interval.add_seq is None:
        then_ns, now_ns = other.decided_ns, interval.decided_ns
        return None if then_ns is not None and now_ns is not None and then_ns > now_ns else True
    if (other.added_ns, other.add_line) != (interval.added_ns, interval.add_line):
        return (other.added_ns or 0, other.add_seq) < (interval.added_ns or 0, interval.add_seq)
    if other.aligned_seq is not None and interval.aligned_seq is not None:
        return other.aligned_seq < interval.aligned_seq
    made, own = pods[other.key].created_ns, pods[interval.key].created_ns
    if other.is_static or interval.is_static or made is None or own is None or made == own:
        return None
    return made < own


def _first_ns(pod: PodHistory) -> int:
    return pod.intervals[0].since_ns if pod.intervals else 0
