"""The static memory manager of a kubelet process, followed from record to record.

Its machine is that of a state file, or, where there was none, of the first one that is read: what
is there, reserved and allocatable stays as long as the process runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kubelet.kube.admission import AllocationError
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.memorymanager.checkpoint import machine_of, recorded_state
from kubeledger.kubelet.memorymanager.hints import KubeletPanicError
from kubeledger.kubelet.memorymanager.machine import State
from kubeledger.kubelet.memorymanager.memory_manager import Manager
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.bitmask import mask_of
from kubeledger.kubelet.topologymanager.hint import Hints, TopologyHint
from kubeledger.model.bodies.memorymanager import MemoryManagerStateRead, NUMANodeMemory


class FollowedMemory:
    """What the manager holds, as long as every record fits it; nothing is known otherwise."""

    def __init__(self) -> None:
        self._manager: Manager | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is known what the manager holds."""
        return self._manager is not None

    def forget(self) -> None:
        """Nothing is known any more."""
        self._manager = None

    def restart(self) -> None:
        """A new process has what the file keeps, and not what init containers left to reuse."""
        if self._manager is not None:
            self._manager.policy.reusable.clear()

    def begin(self, profile: KubeletProfile, nodes: Mapping[str, NUMANodeMemory]) -> None:
        """Nobody has anything of these nodes."""
        self._manager = Manager(profile)
        self._manager.state = State(machine=machine_of(nodes, empty=True))

    def adopt(self, profile: KubeletProfile, body: MemoryManagerStateRead) -> None:
        """The manager holds what a state file shows."""
        reusable = {} if self._manager is None else self._manager.policy.reusable
        self._manager = Manager(profile)
        self._manager.state = recorded_state(body)
        self._manager.policy.reusable = reusable

    def would_give(
        self, pod: Pod, container: Container, affinity: TopologyHint
    ) -> tuple[int, ...] | str:
        """NUMA nodes of which a container would get memory, or why it would get none.

        Raises:
            ValueError: nothing is known of the machine.
        """
        if self._manager is None:
            raise ValueError("nothing is known of the machine")
        return _given(self._manager.copy(), pod, container, affinity)

    def hints(self, pod: Pod, container: Container | None) -> Mapping[str, Hints] | None:
        """Hints for a container, or for a pod as a whole; None where the kubelet crashes.

        Raises:
            ValueError: nothing is known of the machine.
        """
        if self._manager is None:
            raise ValueError("nothing is known of the machine")
        policy, state = self._manager.policy, self._manager.state
        try:
            if container is None:
                return policy.get_pod_topology_hints(state, pod) or {}
            return policy.get_topology_hints(state, pod, container) or {}
        except KubeletPanicError:
            return None

    def give(self, pod: Pod, container: Container, nodes: frozenset[int]) -> None:
        """A container got memory of these nodes."""
        if self._manager is not None:
            affinity = TopologyHint(mask_of(nodes), preferred=False)
            if _given(self._manager, pod, container, affinity) != tuple(sorted(nodes)):
                self.forget()

    def take_back(self, pod: str, container: str) -> None:
        """A container gave back what it had."""
        if self._manager is not None:
            try:
                self._manager.policy.remove_container(self._manager.state, pod, container)
            except KubeletPanicError:
                self.forget()


def _given(
    manager: Manager, pod: Pod, container: Container, affinity: TopologyHint
) -> tuple[int, ...] | str:
    try:
        manager.policy.allocate(manager.state, pod, container, affinity)
    except AllocationError as error:
        return str(error)
    except KubeletPanicError as error:
        return f"the kubelet crashes: {error}"
    uid, name = pod.metadata.uid or "", container.name or ""
    return tuple(manager.get_memory_numa_nodes(uid, name) or ())
