"""A probe worker and the one it would have been: two counts over the same ticks.

What was before the first tick of a log, or in a hole of it, is not known, so a twin is the set
of all pairs of states that are possible. What the log shows narrows it: a pair in which the
recorded worker would have changed its cached result, and did not, was not the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

from kubeledger.kubelet.prober.objects import FAILURE, INITIAL, SUCCESS, UNKNOWN, Result
from kubeledger.kubelet.prober.worker import Counting
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType

_RUN_MAX: Final = 64
"""Runs of this length and more, of which the beginning was not seen, count as one."""

Thresholds = tuple[int, int]
"""Failures, and successes, in a row that count."""


class Side(NamedTuple):
    """A worker: what is cached, what its last ticks said, and whether it rests."""

    cached: Result
    last: Result
    run: int
    held: bool


Pair = tuple[Side, Side]


class Step(NamedTuple):
    """What a tick does to a pair: the result that is cached then, None where it stays."""

    before: Pair
    was: Result | None
    would: Result | None
    after: Pair


class Twin:
    """See the module.

    Attributes:
        pairs: (recorded, under the variant), all that are possible; never empty.
    """

    def __init__(
        self, probe_type: ProbeType, facts: ProberFacts, was: Thresholds, would: Thresholds
    ) -> None:
        self._type = probe_type
        holds = facts.startup_success_holds
        self._counting = [Counting(probe_type, limit[1], limit[0], holds) for limit in (was, would)]
        self._thresholds = was, would
        self.pairs: frozenset[Pair] = frozenset()
        self.lose(same=True)

    def begin(self, *cached: Result) -> None:
        """A new worker meets its first container, for which one of these is cached."""
        self.pairs = frozenset(
            (side, side) for side in (Side(each, SUCCESS, 0, held=False) for each in cached)
        )

    def follow(self) -> None:
        """Another container runs; the count of the one before continues."""
        initial = INITIAL[self._type]
        self.pairs = frozenset(
            (was._replace(cached=initial, held=False), would._replace(cached=initial, held=False))
            for was, would in self.pairs
        )

    def lose(self, *, same: bool) -> None:
        """Ticks are not known; ``same``: both cached the same before, as far as is known."""
        most = min(max(*self._thresholds[0], *self._thresholds[1]), _RUN_MAX)
        pairs = set()
        results: tuple[Result, ...] = (SUCCESS, FAILURE)
        for last, run in product(results, range(most + 1)):
            was, would = (self._sides(last, run, limit) for limit in self._thresholds)
            pairs |= {
                (one, other)
                for one, other in product(was, would)
                if not one.held and (not same or one.cached == other.cached)
            }
        self.pairs = frozenset(pairs)

    def _sides(self, last: Result, run: int, limit: Thresholds) -> list[Side]:
        if run >= (limit[0] if last == FAILURE else limit[1]):
            goes_on = self._type == "readiness" or (self._type == "liveness" and last == SUCCESS)
            return [Side(last, last, run if goes_on else 0, held=not goes_on)]
        ends_here: dict[ProbeType, tuple[Result, ...]] = {
            "liveness": (SUCCESS,),
            "readiness": (SUCCESS, FAILURE),
            "startup": (UNKNOWN,),
        }
        return [Side(cached, last, run, held=False) for cached in ends_here[self._type]]

    def put(self, cached: Result) -> None:
        """Both cache that result without a tick."""
        self.pairs = frozenset(
            (was._replace(cached=cached), would._replace(cached=cached))
            for was, would in self.pairs
        )

    def stepped(
        self, result: Result | None, would_be: Sequence[Result | None], optional: bool = False
    ) -> list[Step]:
        """What a tick does.

        Args:
            result: that was recorded, as it counts; None: thrown away.
            would_be: what the tick may have been under the variant; None: there is no tick,
                or it is thrown away.
            optional: the tick came because the container was not ready, so that where it
                would have been ready there is perhaps none.
        """
        steps = []
        for was, would in self.pairs:
            if was.held:
                continue  # it cannot have probed
            changed, after = self._step(0, was, result)
            results = set(would_be)
            if optional and would.cached == SUCCESS:
                results.add(None)
            for each in results:
                other, then = self._step(1, would, each)
                steps.append(Step((was, would), changed, other, (after, then)))
        return steps

    def open_steps(self, pair: Pair) -> list[Step]:
        """What a tick that only the variant has does to a pair, whatever it says."""
        was, would = pair
        return [
            Step(pair, None, other, (was, then))
            for other, then in (self._step(1, would, each) for each in (SUCCESS, FAILURE))
        ]

    def resolve(self, steps: Sequence[Step], recorded: Result | None) -> set[Result | None]:
        """Take a step of which the records show what it changed; what it would have changed."""
        right = [step for step in steps if step.was == recorded] or list(steps)
        if right:
            self.pairs = frozenset(step.after for step in right)
        return {step.would for step in right}

    @property
    def would_cache(self) -> set[Result]:
        """What is cached under the variant."""
        return {would.cached for _, would in self.pairs}

    def set_cached(self, cached: Result) -> None:
        """The records show what was cached."""
        right = frozenset(pair for pair in self.pairs if pair[0].cached == cached)
        if right:
            self.pairs = right

    def _step(self, which: int, side: Side, result: Result | None) -> tuple[Result | None, Side]:
        if result is None or side.held:
            return None, side
        run, stored, holds = self._counting[which].count(side.last, side.run, result)
        cached = result if stored else side.cached
        after = Side(cached, result, min(run, max(self._thresholds[which])), holds)
        return (result if cached != side.cached else None), after
