"""What is allocated to pods: in memory, and in ``allocated_pods_state`` across restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.kube.containermanager import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_object,
    string_of,
)
from kubeledger.kubelet.kube.gotypes import fnv1a32, typed
from kubeledger.kubelet.kube.pod import Container, Pod, ResourceRequirements, is_sidecar
from kubeledger.kubelet.kube.quantity import QuantityError, parse
from kubeledger.kubelet.kube.resources import NANOS, ResourceList
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead, ResourceAmounts

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


# ``allocated_pods_state`` and ``actuated_pods_state``: parsing and checksum.
#
# Since 1.32 the content is a text inside of the file, of which the checksum is; before, the entries
# stood in the file itself, and only requests. Until 1.32 it is called ``pod_status_manager_state``.


def read_pods_state(data: object, which: Literal["allocated", "actuated"]) -> PodsStateRead:
    """The record of a decoded file.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.36.2 pkg/kubelet/allocation/state/checkpoint.go Checkpoint; v1.32
        pkg/kubelet/status/state/checkpoint.go Checkpoint; v1.30.0 the same,
        PodResourceAllocationCheckpoint
    Differs: a wrong checksum is recorded instead of refusing the file, and the checksum up to
        1.31 is not computed.
    """
    top = object_of(data, "the state")
    checksum = checksum_of(top.get("checksum"))
    if "data" not in top:
        entries = optional_object(top.get("allocationEntries"), "allocationEntries")
        pods = {uid: _requests_alone(pod) for uid, pod in sorted((entries or {}).items())}
        return PodsStateRead(which=which, pods=pods, checksum=checksum, checksum_ok=None)
    text = string_of(top["data"], "data")
    try:
        content = object_of(msgspec.json.decode(text), "data")
    except msgspec.DecodeError as error:
        raise MalformedCheckpointError(f"data is not JSON: {error}") from None
    of_1_32 = optional_object(content.get("allocationEntries"), "allocationEntries")
    entries = optional_object(content.get("entries"), "entries")
    pods = {uid: _pod({"ContainerResources": pod}) for uid, pod in (of_1_32 or {}).items()}
    pods |= {uid: _pod(object_of(pod, "an entry")) for uid, pod in (entries or {}).items()}
    return PodsStateRead(
        which=which,
        pods=dict(sorted(pods.items())),
        checksum=checksum,
        checksum_ok=checksum == fnv1a32(typed("string", text)),
    )


def pods_state_document(
    pods: Mapping[str, PodResourceInfo], *, pod_level: bool
) -> dict[str, object]:
    """The file as a kubelet since 1.33 writes it.

    Args:
        pod_level: entries hold the pods' own resources.

    Source: v1.36.2 pkg/kubelet/allocation/state/state_checkpoint.go storeState
    """
    entries: dict[str, dict[str, object]] = {}
    for uid, info in sorted(pods.items()):
        containers = {name: _written(each) for name, each in sorted(info.containers.items())}
        entries[uid] = {"ContainerResources": containers}
        if pod_level:
            whole = info.pod_level
            entries[uid]["PodLevelResources"] = None if whole is None else _written(whole)
    text = msgspec.json.encode({"entries": entries}).decode()
    return {"data": text, "checksum": fnv1a32(typed("string", text))}


def _written(resources: ResourceRequirements) -> dict[str, ResourceList]:
    lists = {"limits": resources.limits, "requests": resources.requests}
    return {name: dict(sorted(amounts.items())) for name, amounts in lists.items() if amounts}


def _pod(entry: dict[str, Any]) -> PodResources:
    containers = optional_object(entry.get("ContainerResources"), "ContainerResources") or {}
    whole = optional_object(entry.get("PodLevelResources"), "PodLevelResources")
    return PodResources(
        containers={name: _amounts(each) for name, each in sorted(containers.items())},
        pod_level=None if whole is None else _amounts(whole),
    )


def _requests_alone(containers: object) -> PodResources:
    each = object_of(containers, "an entry").items()
    return PodResources(containers={name: _amounts({"requests": of}) for name, of in sorted(each)})


def _amounts(resources: object) -> ResourceAmounts:
    parts = object_of(resources, "resources")
    requests, limits = (optional_object(parts.get(name), name) for name in ("requests", "limits"))
    return ResourceAmounts(requests=_texts(requests), limits=_texts(limits))


def _texts(amounts: dict[str, Any] | None) -> dict[str, str] | None:
    if amounts is None:
        return None
    return {
        name: _quantity(string_of(amount, name), name) for name, amount in sorted(amounts.items())
    }


def _quantity(text: str, name: str) -> str:
    try:
        parse(text)
    except QuantityError as error:
        raise MalformedCheckpointError(f"{name} is not a quantity: {error}") from None
    return text
