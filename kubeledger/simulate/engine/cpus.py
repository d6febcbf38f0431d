"""The CPU manager of a simulated kubelet."""

from __future__ import annotations

from typing import Any

from kubeledger.kubelet.cgroups.node_config import reservation_of, reserved_amount
from kubeledger.kubelet.cpumanager.cpu_manager import Configuration, Manager, configuration_of
from kubeledger.kubelet.cpumanager.policy_static import STATIC
from kubeledger.kubelet.cpumanager.topology import places_of
from kubeledger.kubelet.kube.admission import AllocationError
from kubeledger.kubelet.kube.containermap import ContainerRef
from kubeledger.kubelet.kube.cpuset import text_of
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.kubelet.topologymanager.hint import ProviderHints, TopologyHint
from kubeledger.model.bodies.cpumanager import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpusAllocated,
    CpusReleased,
)
from kubeledger.simulate.engine.config import duration_ns
from kubeledger.simulate.engine.kubelet import Kubelet, Simulation
from kubeledger.simulate.engine.machine import machine_info

_RECONCILES_NS = 50_000_000
"""When it first looks for what is stale: between two relists."""


def configuration(sim: Simulation) -> Configuration:
    """What a CPU manager is made of here."""
    reserved = reserved_amount("cpu", reservation_of(sim.setting))
    return configuration_of(sim.setting, machine_info(sim.plan.node), reserved)


class _Manager(Manager):
    """A manager that writes down how it begins, and what it takes back."""

    def __init__(self, sim: Simulation) -> None:
        self._sim, self._journal = sim, sim.journal
        self.names = {uid: (pod.namespace, pod.name) for uid, pod in sim.world.pods.items()}
        super().__init__(configuration(sim), sim.profile, sim.cpu_manager_state)

    def restored(self) -> None:
        """The state file is read."""
        policy, state, facts = self.policy, self.state, self._sim.profile.resourcemanagers
        machine = machine_info(self._sim.plan.node)
        is_empty = not state.default and not state.assignments
        body = CpuManagerStarted(
            policy=STATIC,
            reserved_cpu_set=text_of(policy.reserved),
            cpus=places_of(machine, with_caches=facts.prefer_uncore_option),
            options=policy.options.logged,
            default_cpu_set=text_of(policy.accounted if is_empty else state.default),
            restored=self._sim.cpu_manager_state is not None,
        )
        self._journal.write(body)

    def release(self, ref: ContainerRef) -> None:
        """Take back what a container has."""
        cpus = self.state.get(*ref)
        super().release(ref)
        if cpus is None:
            return
        namespace, pod = self.names.get(ref[0], (None, None))
        body = CpusReleased(
            namespace=namespace,
            pod=pod,
            pod_uid=ref[0],
            container=ref[1],
            cpu_set=text_of(cpus),
            default_cpu_set=text_of(self.state.default),
        )
        self._journal.write(body)
        if ref[0] not in self.state.assignments:
            self.names.pop(ref[0], None)


class CpuLoop:
    """CPUs of one kubelet process; a hint provider of its topology manager.

    With policy ``none`` there is nothing to do, and nothing is recorded.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._sim = kubelet.sim
        self._manager: _Manager | None = None

    def start(self) -> None:
        """Read the state file, and look for what is stale again and again.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go Start
        """
        if self._sim.setting("cpuManagerPolicy") != STATIC:
            return
        self._manager = _Manager(self._sim)
        self._save()
        period_ns = duration_ns(self._sim.settings, "cpuManagerReconcilePeriod", "10s")
        self._kubelet.every(period_ns, self._reconcile, first_ns=_RECONCILES_NS)

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """Of a container."""
        manager = self._ready(pod)
        return None if manager is None else manager.get_topology_hints(pod, container)

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        """Of the pod."""
        manager = self._ready(pod)
        return None if manager is None else manager.get_pod_topology_hints(pod)

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container its CPUs, if it gets any alone.

        Raises:
            AllocationError: there are too few.
        """
        manager = self._ready(pod)
        if manager is None:
            return
        names: dict[str, Any] = {
            "namespace": pod.metadata.namespace,
            "pod": pod.metadata.name,
            "pod_uid": pod.metadata.uid,
            "container": container.name,
        }
        uid, name = pod.metadata.uid or "", container.name or ""
        before, journal = manager.state.get(uid, name), self._sim.journal
        nodes = None if affinity.affinity is None else tuple(bits_of(affinity.affinity))
        manager.names[uid] = pod.metadata.namespace or "", pod.metadata.name or ""
        try:
            manager.allocate(pod, container, affinity.affinity)
        except AllocationError as error:
            requested = manager.policy.guaranteed.of_container(pod, container)
            failed = CpuAllocationFailed(
                **names, requested=requested, numa_nodes=nodes, error=str(error)
            )
            journal.write(failed)
            raise
        finally:
            self._save()
        cpus = manager.state.get(uid, name)
        if cpus is not None and before is None:
            journal.write(
                CpusAllocated(
                    **names,
                    cpu_set=text_of(cpus),
                    requested=cpus.bit_count(),
                    numa_nodes=nodes,
                    default_cpu_set=text_of(manager.state.default),
                )
            )

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod as a whole its CPUs, which only the state file shows.

        Raises:
            AllocationError: there are too few.
        """
        manager = self._ready(pod)
        if manager is not None:
            try:
                manager.allocate_pod(pod, affinity.affinity)
            finally:
                self._save()

    def _ready(self, pod: Pod | None) -> _Manager | None:
        """The manager, told of what it asks the kubelet for; ``pod`` is being admitted."""
        manager, world = self._manager, self._sim.world
        if manager is None:
            return None
        manager.sources_ready = self._kubelet.pods.sources_ready
        active = {each.uid: each.api for each in world.active_pods()}
        if pod is not None:
            active[pod.metadata.uid or ""] = pod
        manager.active_pods = tuple(active.values())
        return manager

    def _reconcile(self) -> None:
        manager = self._ready(None)
        if manager is not None:
            manager.remove_stale_state()
            self._save()

    def _save(self) -> None:
        assert self._manager is not None
        self._sim.cpu_manager_state = self._manager.state_file
