"""The slice of a pod that decides about its cgroups, as the API writes it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kube.requests import ResourceList

__all__ = [
    "NO_RESOURCES",
    "Container",
    "Metadata",
    "Pod",
    "PodSpec",
    "PodStatus",
    "ResourceRequirements",
    "is_critical_pod",
    "is_node_critical_pod",
    "is_sidecar",
]

_SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
_SYSTEM_NODE_CRITICAL: Final = "system-node-critical"


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits; null and absent are the same."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None


NO_RESOURCES: Final = ResourceRequirements()


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container or init container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None

    @property
    def requests(self) -> ResourceList:
        """Its requests; empty where there are none."""
        return (self.resources or NO_RESOURCES).requests or {}

    @property
    def limits(self) -> ResourceList:
        """Its limits; empty where there are none."""
        return (self.resources or NO_RESOURCES).limits or {}


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is asked for. ``resources`` is the pod level's own."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    priority_class_name: str | None = None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """Identity, and the annotations by which the kubelet knows static and mirror pods."""

    name: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The class that the API server wrote down, if any."""

    qos_class: Literal["", "Guaranteed", "Burstable", "BestEffort"] | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod as the kubelet got it, nothing defaulted."""

    spec: PodSpec
    metadata: Metadata = Metadata()
    status: PodStatus | None = None


def is_sidecar(container: Container) -> bool:
    """Whether an init container runs on beside the containers."""
    return container.restart_policy == "Always"


def is_critical_pod(pod: Pod) -> bool:
    """Static, mirrored, or of a system priority.

    Source: v1.20.2 pkg/kubelet/types/pod_update.go IsCriticalPod
    """
    annotations = pod.metadata.annotations
    if annotations and (
        annotations.get("kubernetes.io/config.source", "api") != "api"
        or "kubernetes.io/config.mirror" in annotations
    ):
        return True
    priority = pod.spec.priority
    return priority is not None and priority >= _SYSTEM_CRITICAL_PRIORITY


def is_node_critical_pod(pod: Pod) -> bool:
    """Critical, and of the priority class for what a node cannot do without.

    Source: v1.36.2 pkg/kubelet/types/pod_update.go IsNodeCriticalPod
    """
    return pod.spec.priority_class_name == _SYSTEM_NODE_CRITICAL and is_critical_pod(pod)
