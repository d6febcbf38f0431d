"""What the CPU and the memory manager do alike: amounts of pods, and what is stale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from kubeledger.kubelet.kube.containermanager import ContainerMap, ContainerRef
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of, is_sidecar
from kubeledger.kubelet.kube.podclass import pod_qos
from kubeledger.kubelet.kube.podtotals import is_equivalent_guaranteed, is_pod_level
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.policy import ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.scope import HintProvider

T = TypeVar("T")
_REMEMBERED_MAX: Final = 1024
_NONE: Final[frozenset[str]] = frozenset()


class _Known(msgspec.Struct, Generic[T]):
    """What follows from one pod, which is kept so that its identity stays its own."""

    pod: Pod
    names: frozenset[str]
    is_guaranteed: bool | None = None
    by_container: dict[int, T] = {}
    whole: T | None = None


class PodAmounts(ABC, Generic[T]):
    """What a manager reads of pods, once each: the same one is asked about over and over."""

    def __init__(self, profile: KubeletProfile) -> None:
        self.facts = profile.resourcemanagers
        self._cgroups = profile.cgroups
        self._pods: dict[int, _Known[T]] = {}

    def of_container(self, pod: Pod, container: Container) -> T:
        """What a container asks for.

        Raises:
            BadInputError, AllocationError: an amount of the spec cannot be counted.
        """
        by_container = self._known(pod).by_container
        amount = by_container.get(id(container))
        if amount is None:
            amount = by_container[id(container)] = self.count(pod, container)
        return amount

    def of_pod(self, pod: Pod) -> T:
        """What a pod needs at the worst moment."""
        known = self._known(pod)
        if known.whole is None:
            known.whole = self.count_pod(pod)
        return known.whole

    @abstractmethod
    def count(self, pod: Pod, container: Container) -> T:
        """Reckon ``of_container``."""

    @abstractmethod
    def count_pod(self, pod: Pod) -> T:
        """Reckon ``of_pod``."""

    def amounts_of(self, pod: Pod, container: Container) -> ResourceList:
        """What a container requests, or what its first status says is allocated, be it nothing.

        In a pod that is managed as a whole, of a container that is exclusive alone.
        """
        facts = self.facts
        if self.is_managed_as_a_whole(pod) and not is_equivalent_guaranteed(container):
            return {}
        if facts.allocated_resources_win and pod.status is not None:
            statuses = pod.status.container_statuses or ()
            if facts.sidecars_allocated_resources_win and is_sidecar(container):
                statuses += pod.status.init_container_statuses or ()
            for each in statuses:
                if each.name == container.name:
                    return each.allocated_resources or {}
        return container.requests

    def is_guaranteed(self, pod: Pod) -> bool:
        """Whether the pod is of the class whose containers get something alone."""
        known = self._known(pod)
        if known.is_guaranteed is None:
            wins, whole = self._cgroups.qos_class_from_status, self._cgroups.pod_level_resources
            qos = pod_qos(pod, status_wins=wins, pod_level=whole)
            known.is_guaranteed = qos == "Guaranteed"
        return known.is_guaranteed

    def names_of(self, pod: Pod) -> frozenset[str]:
        """Names of all its containers."""
        return self._known(pod).names

    def is_skipped(self, pod: Pod) -> bool:
        """Whether the policy passes over a pod because it asks for something as a whole."""
        facts = self.facts
        skips = facts.pod_level_pods_skipped and not facts.pod_level_managers
        return skips and is_pod_level(pod.spec.resources)

    def is_managed_as_a_whole(self, pod: Pod) -> bool:
        """Whether a pod is given something as a whole."""
        return self.facts.pod_level_managers and is_pod_level(pod.spec.resources)

    def _known(self, pod: Pod) -> _Known[T]:
        known = self._pods.get(id(pod))
        if known is None:
            if len(self._pods) >= _REMEMBERED_MAX:
                self._pods.clear()
            names = frozenset([container.name or "" for container in containers_of(pod)])
            known = self._pods[id(pod)] = _Known(pod, names)
        return known


def runs_on(container: Container, facts: ResourceManagerFacts) -> bool:
    """Whether an init container runs beside later ones, so that nothing of it is used again."""
    return facts.sidecars_keep_resources and is_sidecar(container)


def leaves_to_later(pod: Pod, container: Container, facts: ResourceManagerFacts) -> bool:
    """Whether later containers of a pod may have what this one has: an init container's."""
    init = next((c for c in pod.spec.init_containers or () if c.name == container.name), None)
    return init is not None and not runs_on(init, facts)


class ResourceManager(HintProvider):
    """What both managers do for their policies: they ask them, and clean up before.

    Attributes:
        policy: the static one; it changes ``state``, who has what.
        active_pods: as the kubelet lists them; set by the owner, as is ``sources_ready``.
        sources_ready: all sources of pods were heard, so what no active pod has is stale.
        containers: IDs that it knows.
        pending: the pod that was last to be admitted, where the version keeps it.
    """

    policy: Any
    state: Any

    def __init__(self, amounts: PodAmounts[T], order: MapOrder = FIRST_ORDER) -> None:
        self.facts, self.order = amounts.facts, order
        self.active_pods: Sequence[Pod] = ()
        self.sources_ready = True
        self.containers = ContainerMap()
        self.pending: Pod | None = None
        self._names_of = amounts.names_of
        self._active: tuple[Sequence[Pod], dict[str, frozenset[str]]] = ((), {})

    @property
    @abstractmethod
    def held(self) -> Mapping[str, Mapping[str, object]]:
        """Pod UID -> container -> what it has."""

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container what it asks for.

        Args:
            affinity: what the topology manager stored for it.
        """
        self.begin(pod)
        self.policy.allocate(self.state, pod, container, affinity)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod with resources of its own what it asks for, and its containers parts of it.

        Args:
            affinity: as for ``allocate``, stored for its first container.
        """
        self.remove_stale_state()
        self.policy.allocate_pod(self.state, pod, affinity)

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """Where what a container asks for fits; None: no preference."""
        self.begin(pod)
        hints: ProviderHints = self.policy.get_topology_hints(self.state, pod, container)
        return hints

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        """Where what a pod as a whole asks for fits; None: no preference."""
        self.begin(pod)
        hints: ProviderHints = self.policy.get_pod_topology_hints(self.state, pod)
        return hints

    def release(self, ref: ContainerRef) -> None:
        """Take back what a container has."""
        self.policy.remove_container(self.state, *ref)

    def begin(self, pod: Pod) -> None:
        """A call for a pod that is being admitted: what is stale goes first."""
        if self.facts.pending_admission_pod:
            self.pending = pod
        self.remove_stale_state()

    def remove_stale_state(self) -> None:
        """Take back what containers have that no active pod has.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go removeStaleState;
            memorymanager/memory_manager.go the same
        """
        held = self.held
        if not self.sources_ready or not (held or self.containers):
            return
        active = self._active_containers()
        stale = [
            (pod, name)
            for pod, of_containers in held.items()
            for name in of_containers
            if name not in active.get(pod, _NONE)
        ]
        for ref in self.in_order(stale) if stale else ():
            self.forget(ref)
        if self.containers and self.looks_at_map:
            refs = {
                ref for ref in self.containers.values() if ref[1] not in active.get(ref[0], _NONE)
            }
            if refs:
                self.containers.visit_removing(refs, self.forget, self.order)

    looks_at_map = True
    """Whether containers that are only in the map are stale, too."""

    def in_order(self, stale: list[ContainerRef]) -> Sequence[ContainerRef]:
        """In which order they go."""
        return stale

    def forget(self, ref: ContainerRef) -> None:
        """Take back what a container has; of several IDs of it one is forgotten."""
        self.release(ref)
        self.containers.remove_by_ref(ref, self.order)

    def _active_containers(self) -> dict[str, frozenset[str]]:
        """Pod UID -> names of its containers, of active pods and of the one that is admitted."""
        pods, names = self._active
        if pods is not self.active_pods:
            names = {pod.metadata.uid or "": self._names_of(pod) for pod in self.active_pods}
            self._active = self.active_pods, names
        if self.pending is None:
            return names
        uid, of_pending = self.pending.metadata.uid or "", self._names_of(self.pending)
        return names if names.get(uid) == of_pending else names | {uid: of_pending}
