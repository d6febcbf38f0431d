"""The memory manager of a simulated kubelet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kubeledger.kubelet.cgroups.node_config import node_reservation, reservation_of
from kubeledger.kubelet.kube.admission import AllocationError
from kubeledger.kubelet.kube.containermap import ContainerRef
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.memorymanager.checkpoint import STATIC, recorded, restore_state, state_file
from kubeledger.kubelet.memorymanager.machine import NUMANode, State
from kubeledger.kubelet.memorymanager.memory_manager import (
    MachineSettings,
    Manager,
    default_machine,
)
from kubeledger.kubelet.memorymanager.reserved import MemoryReservation
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.kubelet.topologymanager.hint import ProviderHints, TopologyHint
from kubeledger.model.bodies.memorymanager import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryManagerStarted,
    MemoryReleased,
)
from kubeledger.simulate.engine.draws import Draws
from kubeledger.simulate.engine.kubelet import Kubelet, Simulation
from kubeledger.simulate.engine.world import SimContainer, SimPod

T = TypeVar("T")
_Names = dict[str, tuple[str, str]]


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
        """The keys from there on."""
        ordered = list(keys)
        start = self._draws.below(len(ordered)) if ordered else 0
        return ordered[start:] + ordered[:start]


class _Manager(Manager):
    """A manager that writes down what it takes back."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__(sim.profile)
        self._journal = sim.journal
        self.names: _Names = {uid: (pod.namespace, pod.name) for uid, pod in sim.world.pods.items()}

    def release(self, ref: ContainerRef) -> None:
        """Take back what a container has."""
        had = self.state.blocks(*ref) is not None
        super().release(ref)
        if had:
            namespace, pod = self.names.get(ref[0], (None, None))
            self._journal.write(
                MemoryReleased(namespace=namespace, pod=pod, pod_uid=ref[0], container=ref[1])
            )
        if ref[0] not in self.state.entries:
            self.names.pop(ref[0], None)


class NumaMemoryLoop:
    """Memory of NUMA nodes in one kubelet process; a hint provider of its topology manager.

    With policy ``None`` there is nothing to do, and nothing is recorded.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._sim = kubelet.sim
        self._manager: _Manager | None = None
        self._saved: State | None = None

    def start(self) -> None:
        """Read the state file.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go Start
        Differs: the file is not kept while the policy is None.
        """
        sim, facts, node = self._sim, self._sim.profile.resourcemanagers, self._sim.plan.node
        if sim.setting("memoryManagerPolicy") != STATIC or not facts.memory_manager_gate_on:
            return
        settings = machine_settings(node.memory_bytes, node.numa_nodes, sim.setting, sim.profile)
        text = sim.memory_manager_state
        manager = self._manager = _Manager(sim)
        manager.order = _Drawn(sim.draws.stream(f"memory manager {self._kubelet.run}"))
        running = {
            instance.container_id: (uid, instance.container or "")
            for uid in sim.runtime.pods()
            for instance in sim.runtime.instances(uid)
        }
        stored = None if text is None else restore_state(text, facts)
        manager.start(default_machine(settings), stored, running)
        sim.journal.write(MemoryManagerStarted(policy=STATIC, restored=text is not None))
        self._save()

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """Of a container."""
        with self._ready(pod) as manager:
            return None if manager is None else manager.get_topology_hints(pod, container)

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        """Of the pod."""
        with self._ready(pod) as manager:
            return None if manager is None else manager.get_pod_topology_hints(pod)

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container its memory, if it gets any of NUMA nodes.

        Raises:
            AllocationError: there is too little.
        """
        names: dict[str, Any] = {
            "namespace": pod.metadata.namespace,
            "pod": pod.metadata.name,
            "pod_uid": pod.metadata.uid,
            "container": container.name,
        }
        uid, name = pod.metadata.uid or "", container.name or ""
        with self._ready(pod) as manager:
            if manager is None:
                return
            before = manager.state.blocks(uid, name)
            manager.names[uid] = pod.metadata.namespace or "", pod.metadata.name or ""
            try:
                manager.allocate(pod, container, affinity)
            except AllocationError as error:
                self._sim.journal.write(MemoryAllocationFailed(**names, error=str(error)))
                raise
            blocks = manager.state.blocks(uid, name)
        if blocks is not None and before is None:
            nodes = None if affinity.affinity is None else tuple(bits_of(affinity.affinity))
            given = MemoryAllocated(**names, affinity=nodes, blocks=recorded(blocks))
            self._sim.journal.write(given)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod as a whole its memory, which only the state file shows.

        Raises:
            AllocationError: there is too little.
        """
        with self._ready(pod) as manager:
            if manager is not None:
                manager.allocate_pod(pod, affinity)

    def container_created(self, pod: SimPod, container: SimContainer, container_id: str) -> None:
        """What init containers before it had is given back."""
        with self._ready(None) as manager:
            if manager is not None:
                spec = next(each for each in containers_of(pod.api) if each.name == container.name)
                manager.add_container(pod.api, spec, container_id)

    @contextmanager
    def _ready(self, pod: Pod | None) -> Iterator[_Manager | None]:
        """The manager, told of what it asks the kubelet for; ``pod`` is being admitted.

        What it changes is in its file then.
        """
        if self._manager is not None:
            self._manager.sources_ready = self._kubelet.pods.sources_ready
            self._manager.active_pods = self._sim.world.active_with(pod)
        try:
            yield self._manager
        finally:
            self._save()

    def _save(self) -> None:
        if self._manager is not None and self._saved != self._manager.state:
            self._saved = self._manager.state.clone()
            facts = self._sim.profile.resourcemanagers
            self._sim.memory_manager_state = state_file(self._saved, facts)
