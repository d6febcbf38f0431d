"""What one probe worker of the kubelet remembers, replayed from the ticks in the log.

The results cache is kept by container ID and type. A new ID begins with the type's initial
value; that is no change of a result, because nothing was cached for that ID before. After
it, the cache changes when the run of equal results reaches the threshold. The run is not
reset by a new ID, errors do not count, and a failed liveness or startup worker is on hold:
a tick of it is proof of a new container.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeledger.model.bodies.prober import ProbeResult, ProbeType, TickResult
from kubeledger.model.units import NS_PER_S

__all__ = [
    "ABSENT",
    "INITIAL",
    "Change",
    "ProbeWorker",
    "probe_spec",
    "probed_containers",
    "worker_result",
]

INITIAL: dict[ProbeType, ProbeResult] = {
    "liveness": "success",
    "readiness": "failure",
    "startup": "unknown",
}
ABSENT: dict[ProbeType, ProbeResult] = {
    "liveness": "success",
    "readiness": "unknown",
    "startup": "unknown",
}
"""What the absence of a cached result counts as."""
_OTHER: dict[ProbeResult, ProbeResult] = {"failure": "success", "success": "failure"}
_DEFAULT_FAILURE_THRESHOLD = 3
_DEFAULT_SUCCESS_THRESHOLD = 1
_DEFAULT_PERIOD_S = 10
_DEFAULT_TIMEOUT_S = 1
_SPEC_LISTS = ("containers", "initContainers", "ephemeralContainers")


class Change(NamedTuple):
    """The cached result changed; ``run`` and ``threshold`` None when not known."""

    before: ProbeResult
    after: ProbeResult
    run: int | None
    threshold: int | None


def worker_result(result: TickResult) -> ProbeResult | None:
    """What a worker makes of a tick: a warning counts as success; None: it is thrown away."""
    match result:
        case "success" | "warning":
            return "success"
        case "failure" | "unknown":
            return "failure"
        case "error":
            return None


def probe_spec(
    pod_spec: dict[str, Any], container: str, probe_type: ProbeType
) -> dict[str, Any] | None:
    """The API's JSON of a probe; None when the pod spec does not hold it."""
    for key in _SPEC_LISTS:
        for entry in pod_spec.get(key) or ():
            if entry.get("name") == container:
                probe: dict[str, Any] | None = entry.get(f"{probe_type}Probe")
                return probe
    return None


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
        cached: its result in the cache; None when nothing is cached.
        result: of the last tick that counted; ``run`` how many of it in a row.
        on_hold: no probes until there is a new container.
        uncertain: the log begins after the container, so ``cached`` is not known: the next
            result to reach its threshold says what it is, but not that it changed. Also
            after a line that another container may have written.
        pushes: the initial value of the container is still to be told by a line.
        perhaps_new: the container ended, and no line would tell of its successor.
        heard: a line told of the present container.
    """

    def __init__(self, container: str, probe_type: ProbeType, spec: dict[str, Any] | None) -> None:
        self.container = container
        self.probe_type = probe_type
        self.container_id: str | None = None
        self.cached: ProbeResult | None = INITIAL[probe_type]
        self.result: ProbeResult = "success"
        self.run = 0
        self.on_hold = False
        self.uncertain = False
        self.pushes = False
        self.perhaps_new = False
        self.heard = False
        self._known_from_now = False
        self._thresholds: dict[ProbeResult, int] | None = None
        self._shortest_ns = _DEFAULT_PERIOD_S * NS_PER_S
        self._ticked_ns: int | None = None
        self._unseen_after_ns: int | None = None
        self._period_ns: int | None = None
        if spec is not None:
            self._period_ns = (spec.get("periodSeconds") or _DEFAULT_PERIOD_S) * NS_PER_S
            wait_s = max(
                spec.get("periodSeconds") or _DEFAULT_PERIOD_S,
                spec.get("timeoutSeconds") or _DEFAULT_TIMEOUT_S,
            )
            self._unseen_after_ns = wait_s * NS_PER_S * 3 // 2
            self._thresholds = {
                "failure": spec.get("failureThreshold") or _DEFAULT_FAILURE_THRESHOLD,
                "success": spec.get("successThreshold") or _DEFAULT_SUCCESS_THRESHOLD,
            }

    @property
    def knows_thresholds(self) -> bool:
        """Whether a pod spec is at hand, so that changes can be told from ticks."""
        return self._thresholds is not None

    def probes(
        self,
        container_id: str | None,
        *,
        cached: ProbeResult | None,
        uncertain: bool = False,
        pushes: bool = False,
    ) -> None:
        """A new container: its result is ``cached``, and probing goes on."""
        self.container_id = container_id
        self.cached = cached
        self.on_hold = False
        self.uncertain = uncertain
        self.pushes = pushes
        self.perhaps_new = self.heard = False

    def ends(self) -> None:
        """The container was killed because the probe failed: the run is over with it."""
        self.result, self.run = "failure", 0

    def lose_container(self) -> None:
        """The container probed is not known any more."""
        self.container_id = None
        self.perhaps_new = False

    def told(self, cached: ProbeResult | None, *, pushes: bool) -> None:
        """Lines say what is cached; a failure of more than readiness ends the container."""
        if cached != self.cached or self.uncertain:
            self.run = 0
            self.result = "failure" if cached == "failure" else "success"
            self.on_hold = cached == "failure" and self.probe_type != "readiness"
        self.cached = cached
        self.pushes = pushes
        self.heard = True
        self.uncertain = self._known_from_now = False

    def passes(self, ts_ns: int, *, all_logged: bool) -> None:
        """Note the time of a tick of any result, before it is counted.

        ``all_logged`` False: the log may leave out successes. A gap of about two periods
        then hides one, and the run begins anew.
        """
        before_ns, limit_ns = self._ticked_ns, self._unseen_after_ns
        if not all_logged and before_ns is not None and limit_ns is not None:
            self.run = self.run if ts_ns - before_ns <= limit_ns else 0
        if before_ns is not None and ts_ns > before_ns:
            self._shortest_ns = min(self._shortest_ns, ts_ns - before_ns)
        self._ticked_ns = ts_ns

    @property
    def ticked_ns(self) -> int | None:
        """When it ticked last."""
        return self._ticked_ns

    @property
    def period_ns(self) -> int:
        """As the pod spec says, else the shortest time between two ticks, or the default."""
        return self._period_ns or self._shortest_ns

    def run_to(self, result: ProbeResult) -> int | None:
        """The run that led to a change; None when the log does not hold all its ticks."""
        short = self._thresholds is not None and self.run < self._thresholds[result]
        return None if short else self.run

    def tick(self, result: ProbeResult) -> Change | None:
        """Count a tick; the change of the cached result that it led to, if any."""
        # The line of the tick before would have come by now.
        self.uncertain = self.uncertain and not self._known_from_now
        self.run = self.run + 1 if result == self.result else 1
        self.result = result
        if self._thresholds is None or self.run < self._thresholds[result]:
            return None
        return self.settle(result, self.run, self._thresholds[result])

    def settle(
        self,
        result: ProbeResult,
        run: int | None,
        threshold: int | None,
        *,
        told: bool = False,
    ) -> Change | None:
        """Put a result into the cache; the change, if it is one.

        Nothing is cached for a container that runs since before its kubelet: an absent
        liveness result then counts as success, the others as unknown. ``told``: the log
        says that it is a change, so what was cached was the other result.
        """
        before = self.cached
        if self.uncertain and not told:
            self.cached = result
            self._known_from_now = True
            return None
        if self.uncertain:
            before = _OTHER[result]
            self.uncertain = False
        if before is None:
            before = ABSENT[self.probe_type]
        self.cached = result
        if result == "failure" and self.probe_type != "readiness" and run is not None:
            self.on_hold = True
            self.run = 0
        return None if before == result else Change(before, result, run, threshold)
