"""One probe worker: the states in which it may be, as its ticks and containers leave them.

What a worker decides depends on all its ticks. A tick whose line may be missing, a log that
begins in the middle and a restart that was not seen are further states, never a guess.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kubeledger.kubelet.prober.machine import Machine, Span, State, machine_of
from kubeledger.kubelet.prober.objects import FAILURE, ProbeSpec, Result
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.verify.belief import Belief, World

_STREAK_MAX: Final = 32
_LAGS_MAX: Final = 6
_PROBED: Final = "which container was probed before"
_WORLDS_MAX: Final = 1024
_STEPS_MAX: Final = 512
"""With more worlds and missing ticks than that, nothing is known of the worker."""


class Worker:
    """One worker, and what the records show of it.

    Attributes:
        spec_seq: record that shows the pod's spec; None: it is not known, and ``missing`` says what
            is. ``disputed``: lists of the pod disagree about the probe.
        after_startup: its container has a startup probe, and it is another one.
        seeds_success: what it caches first for a started sidecar, even where that is new.
        spec: of its probe; None when it is not known, or (``has_no_probe``) there is none.
        belief: the states in which it may be; None without a spec. ``loose``: with those in
            which lines are lost without any sign of it, which only save a change from being
            impossible; None where these are no others.
        container_id: that it probes; None when not known. ``seen``: it was seen to run.
        newest: its last tick; None before the first. ``newest_ns``: its time.
        gap_ns: time between the two newest ticks.
        lags: how far behind the beat of the first of them the newest ticks came, in nanoseconds.
        early: the newest tick and why it came too early, until the next one shows whether that
            turn is missing; one tick more than there are turns is another clock's.
        failed_ns: of the newest tick that failed; None before one. ``missed_ns``: before which
            the newest tick that may be missing was. ``changed_ns``: of the last change recorded.
        streak: (<= 32,) seqs of the newest ticks with the same result.
        pending: whether the newest tick may have changed what is cached, and no record showed.
        is_counted: the kubelet's counts of its ticks were read; ``counted_until_ns``: at the
            latest.
        is_reported: a contradiction about its ticks was reported.
    """

    def __init__(self, key: str, container: str, probe_type: ProbeType) -> None:
        self.key, self.container, self.probe_type = key, container, probe_type
        self.spec: ProbeSpec | None = None
        self.spec_seq: int | None = None
        self.missing = "the pod's spec"
        self.has_no_probe = self.disputed = self.after_startup = self.seeds_success = False
        self.seen = self.pending = self.is_counted = self.is_reported = self.is_fresh = False
        self.tally: Any = None
        self.machine: Machine | None = None
        self.belief: Belief[State] | None = None
        self.loose: Belief[State] | None = None
        self.container_id: str | None = None
        self.newest: Record | None = None
        self.newest_ns = self.missed_ns = self.counted_until_ns = self.changed_ns = 0
        self.gap_ns: int | None = None
        self.lags: deque[int] = deque(maxlen=_LAGS_MAX)
        self.early: tuple[Record, str] | None = None
        self.failed_ns: int | None = None
        self.result: Result | None = None
        self.streak: deque[int] = deque(maxlen=_STREAK_MAX)

    def begin(self, spec: ProbeSpec, facts: ProberFacts, unknown: str | None) -> None:
        """Make the worker; ``unknown``: what is not known of it, None for a new one."""
        self.spec = spec
        machine = machine_of(self.probe_type, spec.successes, spec.failures, facts)
        self.machine = machine
        self.is_fresh = unknown is None
        self.belief = Belief([World(machine.fresh)], most=_WORLDS_MAX)
        if unknown is not None:
            self.forget(unknown)

    def forget(self, unknown: str) -> None:
        """It may be in any state."""
        if self.belief is not None and self.machine is not None:
            self._open(self.belief, unknown)
            self.loose = None

    def _open(self, belief: Belief[State], phrase: str) -> None:
        assert self.machine is not None
        first = belief.worlds[0].state
        states = self.machine.any_state(None if self.is_counted else False)
        belief.widen(lambda state: states if state is first else (), phrase)

    def _widen(self, belief: Belief[State], span: Span, phrase: str) -> None:
        """Add the states after some hidden ticks; any state where that is most of them."""
        machine = self.machine
        assert machine is not None
        if len(belief.worlds) * span.most > _STEPS_MAX:
            self._open(belief, phrase)
        else:
            belief.widen(lambda state: machine.hidden(state, span), phrase)

    # -- what happens ------------------------------------------------------------------------

    def beliefs(self) -> Iterator[Belief[State]]:
        """What is believed, and what may be besides."""
        return (each for each in (self.belief, self.loose) if each is not None)

    def follow(self, container_id: str | None, firsts: Iterable[tuple[Result, str]]) -> None:
        """Probe another container; ``firsts``: what may be cached for it, and what that assumes."""
        self.container_id = container_id
        for belief in self.beliefs():
            worlds = (
                World(Machine.follow(world.state, first), (*world.assumes, *filter(None, phrases)))
                for world in belief.worlds
                for first, *phrases in firsts
            )
            belief.worlds = Belief(worlds, most=_WORLDS_MAX).worlds

    def may_follow(self, container_id: str | None, first: Result) -> None:
        """Probe a container that may have been probed before, or another one was."""
        self.container_id = container_id
        for belief in self.beliefs():
            belief.widen(lambda state: (Machine.follow(state, first),), _PROBED)

    def miss(self, span: Span, phrase: str, ts_ns: int, *, surely: bool = False) -> None:
        machine = self.machine
        if machine is None or not span.most:
            return
        self.missed_ns = ts_ns
        span = span._replace(most=min(span.most, 2 * machine.cap + 2))
        for belief in self.beliefs():
            if surely:
                belief.step(lambda state: machine.hidden(state, span) or (state,))
            else:
                self._widen(belief, span, phrase)

    def doubt(self, span: Span, phrase: str, ts_ns: int) -> None:
        """Ticks may be missing, though nothing but their absence says so."""
        machine = self.machine
        if self.belief is None or machine is None or not span.most:
            return
        self.missed_ns = ts_ns
        self.loose = self.loose or Belief(self.belief.worlds, most=_WORLDS_MAX)
        self._widen(self.loose, span, phrase)

    def tick(self, record: Record, result: Result | None) -> bool:
        """Take a tick; False when no state allows it."""
        self.gap_ns = record.ts_ns - self.newest_ns if self.newest_ns else None
        period_ns = self.spec.period_ns if self.spec is not None else 0
        if self.gap_ns is None or 2 * self.gap_ns > 3 * period_ns:
            self.lags.clear()  # ticks may be missing, or this one is late
        self.lags.append(self.lags[-1] + (self.gap_ns or 0) - period_ns if self.lags else 0)
        self.newest, self.newest_ns = record, record.ts_ns
        self.failed_ns = record.ts_ns if result == FAILURE else self.failed_ns
        if result is None:  # an error is thrown away
            self.pending = False
            return True
        if result != self.result:
            self.result = result
            self.streak.clear()
        self.streak.append(record.seq)
        if self.belief is None:
            return True
        possible = self._step(self.belief, result)
        if self.loose is not None:
            if self._step(self.loose, result) and not possible:
                self.belief, possible = self.loose, True
            if set(self.loose.worlds) <= set(self.belief.worlds):
                self.loose = None
        if not possible:
            self.forget(f"ticks before the one at {format_ts(record.ts_ns)}, which cannot follow")
            self._step(self.belief, result)
        worlds = (world for belief in self.beliefs() for world in belief.worlds)
        self.pending = any(world.state.was is not None for world in worlds)
        return possible

    def _step(self, belief: Belief[State], result: Result) -> bool:
        machine, is_many = self.machine, len(belief.worlds) > 1
        assert machine is not None

        def step(state: State) -> Iterable[State]:
            after = machine.step(state, result)
            if after is None:
                return ()
            return (machine.capped(after) if is_many else after,)

        return belief.step(step)

    def is_steady(self, result: Result) -> bool:
        """Whether further ticks of that result only make the run longer."""
        if self.belief is None or self.machine is None:
            return self.result == result and not self.pending
        if self.pending or self.result != result or len(self.belief.worlds) > 1 or self.loose:
            return False
        state = self.belief.worlds[0].state
        return state.cached == result and state.run >= self.machine.cap and not state.on_hold

    def repeat(self, record: Record, result: Result | None, ts_ns: int, ticks: int) -> None:
        """Take further ticks that only make the run longer, or are thrown away; the last then."""
        self.newest, self.newest_ns = record, ts_ns
        if self.belief is not None and result is not None:
            (world,) = self.belief.worlds
            self.belief.worlds = (World(world.state.after(ticks), world.assumes),)

    def become(self, worlds: Iterable[tuple[State, tuple[str, ...]]]) -> None:
        if self.belief is not None:
            left = [World(state, assumes) for state, assumes in worlds]
            self.belief, self.loose = Belief(left, most=_WORLDS_MAX), None

    def believe(self, result: Result, phrase: str) -> None:
        """It may be as a record says that no state allows."""
        machine = self.machine
        if self.belief is None or machine is None:
            return
        holds = result == FAILURE and self.probe_type != "readiness"
        run = 0 if holds else machine.cap

        def is_reported(state: State) -> Iterable[State]:
            yield state._replace(
                last=result, run=run, at_least=not holds, cached=result, on_hold=holds, was=None
            )

        self.belief.widen(is_reported, phrase)
        self.loose, self.pending = None, False

    # -- what is known -----------------------------------------------------------------------

    @property
    def states(self) -> tuple[State, ...]:
        """Where it may be, the most likely first."""
        return () if self.belief is None else tuple(w.state for w in self.belief.worlds)

    @property
    def is_on_hold(self) -> bool:
        """Whether it waits for a new container, surely."""
        return self.belief is not None and all(w.state.on_hold for w in self.belief.worlds)

    @property
    def is_cut(self) -> bool:
        """Whether it may be in further states, too many to keep."""
        return any(belief.cut for belief in self.beliefs())

    def is_near(self, ts_ns: int) -> bool:
        """Whether its newest tick is so near that none is missing since."""
        return self.spec is not None and ts_ns - self.newest_ns <= self.spec.break_ns

    @property
    def is_next_counted(self) -> bool | None:
        """Whether the counts that are read next show ticks that are missing from here on.

        None: those that were read last may have shown some of them.
        """
        if not self.is_counted:
            return False
        return True if self.newest_ns > self.counted_until_ns else None

    def missing_ticks(self, from_ns: int, to_ns: int, *, is_first: bool = False) -> int:
        """Ticks that may be missing between a tick and another, at most.

        ``is_first``: the time is that from which a container could be probed.
        """
        assert self.spec is not None
        gap_ns, period_ns = to_ns - from_ns, self.spec.period_ns
        if is_first:
            return max((gap_ns - 1) // period_ns, 0)
        # A probe that may take nearly a period may return late once, and at once the next time.
        start_time_unknown = self.spec.timeout_s * 5 > self.spec.period_s * 3
        if start_time_unknown and (self.gap_ns or 0) > period_ns * 7 // 5:
            return max(round(gap_ns / period_ns) - 1, 1)
        return max((5 * gap_ns + 3 * period_ns) // (5 * period_ns) - 1, 0)

    def missing_ticks_until(self, ts_ns: int) -> int:
        """Ticks that may be missing since the newest one, one at that very time included."""
        if self.spec is None or self.machine is None:
            return 0
        if self.newest is None or not self.newest_ns:
            return 2 * self.machine.cap + 2
        gap_ns, period_ns = ts_ns - self.newest_ns, self.spec.period_ns
        return max((5 * gap_ns + 3 * period_ns) // (5 * period_ns), 0)
