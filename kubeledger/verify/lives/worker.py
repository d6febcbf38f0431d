"""One probe worker of the kubelet, rebuilt from its recorded ticks with the real step.

What a worker decides depends on all its ticks, so two doubts are carried along: the run of
equal results may be longer than the ticks show (``run_is_sure``), and what is cached may
not be known (``cache_is_sure``): at the beginning of a log, and behind a missing tick.
"""

from __future__ import annotations

from collections import deque

from kubeledger.machine import Record
from kubeledger.prober import objects
from kubeledger.prober.attempts import COUNTS_AS
from kubeledger.prober.records import ProbeExecuted, ProbeResult, ProbeType, TickResult
from kubeledger.prober.results import FAILURE, INITIAL, SUCCESS, Result, Results
from kubeledger.prober.worker import ProbeWorker, do_probe, new_worker
from kubeledger.profile.prober import ProberFacts
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.lives.counters import Counters
from kubeledger.verify.lives.grid import Grid
from kubeledger.verify.lives.probed import Probed
from kubeledger.verify.lives.specs import PodAsk
from kubeledger.verify.lives.steps import (
    ABSENT,
    ATTEMPTS,
    NOTHING_BEFORE,
    SAYS,
    STREAK_MAX,
    Before,
    Change,
    container_of,
    id_of,
    stored,
)

__all__ = ["RebuiltWorker"]


class RebuiltWorker(Probed):
    """A worker and what is known of it; see the module.

    Attributes:
        grid: whether a tick can be missing.
        run_from_ns: of the first tick of the present run.
        held_from_ns: a tick left the cached result as it is, no later than the last but one.
        last: the newest tick; None before the first.
        last_gap_ns: between the last two ticks; ``gap_before_ns`` between those before.
        failing: (<= 8,) records of the newest ticks that failed.
        confirmed: (<= 32,) seqs of ticks of which an event tells the same.
        container_seq: record that told of the container.
        age_is_open: what is cached for the container first, which its age decides.
        id_is_sure: the container was seen to start under its ID.
        told_later: other records may come before those that tell of its ticks.
        told_early: it was said that its ticks come too early.
        doubted: something about the present container was found impossible or disputed, so
            that what is known of it may be wrong.
        put_right: a tick of the present container was told wrongly, and a finding says so:
            until records and reckoning agree again, the next change that is recorded, or is
            not, is its consequence.
        told_counts: it was said that its ticks are not what the kubelet counted.
        impossible_ns: when something about it was last found impossible.
        change: what the newest tick had to change; None when nothing, or when a record told it.
        unanswered: a change of an earlier tick or this one that no record has told;
            ``results_since``: of the ticks since then.
        streak: (<= 32,) seqs of the ticks of the present run, newest last.
    """

    def __init__(self, key: str, container: str, probe_type: ProbeType, ask: PodAsk | None) -> None:
        super().__init__(key, container, probe_type, ask)
        self.counters = Counters()
        self.grid = Grid()
        self.run_from_ns = self.held_from_ns = self._stored_ns = 0
        self.last: Record | None = None
        self.last_gap_ns: int | None = None
        self.gap_before_ns: int | None = None
        self.confirmed: deque[int] = deque(maxlen=STREAK_MAX)
        self.failing: deque[Record] = deque(maxlen=8)
        self.container_seq: int | None = None
        self.impossible_ns: int | None = None
        self.told_later = self.told_early = self.told_counts = self.doubted = self.put_right = False
        self.id_is_sure = self.age_is_open = False
        self.change: Change | None = None
        self.unanswered: Change | None = None
        self.results_since: list[Result] = []
        self._kept = self._before = NOTHING_BEFORE
        self.streak: deque[int] = deque(maxlen=STREAK_MAX)
        self.run_is_sure = self.cache_is_sure = False
        self.gaps = 0
        self._step: ProbeWorker | None = None
        self._status: objects.PodStatus | None = None
        self._unnamed = 0
        self._initial: Result = INITIAL[probe_type]
        self.container_id: str | None = None

    # -- what it is --------------------------------------------------------------------

    def begin(self, facts: ProberFacts, kubelet_started_ns: int, *, fresh: bool) -> None:
        """Make the worker; ``fresh``: the ledger shows it from its first tick on."""
        if self.probe is None or self._entry is None:
            return
        container = container_of(self._entry, self.probe_type, self.probe)
        pod = objects.Pod(
            metadata=objects.PodMeta(uid=self.key),
            spec=objects.PodSpec(containers=[container]),
        )
        self._step = new_worker(
            pod, container, self.probe_type, Results(), facts, kubelet_started_ns
        )
        self.run_is_sure = fresh

    @property
    def has_begun(self) -> bool:
        """Whether there is a worker to step."""
        return self._step is not None

    @property
    def is_following(self) -> bool:
        """Whether it has seen a container."""
        return self._status is not None

    @property
    def run(self) -> int:
        """Ticks in a row with the last result."""
        return 0 if self._step is None else self._step.result_run

    @property
    def last_result(self) -> ProbeResult:
        """Of the last tick that counted."""
        return "success" if self._step is None else SAYS[self._step.last_result]

    @property
    def on_hold(self) -> bool:
        """No tick before there is a new container."""
        return self._step is not None and self._step.on_hold

    @property
    def cached(self) -> ProbeResult:
        """What the kubelet sees for the present container."""
        return SAYS[self._cached()]

    def _cached(self) -> Result:
        step, status = self._step, self._status
        if step is None or status is None:
            return ABSENT[self.probe_type]
        if step.container_id != id_of(status):
            return self._initial  # it will take up the container at its next tick
        return step.results.cache.get(step.container_id, ABSENT[self.probe_type])

    @property
    def rests(self) -> bool:
        """Whether it does not probe the present container any more."""
        return self.on_hold or (self.probe_type == "startup" and self.cached != "unknown")

    def is_overdue(self, now_ns: int, began_ns: int | None) -> bool:
        """Whether it must have ticked by now; its container runs since ``began_ns``."""
        newest_ns = self.grid.newest_ns
        if newest_ns is None or self.probe is None or self.rests or self.told_later:
            return False
        due_ns = newest_ns + self.break_ns
        if began_ns is not None and began_ns > newest_ns:
            due_ns = began_ns + self.begins_within_ns
        return now_ns > due_ns + NS_PER_S

    # -- what happens to it ------------------------------------------------------------

    def follow(
        self, container_id: str | None, ts_ns: int, *, older_than_kubelet: bool | None, sure: bool
    ) -> None:
        """Probe that container from now on.

        Args:
            container_id: bare; None when not known.
            ts_ns: now.
            older_than_kubelet: as the prober counts; None: that is open.
            sure: whether anything was cached for it before is known.
        """
        self.container_id = container_id
        self.doubted = self.put_right = False
        if container_id is None:
            self._unnamed += 1
        step = self._step
        if step is None:
            return
        started_ns = step.kubelet_started_ns - 60 * NS_PER_S if older_than_kubelet else ts_ns
        found = objects.ContainerStatus(
            name=self.container,
            container_id=f"c://{container_id or f'unnamed-{self._unnamed}'}",
            state=objects.State(running=objects.Running(started_at=format_ts(started_ns))),
            started=self.probe_type != "startup",
        )
        self._status = objects.PodStatus(phase="Running", container_statuses=[found])
        absent = bool(older_than_kubelet) and step.facts.kubelet_restart_keeps_results
        self._initial = ABSENT[self.probe_type] if absent else INITIAL[self.probe_type]
        decides = ABSENT[self.probe_type] != INITIAL[self.probe_type]
        self.age_is_open = (
            older_than_kubelet is None and decides and step.facts.kubelet_restart_keeps_results
        )
        self.cache_is_sure = sure and not self.age_is_open

    def tick(self, record: Record, body: ProbeExecuted) -> bool:
        """Take one step; False when a worker on hold would not have probed."""
        self.gap_before_ns = self.last_gap_ns
        self.last_gap_ns = None if self.last is None else record.ts_ns - self.last.ts_ns
        self.last = record
        self.change = None
        if self.unanswered is not None and (counted := COUNTS_AS.get(body.result)) is not None:
            self.results_since.append(counted)
        step, status = self._step, self._status
        if step is None or status is None:
            return True
        is_new = step.container_id != id_of(status)
        if step.on_hold and not is_new:
            return False
        before = self._initial if is_new else self._cached()
        self._take(step, status, record, body.result, before)
        return True

    def _take(
        self,
        step: ProbeWorker,
        status: objects.PodStatus,
        record: Record,
        told: TickResult,
        before: Result,
    ) -> None:
        """One step with a tick of that result; ``before``: what is cached."""
        last_result, run, was_sure = step.last_result, step.result_run, self.run_is_sure
        streak: deque[int] | None = None
        do_probe(step, status, record.ts_ns, ATTEMPTS[told])
        step.results.take_updates()
        result = COUNTS_AS.get(told)
        former = (last_result, run, was_sure, before, self.cache_is_sure)
        if result is not None:
            if last_result == result and run:
                run += 1
            else:
                # Whatever was before the first tick, or before a hold, this run begins here.
                self.run_is_sure = was_sure or (last_result != result and run > 0)
                self.run_from_ns = record.ts_ns
                streak, self.streak = self.streak, deque(maxlen=STREAK_MAX)
                run = 1
            self.streak.append(record.seq)
        self._before = Before(record, *former, streak)
        if result is not None and step.skipped is None:
            self._stored(record, before, result, run)

    def retell(self, result: TickResult) -> bool:
        """The newest step was of that result, as another witness tells; False before one."""
        step, status, was = self._step, self._status, self._before
        if step is None or status is None or was.record is None:
            return False
        if step.container_id != id_of(status):
            return False
        if was.streak is not None:
            self.streak = was.streak
        elif self.streak and self.streak[-1] == was.record.seq:
            self.streak.pop()
        step.results.cache[step.container_id] = was.cached
        step.last_result, step.result_run, step.on_hold = was.last_result, was.run, False
        self.run_is_sure, self.cache_is_sure = was.run_is_sure, was.cache_is_sure
        self.change = None
        counted = COUNTS_AS.get(result)
        if self.results_since and counted is not None:
            self.results_since[-1] = counted
        self._take(step, status, was.record, result, was.cached)
        return True

    def resume(self, record: Record, result: TickResult) -> None:
        """It probed though it should have been on hold: take the tick, and go on from it."""
        step, status = self._step, self._status
        if step is None or status is None:
            return
        if step.on_hold:
            step.on_hold, step.result_run = False, 0
            self.run_is_sure = self.cache_is_sure = False
            self.streak.clear()
        self.change = None
        self._take(step, status, record, result, self._cached())

    def repeats(self, result: ProbeResult | None) -> bool:
        """Whether further ticks of that result change nothing but the length of the run."""
        if result is None or self._step is None:
            return True
        steady = self.last_result == result and self.run >= self.threshold(result)
        return steady and self.change is None and self.unanswered is None and not self.on_hold

    def repeat(self, record: Record, result: ProbeResult | None, ticks: int) -> None:
        """Take further ticks of that result; ``record``: of the last of them."""
        self.last = record
        self.grid.newest_ns = record.ts_ns
        if result is not None:
            if self._step is not None:
                self._step.result_run += ticks
            self.counters.repeat(result, ticks)

    def _stored(self, record: Record, before: Result, result: Result, run: int) -> None:
        """The step stored a result: note the change, if it is one."""
        was_sure = self.cache_is_sure
        self.cache_is_sure = True
        self.held_from_ns = self._stored_ns if before == result else record.ts_ns
        self._stored_ns = record.ts_ns
        if before == result and was_sure:
            return
        self.change = Change(
            tick=record,
            container_id=self.container_id if self.id_is_sure else None,
            before=SAYS[before],
            after=SAYS[result],
            run=run,
            threshold=self.threshold(SAYS[result]),
            ticks=tuple(self.streak)[-run:],
            is_sure=was_sure,
            run_is_sure=self.run_is_sure,
            from_ns=self.run_from_ns,
        )

    def keep_back(self) -> None:
        """Remember what was before the newest tick, in case it proves wrong."""
        self._kept = self._before
        self.results_since = []

    def take_back(self, result: ProbeResult) -> None:
        """The tick of :meth:`keep_back` was of the other result, as what followed tells.

        Args:
            result: what was cached before it, and stayed.
        """
        step = self._step
        if step is None:
            return
        last, run, sure = self._kept.last_result, self._kept.run, self._kept.run_is_sure
        wrong = self.unanswered.after if self.unanswered is not None else result
        other: Result = SUCCESS if wrong == "failure" else FAILURE
        results: list[Result] = [other, *self.results_since]
        self.believe(result, None)
        step.on_hold = False
        for each in results:
            sure = sure or (last != each and run > 0)
            last, run = each, run + 1 if last == each and run else 1
        step.last_result, step.result_run, self.run_is_sure = last, run, sure

    def breaks(self) -> None:
        """A tick is missing: the cached result may be another, and the run any.

        What is counted from here on is the least that the run can be.
        """
        self.run_is_sure = self.cache_is_sure = False
        self.streak.clear()
        if self._step is not None:
            self._step.result_run = 0
        self.gaps += 1
        self.counters.lose()
        self.grid.forget()

    def skips_successes(self) -> None:
        """Successful ticks are not logged, and one of them was here."""
        step = self._step
        if step is not None:
            step.last_result, step.result_run = SUCCESS, 0
            self.streak.clear()
            self.run_is_sure = True
        self.gaps += 1

    def find_stopped(self) -> None:
        """The container does not run: that is cached as a failure, and no tick."""
        step = self._step
        if step is not None and self._status is not None:
            if step.container_id != id_of(self._status):
                step.container_id, step.on_hold = id_of(self._status), False
            step.results.cache[step.container_id] = FAILURE
            self.cache_is_sure = True

    def may_skip_successes(self) -> None:
        """As :meth:`skips_successes`, perhaps: what is counted is the least of the run."""
        step = self._step
        if step is not None and step.last_result != SUCCESS:
            step.result_run = 0
            self.streak.clear()
            self.run_is_sure = False

    def believe(self, result: ProbeResult, run: int | None) -> None:
        """Go on from what a record says, whatever was decided here."""
        self.change = None
        step = self._step
        if step is None:
            return
        if self._status is not None:
            step.container_id = id_of(self._status)
        step.results.cache[step.container_id] = stored(result)
        self.cache_is_sure = True
        if result == "unknown":
            return
        step.last_result = stored(result)
        holds = result == "failure" and not self.is_readiness
        if self.probe_type == "startup" and step.facts.startup_success_holds:
            holds = True
        step.on_hold = holds
        step.result_run = 0 if holds else max(run or 0, self.threshold(result))
        self.run_is_sure = holds
