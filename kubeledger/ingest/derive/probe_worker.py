"""What one probe worker of the kubelet remembers, and which worker a line means.

Ticks are counted by the kubelet's own ``doProbe``, in the states that verification keeps as well
(``prober.machine``). What comes on top is what a log leaves open: whether the container is still
the one before, and what was cached when the log began.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.statuses import containers_of_spec
from kubeledger.kubelet.prober import machine
from kubeledger.kubelet.prober.machine import SAYS, Machine, machine_of
from kubeledger.kubelet.prober.objects import ProbeSpec
from kubeledger.kubelet.prober.prober import COUNTS_AS
from kubeledger.kubelet.prober.reducer import INITIAL_RESULT
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.prober import ProbeResult, ProbeType, TickResult
from kubeledger.model.units import NS_PER_S

INITIAL: Final = INITIAL_RESULT
ABSENT: Final[dict[ProbeType, ProbeResult]] = {
    kind: SAYS[result] for kind, result in machine.ABSENT.items()
}
"""What the absence of a cached result counts as."""
_RESULTS: Final = {said: result for result, said in SAYS.items()}
_OLDEST: Final = "1.20.0"
_NEVER: Final = 1 << 30
"""A threshold that no log reaches: that of a probe that no spec shows."""


class Change(NamedTuple):
    """The cached result changed; ``run`` and ``threshold`` None when not known."""

    before: ProbeResult
    after: ProbeResult
    run: int | None
    threshold: int | None


def worker_result(result: TickResult) -> ProbeResult | None:
    """What a worker makes of a tick: a warning counts as success; None: it is thrown away."""
    counted = COUNTS_AS.get(result)
    return None if counted is None else SAYS[counted]


def _read(spec: dict[str, Any] | None) -> ProbeSpec | None:
    try:
        return None if spec is None else msgspec.convert(spec, ProbeSpec, strict=False)
    except msgspec.ValidationError:
        return None


def probe_spec(
    pod_spec: dict[str, Any], container: str, probe_type: ProbeType
) -> dict[str, Any] | None:
    """The API's JSON of a probe; None when the pod spec does not hold it."""
    named = (each for each in containers_of_spec(pod_spec) if each.get("name") == container)
    probe: dict[str, Any] | None = next(named, {}).get(f"{probe_type}Probe")
    return probe


def probed_containers(pod_spec: dict[str, Any], probe_type: ProbeType) -> list[str]:
    """Names of the containers with such a probe, in order; of init containers, sidecars."""
    sidecars = [
        entry
        for entry in pod_spec.get("initContainers") or ()
        if entry.get("restartPolicy") == "Always"
    ]
    entries = [*sidecars, *(pod_spec.get("containers") or ())]
    return [
        entry.get("name", "") for entry in entries if entry.get(f"{probe_type}Probe") is not None
    ]


class ProbeWorker:
    """One worker: pod, container and probe type.

    Attributes:
        container_id: the container probed last; None when not known.
        state: as the kubelet has it, as far as ticks and lines show.
        uncertain: the log begins after the container, so ``cached`` is not known: the next
            result to reach its threshold says what it is, but not that it changed. Also
            after a line that another container may have written.
        pushes: the initial value of the container is still to be logged.
        perhaps_new: the container ended, and no line would report its successor.
        is_logged: a line showed the present container.
        ticked_ns: when it ticked last; None before the first.
    """

    def __init__(
        self,
        container: str,
        probe_type: ProbeType,
        spec: dict[str, Any] | None,
        facts: ProberFacts | None = None,
    ) -> None:
        """Begin; ``spec`` is the API's JSON, None when it is not known.

        ``facts``: of the kubelet's version; where that is not known, the oldest one's hold.
        """
        self.container = container
        self.probe_type = probe_type
        self.container_id: str | None = None
        self.uncertain = self.pushes = self.perhaps_new = self.is_logged = False
        self.ticked_ns: int | None = None
        self._spec = known = _read(spec)
        successes, failures = (known.successes, known.failures) if known else (_NEVER, _NEVER)
        self._machine = machine_of(
            probe_type, successes, failures, facts or resolve(_OLDEST).prober
        )
        self.state = self._machine.fresh
        self._known_from_now = False
        self._shortest_ns = ProbeSpec().period_ns

    @property
    def knows_thresholds(self) -> bool:
        """Whether a pod spec is at hand, so that changes can be derived from ticks."""
        return self._spec is not None

    @property
    def cached(self) -> ProbeResult:
        """What is cached for the container; what absence counts as, where nothing is."""
        return SAYS[self.state.cached]

    @property
    def result(self) -> ProbeResult:
        """Of the last tick that counted."""
        return SAYS[self.state.last]

    @property
    def run(self) -> int:
        """How many ticks in a row had that result."""
        return self.state.run

    @property
    def on_hold(self) -> bool:
        """No probes until there is a new container."""
        return self.state.on_hold

    @property
    def period_ns(self) -> int:
        """As the pod spec says, else the shortest time between two ticks, or the default."""
        return self._shortest_ns if self._spec is None else self._spec.period_ns

    def probes(
        self,
        container_id: str | None,
        *,
        cached: ProbeResult | None,
        uncertain: bool = False,
        pushes: bool = False,
    ) -> None:
        """A new container: its result is ``cached``, and probing continues."""
        self.container_id = container_id
        first = ABSENT[self.probe_type] if cached is None else cached
        self.state = Machine.follow(self.state, _RESULTS[first])
        self.uncertain, self.pushes = uncertain, pushes
        self.perhaps_new = self.is_logged = False

    def ends(self) -> None:
        """The container was killed because the probe failed: the run is over with it."""
        self.state = self.state._replace(last=_RESULTS["failure"], run=0)

    def lose_container(self) -> None:
        """The container probed is not known any more."""
        self.container_id = None
        self.perhaps_new = False

    def note_cached(self, cached: ProbeResult | None, *, pushes: bool) -> None:
        """Lines say what is cached; a failure of more than readiness ends the container."""
        result = ABSENT[self.probe_type] if cached is None else cached
        if result != self.cached or self.uncertain:
            last: ProbeResult = "failure" if result == "failure" else "success"
            holds = result == "failure" and self.probe_type != "readiness"
            self.state = self.state._replace(last=_RESULTS[last], run=0, on_hold=holds)
        self.state = self.state._replace(cached=_RESULTS[result])
        self.pushes, self.is_logged = pushes, True
        self.uncertain = self._known_from_now = False

    def passes(self, ts_ns: int, *, all_logged: bool) -> None:
        """Note the time of a tick of any result, before it is counted.

        ``all_logged`` False: the log may leave out successes. A gap of about two periods
        then hides one, and the run begins again.
        """
        before_ns, spec = self.ticked_ns, self._spec
        if not all_logged and before_ns is not None and spec is not None:
            limit_ns = max(spec.period_s, spec.timeout_s) * NS_PER_S * 3 // 2
            if ts_ns - before_ns > limit_ns:
                self.state = self.state._replace(run=0)
        if before_ns is not None and ts_ns > before_ns:
            self._shortest_ns = min(self._shortest_ns, ts_ns - before_ns)
        self.ticked_ns = ts_ns

    def run_to(self, result: ProbeResult) -> int | None:
        """The run that led to a change; None when the log does not hold all its ticks."""
        short = self._spec is not None and self.run < self._spec.threshold(result)
        return None if short else self.run

    def tick(self, result: ProbeResult) -> Change | None:
        """Count a tick; the change of the cached result that it led to, if any."""
        # The line of the tick before would have come by now.
        self.uncertain = self.uncertain and not self._known_from_now
        before = self.state
        run = before.run + 1 if self.result == result else 1
        after = self._machine.step(before, _RESULTS[result])
        if after is None:  # only a new container is probed
            before = Machine.follow(before, _RESULTS[INITIAL[self.probe_type]])
            after = self._machine.step(before, _RESULTS[result])
        assert after is not None
        self.state = after
        if self._spec is None or run < self._spec.threshold(result):
            return None
        if self.uncertain:
            self._known_from_now = True
            return None
        if after.was is None:
            return None
        return Change(SAYS[after.was], result, run, self._spec.threshold(result))

    def settle(
        self,
        result: ProbeResult,
        run: int | None,
        threshold: int | None,
        *,
        is_change: bool = False,
    ) -> Change | None:
        """Put a result into the cache that no tick of the log put there; the change, if any.

        ``is_change``: the log says that it is a change, so what was cached was the other result.
        """
        before: ProbeResult = self.cached
        self.state = self.state._replace(cached=_RESULTS[result])
        if self.uncertain and not is_change:
            self._known_from_now = True
            return None
        if self.uncertain:
            if self.probe_type != "startup":  # which ends with its first change
                before = "success" if result == "failure" else "failure"
            self.uncertain = False
        if result == "failure" and self.probe_type != "readiness" and run is not None:
            self.state = self.state._replace(on_hold=True, run=0)
        return None if before == result else Change(before, result, run, threshold)


# Which worker a line means that names a pod, a probe type and a result, but no container.
#
# The cache logs every value that is newly set, so one line is one of these:
#
# * the initial value of a new container (readiness ``not ready``, startup ``unhealthy``), the
#   first line after its ID; that is no change;
# * a change of what was cached for a container, to the result that the line names.
#
# Which of them, and whose, follows from what is cached for the containers that have such a
# probe. Where several could have written the line nobody is named, but all that they may hold
# from then on is kept: often the next lines leave one possibility only.

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
