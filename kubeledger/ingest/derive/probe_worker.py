"""What one probe worker of the kubelet remembers, as the ticks in the log leave it.

Ticks are counted by the kubelet's own ``doProbe``, in the states that verification keeps as well
(``prober.machine``). What comes on top is what a log leaves open: whether the container is still
the one before, and what was cached when the log began.
"""

from __future__ import annotations

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
            before = "success" if result == "failure" else "failure"
            self.uncertain = False
        if result == "failure" and self.probe_type != "readiness" and run is not None:
            self.state = self.state._replace(on_hold=True, run=0)
        return None if before == result else Change(before, result, run, threshold)
