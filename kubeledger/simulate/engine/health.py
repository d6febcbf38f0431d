"""What keeps a node from being ready or from saying so; and its shutdown.

Nothing of it runs in a scenario in which none of the three fails.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kubeledger.kubelet.kube.gotexts import aggregate
from kubeledger.kubelet.lifecycle.stages import network_error
from kubeledger.kubelet.lifecycle.termination import (
    NOT_ADMITTED,
    STATUS,
    shutdown_grace_s,
    shutdown_group,
    shutdown_groups,
)
from kubeledger.model.bodies.node import NodeConditionChanged, ShutdownProgressed
from kubeledger.model.units import NS_PER_MS, NS_PER_S, format_go_duration
from kubeledger.simulate.engine.ending import Ending
from kubeledger.simulate.engine.kubelet import Kubelet, Loop, Part, Steps, at_most, run
from kubeledger.simulate.engine.machine import duration_ns, integer
from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.engine.schedule import Action

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim
    from kubeledger.simulate.engine.worker import PodWorker

_TRIES = 5
_RUNTIME_PERIOD_NS, _RUNTIME_THRESHOLD_NS = 5 * NS_PER_S, 30 * NS_PER_S
_RELIST_THRESHOLD_NS = 180 * NS_PER_S
_SKIP_NS = (100 * NS_PER_MS, 5 * NS_PER_S)
_LEASE_NS = (200 * NS_PER_MS, 7 * NS_PER_S)
_REFLECTOR_NS = (800 * NS_PER_MS, 30 * NS_PER_S)
_PERMILLE = 1000
_DETECTED = "Shutdown manager detected new shutdown event, isNodeShuttingDownNow"
_OF_NODE: tuple[Failing, ...] = ("runtime", "network", "apiServer")


class HealthLoop(Loop):
    """What one kubelet process finds of its runtime, and writes to its node's status and lease.

    Attributes:
        network_error: why pods without the host's network are not started; None: they are.

    Source: v1.36.2 pkg/kubelet/kubelet.go updateRuntimeUp, syncLoop; runtime.go runtimeErrors;
        kubelet_node_status.go tryUpdateNodeStatus; nodestatus/setters.go ReadyCondition;
        component-helpers/apimachinery/lease/controller.go sync; v1.20.2
    Differs: the node is ready at the start. Statistics, images and exec probes do not miss the
        runtime, and a kubelet that starts without it waits for it like one that lost it.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self.network_error: str | None = None
        self._answered_ns = self._reported_ns = self._clock.now_ns
        self._ready = True
        self._skips = self._renews = False

    def start(self) -> None:
        """Begin to look, if there will be anything to see."""
        sim, settings = self._sim, self._sim.settings
        if not any(sim.failures.of(what) for what in _OF_NODE):
            return
        self._look()
        self._kubelet.every(_RUNTIME_PERIOD_NS, self._look)
        status_ns = duration_ns(settings, "nodeStatusUpdateFrequency", "10s")
        self._kubelet.every(status_ns, self._write_status)
        lease_s = integer(settings, "nodeLeaseDurationSeconds", 40)
        self._kubelet.every(lease_s * NS_PER_S // 4, self._renew)

    # -- the runtime and its network -------------------------------------------------------

    def _look(self) -> None:
        sim, told = self._sim, self._kubelet.told
        down = sim.failures.words("runtime")
        if down is not None:
            told.trouble("runtime_down", down)
            if not self._skips:
                self._skips = True
                wait_ns = self._answered_ns + _RUNTIME_THRESHOLD_NS - sim.schedule.now_ns
                self._kubelet.after(wait_ns, lambda: self._kubelet.pods.loop.put(self._skip))
            return
        told.works("runtime_down")
        self._answered_ns = sim.schedule.now_ns
        words = sim.failures.words("network")
        if words is None:
            self.network_error = None
            told.works("network_not_ready")
        else:
            self.network_error = network_error(sim.profile.stages, words)
            told.trouble("network_not_ready", words)

    def _errors(self) -> list[str]:
        """Why no pods are synced."""
        now_ns, found = self._clock.now_ns, []
        if now_ns - self._answered_ns >= _RUNTIME_THRESHOLD_NS:
            found.append("container runtime is down")
        if (pleg := self._pleg_error()) is not None:
            found.append(pleg)
        return found

    def _pleg_error(self) -> str | None:
        ago_ns = self._clock.now_ns - self._kubelet.pods.pleg.listed_ns()
        if ago_ns <= _RELIST_THRESHOLD_NS:
            return None
        threshold = format_go_duration(_RELIST_THRESHOLD_NS)
        ago = format_go_duration(ago_ns)
        return f"PLEG is not healthy: pleg was last seen active {ago} ago; threshold is {threshold}"

    def _skip(self) -> Steps:
        """The sync loop stands still as long as there are errors."""
        told, (wait_ns, longest_ns) = self._kubelet.told, _SKIP_NS
        while errors := self._errors():
            told.trouble("sync_skipped", aggregate(errors), same=str(len(errors)))
            if (pleg := self._pleg_error()) is not None:
                told.trouble("pleg_unhealthy", pleg)
            yield wait_ns
            wait_ns = min(2 * wait_ns, longest_ns)
        self._skips = False
        told.works("sync_skipped")
        told.works("pleg_unhealthy")

    # -- the node's status and lease -------------------------------------------------------

    def _write_status(self) -> None:
        sim, told, now_ns = self._sim, self._kubelet.told, self._clock.now_ns
        errors = [*self._errors(), *([self.network_error] if self.network_error else [])]
        changed = self._ready == bool(errors)
        often_ns = duration_ns(sim.settings, "nodeStatusReportFrequency", "5m")
        is_due = changed or now_ns - self._reported_ns >= often_ns
        if (words := sim.failures.words("apiServer")) is not None:
            for _ in range(
                _TRIES if is_due or not sim.profile.stages.status_read_from_lister else 0
            ):
                told.trouble("status_update_failed", words)
            return
        told.works("status_update_failed")
        if is_due:
            self._reported_ns = now_ns
        if changed:
            self._ready = not errors
            ready = "kubelet is posting ready status"
            sim.journal.write(
                NodeConditionChanged(
                    condition="Ready",
                    status="False" if errors else "True",
                    reason="KubeletNotReady" if errors else "KubeletReady",
                    message=aggregate(errors) if errors else ready,
                    transition_ts_ns=now_ns,
                )
            )

    def _renew(self) -> None:
        if not self._renews:
            self._renews = True
            run(self._kubelet, self._renewal(), self._renewed)

    def _renewed(self) -> None:
        self._renews = False

    def _renewal(self) -> Steps:
        """When the lease cannot be updated the kubelet tries to get it, until that succeeds."""
        wait_ns, longest_ns = _LEASE_NS
        while (words := self._sim.failures.words("apiServer")) is not None:
            self._kubelet.told.trouble("lease_update_failed", words)
            yield wait_ns
            wait_ns = min(2 * wait_ns, longest_ns)
        self._kubelet.told.works("lease_update_failed")


class ApiServer(Part):
    """The kubelets' connection to the API server: what comes from it waits while it is gone.

    Source: v1.36.2 client-go/tools/cache/reflector.go, of the pods alone; v1.20.2
    """

    def __init__(self, sim: Sim) -> None:
        super().__init__(sim)
        self._gone = False
        self._waiting: deque[Action] = deque()
        self._jitter = sim.draws.stream("reflector")
        for each in sim.failures.of("apiServer"):
            sim.schedule.at(sim.plan.start_ns + each.from_ns, lambda: self._again(_REFLECTOR_NS[0]))

    def when_there(self, action: Action) -> None:
        """Do something now, or when the API server is there again."""
        if self._gone:
            self._waiting.append(action)
        else:
            action()

    def _again(self, wait_ns: int) -> None:
        sim, kubelet = self._sim, self._sim.running_kubelet()
        words = sim.failures.words("apiServer")
        self._gone = words is not None
        if words is None:
            if kubelet is not None:
                kubelet.told.works("api_unreachable")
            while self._waiting:
                self._waiting.popleft()()
            return
        if kubelet is not None:
            kubelet.told.trouble("api_unreachable", words)
        drawn_ns = wait_ns * self._jitter.below(_PERMILLE) // _PERMILLE
        longer_ns = min(2 * wait_ns, _REFLECTOR_NS[1])
        sim.schedule.after(wait_ns + drawn_ns, lambda: self._again(longer_ns))


# The kubelet's shutdown manager: while the node shuts down pods are stopped, and none admitted.


class ShutdownLoop(Loop):
    """What one kubelet process does about a shutdown; the node stays up when it is done."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self._facts = kubelet.sim.profile.lifecycle
        self._groups = shutdown_groups(kubelet.sim.settings, self._facts)
        self._shuts_down = False

    def begin(self) -> None:
        """The node is about to shut down; a kubelet that was given no time does nothing.

        Source: v1.36.2 pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go start
        """
        if self._groups and not self._shuts_down:
            self._shuts_down = True
            self._kubelet.sim.journal.write(ShutdownProgressed(step="detected", message=_DETECTED))
            run(self._kubelet, self._stop_pods())

    def refusal(self) -> tuple[str, str] | None:
        """Reason and message with which pods are refused now.

        Source: v1.36.2 pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go Admit
        """
        return NOT_ADMITTED if self._shuts_down else None

    def _stop_pods(self) -> Steps:
        """Group after group; before 1.23 critical pods get their turn when the others' is over.

        Source: v1.36.2 pkg/kubelet/nodeshutdown/nodeshutdown_manager.go killPods
        Differs: a pod that is being stopped already keeps its time.
        """
        sim, pods = self._sim, self._kubelet.pods
        members: list[list[tuple[PodWorker, int]]] = [[] for _ in self._groups]
        for pod in sim.world.active_pods():
            index = shutdown_group(self._groups, pod.api, self._facts)
            grace_s = shutdown_grace_s(self._groups[index], pod.api)
            members[index].append((pods.worker(pod), grace_s))
        reason, message = STATUS
        for group, each in zip(self._groups, members, strict=True):
            until_ns = sim.schedule.now_ns + group.seconds * NS_PER_S
            for worker, grace_s in each:
                worker.end(
                    Ending(
                        reason="node_shutdown",
                        grace_s=grace_s,
                        status_reason=reason,
                        status_message=message,
                        keeps_phase=self._facts.shutdown_keeps_phase,
                    )
                )
            if not self._facts.shutdown_groups_in_turn:
                yield max(until_ns - sim.schedule.now_ns, 0)
                continue
            for worker, _ in each:
                left_ns = until_ns - sim.schedule.now_ns
                if left_ns > 0:
                    yield at_most(self._kubelet, left_ns, worker.when_ended)
