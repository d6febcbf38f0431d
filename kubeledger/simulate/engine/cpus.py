"""The CPU manager of a simulated kubelet."""

from __future__ import annotations

from kubeledger.kubelet.cgroups.node_config import reservation_of, reserved_amount
from kubeledger.kubelet.cpumanager.cpu_manager import Configuration, Manager, configuration_of
from kubeledger.kubelet.cpumanager.policy_static import STATIC
from kubeledger.kubelet.cpumanager.topology import places_of
from kubeledger.kubelet.kube.cpuset import CPUSet, text_of
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.model.bodies.cpumanager import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpusAllocated,
    CpusReleased,
)
from kubeledger.simulate.engine.alignment import Names, Nodes, ResourceLoop, Telling
from kubeledger.simulate.engine.config import duration_ns
from kubeledger.simulate.engine.kubelet import Simulation
from kubeledger.simulate.engine.machine import machine_info

_RECONCILES_NS = 50_000_000
"""When it first looks for what is stale: between two relists."""


def configuration(sim: Simulation) -> Configuration:
    """What a CPU manager is made of here."""
    reserved = reserved_amount("cpu", reservation_of(sim.setting))
    return configuration_of(sim.setting, machine_info(sim.plan.node), reserved)


class _Manager(Telling[CPUSet], Manager):
    """A manager that writes down how it begins, and what it takes back."""

    def __init__(self, sim: Simulation) -> None:
        self.listen(sim)
        super().__init__(configuration(sim), sim.profile, sim.cpu_manager_state)

    def restored(self) -> None:
        """The state file is read."""
        policy, state, sim = self.policy, self.state, self.sim
        facts, machine = sim.profile.resourcemanagers, machine_info(sim.plan.node)
        is_empty = not state.default and not state.assignments
        body = CpuManagerStarted(
            policy=STATIC,
            reserved_cpu_set=text_of(policy.reserved),
            cpus=places_of(machine, with_caches=facts.prefer_uncore_option),
            options=policy.options.logged,
            default_cpu_set=text_of(policy.accounted if is_empty else state.default),
            restored=sim.cpu_manager_state is not None,
        )
        sim.journal.write(body)

    def released(self, names: Names, had: CPUSet) -> CpusReleased:
        """CPUs went back to the shared pool."""
        pool = text_of(self.state.default)
        return CpusReleased(**names, cpu_set=text_of(had), default_cpu_set=pool)

    def failed(
        self, names: Names, pod: Pod, container: Container, nodes: Nodes, error: str
    ) -> CpuAllocationFailed:
        """There are too few CPUs."""
        requested = self.policy.guaranteed.of_container(pod, container)
        return CpuAllocationFailed(**names, requested=requested, numa_nodes=nodes, error=error)

    def given(self, names: Names, nodes: Nodes, got: CPUSet) -> CpusAllocated:
        """A container has CPUs alone."""
        return CpusAllocated(
            **names,
            cpu_set=text_of(got),
            requested=got.bit_count(),
            numa_nodes=nodes,
            default_cpu_set=text_of(self.state.default),
        )


class CpuLoop(ResourceLoop[_Manager]):
    """CPUs of one kubelet process."""

    def start(self) -> None:
        """Read the state file, and look for what is stale again and again.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go Start
        """
        if self.sim.setting("cpuManagerPolicy") != STATIC:
            return
        self.manager = _Manager(self.sim)
        self.save()
        period_ns = duration_ns(self.sim.settings, "cpuManagerReconcilePeriod", "10s")
        self.kubelet.every(period_ns, self._reconcile, first_ns=_RECONCILES_NS)

    def save(self) -> None:
        """Write the state file."""
        if self.manager is not None:
            self.sim.cpu_manager_state = self.manager.state_file

    def _reconcile(self) -> None:
        with self.ready(None) as manager:
            if manager is not None:
                manager.remove_stale_state()
