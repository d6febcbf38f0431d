"""The static policy: memory of NUMA nodes for the containers of Guaranteed pods.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/policy_static.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.kubelet.kube.containermanager import AllocationError
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.memorymanager import hints as h
from kubeledger.kubelet.memorymanager.hints import Requested, RequestedMemory
from kubeledger.kubelet.memorymanager.machine import (
    UINT64,
    Block,
    NUMANodeMap,
    NUMANodeState,
    State,
)
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import Hints, TopologyHint, bits_of, mask_of
from kubeledger.kubelet.topologymanager.resource_manager import leaves_to_later, runs_on

Reusable = dict[str, dict[int, dict[str, int]]]
"""Pod UID -> mask of NUMA nodes -> type of memory -> bytes that init containers left."""


class StaticPolicy:
    """Gives memory to containers and takes it back.

    Attributes:
        reusable: memory of init containers that later ones of the pod may use again.
    """

    def __init__(self, profile: KubeletProfile) -> None:
        self.profile = profile
        self.facts = profile.resourcemanagers
        self.requested = RequestedMemory(profile)
        self.reusable: Reusable = {}

    def allocate(
        self, state: State, pod: Pod, container: Container, affinity: TopologyHint
    ) -> None:
        """Give a container what it requests; one that has an entry keeps it.

        Args:
            affinity: what the topology manager stored for the container.

        Raises:
            AllocationError: it does not fit.
            KubeletPanicError: the kubelet crashes.
        """
        if not self.requested.is_guaranteed(pod) or self.requested.is_skipped(pod):
            return
        uid, name = pod.metadata.uid or "", container.name or ""
        held = state.blocks(uid, name)
        if held is not None:
            self._update_pod_reusable_memory(pod, container, held)
            return
        requested = self.requested.of_container(pod, container)
        machine = _with_own_groups(state.machine)
        reusable = self._reusable_of(uid)
        best = h.best_affinity(machine, affinity, requested, reusable, self.facts)
        nodes = bits_of(best)
        blocks = [Block(nodes, of, size) for of, size in requested.items()]
        left = reusable.get(best) or {}
        for block in blocks:
            _take(machine, block, max(0, block.size_bytes - left.get(block.type, 0)))
        self._update_pod_reusable_memory(pod, container, blocks)
        state.machine = machine
        state.set_blocks(uid, name, blocks)
        if self.facts.init_memory_reused and pod.spec.init_containers:
            self._update_init_containers_memory_blocks(state, pod, container, blocks)

    def allocate_pod(
        self, state: State, pod: Pod, affinity: TopologyHint, order: MapOrder = FIRST_ORDER
    ) -> None:
        """Give a pod with resources of its own all of its memory, and each container its part.

        Raises:
            AllocationError: it does not fit, or leaves nothing for containers that share.
            KubeletPanicError: the kubelet crashes.
        """
        if not self.requested.is_guaranteed(pod):
            return
        uid, containers = pod.metadata.uid or "", containers_of(pod)
        try:
            total = self.requested.of_pod(pod)
        except AllocationError:
            return
        self.requested.validate_pod_scope_resources(pod, order)
        machine = _with_own_groups(state.machine)
        best = h.best_affinity(machine, affinity, total, self._reusable_of(uid), self.facts)
        nodes = bits_of(best)
        parts, shared = self._partition(pod, total, nodes)
        state.pod_entries[uid] = _blocks(total, nodes)
        for block in state.pod_entries[uid]:
            _take(machine, block, block.size_bytes)
        for container in containers:
            name = container.name or ""
            state.set_blocks(uid, name, list(parts.get(name, shared)))
        state.machine = machine

    def _partition(
        self, pod: Pod, total: Requested, nodes: list[int]
    ) -> tuple[dict[str, list[Block]], list[Block]]:
        """The blocks of exclusive and of init containers, and what the others share."""
        parts: dict[str, list[Block]] = {}
        left = dict(total)
        for container in pod.spec.init_containers or ():
            asked = self.requested.of_container(pod, container)
            stays = runs_on(container, self.facts)
            if asked or not stays:
                sizes = asked or {of: left[of] for of in total}
                parts[container.name or ""] = _blocks(sizes, nodes, empty=False)
            if stays:
                _subtract(left, asked)
        # What sidecars ask for beyond the pod's own types is nobody's.
        left = {of: left[of] for of in total}
        for container in pod.spec.containers or ():
            asked = self.requested.of_container(pod, container)
            if asked:
                parts[container.name or ""] = _blocks(asked, nodes, empty=False)
                _subtract(left, asked)
        return parts, _blocks(left, nodes, empty=False)

    def remove_container(self, state: State, pod: str, container: str) -> None:
        """Take back what a container has; of a pod as a whole, when its last one goes.

        Raises:
            KubeletPanicError: a node of its blocks is not there.
        """
        if self.facts.pod_level_managers and pod in state.pod_entries:
            state.delete(pod, container)
            if not state.entries.get(pod):
                _release(state.machine, state.pod_entries.pop(pod))
            return
        blocks = state.blocks(pod, container)
        if blocks is None:
            return
        state.delete(pod, container)
        _release(state.machine, blocks)

    def get_topology_hints(
        self, state: State, pod: Pod, container: Container
    ) -> dict[str, Hints] | None:
        """Where a container's request fits; None for no preference."""
        if not self.requested.is_guaranteed(pod):
            return None
        try:
            requested = self.requested.of_container(pod, container)
        except AllocationError:
            return None
        if self.requested.is_skipped(pod):
            return None
        uid = pod.metadata.uid or ""
        held = state.blocks(uid, container.name or "")
        if held is not None:
            return h.regenerate_hints(held, requested)
        return self._calculate_hints(state, uid, requested)

    def get_pod_topology_hints(self, state: State, pod: Pod) -> dict[str, Hints] | None:
        """The same for a pod as a whole; by the entry of its first container that has one."""
        if not self.requested.is_guaranteed(pod):
            return None
        try:
            requested = self.requested.of_pod(pod)
        except AllocationError:
            return None
        if self.requested.is_skipped(pod):
            return None
        if self.requested.is_managed_as_a_whole(pod):
            try:
                self.requested.validate_pod_scope_resources(pod)
            except AllocationError:
                return dict.fromkeys(requested, ())
        if self.facts.no_hints_without_requests and not requested:
            return None
        uid = pod.metadata.uid or ""
        for container in containers_of(pod):
            held = state.blocks(uid, container.name or "")
            if held is not None:
                return h.regenerate_hints(held, requested)
        return self._calculate_hints(state, uid, requested)

    def _calculate_hints(self, state: State, uid: str, requested: Requested) -> dict[str, Hints]:
        machine = _with_own_groups(state.machine)
        found = h.calculate_hints(machine, requested, self._reusable_of(uid), self.facts)
        return dict.fromkeys(requested, found) if found else {}

    def _reusable_of(self, uid: str) -> dict[int, dict[str, int]]:
        return self.reusable.get(uid) or {}

    def _update_pod_reusable_memory(
        self, pod: Pod, container: Container, blocks: Sequence[Block]
    ) -> None:
        """An init container leaves its memory to reuse, any other takes of it."""
        if not self.facts.init_memory_reused:
            return
        uid = pod.metadata.uid or ""
        if self.facts.reuse_ends_with_another_pod:
            self.reusable = {uid: self.reusable[uid]} if uid in self.reusable else {}
        elif self.reusable.keys() - {uid}:
            self.reusable.pop(uid, None)
        leaves = leaves_to_later(pod, container, self.facts)
        reusable = self.reusable.setdefault(uid, {}) if leaves else self._reusable_of(uid)
        for block in blocks if leaves or reusable else ():
            of_nodes = reusable.setdefault(mask_of(block.numa_nodes), {})
            left = of_nodes.get(block.type, 0)
            of_nodes[block.type] = (
                max(left, block.size_bytes) if leaves else max(0, left - block.size_bytes)
            )

    def _update_init_containers_memory_blocks(
        self, state: State, pod: Pod, container: Container, blocks: Sequence[Block]
    ) -> None:
        """Blocks of earlier init containers shrink by what is used of them again."""
        uid = pod.metadata.uid or ""
        for block in blocks:
            rest, mask = block.size_bytes, mask_of(block.numa_nodes)
            for init in pod.spec.init_containers or ():
                if init.name == container.name or rest == 0:
                    break
                held = state.blocks(uid, init.name or "")
                if not held or runs_on(init, self.facts):
                    continue
                for index, each in enumerate(held):
                    if each.type == block.type and mask_of(each.numa_nodes) == mask:
                        used = min(rest, each.size_bytes)
                        held[index] = each._replace(size_bytes=each.size_bytes - used)
                        rest -= used


def _with_own_groups(machine: NUMANodeMap) -> NUMANodeMap:
    """The same nodes with groups of their own: comparing these sorts them."""
    return {
        node: NUMANodeState(state.assignments, state.memory, list(state.cells))
        for node, state in machine.items()
    }


def _blocks(sizes: Requested, nodes: list[int], *, empty: bool = True) -> list[Block]:
    return [Block(nodes, of, size) for of, size in sizes.items() if empty or size]


def _subtract(left: Requested, asked: Requested) -> None:
    for of, size in asked.items():
        left[of] = left.get(of, 0) - size & UINT64


def _take(machine: NUMANodeMap, block: Block, size_bytes: int) -> None:
    """Count a block on its nodes, and reserve a size on them, one after the other.

    Source: v1.36.2 policy_static.go updateMachineState
    """
    for node in block.numa_nodes:
        state = h.node_of(machine, node)
        state.assignments += 1
        state.cells = block.numa_nodes
        if size_bytes:
            size_bytes = h.table_of(state, block.type, node).take(size_bytes)


def _release(machine: NUMANodeMap, blocks: Sequence[Block]) -> None:
    """Free blocks on their nodes; a node without any is in no group.

    Source: v1.36.2 policy_static.go releaseMemory
    """
    for block in blocks:
        rest = block.size_bytes
        for node in block.numa_nodes:
            state = h.node_of(machine, node)
            state.assignments -= 1
            if state.assignments == 0:
                state.cells = [node]
            if rest:
                rest = h.table_of(state, block.type, node).give_back(rest)
