"""The kubelet's own counts of ticks, against the ticks that the records hold.

All counts of one reading were taken at the same instant, which is not known exactly: the
reading is dated by its snapshot, in whole seconds, and was served a little later. So the
instant is sought at which most workers' ticks agree with their counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from kubeledger.machine import Record
from kubeledger.prober.records import ProbeCountersRead
from kubeledger.prober.results import SUCCESS, Result
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.containers import subject_of
from kubeledger.verify.rules.probe_machine import State
from kubeledger.verify.rules.probe_worker import Worker
from kubeledger.verify.rules.probe_workers import Workers

__all__ = ["Counts"]

_EARLY_NS: Final = NS_PER_S
_SERVED_WITHIN_NS: Final = 5 * NS_PER_S
_NEAR_NS: Final = NS_PER_S // 5
"""A tick is logged a moment before it is counted."""

Pair = tuple[int, int]
"""Successes and failures."""
Tell = Callable[[Worker, frozenset[Pair], int], None]


class _Tally:
    """The ticks of one worker that are recorded, and its counts when they were last read."""

    def __init__(self) -> None:
        self.total: Pair = (0, 0)
        self.recent: deque[tuple[int, bool]] = deque()
        self.base: Pair | None = None
        """Counted less recorded."""
        self.seq, self.since_ns = 0, 0

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
        told_later: ticks may be recorded after others that came later, so nothing is compared.
    """

    def __init__(self, bench: Bench, workers: Workers) -> None:
        self._bench = bench
        self._workers = workers
        self._readings: list[_Reading] = []
        self._tell: Tell = lambda _, __, ___: None
        self.told_later = False

    def tick(self, worker: Worker, ts_ns: int, result: Result) -> None:
        """A tick that counts was recorded."""
        tally = worker.tally = worker.tally or _Tally()
        success = result == SUCCESS
        tally.total = (tally.total[0] + success, tally.total[1] + (not success))
        tally.recent.append((ts_ns, success))
        while ts_ns - tally.recent[0][0] > _EARLY_NS + 2 * _SERVED_WITHIN_NS:
            tally.recent.popleft()

    def read(self, worker: Worker, record: Record, body: ProbeCountersRead, tell: Tell) -> None:
        """The counts of a worker were read."""
        if self._readings and self._readings[0].record.ts_ns != record.ts_ns:
            self.settle(None)
        self._tell = tell
        if worker.tally is None:
            worker.tally = _Tally()
        worker.is_counted = True
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
        instants = _instants(readings, read_ns)
        wrong = [each for each in readings if self._compare(each, instants)]
        if len(wrong) == 1:  # several are a hole in the log
            self._contradict(wrong[0], instants[0])

    def _compare(self, reading: _Reading, instants: list[int]) -> bool:
        """Tell what is missing; True when the ticks cannot be those that were counted."""
        worker, tally, record, counted = reading
        near = [ns for at in instants for ns in (at, at - _NEAR_NS, at + _NEAR_NS)]
        offs = frozenset(tally.off(counted, ns) for ns in near)
        fresh = tally.base is None and worker.is_fresh
        known = tally.base is not None or fresh
        missing = frozenset(off for off in offs if min(off) >= 0)
        if not self._workers.logs_all or (known and not missing):
            tally.base = None
            self._drop_hidden(worker, None, record.ts_ns)
            return known and self._workers.logs_all and not worker.told
        if tally.base is not None and not _explains(worker, missing, record.ts_ns):
            tally.base = None
            self._drop_hidden(worker, None, record.ts_ns)
            return False
        if known:
            self._tell(worker, missing, record.ts_ns - _EARLY_NS)
            self._drop_hidden(worker, missing, record.ts_ns)
        if len(offs) == 1 and (known or tally.recent):
            (off,) = offs
            base = tally.base or (0, 0)
            tally.base = (base[0] + off[0], base[1] + off[1])
            tally.seq, tally.since_ns = record.seq, record.ts_ns
            worker.is_fresh = False
        elif known and (0, 0) not in offs:
            tally.base = None
            worker.is_fresh = False
        elif known:
            tally.base = tally.base or (0, 0)
            worker.is_fresh = False
        return False

    @staticmethod
    def _drop_hidden(worker: Worker, missing: frozenset[Pair] | None, read_ns: int) -> None:
        """States with as many missing ticks as were counted are left; all count from here on.

        Of ticks that may be missing since the reading it tells nothing.
        """
        later = worker.missed_ns > read_ns - _EARLY_NS

        def fits(state: State) -> bool:
            return missing is None or later or state.hidden is None or state.hidden in missing

        def restart(state: State) -> tuple[State]:
            some = later and state.hidden != (0, 0)
            return (state._replace(hidden=None if some else (0, 0)),)

        for belief in worker.beliefs():
            belief.keep(fits)
            belief.step(restart)

    def _contradict(self, reading: _Reading, at_ns: int) -> None:
        worker, tally, record, counted = reading
        body, logged = record.body, tally.at(at_ns)
        assert isinstance(body, ProbeCountersRead)
        since_ns, coverage = tally.since_ns, self._bench.coverage
        if since_ns and coverage.missing(since_ns, record.ts_ns) is not None:
            return
        if not (worker.is_near(record.ts_ns) or worker.is_on_hold):
            return
        worker.told = True
        self._bench.contradict(
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
        )


def _explains(worker: Worker, missing: frozenset[Pair], read_ns: int) -> bool:
    """Whether in some state as many ticks are missing as were counted beside those recorded."""
    if worker.belief is None or worker.missed_ns > read_ns - _EARLY_NS:
        return True
    states = (world.state for belief in worker.beliefs() for world in belief.worlds)
    return any(state.hidden is None or state.hidden in missing for state in states)


def _instants(readings: list[_Reading], read_ns: int) -> list[int]:
    """Instants, in order, at which most counts agree with the ticks."""
    first_ns, last_ns = read_ns - _EARLY_NS, read_ns + _SERVED_WITHIN_NS
    candidates = {first_ns}
    for reading in readings:
        recent = reading.tally.recent
        candidates.update(ns for ns, _ in recent if first_ns <= ns <= last_ns)
    found: list[int] = []
    best = -1
    for at_ns in sorted(candidates):
        agree = sum(each.tally.off(each.counted, at_ns) == (0, 0) for each in readings)
        if agree > best:
            found, best = [at_ns], agree
        elif agree == best:
            found.append(at_ns)
    return found
