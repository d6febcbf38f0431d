"""What is allocated to pods: in memory, and in ``allocated_pods_state`` across restarts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import Container, Pod, ResourceRequirements, is_sidecar
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts

NOTHING = ResourceRequirements()


class PodResourceInfo(msgspec.Struct, frozen=True, gc=False):
    """What a pod has been given: by container, and as a whole where the version resizes that."""

    containers: dict[str, ResourceRequirements]
    pod_level: ResourceRequirements | None = None


class State:
    """Allocations by pod UID.

    Attributes:
        pods: in memory.
        stored: in the file.

    The file is written with each allocation, not when a pod goes, so that one that went last is
    back after a restart.

    Source: v1.36.2 pkg/kubelet/allocation/state/state_checkpoint.go stateCheckpoint
    """

    def __init__(self) -> None:
        self.pods: dict[str, PodResourceInfo] = {}
        self.stored: dict[str, PodResourceInfo] = {}
        self._before: dict[str, PodResourceInfo | None] = {}

    def set(self, uid: str, info: PodResourceInfo) -> None:
        """Allocate, and write the file."""
        self._before.setdefault(uid, self.pods.get(uid))
        self.pods[uid] = info
        self.stored = self.pods.copy()

    def remove(self, uid: str) -> None:
        """Forget a pod; the file is left."""
        self._before.setdefault(uid, self.pods.pop(uid, None))

    def restore(self) -> None:
        """Read the file, as a kubelet that starts does."""
        for uid, info in self.stored.items():
            if uid not in self.pods:
                self._before.setdefault(uid, None)
                self.pods[uid] = info

    def take_changed(self) -> dict[str, PodResourceInfo | None]:
        """What pods had that may have changed since this was last asked; None: nothing."""
        changed, self._before = self._before, {}
        return changed


def resizable_containers(pod: Pod, facts: KuberuntimeFacts) -> Iterator[Container]:
    """Init containers, then app containers, that have an allocation.

    Source: v1.36.2 pkg/kubelet/allocation/allocation_manager.go IsResizableContainer
    """
    for container in pod.spec.init_containers or ():
        if facts.init_containers_resized or is_sidecar(container):
            yield container
    yield from pod.spec.containers or ()


def allocation_from_pod(pod: Pod, facts: KuberuntimeFacts) -> PodResourceInfo:
    """What is allocated when a pod gets what its spec asks for.

    Source: v1.36.2 pkg/kubelet/allocation/allocation_manager.go allocationFromPod
    """
    return PodResourceInfo(
        {c.name or "": c.resources or NOTHING for c in resizable_containers(pod, facts)},
        pod.spec.resources if facts.pod_level_resources_resized else None,
    )


def update_pod_from_allocation(
    pod: Pod, allocated: PodResourceInfo, facts: KuberuntimeFacts
) -> Pod:
    """The pod with what was allocated instead of what it asks for; itself where that is the same.

    Source: v1.36.2 pkg/kubelet/allocation/allocation_manager.go updatePodFromAllocation
    """
    spec = pod.spec
    whole = allocated.pod_level if facts.pod_level_resources_resized else spec.resources
    containers = _given(spec.containers, allocated)
    inits = _given(spec.init_containers, allocated)
    if (
        containers is spec.containers
        and inits is spec.init_containers
        and same_pod_level(spec.resources, whole)
    ):
        return pod
    spec = msgspec.structs.replace(
        spec, containers=containers, init_containers=inits, resources=whole
    )
    return msgspec.structs.replace(pod, spec=spec)


def same_resources(left: ResourceRequirements | None, right: ResourceRequirements | None) -> bool:
    """Whether requests and limits are the same amounts, however they are written."""
    if left is right:
        return True
    left, right = left or NOTHING, right or NOTHING
    return _same(left.requests, right.requests) and _same(left.limits, right.limits)


def same_pod_level(left: ResourceRequirements | None, right: ResourceRequirements | None) -> bool:
    """The same of the pod's own resources: none and empty ones differ."""
    return (left is None) == (right is None) and same_resources(left, right)


def _given(
    containers: tuple[Container, ...] | None, allocated: PodResourceInfo
) -> tuple[Container, ...] | None:
    for container in containers or ():
        if not same_resources(container.resources, _of(container, allocated)):
            return tuple(_with_allocated(containers or (), allocated))
    return containers


def _with_allocated(
    containers: Sequence[Container], allocated: PodResourceInfo
) -> Iterator[Container]:
    for container in containers:
        own = _of(container, allocated)
        if same_resources(container.resources, own):
            yield container
        else:
            yield msgspec.structs.replace(container, resources=own)


def _of(container: Container, allocated: PodResourceInfo) -> ResourceRequirements | None:
    """A container's allocation; one that has none keeps what its spec says."""
    return allocated.containers.get(container.name or "", container.resources)


def _same(left: ResourceList | None, right: ResourceList | None) -> bool:
    if left == right:
        return True
    left, right = left or {}, right or {}
    return left.keys() == right.keys() and all(
        NANOS[amount] == NANOS[right[name]] for name, amount in left.items()
    )
