"""The memory manager of a simulated kubelet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from kubeledger.kubelet.cgroups.node_config import node_reservation, reservation_of
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.memorymanager.checkpoint import STATIC, recorded, restore_state, state_file
from kubeledger.kubelet.memorymanager.machine import Block, NUMANode, State
from kubeledger.kubelet.memorymanager.memory_manager import (
    MachineSettings,
    Manager,
    default_machine,
)
from kubeledger.kubelet.memorymanager.reserved import MemoryReservation
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.memorymanager import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryManagerStarted,
    MemoryReleased,
)
from kubeledger.simulate.engine.alignment import Names, Nodes, ResourceLoop, Telling
from kubeledger.simulate.engine.draws import Draws
from kubeledger.simulate.engine.kubelet import Simulation
from kubeledger.simulate.engine.world import SimContainer, SimPod

T = TypeVar("T")


def machine_settings(
    memory_bytes: int,
    numa_nodes: Sequence[int],
    setting: Callable[[str], Any],
    profile: KubeletProfile,
) -> MachineSettings:
    """What a memory manager knows of a machine, whose nodes have equal parts of the memory.

    Raises:
        EvictionThresholdError: a hard threshold is none.
        QuantityError: an amount is none.
    """
    part, rest = divmod(memory_bytes, len(numa_nodes))
    nodes = [NUMANode(node, part + (rest if index == 0 else 0), ())
             for index, node in enumerate(numa_nodes)]  # fmt: skip
    capacity = {"memory": Quantity.of(memory_bytes)}
    kept = node_reservation(capacity, reservation_of(setting), profile.cgroups)
    return MachineSettings(
        nodes=nodes,
        reservation={name: str(amount) for name, amount in kept.items()},
        reserved=[
            MemoryReservation(int(entry["numaNode"]), entry.get("limits") or {})
            for entry in setting("reservedMemory") or ()
        ],
    )


class _Drawn(MapOrder):
    """Maps are walked from a slot on that is drawn."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def of(self, keys: Collection[T]) -> Sequence[T]:
        ordered = list(keys)
        start = self._draws.below(len(ordered)) if ordered else 0
        return ordered[start:] + ordered[:start]


class _Manager(Telling[list[Block]], Manager):
    """A manager that writes down what it takes back."""

    def __init__(self, sim: Simulation) -> None:
        self.listen(sim)
        super().__init__(sim.profile)

    def released(self, names: Names, had: list[Block]) -> MemoryReleased:
        """Memory is free again."""
        return MemoryReleased(**names)

    def failed(
        self, names: Names, pod: Pod, container: Container, nodes: Nodes, error: str
    ) -> MemoryAllocationFailed:
        """There is too little memory."""
        return MemoryAllocationFailed(**names, error=error)

    def given(self, names: Names, nodes: Nodes, got: list[Block]) -> MemoryAllocated:
        """A container has memory of NUMA nodes."""
        return MemoryAllocated(**names, affinity=nodes, blocks=recorded(got))


class NumaMemoryLoop(ResourceLoop[_Manager]):
    """Memory of NUMA nodes in one kubelet process."""

    _saved: State | None = None

    def start(self) -> None:
        """Read the state file.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go Start
        Differs: the file is not kept while the policy is None.
        """
        sim, facts, node = self.sim, self.sim.profile.resourcemanagers, self.sim.plan.node
        if sim.setting("memoryManagerPolicy") != STATIC or not facts.memory_manager_gate_on:
            return
        settings = machine_settings(node.memory_bytes, node.numa_nodes, sim.setting, sim.profile)
        text = sim.memory_manager_state
        manager = self.manager = _Manager(sim)
        manager.order = _Drawn(sim.draws.stream(f"memory manager {self.kubelet.run}"))
        running = {
            instance.container_id: (uid, instance.container or "")
            for uid in sim.runtime.pods()
            for instance in sim.runtime.instances(uid)
        }
        stored = None if text is None else restore_state(text, facts)
        manager.start(default_machine(settings), stored, running)
        sim.journal.write(MemoryManagerStarted(policy=STATIC, restored=text is not None))
        self.save()

    def container_created(self, pod: SimPod, container: SimContainer, container_id: str) -> None:
        """What init containers before it had is given back."""
        with self.ready(None) as manager:
            if manager is not None:
                spec = next(each for each in containers_of(pod.api) if each.name == container.name)
                manager.add_container(pod.api, spec, container_id)

    def save(self) -> None:
        """Write the state file, if what it holds has changed."""
        if self.manager is not None and self._saved != self.manager.state:
            self._saved = self.manager.state.clone()
            facts = self.sim.profile.resourcemanagers
            self.sim.memory_manager_state = state_file(self._saved, facts)
