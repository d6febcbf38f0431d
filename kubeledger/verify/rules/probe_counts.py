"""The kubelet's own counts of ticks, against the ticks that the records hold.

All counts of one reading were taken at the same instant, which is not known exactly: the
reading is dated by its snapshot, in whole seconds, and was served a little later. So the
instant is sought at which most workers' ticks agree with their counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from kubeledger.kubelet.prober.machine import State
from kubeledger.kubelet.prober.results import SUCCESS, Result
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.rules.containers import subject_of
from kubeledger.verify.rules.probe_worker import Worker
from kubeledger.verify.rules.probe_workers import Workers

_EARLY_NS: Final = NS_PER_S
_SERVED_WITHIN_NS: Final = 5 * NS_PER_S
_AT_ONCE_NS: Final = 2 * NS_PER_S
"""An agreement later than that is rather by chance, as the next ticks make up for lost ones."""
_KNOWN: Final = 3
"""So many workers have to agree on an instant: fewer may by chance."""
_NEAR_NS: Final = NS_PER_S // 5
"""A tick is logged a moment before it is counted."""

Pair = tuple[int, int]
"""Successes and failures."""
Tell = Callable[[Worker, int], None]


class _Tally:
    """The ticks of one worker that are recorded, and its counts when they were last read."""

    def __init__(self) -> None:
        self.total: Pair = (0, 0)
        self.recent: deque[tuple[int, bool]] = deque()
        self.base: Pair | None = None
        """Counted less recorded."""
        self.last: Pair | None = None
        """The last one that was known."""
        self.ahead: Pair = (0, 0)
        """What is more than before: ticks that are lost, or came before a reading served late."""
        self.seq, self.since_ns = 0, 0
        self.since_start = False
        """No tick of it was before the records."""

    def at(self, ts_ns: int) -> Pair:
        """Ticks recorded until then."""
        good, bad = self.total
        for tick_ns, success in reversed(self.recent):
            if tick_ns <= ts_ns:
                break
            good, bad = good - success, bad - (not success)
        return good, bad

    def off(self, counted: Pair, ts_ns: int) -> Pair:
        """How many more were counted than recorded since the reading before."""
        good, bad = self.at(ts_ns)
        base = self.base or (0, 0)
        return counted[0] - good - base[0], counted[1] - bad - base[1]


class _Reading(NamedTuple):
    worker: Worker
    tally: _Tally
    record: Record
    counted: Pair


class Counts:
    """Compares readings of the counts with ticks.

    Attributes:
        logged_later: ticks may be recorded after others that came later, so nothing is compared.
    """

    def __init__(self, context: VerifyContext, workers: Workers) -> None:
        self._context = context
        self._workers = workers
        self._readings: list[_Reading] = []
        self._report: Tell = lambda _, __: None
        self.logged_later = False

    def tick(self, worker: Worker, ts_ns: int, result: Result) -> None:
        """A tick that counts was recorded."""
        tally = worker.tally = worker.tally or _Tally()
        success = result == SUCCESS
        tally.total = (tally.total[0] + success, tally.total[1] + (not success))
        tally.recent.append((ts_ns, success))
        while ts_ns - tally.recent[0][0] > _EARLY_NS + 2 * _SERVED_WITHIN_NS:
            tally.recent.popleft()

    def read(self, worker: Worker, record: Record, body: ProbeCountersRead, report: Tell) -> None:
        """The counts of a worker were read."""
        if self._readings and self._readings[0].record.ts_ns != record.ts_ns:
            self.settle(None)
        self._report = report
        if worker.tally is None:
            worker.tally = _Tally()
        worker.is_counted = True
        worker.counted_until_ns = record.ts_ns + _SERVED_WITHIN_NS
        counted = body.successful, body.failed
        self._readings.append(_Reading(worker, worker.tally, record, counted))

    def settle(self, now_ns: int | None) -> None:
        """Compare the last reading once no more tick can belong to it; None: at once."""
        if not self._readings:
            return
        read_ns = self._readings[0].record.ts_ns
        if now_ns is not None and now_ns <= read_ns + _SERVED_WITHIN_NS:
            return
        readings, self._readings = self._readings, []
        if self._context.times.late(read_ns):
            # When a slow node served them is not known, nor which ticks had been counted by then.
            for each in readings:
                self._count_anew(each.worker, read_ns, since_start=False)
                each.tally.base, each.worker.is_fresh = None, False
            return
        candidates, agreed = _instants(readings, read_ns)
        wrong = [each for each in readings if self._compare(each, candidates, agreed)]
        if len(wrong) == 1:  # several are a hole in the log
            self._contradict(wrong[0], read_ns)

    def _compare(self, reading: _Reading, candidates: list[int], agreed: list[int]) -> bool:
        """Tell what is missing; True when the ticks cannot be those that were counted."""
        worker, tally, record, counted = reading
        when = agreed or candidates
        offs = {tally.off(counted, ns) for at in when for ns in (at, at - _NEAR_NS, at + _NEAR_NS)}
        known = tally.base is not None or worker.is_fresh
        tally.since_start |= worker.is_fresh
        totals = [tally.at(ns) for ns in when]
        fewer = tally.since_start and all(counted[0] < g or counted[1] < b for g, b in totals)
        good, bad = tally.ahead
        wrong = fewer or (known and all(min(off[0] + good, off[1] + bad) < 0 for off in offs))
        wrong = wrong and self._workers.logs_all
        near = [at for at in candidates if at <= record.ts_ns + _AT_ONCE_NS]
        sure = all(tally.off(counted, ns) == (0, 0) for at in near for ns in (at, at + _NEAR_NS))
        if known and agreed and sure and self._workers.logs_all:
            self._report(worker, record.ts_ns - _EARLY_NS)
            self._count_anew(worker, record.ts_ns, since_start=True)
            offs = {(0, 0)}
        else:
            self._count_anew(worker, record.ts_ns, since_start=False)
        tally.base = None
        if len(offs) == 1 and tally.recent and not wrong:
            good, bad = tally.at(when[0])
            tally.base = counted[0] - good, counted[1] - bad
            was, tally.last = tally.last or tally.base, tally.base
            tally.ahead = max(tally.base[0] - was[0], 0), max(tally.base[1] - was[1], 0)
            tally.seq, tally.since_ns = record.seq, record.ts_ns
        worker.is_fresh = False
        return wrong and not worker.is_reported

    @staticmethod
    def _count_anew(worker: Worker, read_ns: int, *, since_start: bool) -> None:
        """Ticks that are missing count from here on; ``since_start``: before this none was.

        It shows nothing about ticks that may be missing since the reading.
        """
        later = worker.missed_ns > read_ns - _EARLY_NS

        def restart(state: State) -> tuple[State]:
            return (state._replace(hidden=None if later and state.hidden is not False else False),)

        for belief in worker.beliefs():
            if since_start and not later:
                belief.keep(lambda state: not state.hidden)
            belief.step(restart)

    def _contradict(self, reading: _Reading, at_ns: int) -> None:
        worker, tally, record, counted = reading
        body, logged = record.body, tally.at(at_ns)
        assert isinstance(body, ProbeCountersRead)
        since_ns, coverage = tally.since_ns, self._context.coverage
        if since_ns and coverage.missing(since_ns, record.ts_ns) is not None:
            return
        if not (worker.is_near(record.ts_ns) or worker.is_on_hold):
            return
        worker.is_reported = True
        self._context.contradict(
            record.ts_ns,
            subject_of(body),
            f"by {format_ts(record.ts_ns)} the kubelet had counted {counted[0]} successes and "
            f"{counted[1]} failures of the {worker.probe_type} probe; more ticks are recorded of "
            "one result than were counted",
            (record.seq, f"{counted[0]} successes, {counted[1]} failures"),
            (
                worker.newest.seq if worker.newest is not None else record.seq,
                f"{logged[0]} successes, {logged[1]} failures",
            ),
            by_absence=True,
            kind=ProbeTransitioned.kind,
        )


def _instants(readings: list[_Reading], read_ns: int) -> tuple[list[int], list[int]]:
    """When the counts can have been taken, and at which of these no tick is missing anywhere.

    There is none of the latter where too few workers say: one or two may agree by chance.
    """
    first_ns, last_ns = read_ns - _EARLY_NS, read_ns + _SERVED_WITHIN_NS
    ticks = (ns for each in readings for ns, _ in each.tally.recent)
    candidates = sorted({first_ns, *(ns for ns in ticks if first_ns <= ns <= last_ns)})
    known = [each for each in readings if each.tally.base is not None or each.worker.is_fresh]
    agreed = [
        at_ns
        for at_ns in candidates
        if at_ns <= read_ns + _AT_ONCE_NS
        and all(each.tally.off(each.counted, at_ns) == (0, 0) for each in known)
    ]
    return candidates, agreed if len(known) >= _KNOWN else []
