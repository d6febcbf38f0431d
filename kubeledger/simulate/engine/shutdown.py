"""The kubelet's shutdown manager: while the node shuts down pods are stopped, and none admitted."""

from __future__ import annotations

from kubeledger.kubelet.lifecycle.termination import (
    NOT_ADMITTED,
    STATUS,
    shutdown_grace_s,
    shutdown_group,
    shutdown_groups,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.ending import Ending
from kubeledger.simulate.engine.kubelet import Kubelet, Worker
from kubeledger.simulate.engine.routine import Steps, first_of, run, timeout


class ShutdownLoop:
    """What one kubelet process does about a shutdown; the node stays up when it is done."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._facts = kubelet.sim.profile.lifecycle
        self._groups = shutdown_groups(kubelet.sim.settings, self._facts)
        self._shuts_down = False

    def begin(self) -> None:
        """The node is about to shut down; a kubelet that was given no time does nothing."""
        if self._groups and not self._shuts_down:
            self._shuts_down = True
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
        sim, pods = self._kubelet.sim, self._kubelet.pods
        members: list[list[tuple[Worker, int]]] = [[] for _ in self._groups]
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
                    yield first_of(worker.when_ended, timeout(self._kubelet, left_ns))
