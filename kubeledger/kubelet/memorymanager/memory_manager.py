"""The memory manager around its policy: start, calls of the kubelet, and what it cleans up.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go
Differs: a kubelet before 1.25 (1.24 in its first releases) left containers without memory in its
    container map, which cannot show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubeledger.kubelet.kube.containermap import ContainerMap, ContainerRef
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.memorymanager.machine import Block, NUMANode, NUMANodeMap, State
from kubeledger.kubelet.memorymanager.policy_static import StaticPolicy
from kubeledger.kubelet.memorymanager.reserved import MemoryReservation, get_system_reserved_memory
from kubeledger.kubelet.memorymanager.validate import get_default_machine_state, validate_state
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.hint import Hints, TopologyHint
from kubeledger.kubelet.topologymanager.resource_manager import ResourceManager, runs_on


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet process knows of its memory before it looks at a state file."""

    nodes: Sequence[NUMANode]
    reservation: ResourceList
    reserved: Sequence[MemoryReservation]


class Manager(ResourceManager):
    """One kubelet process's memory manager.

    Attributes:
        state: what its state file holds.
    """

    def __init__(self, profile: KubeletProfile) -> None:
        self.policy = StaticPolicy(profile)
        super().__init__(self.policy.requested)
        self.state = State()

    def start(
        self,
        machine: NUMANodeMap,
        stored: State | None,
        initial: Mapping[str, ContainerRef],
    ) -> None:
        """Start from what the state file holds.

        Args:
            machine: by the settings, with nothing given to containers.
            stored: None: there is no file.
            initial: ID -> pod UID and container, of what the runtime lists.

        Raises:
            MemoryManagerError: the file does not fit the machine.
            KubeletPanicError: the kubelet crashes over it.
        """
        self.containers = ContainerMap(initial)
        self.state = State() if stored is None else stored
        validate_state(self.state, machine, self.facts, self.order)

    def copy(self) -> Manager:
        """A manager of the same memory."""
        other = Manager(self.policy.profile)
        other.policy.reusable = {
            uid: {mask: dict(sizes) for mask, sizes in by_mask.items()}
            for uid, by_mask in self.policy.reusable.items()
        }
        other.state = self.state.clone()
        other.active_pods, other.sources_ready = self.active_pods, self.sources_ready
        other.containers, other.pending = ContainerMap(self.containers), self.pending
        return other

    def memory(self) -> tuple[object, ...]:
        """All that later calls depend on."""
        return self.state, self.policy.reusable, self.containers, self.pending

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container memory before its pod is admitted.

        Raises:
            AllocationError, KubeletPanicError: as the policy's ``allocate``.
        """
        self.begin(pod)
        self.policy.allocate(self.state, pod, container, affinity)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod with resources of its own memory as a whole.

        Raises:
            AllocationError, KubeletPanicError: as the policy's ``allocate_pod``.
        """
        self.remove_stale_state()
        self.policy.allocate_pod(self.state, pod, affinity, self.order)

    def get_topology_hints(self, pod: Pod, container: Container) -> dict[str, Hints] | None:
        """Hints for a container; what is stale goes first."""
        self.begin(pod)
        return self.policy.get_topology_hints(self.state, pod, container)

    def get_pod_topology_hints(self, pod: Pod) -> dict[str, Hints] | None:
        """Hints for a pod; what is stale goes first."""
        self.begin(pod)
        return self.policy.get_pod_topology_hints(self.state, pod)

    def get_memory_numa_nodes(self, pod: str, container: str) -> list[int] | None:
        """The nodes of a container's memory; None where it has none."""
        blocks = self.state.blocks(pod, container) or ()
        return sorted({node for block in blocks for node in block.numa_nodes}) or None

    def add_container(self, pod: Pod, container: Container, container_id: str) -> None:
        """A container is created: init containers before it are done, but for sidecars."""
        uid = pod.metadata.uid or ""
        self.containers[container_id] = (uid, container.name or "")
        if not self.facts.init_memory_reused:
            return
        for init in pod.spec.init_containers or ():
            if init.name == container.name:
                break
            if not runs_on(init, self.facts):
                self.forget((uid, init.name or ""))

    def remove_container(self, container_id: str) -> None:
        """A container is removed; an ID that is not known does nothing."""
        if container_id in self.containers:
            self.forget(self.containers[container_id])

    @property
    def held(self) -> dict[str, dict[str, list[Block]]]:
        """Blocks by pod UID and container."""
        return self.state.entries

    def take_back(self, ref: ContainerRef) -> None:
        """Take back what a container has."""
        self.policy.remove_container(self.state, *ref)

    def in_order(self, stale: list[ContainerRef]) -> Sequence[ContainerRef]:
        """Go's order of maps, where it can show.

        It cannot unless groups of nodes overlap: what one gives back is then counted on nodes that
        the other would have had it counted on.
        """
        blocks = (each for ref in stale for each in self.state.blocks(*ref) or ())
        groups = {frozenset(block.numa_nodes) for block in blocks}
        apart = sum(map(len, groups)) == len(frozenset().union(*groups))
        return stale if apart else self.order.of(stale)


def default_machine(settings: MachineSettings, order: MapOrder = FIRST_ORDER) -> NUMANodeMap:
    """The machine of a new manager, with nothing given to containers.

    Raises:
        MemoryManagerError: the settings do not fit the machine.

    Source: v1.36.2 memory_manager.go NewManager
    """
    nodes = [node.id for node in settings.nodes]
    kept = get_system_reserved_memory(nodes, settings.reservation, settings.reserved, order)
    return get_default_machine_state(settings.nodes, kept)
