"""The states in which a probe worker may be, as far as records show its ticks.

What a worker decides depends on all its ticks. A tick whose line may be missing, a log that
begins in the middle and a restart that was not seen are further states, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from kubeledger.kubelet.prober.objects import FAILURE, INITIAL, SUCCESS, UNKNOWN, Result
from kubeledger.kubelet.prober.worker import Counting
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeResult, ProbeType

SAYS: Final[dict[Result, ProbeResult]] = {
    SUCCESS: "success", FAILURE: "failure", UNKNOWN: "unknown",
}  # fmt: skip
"""Result in the kubelet's cache -> as records write it."""
ABSENT: Final[dict[ProbeType, Result]] = {
    "liveness": SUCCESS, "readiness": UNKNOWN, "startup": UNKNOWN,
}  # fmt: skip
"""What nothing cached counts as (a container that is older than its kubelet, since 1.35)."""
_KNOWN_MAX: Final = 4096


class State(NamedTuple):
    """A worker as the kubelet has it.

    Attributes:
        last: result of the last tick that counted; ``run``: how many in a row.
        at_least: the run may be longer.
        cached: for the container that it probes.
        on_hold: no tick before there is a new container.
        was: what was cached before the newest tick changed it; None when it did not.
            ``ticks``: how many in a row that led to it.
        hidden: whether there were ticks without a record since the kubelet's counts were last
            read; None: not known.
    """

    last: Result
    run: int
    at_least: bool
    cached: Result
    on_hold: bool
    was: Result | None = None
    ticks: int = 0
    hidden: bool | None = False

    def after(self, ticks: int) -> State:
        """Behind further ticks that only make the run longer."""
        last, run, at_least, cached, on_hold, was, changed_after, hidden = self
        return State(last, run + ticks, at_least, cached, on_hold, was, changed_after, hidden)


class Span(NamedTuple):
    """Ticks that no record shows, between two records.

    Attributes:
        most: how many there were at most, and at least one.
        results: what they can have returned.
        restarts: the container may have been another one in between.
        counted: the kubelet's next counts will say how many there were; None: those before may
            have, of some.
        quiet: had one changed what is cached, the sync loop would have shown it.
    """

    most: int
    results: tuple[Result, ...] = (SUCCESS, FAILURE)
    restarts: bool = True
    counted: bool | None = False
    quiet: bool = False


class Machine:
    """Steps of all workers with the same thresholds; what was stepped once is remembered.

    Attributes:
        cap: no run longer than this differs from it.
        keeps_results: nothing is cached at first for a container that is older than its kubelet.
        triggers: while the container is not ready it is probed out of turn.
        pushed: results of which the sync loop logs that they were cached.
    """

    def __init__(
        self, probe_type: ProbeType, successes: int, failures: int, facts: ProberFacts
    ) -> None:
        self.probe_type = probe_type
        self.cap = max(successes, failures)
        self.keeps_results = facts.kubelet_restart_keeps_results
        self.triggers = probe_type == "readiness" and facts.unready_triggers_probe
        self.pushed = frozenset({SUCCESS, FAILURE} if facts.results_wake_sync_loop else ())
        if probe_type == "liveness":
            self.pushed = frozenset({FAILURE})
        self._steps: dict[tuple[State, Result], State | None] = {}
        self._known: dict[tuple[State, Result], State | None] = {}
        self._any: dict[bool | None, tuple[State, ...]] = {}
        self._hidden: dict[tuple[State, Span], tuple[State, ...]] = {}
        self._counting = Counting(probe_type, successes, failures, facts.startup_success_holds)

    @property
    def fresh(self) -> State:
        """A new worker that has taken up its first container."""
        return State(SUCCESS, 0, False, INITIAL[self.probe_type], False)

    def any_state(self, hidden: bool | None) -> tuple[State, ...]:
        """Every state that a worker can be in; ``hidden`` as in :class:`State`."""
        if hidden not in self._any:
            firsts = [self.fresh]
            if self.keeps_results:
                firsts.append(self.fresh._replace(cached=ABSENT[self.probe_type]))
            found = ((first, *self.hidden(first, Span(2 * self.cap + 2))) for first in firsts)
            states = (state._replace(hidden=hidden) for state in chain.from_iterable(found))
            self._any[hidden] = tuple(dict.fromkeys(states))
        return self._any[hidden]

    def step(self, state: State, result: Result) -> State | None:
        """Take a tick; None when a worker on hold would not have probed."""
        if state.run > self.cap:
            return self._after(state, result)
        tick = state, result
        if tick not in self._known:
            if len(self._known) > _KNOWN_MAX:
                self._known.clear()
            self._known[tick] = self._after(state, result)
        return self._known[tick]

    def _after(self, state: State, result: Result) -> State | None:
        over = max(state.run - self.cap, 0)
        plain = State(state.last, state.run - over, False, state.cached, state.on_hold)
        if (plain, result) not in self._steps:
            self._steps[plain, result] = self._step(plain, result)
        after = self._steps[plain, result]
        if after is None:
            return None
        same = state.last == result
        return after._replace(
            run=after.run + over if same and not after.on_hold else after.run,
            ticks=after.ticks + over if same and after.ticks else after.ticks,
            at_least=state.at_least and same,
            hidden=state.hidden,
        )

    def _step(self, state: State, result: Result) -> State | None:
        if state.on_hold:
            return None
        run, stored, holds = self._counting.count(state.last, state.run, result)
        changed = stored and result != state.cached
        return State(
            last=result,
            run=run,
            at_least=False,
            cached=result if stored else state.cached,
            on_hold=holds,
            was=state.cached if changed else None,
            ticks=(state.run + 1 if state.last == result else 1) if changed else 0,
        )

    def hidden(self, state: State, span: Span) -> tuple[State, ...]:
        """Every state after one or more ticks that no record shows."""
        found = self._hidden.get((state, span))
        if found is None:
            if len(self._hidden) > _KNOWN_MAX:
                self._hidden.clear()
            found = self._hidden[state, span] = self._hidden_after(state, span)
        return found

    def _hidden_after(self, state: State, span: Span) -> tuple[State, ...]:
        found: dict[State, None] = {}
        some = [self.capped(state)]
        for _ in range(span.most):
            after = (each._replace(was=None, ticks=0) for each in self._once(some, span))
            some = [each for each in dict.fromkeys(after) if each not in found]
            if not some:
                break
            found |= dict.fromkeys(some)
        return tuple(found)

    def _once(self, states: Iterable[State], span: Span) -> Iterator[State]:
        """One tick that no record shows."""
        for before in states:
            ways = [before]
            if span.restarts:
                ways.append(self.follow(before, INITIAL[self.probe_type]))
            for each in dict.fromkeys(ways):
                for result in span.results:
                    after = self.step(each, result)
                    if after is None or (
                        span.quiet and after.was is not None and result in self.pushed
                    ):
                        continue
                    yield self.capped(after)._replace(hidden=self._hide(each, span))

    def lost(self, state: State, span: Span) -> tuple[State, ...]:
        """Every state after some ticks of which the last one has just been."""
        earlier = self.hidden(state, span._replace(most=span.most - 1)) if span.most > 1 else ()
        return tuple(dict.fromkeys(self._once((self.capped(state), *earlier), span)))

    def capped(self, state: State) -> State:
        """Runs beyond both thresholds are alike: worlds must not grow with the log."""
        return state if state.run <= self.cap else state._replace(run=self.cap, at_least=True)

    @staticmethod
    def _hide(state: State, span: Span) -> bool | None:
        if span.counted is None or state.hidden is None:
            return None
        return state.hidden or span.counted

    @staticmethod
    def follow(state: State, first: Result) -> State:
        """Take up a new container, for which ``first`` is cached; the run continues."""
        return state._replace(cached=first, on_hold=False, was=None, ticks=0)


@lru_cache(maxsize=1024)
def machine_of(probe_type: ProbeType, successes: int, failures: int, facts: ProberFacts) -> Machine:
    """The machine of a worker."""
    return Machine(probe_type, successes, failures, facts)
