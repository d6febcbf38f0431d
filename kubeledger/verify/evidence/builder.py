"""The active intervals of one pod, from the entries of its history in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.history_entries import POD_ENDS, HistoryEntry, Listing
from kubeledger.verify.evidence.pod_intervals import (
    PodActiveInterval,
    PodHistory,
    Restarting,
    inherited,
    ran_out,
)
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process, Processes
from kubeledger.verify.evidence.sync_loop import SETTLING_NS, LoopIterations
from kubeledger.verify.evidence.times import ROUND_NS

_LATE_NS: Final = NS_PER_S
"""The kubelet acts on an end within this time of the line that shows it."""
_ENDED_NS: Final = NS_PER_S // 10
"""The worker that shows its pod's end ends itself at once."""
_NOTICED_NS: Final = 2 * NS_PER_S
"""What the kubelet takes at most to notice that the containers of a pod are down."""


class Surroundings(msgspec.Struct):
    """What an interval depends on besides the pod's own history; all of it is settled.

    Attributes:
        configured: process -> a config line of it.
        terminations: the log has lines that say that all of a pod is down.
    """

    processes: Processes
    iterations: LoopIterations
    coverage: Coverage
    specs: PodRegister
    configured: Mapping[int, int] = {}
    terminations: bool = False


Handler = Callable[[HistoryEntry, Process | None], object]


class IntervalBuilder:
    """Takes the history entries of one pod in the order of time: a method for each ``What``."""

    def __init__(
        self, history: PodHistory, entries: Sequence[HistoryEntry], around: Surroundings
    ) -> None:
        self._history = history
        self._entries = entries
        self._around = around
        self._intervals: list[PodActiveInterval] = []
        self._interval: PodActiveInterval | None = None
        self._counted_ns = 0
        self._settled_ns: int | None = None
        self._died_ns: int | None = None
        self._running: dict[str, str | None] = {}
        self._static = any(e.word in ("file", "http") for e in entries if e.what == "add")
        lists = [(entry.ts_ns, entry.listing) for entry in entries if entry.listing is not None]
        self._mirrored = any(listing.mirror for _, listing in lists)
        self._final_ns = min((ts_ns for ts_ns, each in lists if each.final), default=None)
        self._restarting: Restarting | None = None
        self._last: dict[str, HistoryEntry | None] = {}
        self._until_ns: int | None = None
        self._gone = False

    def intervals(self) -> list[PodActiveInterval]:
        """All intervals of the pod, in order; none of a mirror, which is not a pod of its own."""
        if self._mirrored and not self._static:
            return self._intervals
        for entry in self._entries:
            process = self._around.processes.at(entry.ts_ns)
            number = 0 if process is None else process.number
            known_ns = 0 if process is None else process.known_from_ns
            # Snapshots may show a process that ran before the first whose start is logged.
            until_ns = known_ns if entry.ts_ns < known_ns else None
            at = (number, until_ns)
            if self._interval is not None and (self._interval.process, self._until_ns) != at:
                self._finish()
                self._interval = None
            self._until_ns = until_ns
            handle: Handler = getattr(self, entry.what)
            if not self._is_of_mirror(entry):
                handle(entry, process)
        self._finish()
        more = inherited(self._intervals, self._entries, self._around.processes)
        return sorted((*self._intervals, *more), key=lambda interval: interval.process)

    def _is_of_mirror(self, entry: HistoryEntry) -> bool:
        """Whether a config line is about the API's image of a static pod."""
        config = entry.what in ("add", "update", "delete", "remove")
        if not (config and entry.word == "api" and self._static):
            return False
        return entry.what != "add" if self._interval is None else self._interval.is_static

    def _begin(self, entry: HistoryEntry, process: Process | None) -> PodActiveInterval:
        self._finish()
        before = self._interval
        last = self._intervals[-1] if self._intervals else None
        history = self._history
        interval = PodActiveInterval(
            key=history.key,
            uid=history.uid,
            namespace=history.namespace,
            name=history.name,
            source=None,
            process=0 if process is None else process.number,
            seq=entry.seq,
            since_ns=entry.ts_ns,
        )
        self._intervals.append(interval)
        self._interval, self._counted_ns, self._gone = interval, 0, False
        self._settled_ns = self._died_ns = None
        if entry.what == "add" and not (self._static and entry.word == "api"):
            interval.note_add(entry)
            # It counts by the end of the turn, if it turns out not to have ended long before.
            self._settled_ns = self._around.iterations.over_by(entry.ts_ns)
            if before is None and last is not None:
                self._return(interval, last, entry)
            elif last is None and self._final_ns is not None and self._final_ns <= entry.ts_ns:
                interval.ending_ns = interval.ended_ns = entry.ts_ns
                interval.returned = True
        else:
            self._begin_unlogged(interval, entry, process)
        return interval

    def _return(
        self, interval: PodActiveInterval, last: PodActiveInterval, entry: HistoryEntry
    ) -> None:
        """A process is given a pod that a former one had: one that had ended may count no more.

        What had ended of a static pod each process finds out again, and no line says that it did.
        """
        if last.ending_ns is None and last.admitted is not False:
            return
        interval.returned, interval.ending_ns = True, entry.ts_ns
        final = self._final_ns is not None and self._final_ns <= entry.ts_ns
        if interval.source == "api" and (final or last.admitted is False):
            # The API holds its final phase, so it does not count unless it is admitted.
            interval.ended_ns = entry.ts_ns

    def _begin_unlogged(
        self, interval: PodActiveInterval, entry: HistoryEntry, process: Process | None
    ) -> None:
        """No line showed that it came: it may have been there since the process began."""
        interval.since_ns = 0 if process is None or self._until_ns else process.known_from_ns
        if self._history.created_ns is not None:
            interval.since_ns = min(max(interval.since_ns, self._history.created_ns), entry.ts_ns)
        is_configured = process is not None and process.number in self._around.configured
        interval.start_time_unknown = is_configured
        is_over = entry.listing is not None and not entry.listing.alive
        if process is not None and process.from_start and is_configured and not is_over:
            lost = self._around.coverage.missing(process.started_ns, entry.ts_ns)
            if lost is None:  # it was seen soon after it came
                interval.since_ns = max(interval.since_ns, entry.ts_ns - SETTLING_NS)

    # Signs -------------------------------------------------------------------------------

    def add(self, entry: HistoryEntry, process: Process | None) -> None:
        interval = self._interval
        if interval is None or interval.removed_ns is not None or interval.ended_ns is not None:
            self._begin(entry, process)
        elif interval.add_seq is None:
            interval.note_add(entry)
            interval.start_time_unknown = False

    def update(self, entry: HistoryEntry, process: Process | None) -> PodActiveInterval:
        """A config source changes it, perhaps the status of one that has ended."""
        return self._begin(entry, process) if self._interval is None else self._interval

    _current = update

    def delete(self, entry: HistoryEntry, process: Process | None) -> None:
        """The API server wants it gone."""
        interval = self._current(entry, process)
        interval.deleted_ns = interval.deleted_ns or entry.ts_ns
        self._mark_ending(interval, entry.ts_ns)

    def remove(self, entry: HistoryEntry, process: Process | None) -> None:
        """No config source has it any more, and with that its end begins."""
        interval = self._current(entry, process)
        interval.removed_ns = interval.removed_ns or entry.ts_ns
        self._begin_end(interval, entry.ts_ns)
        self._over(interval, entry.ts_ns + _LATE_NS)

    def admitted(self, entry: HistoryEntry, process: Process | None) -> None:
        """Let in; what had ended in a former process counts again, if only until it is synced.

        Where only a list shows the answer it is recorded at the log's end, perhaps of a later
        process: it answers the last one that was handed the pod.
        """
        asked = self._intervals[-1] if self._interval is None and self._intervals else None
        if asked is not None and asked.add_seq is not None and asked.decided_ns is None:
            asked.admitted = True
            return
        interval = self._current(entry, process)
        if interval.terminated_ns is not None:
            interval.admitted = True  # all of it was down before the record says so
            return
        interval.decided_ns, interval.admitted = entry.ts_ns, True
        self._is_there(interval, entry)
        if interval.returned:
            interval.returned, interval.ended_ns = False, None
            interval.ending_ns = None if self._policy(entry.ts_ns).always else entry.ts_ns

    def rejected(self, entry: HistoryEntry, process: Process | None) -> None:
        """Refused: until then it may have counted.

        One of which containers run from before counts as long as it is being torn down.
        """
        interval = self._current(entry, process)
        interval.decided_ns, interval.admitted = entry.ts_ns, False
        interval.ending_ns = interval.since_ns
        if not self._running:
            self._over(interval, entry.ts_ns)

    def ending_event(self, entry: HistoryEntry, process: Process | None) -> None:
        """The kubelet decided to kill it, which then counted: it is chosen among active pods."""
        if self._interval is None and entry.what == "preempted":
            return  # a choice alone shows no pod
        interval = self._current(entry, process)
        if entry.what in ("evicted", "preempted"):
            interval.ending_ns = None
            self._counted_ns = entry.ts_ns
        self._mark_ending(interval, entry.ts_ns)
        survives = entry.what == "ending_event" or entry.word == "survived"
        counts = None if process is None else process.counts_while_terminating
        at_once = counts is False and not survives
        if at_once and entry.what != "preempted":
            self._over(interval, entry.ts_ns + _NOTICED_NS)  # its phase is final at once
        elif entry.what == "preempted" and (at_once or entry.word == "gone"):
            # Its kill, and those of the victims before it, were waited for.
            over_ns = self._around.iterations.over_by(entry.ts_ns)
            if over_ns is not None:
                self._over(interval, over_ns)

    evicted = preempted = ending_event

    def aligned(self, entry: HistoryEntry, process: Process | None) -> None:
        """The topology manager is asked about it, as its admission does."""
        if self._interval is not None and self._interval.aligned_seq is None:
            self._interval.aligned_seq = entry.seq

    def killed(self, entry: HistoryEntry, process: Process | None) -> None:
        interval = self._current(entry, process)
        if interval.admitted is False:
            interval.ended_ns = None  # containers of it ran nevertheless
        if not entry.word or entry.word in POD_ENDS:
            self._mark_ending(interval, entry.ts_ns, orphaned=entry.word == "orphaned")
        interval.seen_ns = max(interval.seen_ns, entry.ts_ns)

    def terminating(self, entry: HistoryEntry, process: Process | None) -> None:
        interval = self._current(entry, process)
        ended = entry.word == "ended"
        begin_ns = self._around.iterations.earliest(entry.ts_ns) if ended else entry.ts_ns
        self._mark_ending(interval, begin_ns, orphaned=entry.word == "orphaned")

    def terminated(self, entry: HistoryEntry, process: Process | None) -> None:
        """All of it is down for good."""
        interval = self._current(entry, process)
        interval.terminated_ns = interval.terminated_ns or entry.ts_ns
        self._running.clear()
        self._over(interval, entry.ts_ns + _ENDED_NS)

    def started(self, entry: HistoryEntry, process: Process | None) -> None:
        interval = self._current(entry, process)
        if entry.container_id is not None and not entry.sandbox:
            if entry.container is not None:
                for other in [i for i, name in self._running.items() if name == entry.container]:
                    del self._running[other]
            self._running[entry.container_id] = entry.container
        if entry.container is None or entry.sandbox:
            return
        self._last[entry.container] = None
        self._is_there(interval, entry)
        if interval.ended_ns is None and interval.end_decided_ns is None:
            interval.ending_ns = None

    def died(self, entry: HistoryEntry, process: Process | None) -> None:
        """One less; the last one may be the end of a pod that is not restarted."""
        interval = self._current(entry, process)
        self._running.pop(entry.container_id or "", None)
        if entry.sandbox:
            return  # a sandbox may outlive its pod
        if entry.container is not None:
            self._last[entry.container] = entry
        self._died_ns = self._around.iterations.earliest(entry.ts_ns)
        if interval.ending_ns is not None or not self._goes_on(entry):
            self._begin_end(interval, self._died_ns)
        interval.seen_ns = max(interval.seen_ns, min(self._died_ns, entry.ts_ns - _NOTICED_NS))

    def listed(self, entry: HistoryEntry, process: Process | None) -> None:
        listing = entry.listing
        assert listing is not None
        if not listing.alive:
            created_ns = self._history.created_ns
            began_here = process is not None and (created_ns or 0) >= process.started_ns
            if self._interval is None and listing.by == "kubelet" and listing.final and began_here:
                self._begin(entry, process)  # it came and ended since, and no line shows so
            if self._interval is not None:
                self._unlisted(self._interval, listing, entry.ts_ns)
            return
        if self._interval is None:
            is_configured = process is not None and process.number in self._around.configured
            if listing.by == "api" and is_configured:
                return  # config lines show the pods that come
            self._begin(entry, process)
        interval = self._interval
        assert interval is not None
        if self._gone and listing.by == "kubelet":
            # The list without it was of a process that had just begun, and of which no line is;
            # what had ended, of one before: a static pod comes again.
            interval.ended_ns = None
            interval.ending_ns = interval.ending_ns if interval.end_decided_ns else None
            self._gone = False
        if listing.by == "kubelet" and listing.is_told:
            self._is_sure(interval, entry.ts_ns + ROUND_NS)
            interval.start_time_unknown = False
        if listing.running and interval.ended_ns is None:
            interval.seen_ns = max(interval.seen_ns, entry.ts_ns)
            let_in = interval.admitted is not False and not interval.returned
            if interval.end_decided_ns is None and let_in:
                interval.ending_ns = None  # another container of it died

    def _unlisted(self, interval: PodActiveInterval, listing: Listing, ts_ns: int) -> None:
        if listing.by == "api" and not listing.final and self._running:
            return
        self._begin_end(interval, max(interval.since_ns, min(interval.seen_ns, ts_ns)))
        if not self._running or (listing.by == "kubelet" and not listing.final):
            self._gone = self._gone or interval.ended_ns is None
            self._over(interval, ts_ns + ROUND_NS)

    # What they mean ----------------------------------------------------------------------

    def _is_there(self, interval: PodActiveInterval, entry: HistoryEntry) -> None:
        interval.seen_ns = max(interval.seen_ns, entry.ts_ns)
        self._is_sure(interval, entry.ts_ns)

    def _is_sure(self, interval: PodActiveInterval, by_ns: int) -> None:
        known = (by_ns, self._settled_ns, interval.sure_ns)
        interval.sure_ns = min(ts_ns for ts_ns in known if ts_ns is not None)

    def _mark_ending(
        self, interval: PodActiveInterval, ts_ns: int, *, orphaned: bool = False
    ) -> None:
        """Its end is decided; an orphan was never handed to this process."""
        if orphaned and interval.add_seq is None:
            ts_ns, interval.start_time_unknown, interval.returned = interval.since_ns, True, True
        decided_ns = interval.end_decided_ns
        interval.end_decided_ns = ts_ns if decided_ns is None else min(decided_ns, ts_ns)
        self._begin_end(interval, ts_ns)

    def _begin_end(self, interval: PodActiveInterval, ts_ns: int) -> None:
        ts_ns = max(ts_ns, self._counted_ns)
        interval.ending_ns = ts_ns if interval.ending_ns is None else min(interval.ending_ns, ts_ns)

    def _over(self, interval: PodActiveInterval, by_ns: int) -> None:
        self._begin_end(interval, by_ns)
        interval.ended_ns = by_ns if interval.ended_ns is None else min(interval.ended_ns, by_ns)

    def _goes_on(self, entry: HistoryEntry) -> bool:
        """Whether a pod goes on after the death of a container: others run, it or the next will."""
        policy, name = self._policy(entry.ts_ns), entry.container or ""
        others_run = any(other is not None for other in self._running.values())
        is_ready = policy.is_init(name) and entry.number == 0
        return policy.always or others_run or is_ready or policy.again(name, entry.number) is True

    def _counts_while_terminating(self, interval: PodActiveInterval) -> bool:
        own = self._around.processes.all[interval.process :][:1]
        return any(process.counts_while_terminating is True for process in own)

    def _policy(self, ts_ns: int) -> Restarting:
        if self._restarting is None:
            pod = self._history
            listed = self._around.specs.at(ts_ns, pod.uid, pod.namespace, pod.name)
            self._restarting = Restarting(listed)
        return self._restarting

    # By itself ---------------------------------------------------------------------------

    def _finish(self) -> None:
        interval, died_ns = self._interval, self._died_ns
        if interval is None:
            return
        if self._until_ns is not None:
            self._over(interval, self._until_ns)
        self._finish_by_itself(interval)
        counts = self._counts_while_terminating(interval)
        was_let_in = interval.admitted is not False and not interval.returned
        if interval.ending_ns is not None and died_ns is not None and counts and was_let_in:
            # It counts until all of it is down.
            bounds = (died_ns, interval.removed_ns, interval.ended_ns)
            interval.ending_ns = max(interval.ending_ns, min(ns for ns in bounds if ns is not None))

    def _finish_by_itself(self, interval: PodActiveInterval) -> None:
        """A pod has ended with the last of its containers, if none of them is started again.

        Only where no line about it can be lost: one that nobody saw start may still run.
        """
        if interval.ended_ns is not None or self._running or not self._last:
            return
        ends = {name: entry for name, entry in self._last.items() if entry is not None}
        last_ns = max((entry.ts_ns for entry in ends.values()), default=interval.since_ns)
        if self._around.terminations and self._counts_while_terminating(interval):
            return  # what is still to do may fail, again and again
        lost = self._around.coverage.missing(max(interval.since_ns, 0), last_ns)
        if len(ends) < len(self._last) or lost is not None:
            return
        if interval.deleted_ns is not None:
            self._over(interval, max(interval.deleted_ns, last_ns) + _NOTICED_NS)
        elif ran_out(ends, self._policy(last_ns)):
            began_ns = max(last_ns, interval.since_ns + SETTLING_NS if interval.returned else 0)
            self._over(interval, began_ns + _NOTICED_NS)
