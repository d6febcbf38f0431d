"""Why a resize is refused before it is seen whether it fits.

Source: v1.36.2 pkg/kubelet/allocation/handlers.go podResizesAdmitHandler.Admit; v1.34.9
    allocation_manager.go handlePodResourcesResize, canResizePod; v1.33.13 kubelet.go the same
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from kubeledger.kubelet.allocation.conditions import INFEASIBLE
from kubeledger.kubelet.allocation.state import (
    NOTHING,
    PodResourceInfo,
    resizable_containers,
)
from kubeledger.kubelet.kube.amounts import NANOS, from_nanos
from kubeledger.kubelet.kube.critical import is_static_pod
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.kube.podtotals import freed_total
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.profile.resolve import KubeletProfile

Check = Literal[
    "static_pod",
    "swap_limitation",
    "guaranteed_pod_cpu_manager_static_policy",
    "guaranteed_pod_memory_manager_static_policy",
    "insufficient_node_allocatable",
]
"""What makes a resize infeasible, as ``kubelet_pod_infeasible_resizes_total`` labels it."""

_NO_SWAP: Final = "NoSwap"


class NodeConfig(NamedTuple):
    """What of the node counts besides the pods on it.

    Attributes:
        cpu_manager_policy, memory_manager_policy: ``static``, ``Static``: they give exclusively.
        capacity: what a resize may never exceed; the version says which of the node's amounts.
        swap_behavior: container -> how the runtime lets it swap; absent: not at all.
    """

    cpu_manager_policy: str
    memory_manager_policy: str
    capacity: ResourceList
    swap_behavior: Mapping[str, str]


class Refusal(NamedTuple):
    """Why a resize is not allocated.

    Attributes:
        reason: ``Infeasible``; any other comes from admission, and means that it is deferred.
        check: what refused it; None: it does not fit now.
    """

    reason: str
    message: str
    check: Check | None = None


def infeasible(
    pod: Pod, allocated_pod: Pod, info: PodResourceInfo, node: NodeConfig, profile: KubeletProfile
) -> Refusal | None:
    """What is against this resize on this node, whatever else runs there; None: nothing.

    Args:
        pod: as it wants to be.
        allocated_pod: as it is.
        info: its allocation.
        node: the node.
        profile: the kubelet's version.
    """
    if not profile.kuberuntime.static_pods_resized and is_static_pod(pod):
        return _refused("static_pod", "In-place resize of static-pods is not supported")
    if _memory_of_swapping_container_changes(pod, allocated_pod, node):
        return _refused(
            "swap_limitation", "In-place resize of containers with swap is not supported."
        )
    admission = profile.admission
    if node.cpu_manager_policy == "static" or node.memory_manager_policy == "Static":
        qos = pod_qos(pod, status_wins=True, pod_level=admission.pod_level_resources)
        if qos == "Guaranteed":
            refusal = _guaranteed_refused(pod, info, node, profile)
            if refusal is not None:
                return refusal
    if profile.allocation.resize_is_an_admission:
        return None
    return _beyond_capacity(pod, node, profile)


def _refused(check: Check, message: str) -> Refusal:
    return Refusal(INFEASIBLE, message, check)


def _memory_of_swapping_container_changes(pod: Pod, allocated_pod: Pod, node: NodeConfig) -> bool:
    """Source: v1.36.2 handlers.go disallowResizeForSwappableContainers."""
    if not node.swap_behavior:
        return False
    allocated = {c.name: c for c in _containers(allocated_pod)}
    for container in _containers(pod):
        given = allocated.get(container.name)
        if given is None or _nanos(container, "memory") == _nanos(given, "memory"):
            continue
        restarts = next(
            (p.restart_policy for p in given.resize_policy or () if p.resource_name == "memory"), ""
        )
        swap = node.swap_behavior.get(container.name or "", _NO_SWAP)
        if restarts != "RestartContainer" and swap != _NO_SWAP:
            return True
    return False


def _guaranteed_refused(
    pod: Pod, info: PodResourceInfo, node: NodeConfig, profile: KubeletProfile
) -> Refusal | None:
    by_resource = profile.allocation.guaranteed_refused_by_resource
    managers: tuple[tuple[str, str, str, str, Check], ...] = (
        (
            node.cpu_manager_policy,
            "static",
            "CPU",
            "cpu",
            "guaranteed_pod_cpu_manager_static_policy",
        ),
        (
            node.memory_manager_policy,
            "Static",
            "Memory",
            "memory",
            "guaranteed_pod_memory_manager_static_policy",
        ),
    )
    for policy, exclusive, manager, resource, check in managers:
        if policy != exclusive:
            continue
        rule = f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager"
        if not by_resource:
            return _refused(check, f"{rule} static policy")
        if _request_changes(pod, info, resource, profile):
            return _refused(check, f'{rule} policy "{exclusive}"')
    return None


def _request_changes(
    pod: Pod, info: PodResourceInfo, resource: str, profile: KubeletProfile
) -> bool:
    """Source: v1.36.2 handlers.go guaranteedPodResourceResizeRequired."""
    for container in resizable_containers(pod, profile.kuberuntime):
        given = (info.containers.get(container.name or "", NOTHING).requests or {}).get(resource)
        if _nanos(container, resource) != (0 if given is None else NANOS[given]):
            return True
    return False


def _beyond_capacity(pod: Pod, node: NodeConfig, profile: KubeletProfile) -> Refusal | None:
    """Source: v1.34.9 allocation_manager.go canResizePod."""
    for resource in ("memory", "cpu"):
        nanos = NANOS[node.capacity[resource]] if resource in node.capacity else 0
        available = from_nanos(resource, nanos)
        requested = _request(pod, resource, profile)
        if requested > available:
            return _refused(
                "insufficient_node_allocatable",
                f"Node didn't have enough capacity: {resource}, requested: {requested}, "
                f"capacity: {available}",
            )
    return None


def _request(pod: Pod, resource: str, profile: KubeletProfile) -> int:
    """Source: v1.34.9 pkg/api/v1/resource/helpers.go GetResourceRequest."""
    facts = profile.admission
    sidecars, whole = facts.victims_counted_with_sidecars, facts.pod_level_resources
    nanos = freed_total(pod.spec, resource, NANOS, sidecars=sidecars, pod_level=whole)
    return from_nanos(resource, nanos)


def _nanos(container: Container, resource: str) -> int:
    requests = container.resources.requests if container.resources is not None else None
    return NANOS[requests[resource]] if requests and resource in requests else 0


def _containers(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.containers or ()
    yield from pod.spec.init_containers or ()
