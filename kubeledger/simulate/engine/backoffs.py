"""The restart back-offs of one kubelet process."""

from __future__ import annotations

from kubeledger.kubelet.kuberuntime.backoff import (
    BackedOff,
    back_off_policy,
    do_back_off,
    restart_backoff,
)
from kubeledger.model.bodies.lifecycle import RestartBackedOff
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.instances import Instance
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.world import SimContainer, SimPod

_HOUSEKEEPING_NS = 2 * NS_PER_S


class BackOffs:
    """What a kubelet process remembers of restarts."""

    def __init__(self, kubelet: Kubelet) -> None:
        sim = kubelet.sim
        configured = sim.setting("crashLoopBackOff") or {}
        policy = back_off_policy(
            sim.profile.kuberuntime,
            sim.setting("featureGates") or {},
            configured.get("maxContainerRestartPeriod") or "300s",
        )
        assert policy is not None
        self._kubelet = kubelet
        self._backoff = restart_backoff(policy, sim.profile.kuberuntime)

    def hold(self, pod: SimPod, container: str, exited: Instance | None) -> BackedOff | None:
        """Hold the start of a container back, or (None) count it; see ``do_back_off``.

        Args:
            exited: its newest instance that ended, as listed before the sync.
        """
        now_ns, started_ns = self._kubelet.sim.schedule.now_ns, self._kubelet.started_ns
        # Only the last housekeeping matters: it dropped all that those before it did.
        self._backoff.gc(now_ns - (now_ns - started_ns) % _HOUSEKEEPING_NS)
        return do_back_off(
            self._backoff,
            # Another image is another container; resources do not change here.
            (pod.uid, container, pod.image(container)),
            container,
            f"{pod.name}_{pod.namespace}({pod.uid})",
            None if exited is None else exited.finished_ns,
            now_ns,
        )

    def write(self, pod: SimPod, container: SimContainer, held: BackedOff) -> None:
        """Record that a start was delayed, and send its event."""
        sim, newest = self._kubelet.sim, container.container_id
        self._kubelet.recorder.spend(pod, 1)
        died, killed = sim.runtime.died.get(newest), sim.runtime.killed.get(newest)
        sim.journal.write(
            RestartBackedOff(
                **pod.identity,
                container=container.name,
                back_off_s=held.value_ns // NS_PER_S,
            ),
            cause=died if died is not None else None if killed is None else killed.seq,
        )
