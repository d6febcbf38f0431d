"""What a worker's state says to a recorded change, and the kubelet's own counts of ticks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kubeledger.kubelet.prober.machine import SAYS, Span, State
from kubeledger.kubelet.prober.objects import FAILURE, SUCCESS, Result
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Ruling, World
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.containers import subject_of
from kubeledger.verify.rules.probe_worker import Worker
from kubeledger.verify.rules.probe_workers import Workers

# The kubelet's own counts of ticks, against the ticks that the records hold.
#
# All counts of one reading were taken at the same instant, which is not known exactly: the
# reading is dated by its snapshot, in whole seconds, and was served a little later. So the
# instant is sought at which most workers' ticks agree with their counts.

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
        self.recent: deque[tuple[int, Pair]] = deque()
        """When the newest ticks were, and how many were recorded before each."""
        self.base: Pair | None = None
        """Counted less recorded."""
        self.last: Pair | None = None
        """The last one that was known."""
        self.ahead: Pair = (0, 0)
        """What is more than before: ticks that are lost, or came before a reading served late."""
        self.since_ns = 0
        self.since_start = False
        """No tick of it was before the records."""

    def at(self, ts_ns: int) -> Pair:
        """Ticks recorded until then."""
        return next((before for tick_ns, before in self.recent if tick_ns > ts_ns), self.total)

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

    def __init__(self, context: VerifyContext, workers: Workers, report: Tell) -> None:
        """``report`` is told of a worker of which no tick is missing up to a time."""
        self._context = context
        self._workers = workers
        self._readings: list[_Reading] = []
        self._report = report
        self.logged_later = False

    def tick(self, worker: Worker, ts_ns: int, result: Result) -> None:
        tally = worker.tally = worker.tally or _Tally()
        tally.recent.append((ts_ns, tally.total))
        good, bad = tally.total
        tally.total = (good + (result == SUCCESS), bad + (result != SUCCESS))
        while ts_ns - tally.recent[0][0] > _EARLY_NS + 2 * _SERVED_WITHIN_NS:
            tally.recent.popleft()

    def read(self, worker: Worker, record: Record, body: ProbeCountersRead) -> None:
        if self._readings and self._readings[0].record.ts_ns != record.ts_ns:
            self.settle(None)
        worker.tally = worker.tally or _Tally()
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
            first = (0, 0) if tally.since_start else tally.base
            was, tally.last = tally.last or first, tally.base
            tally.ahead = max(tally.base[0] - was[0], 0), max(tally.base[1] - was[1], 0)
            tally.since_ns = record.ts_ns
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
        near, missing = worker.is_near(record.ts_ns), self._context.coverage.missing
        # One on hold does not tick: behind the log's end another process may count.
        since_ns = tally.since_ns if near else worker.newest_ns
        if (since_ns and missing(since_ns, record.ts_ns)) or not (near or worker.is_on_hold):
            return
        worker.is_reported = True
        why = f"by {format_ts(record.ts_ns)} the kubelet had counted {counted[0]} successes and "
        why += f"{counted[1]} failures of the {worker.probe_type} probe; more ticks are recorded "
        why += "of one result than were counted"
        newest, kind = worker.newest or record, ProbeTransitioned.kind
        sides = [(each.seq, f"{good} successes, {bad} failures")
                 for each, (good, bad) in ((record, counted), (newest, logged))]  # fmt: skip
        at_ns, subject = record.ts_ns, subject_of(body)
        self._context.contradict(at_ns, subject, why, *sides, by_absence=True, kind=kind)


def _instants(readings: list[_Reading], read_ns: int) -> tuple[list[int], list[int]]:
    """When the counts can have been taken, and at which of these no tick is missing anywhere.

    There is none of the latter where too few workers say: one or two may agree by chance.
    """
    first_ns, last_ns = read_ns - _EARLY_NS, read_ns + _SERVED_WITHIN_NS
    ticks = (ns for each in readings for ns, _ in each.tally.recent)
    candidates = sorted({first_ns, *(ns for ns in ticks if first_ns <= ns <= last_ns)})
    known = [each for each in readings if each.tally.base is not None or each.worker.is_fresh]
    near = [at_ns for at_ns in candidates if at_ns <= read_ns + _AT_ONCE_NS]
    agreed = [
        at_ns for at_ns in near if all(e.tally.off(e.counted, at_ns) == (0, 0) for e in known)
    ]
    return candidates, agreed if len(known) >= _KNOWN else []


STORES: Final[dict[ProbeResult, Result]] = {said: result for result, said in SAYS.items()}
_DID: Final[dict[Result, str]] = {SUCCESS: "succeeded", FAILURE: "failed"}
_OPTIONAL: Final = ("run", "threshold", "container_id")


class Case(NamedTuple):
    """A state of a worker after a recorded change, and what it says to that."""

    state: State
    ruling: Ruling


def _times(run: int) -> str:
    return "once" if run == 1 else f"{run} times in a row"


def expected_of(worker: Worker, state: State) -> Fields:
    """What the record of a change must say."""
    assert worker.spec is not None
    result = SAYS[state.cached]
    expected: Fields = {"to_result": result, "threshold": worker.spec.threshold(result)}
    if state.was is not None and worker.seen:  # no line says from what: of another instance
        expected["from_result"] = SAYS[state.was]
    if not state.at_least:
        expected["run"] = state.ticks
    if worker.seen and worker.container_id is not None:
        expected["container_id"] = worker.container_id
    return expected


def reached(worker: Worker, state: State, ts_ns: int) -> str:
    """``liveness failed 3 times in a row (threshold 3), last at ..., so ...``."""
    assert worker.spec is not None
    least = "at least " if state.at_least else ""
    threshold = worker.spec.threshold(SAYS[state.cached])
    return (
        f"{worker.probe_type} {_DID[state.cached]} {least}{_times(state.ticks)} (threshold "
        f"{threshold}), last at {format_ts(ts_ns)}, so the cached result went from "
        f"{SAYS[state.was or state.cached]} to {SAYS[state.cached]}"
    )


class Change(NamedTuple):
    """A change that was recorded, and what the worker's states say to it."""

    worker: Worker
    record: Record
    body: ProbeTransitioned

    @property
    def _inputs(self) -> tuple[int, ...]:
        return (self.worker.spec_seq or 0, *self.worker.streak)

    def after(self, world: World[State]) -> Case:
        """The newest tick led to the change, or not."""
        worker, state, tick = self.worker, world.state, self.worker.newest
        assert tick is not None
        if state.was is None:
            return Case(state, self._denied(world, self._idle(state, tick)))
        expected = expected_of(worker, state)
        for name in _OPTIONAL:
            if getattr(self.body, name) is None:
                expected.pop(name, None)
        differ = [name for name, value in expected.items() if getattr(self.body, name) != value]
        why = reached(worker, state, tick.ts_ns)
        if differ:
            recorded = (f"{n} {getattr(self.body, n)} instead of {expected[n]}" for n in differ)
            why = f"{why}; recorded is {', '.join(recorded)}"
        return Case(state, replace(self._denied(world, why), allowed=not differ, expected=expected))

    def _denied(self, world: World[State], why: str) -> Ruling:
        return Ruling(allowed=False, why=why, assumes=world.assumes, inputs=self._inputs)

    def _idle(self, state: State, tick: Record) -> str:
        """Why the newest tick cannot have led to the result."""
        worker, to_result, when = self.worker, self.body.to_result, format_ts(tick.ts_ns)
        name = f"the {worker.probe_type} tick at {when}"
        if isinstance(tick.body, ProbeExecuted) and tick.body.result == "error":
            return f"{name} errored, which is thrown away"
        wanted = STORES[to_result]
        if state.last != wanted:
            return f"{name} {_DID[state.last]}, which cannot make the cached result {to_result}"
        if state.cached == wanted:
            return f"the cached {worker.probe_type} result was {to_result} already at {when}"
        assert worker.spec is not None
        least = "at least " if state.at_least else ""
        return (
            f"{worker.probe_type} had {_DID[wanted]} {least}{_times(state.run)} by {when}, and the "
            f"threshold is {worker.spec.threshold(to_result)}"
        )

    def without_tick(
        self, worlds: Sequence[World[State]], *, ended: bool | None, logs_all: bool
    ) -> list[Case]:
        """No tick is known to have led to it; ``ended``: its container had, None: perhaps."""
        worker, body, cases = self.worker, self.body, list[Case]()
        if body.to_result == "failure" and ended is not False:
            why = "a probe worker caches a failure for a container that does not run"
            for each in worlds:
                failed = each.state._replace(cached=FAILURE, was=None)
                cases.append(Case(failed, self._from(each, why)))
        if ended and cases:
            return cases
        if body.to_result == "success" and not logs_all:
            return self._unlogged(worlds)
        lost = (f"the end of container {worker.container}",)
        unseen = [
            Case(state, replace(ruling, assumes=(*ruling.assumes, *lost)))
            for state, ruling in cases
            if ruling.allowed and body.run is body.threshold is None
        ]
        return [*self._of_lost_tick(worlds), *unseen]

    def _from(self, world: World[State], why: str, *, chosen: bool = True) -> Ruling:
        """A change that may have come then, if it began where the record says."""
        cached, said = SAYS[world.state.cached], self.body.from_result
        if cached != said:
            why = f"the cached result was {cached}, so it cannot have changed from {said}"
        return Ruling(
            allowed=cached == said,
            chosen=chosen,
            why=why,
            assumes=world.assumes,
            expected={"to_result": self.body.to_result, "from_result": cached},
            inputs=self._inputs[:1],
        )

    def _unlogged(self, worlds: Sequence[World[State]]) -> list[Case]:
        """A success in a log that leaves out successful ticks: was there time for them?

        What an errored probe returned is thrown away: successes may continue.
        """
        worker, spec = self.worker, self.worker.spec
        assert spec is not None
        since_ns = None if worker.failed_ns is None else self.record.ts_ns - worker.failed_ns
        if since_ns is not None and since_ns < (spec.successes - 1) * spec.period_ns * 4 // 5:
            why = (
                f"{worker.probe_type} needs {spec.successes} successes in a row, one every "
                f"{spec.period_s} s, and failed {since_ns / NS_PER_S:.1f} s before"
            )
            return [
                Case(each.state, replace(self._denied(each, why), inputs=())) for each in worlds
            ]
        why = f"the kubelet logged the change; the {worker.probe_type} probe's successes are not "
        why += f"logged at this verbosity, and there was time for {spec.successes} of them since "
        why += "it failed"
        cases = []
        for each in worlds:
            run = each.state._replace(last=SUCCESS, run=spec.successes, at_least=True)
            ruling = self._from(each, why, chosen=False)
            cases.append(Case(run._replace(cached=SUCCESS, was=None), ruling))
        return cases

    def _of_lost_tick(self, worlds: Sequence[World[State]]) -> list[Case]:
        """A tick whose line is missing may have led to it, if there was time for one."""
        worker, body, tick, cases = self.worker, self.body, self.worker.newest, list[Case]()
        assert worker.machine is not None
        missing_ticks = worker.missing_ticks_until(self.record.ts_ns)
        since = "of the container" if tick is None else f"after {format_ts(tick.ts_ns)}"
        lost = f"the {worker.probe_type} ticks {since}"
        for world in worlds:
            why = "no tick is recorded that led to it"
            why = why if tick is None else self._idle(world.state, tick)
            denied = self._denied(world, why)
            cases.append(Case(world.state._replace(was=None), denied))
            triggered = worker.machine.triggers and world.state.cached != SUCCESS
            span = Span(max(missing_ticks, triggered), counted=worker.is_next_counted)
            for state in worker.machine.lost(world.state, span) if span.most else ():
                expected = (SAYS[state.was] if state.was else None, SAYS[state.cached])
                fits = body.run in (None, state.ticks) or state.at_least
                if expected == (body.from_result, body.to_result) and fits:
                    ruling = replace(denied, allowed=True, why="", assumes=(*world.assumes, lost))
                    cases.append(Case(state._replace(was=None), ruling))
        return cases
