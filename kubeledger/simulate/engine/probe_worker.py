"""One simulated probe worker: when it ticks, what its probe finds, and how ticks are folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kubeledger.kubelet.prober.objects import SUCCESS
from kubeledger.kubelet.prober.prober import COUNTS_AS
from kubeledger.kubelet.prober.prober_manager import WorkerKey
from kubeledger.kubelet.prober.worker import ProbeWorker
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeResult,
    ProbeTicksFolded,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ProbeStep
from kubeledger.simulate.engine.schedule import Timer
from kubeledger.simulate.engine.world import SimContainer, SimPod

FOLD_MAX_NS = 3600 * NS_PER_S
"""No record stands for ticks of a longer time."""

Handler = Literal["exec", "http", "tcp", "grpc"]
Found = tuple[TickResult, str]
"""What an execution returns, and what it says."""

_HANDLERS: dict[str, Handler] = {
    "exec": "exec",
    "httpGet": "http",
    "tcpSocket": "tcp",
    "grpc": "grpc",
}
_FINE: Found = ("success", "")


def handler_of(spec: dict[str, Any]) -> Handler | None:
    """How a probe of the API's JSON probes."""
    return next((handler for key, handler in _HANDLERS.items() if spec.get(key) is not None), None)


def script_of(
    steps: Sequence[ProbeStep], simulation_ns: int, container_ns: int
) -> list[tuple[int, Found]]:
    """What a probe finds from when on, for one instance of its container.

    Of steps that begin at one time the later one in the script counts.

    Args:
        steps: of the scenario; before the first all executions succeed.
    """
    times: dict[int, Found] = {}
    for step in steps:
        began_ns = container_ns if step.since == "container" else simulation_ns
        times[began_ns + step.from_ns] = (step.result, step.output)
    return sorted(times.items())


class SimWorker:
    """A worker of the kubelet with its clock; the steps themselves are ``do_probe``'s.

    Attributes:
        begun: its start jitter is over.
        timer: of what it does next; None while nothing happens before something changes.
        folding: ticks up to now are not in any record yet.
        wanted: it is to run at once.
        late_ns: how long after it is woken it runs.
        successful, failed: ticks so far, as the kubelet counts them.
    """

    def __init__(
        self,
        key: WorkerKey,
        worker: ProbeWorker,
        pod: SimPod,
        container: SimContainer,
        steps: Sequence[ProbeStep],
        handler: Handler | None,
    ) -> None:
        self.key = key
        self.worker = worker
        self.pod = pod
        self.container = container
        self.handler = handler
        # Zero is no period that the API lets through; the kubelet would panic.
        self.period_ns = max(worker.spec.period_seconds, 1) * NS_PER_S
        self.begun = False
        self.next_ns = 0
        self.timer: Timer | None = None
        self.folding = False
        self.wanted = False
        self.late_ns = 0
        self.successful = 0
        self.failed = 0
        self._steps = steps
        self._script: list[tuple[int, Found]] = []
        self._script_for: tuple[str, int] | None = None
        self._fold: Found = _FINE
        self._first_ns = 0
        self._count = 0

    @property
    def probe_type(self) -> ProbeType:
        """Liveness, readiness or startup."""
        return self.key[2]

    def cancel(self) -> None:
        """Nothing more happens by itself."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # -- what its probe finds ------------------------------------------------------------------

    def finds(self, now_ns: int, simulation_ns: int) -> Found:
        """What an execution at this time returns."""
        container = self.container
        replaced = container.published_id != container.container_id
        if self.handler == "exec" and (container.state != "running" or replaced):
            return ("error", "container is not running")
        if container.state != "running":
            return ("failure", "connection refused")
        found = _FINE
        for from_ns, result in self._script_at(simulation_ns):
            if from_ns > now_ns:
                break
            found = result
        return found

    def changes_ns(self, now_ns: int, simulation_ns: int) -> int | None:
        """When its probe begins to find something else; None when it never does."""
        found = self.finds(now_ns, simulation_ns)
        for from_ns, result in self._script_at(simulation_ns):
            if from_ns > now_ns and result != found:
                return from_ns
        return None

    def _script_at(self, simulation_ns: int) -> list[tuple[int, Found]]:
        container = self.container
        instance = (container.container_id, container.started_ns or 0)
        if self._script_for != instance:
            self._script_for = instance
            self._script = script_of(self._steps, simulation_ns, instance[1])
        return self._script

    # -- ticks ---------------------------------------------------------------------------------

    def count(self, result: TickResult, ticks: int) -> None:
        """Count ticks as the kubelet does: those that errored are none."""
        counted = COUNTS_AS.get(result)
        if counted is None:
            return
        if counted == SUCCESS:
            self.successful += ticks
        else:
            self.failed += ticks

    def holds(self, now_ns: int, found: Found) -> bool:
        """Whether a tick now goes on in the record that is being gathered."""
        return self._count > 0 and found == self._fold and self._goes_on_at(now_ns)

    @property
    def breaks_off(self) -> bool:
        """Its next tick cannot join those gathered: the last one was out of turn."""
        return self._count > 0 and not self._goes_on_at(self.next_ns)

    def _goes_on_at(self, ts_ns: int) -> bool:
        return self._first_ns + self._count * self.period_ns == ts_ns

    def gather(self, now_ns: int, found: Found) -> None:
        """A tick that changes nothing."""
        if self._count == 0:
            self._first_ns, self._fold = now_ns, found
        self._count += 1

    def catch_up(self, until_ns: int) -> None:
        """Let the ticks before a time happen, all of which find the same and change nothing."""
        if not self.folding or self.next_ns >= until_ns:
            return
        ticks = -(-(until_ns - self.next_ns) // self.period_ns)
        if self._count == 0:
            self._first_ns = self.next_ns
        self._count += ticks
        self.next_ns += ticks * self.period_ns
        self.count(self._fold[0], ticks)
        if self._fold[0] != "error":
            self.worker.result_run += ticks

    def skip(self, now_ns: int) -> None:
        """Ticks of the past, at which nothing was executed, are over."""
        if self.next_ns < now_ns:
            self.next_ns += -(-(now_ns - self.next_ns) // self.period_ns) * self.period_ns

    def tick(self, found: Found) -> ProbeExecuted:
        """The record of one tick."""
        return ProbeExecuted(
            **self.pod.identity,
            container=self.key[1],
            container_id=self.worker.container_id.partition("://")[2],
            probe_type=self.probe_type,
            result=found[0],
            output=found[1] or None,
            handler=self._handler_of(found),
        )

    def _handler_of(self, found: Found) -> Handler | None:
        """How a tick probed; None where none of the kubelet's handlers ends so.

        Source: v1.36.2 pkg/probe/exec/exec.go, http/http.go, tcp/tcp.go: unknown has an error.
        """
        return None if found[0] == "unknown" else self.handler

    def transition(
        self,
        container_id: str,
        before: ProbeResult,
        after: ProbeResult,
        run: int | None,
        *,
        inferred: bool,
    ) -> ProbeTransitioned:
        """The record of a change; ``run``: ticks that led to it, None when none did."""
        spec = self.worker.spec
        threshold = spec.failure_threshold if after == "failure" else spec.success_threshold
        return ProbeTransitioned(
            **self.pod.identity,
            container=self.key[1],
            container_id=container_id.partition("://")[2],
            probe_type=self.probe_type,
            from_result=before,
            to_result=after,
            run=run,
            threshold=None if run is None else threshold,
            inferred=inferred,
        )

    def counters(self) -> ProbeCountersRead:
        """The record of its counts."""
        return ProbeCountersRead(
            **self.pod.identity,
            container=self.key[1],
            probe_type=self.probe_type,
            successful=self.successful,
            failed=self.failed,
        )

    def unfold(self) -> ProbeTicksFolded | None:
        """What was gathered; None when nothing."""
        if self._count == 0:
            return None
        count, self._count = self._count, 0
        return ProbeTicksFolded(
            **self.pod.identity,
            container=self.key[1],
            container_id=self.worker.container_id.partition("://")[2],
            probe_type=self.probe_type,
            result=self._fold[0],
            output=self._fold[1] or None,
            handler=self._handler_of(self._fold),
            count=count,
            first_ts_ns=self._first_ns,
            last_ts_ns=self._first_ns + (count - 1) * self.period_ns,
            period_ns=self.period_ns,
        )

    def folds_until(self, change_ns: int | None) -> int | None:
        """The last tick that can be gathered before a change; None when the next one cannot.

        Args:
            change_ns: when the probe begins to find something else; None: never.
        """
        last_ns = self.next_ns + FOLD_MAX_NS
        if change_ns is not None:
            last_ns = min(last_ns, change_ns - 1)
        if last_ns < self.next_ns:
            return None
        return self.next_ns + (last_ns - self.next_ns) // self.period_ns * self.period_ns
