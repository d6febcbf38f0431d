"""One probe worker of the kubelet, rebuilt from its recorded ticks with the real step.

What a worker decides depends on all its ticks, so two doubts are carried along: the run of
equal results may be longer than the ticks show (``run_is_sure``), and what is cached may
not be known (``cache_is_sure``): at the beginning of a log, and behind a missing tick.
"""

from __future__ import annotations

from collections import deque

import msgspec

from kubeledger.machine import Record
from kubeledger.prober import objects
from kubeledger.prober.attempts import COUNTS_AS
from kubeledger.prober.records import ProbeExecuted, ProbeResult, ProbeType, TickResult
from kubeledger.prober.results import FAILURE, INITIAL, SUCCESS, UNKNOWN, Result, Results
from kubeledger.prober.worker import ProbeWorker, do_probe, new_worker
from kubeledger.profile.prober import ProberFacts
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.lives.counters import Counters
from kubeledger.verify.lives.specs import ContainerAsk, PodAsk, ProbeAsk

__all__ = ["SAYS", "Change", "RebuiltWorker", "counts_as", "stored"]

SAYS: dict[Result, ProbeResult] = {SUCCESS: "success", FAILURE: "failure", UNKNOWN: "unknown"}
"""Result in the kubelet's cache -> as records write it."""
_STORES: dict[ProbeResult, Result] = {said: result for result, said in SAYS.items()}
_ABSENT: dict[ProbeType, Result] = {"liveness": SUCCESS, "readiness": UNKNOWN, "startup": UNKNOWN}
"""What nothing cached counts as (a container that is older than its kubelet, since 1.35)."""
_ATTEMPTS: dict[TickResult, tuple[TickResult, ...]] = {
    "success": ("success",),
    "warning": ("warning",),
    "failure": ("failure",),
    "unknown": ("unknown",),
    "error": ("error", "error", "error"),
}
_STREAK_MAX = 32


def counts_as(result: TickResult) -> ProbeResult | None:
    """What a tick adds to the run; None: it is thrown away."""
    found = COUNTS_AS.get(result)
    return None if found is None else SAYS[found]


def stored(result: ProbeResult) -> Result:
    """As the kubelet's cache writes it."""
    return _STORES[result]


class Change(msgspec.Struct, frozen=True):
    """A change of the cached result that a tick had to cause.

    Attributes:
        tick: its record.
        before, after: cached results.
        run: ticks in a row with ``after``.
        threshold: of the spec.
        ticks: (<= run,) seqs of the newest of them, in order.
        is_sure: nothing that this rests on is missing.
        run_is_sure: ``run`` is exact.
    """

    tick: Record
    container_id: str | None
    before: ProbeResult
    after: ProbeResult
    run: int
    threshold: int
    ticks: tuple[int, ...]
    is_sure: bool
    run_is_sure: bool


class RebuiltWorker:
    """A worker and what is known of it; see the module.

    Attributes:
        ask: the pod, as lists show it; None when none does.
        probe: the probe's spec; None when no list shows it.
        last: the newest tick; None before the first.
        last_gap_ns: between the last two ticks; ``gap_before_ns`` between those before.
        failing: (<= 8,) times and seqs of the newest ticks that failed.
        confirmed: (<= 32,) seqs of ticks of which an event tells the same.
        container_seq: record that told of the container.
        id_is_sure: the container was seen to start under its ID.
        told_early: it was said that its ticks come too early.
        impossible_ns: when something about it was last found impossible.
        change: what the newest tick had to change; None when nothing, or when a record told it.
        unanswered: a change of an earlier tick or this one that no record has told;
            ``results_since``: of the ticks since then.
        streak: (<= 32,) seqs of the ticks of the present run, newest last.
    """

    def __init__(self, key: str, container: str, probe_type: ProbeType, ask: PodAsk | None) -> None:
        self.key = key
        self.container = container
        self.probe_type = probe_type
        self.ask = ask
        entry = None if ask is None else ask.container(container)
        self.probe: ProbeAsk | None = None if entry is None else entry.probe(probe_type)
        self.counters = Counters()
        self.last: Record | None = None
        self.last_gap_ns: int | None = None
        self.gap_before_ns: int | None = None
        self.confirmed: deque[int] = deque(maxlen=_STREAK_MAX)
        self.failing: deque[tuple[int, int]] = deque(maxlen=8)
        self.container_seq: int | None = None
        self.impossible_ns: int | None = None
        self.told_early = False
        self.id_is_sure = False
        self.change: Change | None = None
        self.unanswered: Change | None = None
        self.results_since: list[Result] = []
        self._kept: tuple[Result, int, bool] = (SUCCESS, 0, False)
        self.streak: deque[int] = deque(maxlen=_STREAK_MAX)
        self.run_is_sure = self.cache_is_sure = False
        self.gaps = 0
        self._entry = entry
        self._step: ProbeWorker | None = None
        self._status: objects.PodStatus | None = None
        self._unnamed = 0
        self._initial: Result = INITIAL[probe_type]
        self._before: tuple[Result, int, bool] = (SUCCESS, 0, False)
        self.container_id: str | None = None

    # -- what it is --------------------------------------------------------------------

    def begin(self, facts: ProberFacts, kubelet_started_ns: int, *, fresh: bool) -> None:
        """Make the worker; ``fresh``: the ledger shows it from its first tick on."""
        if self.probe is None or self._entry is None:
            return
        container = _container(self._entry, self.probe_type, self.probe)
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
    def period_ns(self) -> int:
        """Between two ticks."""
        return (self.probe.period_s if self.probe else 10) * NS_PER_S

    @property
    def break_ns(self) -> int:
        """A longer time between two ticks hides one."""
        assert self.probe is not None
        longest_s = max(self.probe.period_s, self.probe.timeout_s)
        return longest_s * NS_PER_S * 9 // 5

    @property
    def is_readiness(self) -> bool:
        """Whether its failure leaves the container alone."""
        return self.probe_type == "readiness"

    def threshold(self, result: ProbeResult) -> int:
        """Ticks in a row that store that result."""
        assert self.probe is not None
        return self.probe.failures if result == "failure" else self.probe.successes

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
            return _ABSENT[self.probe_type]
        if step.container_id != _id_of(status):
            return self._initial  # it will take up the container at its next tick
        return step.results.cache.get(step.container_id, _ABSENT[self.probe_type])

    # -- what happens to it ------------------------------------------------------------

    def follow(
        self, container_id: str | None, ts_ns: int, *, older_than_kubelet: bool, sure: bool
    ) -> None:
        """Probe that container from now on; ``sure``: its initial value is known."""
        self.container_id = container_id
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
        absent = older_than_kubelet and step.facts.kubelet_restart_keeps_results
        self._initial = _ABSENT[self.probe_type] if absent else INITIAL[self.probe_type]
        self.cache_is_sure = sure

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
        is_new = step.container_id != _id_of(status)
        if step.on_hold and not is_new:
            return False
        before = self._initial if is_new else self._cached()
        last_result, run = step.last_result, step.result_run
        self._before = (last_result, run, self.run_is_sure)
        do_probe(step, status, record.ts_ns, _ATTEMPTS[body.result])
        step.results.take_updates()
        result = COUNTS_AS.get(body.result)
        if result is None:
            return True
        if last_result == result and run:
            run += 1
        else:
            # Whatever was before the first tick, or before a hold, this run begins here.
            self.run_is_sure = self.run_is_sure or (last_result != result and run > 0)
            self.streak.clear()
            run = 1
        self.streak.append(record.seq)
        if step.skipped is None:
            self._stored(record, before, result, run)
        return True

    def repeats(self, result: ProbeResult | None) -> bool:
        """Whether further ticks of that result change nothing but the length of the run."""
        if result is None or self._step is None:
            return True
        steady = self.last_result == result and self.run >= self.threshold(result)
        return steady and self.change is None and self.unanswered is None and not self.on_hold

    def repeat(self, record: Record, result: ProbeResult | None, ticks: int) -> None:
        """Take further ticks of that result; ``record``: of the last of them."""
        self.last = record
        if result is not None:
            if self._step is not None:
                self._step.result_run += ticks
            self.counters.repeat(result, ticks)

    def _stored(self, record: Record, before: Result, result: Result, run: int) -> None:
        """The step stored a result: note the change, if it is one."""
        was_sure = self.cache_is_sure
        self.cache_is_sure = True
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
        last, run, sure = self._kept
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
            if step.container_id != _id_of(self._status):
                step.container_id, step.on_hold = _id_of(self._status), False
            step.results.cache[step.container_id] = FAILURE
            self.cache_is_sure = True

    def believe(self, result: ProbeResult, run: int | None) -> None:
        """Go on from what a record says, whatever was decided here."""
        self.change = None
        step = self._step
        if step is None:
            return
        if self._status is not None:
            step.container_id = _id_of(self._status)
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


def _id_of(status: objects.PodStatus) -> str:
    statuses = status.container_statuses
    assert statuses is not None
    return statuses[0].container_id


def _container(entry: ContainerAsk, probe_type: ProbeType, probe: ProbeAsk) -> objects.Container:
    # The delay counts from a start that records tell only late: a tick shows that it is over.
    spec = objects.Probe(
        initial_delay_seconds=0,
        success_threshold=probe.successes,
        failure_threshold=probe.failures,
    )
    return objects.Container(
        name=entry.name,
        restart_policy=entry.restart_policy,
        liveness_probe=spec if probe_type == "liveness" else None,
        readiness_probe=spec if probe_type == "readiness" else None,
        startup_probe=spec if probe_type == "startup" else None,
    )
