"""Which worker a line means that names a pod, a probe type and a result, but no container.

The cache logs every value that is newly set, so one line is one of these:

* the initial value of a new container (readiness ``not ready``, startup ``unhealthy``), the
  first line after its ID; that is no change;
* a change of what was cached for a container, to the result that the line names.

Which of them, and whose, follows from what is cached for the containers that have such a
probe. Where several could have written the line nobody is named, but all that they may hold
from then on is kept: often the next lines leave one possibility only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from kubeledger.ingest.derive.probe_worker import INITIAL, Change, ProbeWorker
from kubeledger.model.bodies.prober import ProbeResult, ProbeType

_WORKERS_MAX = 8
"""The possibilities grow with the power of their number; no pod probes so many containers."""


class _State(NamedTuple):
    """What is cached for a container; ``pushes``: its initial value is still to be logged."""

    cached: ProbeResult
    pushes: bool


class _Move(NamedTuple):
    """A container by its place; ``changes`` False for an initial value."""

    place: int
    before: ProbeResult | None
    changes: bool


class Attributed(NamedTuple):
    """What a line says: a change, or nothing new, or a change of an unknown worker."""

    worker: ProbeWorker | None = None
    change: Change | None = None
    ambiguous: bool = False


class ResultAttribution:
    """The workers of one pod and probe type, as lines without a container show them."""

    def __init__(self, probe_type: ProbeType) -> None:
        self._probe_type = probe_type
        self._possible: set[tuple[_State, ...]] = set()
        self._probed: list[tuple[ProbeWorker, str | None]] = []

    def attribute(self, workers: Sequence[ProbeWorker], result: ProbeResult) -> Attributed:
        """Take in a line; ``workers``: all of the type, in the pod spec's order."""
        if not 0 < len(workers) <= _WORKERS_MAX:
            # What may be an initial value is not worth a finding.
            return Attributed(ambiguous=result == "success" or self._probe_type == "liveness")
        moves, after = self._moved(self._now(workers), result)
        if not moves:
            # An initial value that was expected did not come.
            possible = {
                tuple(state._replace(pushes=False) for state in states)
                for states in self._now(workers)
            }
            moves, after = self._moved(possible, result)
        if not moves and len(workers) == 1 and result == "failure":
            # Nothing can become what it is: there must be a container that no line showed.
            workers[0].probes(None, cached=INITIAL[self._probe_type])
            moves, after = self._moved(self._now(workers), result)
        if not moves:
            return Attributed(ambiguous=result == "success")
        self._keep(workers, after)
        if len(moves) > 1:
            return Attributed(ambiguous=any(move.changes for move in moves))
        (move,) = moves
        if not move.changes:
            return Attributed(workers[move.place])
        assert move.before is not None
        return Attributed(workers[move.place], Change(move.before, result, None, None))

    def _now(self, workers: Sequence[ProbeWorker]) -> set[tuple[_State, ...]]:
        """What all may hold: what is sure from the workers, the rest from the lines so far."""
        followed = len(self._probed) == len(workers)
        earlier = self._possible if followed and self._possible else {(None,) * len(workers)}
        possible: set[tuple[_State, ...]] = set()
        for states in earlier:
            choices = [
                self._choices(worker, state if followed and self._same(place, worker) else None)
                for place, (worker, state) in enumerate(zip(workers, states, strict=True))
            ]
            possible.update(product(*choices))
        return possible

    def _same(self, place: int, worker: ProbeWorker) -> bool:
        return self._probed[place] == (worker, worker.container_id)

    def _choices(self, worker: ProbeWorker, state: _State | None) -> list[_State]:
        """What one container may hold; ``state``: as logged so far, None when never logged."""
        if not worker.uncertain:
            choices = [_State(worker.cached, worker.pushes)]
        elif state is not None:
            choices = [state]
        else:
            results: tuple[ProbeResult, ...] = ("success", "failure")
            choices = [_State(result, False) for result in results]
        if worker.perhaps_new:
            choices.append(_State(INITIAL[self._probe_type], self._probe_type != "liveness"))
        return choices

    def _moved(
        self, possible: set[tuple[_State, ...]], result: ProbeResult
    ) -> tuple[set[_Move], set[tuple[_State, ...]]]:
        moves: set[_Move] = set()
        after: set[tuple[_State, ...]] = set()
        for states in possible:
            for place, state in enumerate(states):
                step = self._step(state, result)
                if step is not None:
                    then, changes = step
                    moves.add(_Move(place, state.cached if changes else None, changes))
                    after.add((*states[:place], then, *states[place + 1 :]))
        return moves, after

    def _step(self, state: _State, result: ProbeResult) -> tuple[_State, bool] | None:
        """What a line of that result makes of a state, and whether that is a change."""
        if state.pushes:
            return (state._replace(pushes=False), False) if result == "failure" else None
        if state.cached == result:
            return None
        if self._probe_type == "startup" and state.cached == "success":
            # A container that has started is not probed again: this is its successor.
            return _State(INITIAL["startup"], False), False
        return _State(result, False), True

    def _keep(self, workers: Sequence[ProbeWorker], after: set[tuple[_State, ...]]) -> None:
        self._possible = after
        for place, worker in enumerate(workers):
            states = {known[place] for known in after}
            if worker.perhaps_new:
                worker.lose_container()
            if len(states) == 1:
                (state,) = states
                worker.note_cached(state.cached, pushes=state.pushes)
            else:
                worker.uncertain = True
        self._probed = [(worker, worker.container_id) for worker in workers]
