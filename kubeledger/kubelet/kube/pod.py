"""The slice of Pod and Node objects that deciders read.

Typed for decoding from the API's own JSON: keys that are not read are passed over, ``null`` is
the same as absent, nothing is defaulted. Quantities stay as written, see :mod:`.resources`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any, Final, Literal

import msgspec

from kubeledger.kubelet.kube.resources import Amount, ResourceList

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
"""As uint64; that it fits, a decoder cannot check."""

SIDECAR: Final = "Always"


class ContainerClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim of the pod that a container uses: all of it, or one of its requests."""

    name: str = ""
    request: str | None = ""


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests, limits and claims of a container, of a pod or in a status."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: tuple[ContainerClaim, ...] | None = None


class ResizePolicy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One of ``resizePolicy``: how a container takes a change of ``cpu`` or ``memory``."""

    resource_name: str = ""
    restart_policy: str = ""


class ContainerPort(msgspec.Struct, frozen=True, gc=False):
    """A port of a container, as far as it takes one of the host's."""

    host_port: Int32 | None = msgspec.field(default=0, name="hostPort")
    host_ip: str | None = msgspec.field(default="", name="hostIP")
    protocol: str | None = ""


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An app or init container; ``restart_policy`` ``Always`` makes an init one a sidecar."""

    name: str | None = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] | None = None
    resize_policy: tuple[ResizePolicy, ...] | None = None

    @property
    def requests(self) -> ResourceList:
        """Its requests; empty where there are none."""
        return (self.resources.requests if self.resources is not None else None) or {}

    @property
    def limits(self) -> ResourceList:
        """Its limits; empty where there are none."""
        return (self.resources.limits if self.resources is not None else None) or {}


class NodeSelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """``key operator values``, over labels or fields of the node."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requirements that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Only the required part: the kubelet does not read preferences."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Affinity to nodes; the one to pods is the scheduler's business."""

    node_affinity: NodeAffinity | None = None


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """A taint, or a class of taints, that the pod stands."""

    key: str | None = ""
    operator: str | None = ""
    value: str | None = ""
    effect: str | None = ""


class Named(msgspec.Struct, frozen=True, gc=False):
    """An object of which only the name is read (``spec.os``)."""

    name: str | None = ""


class SecurityContext(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pod's security context, as far as admission checks it."""

    supplemental_groups_policy: str | None = None


class Anything(msgspec.Struct, frozen=True, gc=False):
    """An object of which only matters that it is there."""


class EmptyDir(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A directory that lives as long as its pod."""

    medium: str | None = ""
    size_limit: Amount = None


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume, as far as it takes room on the node's own disk."""

    name: str | None = ""
    empty_dir: EmptyDir | None = None
    host_path: Anything | None = None
    config_map: Anything | None = None
    git_repo: Anything | None = None
    downward_api: Anything | None = msgspec.field(default=None, name="downwardAPI")


class PodResourceClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim that a pod uses: one that is there, or one made for it from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod asks for; ``resources`` are those of the pod as a whole."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    node_name: str | None = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    os: Named | None = None
    security_context: SecurityContext | None = None
    termination_grace_period_seconds: Int64 | None = None
    volumes: tuple[Volume, ...] | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """Identity of an object, and which version of its spec it is (``generation``)."""

    name: str | None = ""
    namespace: str | None = ""
    uid: str | None = ""
    generation: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a container has been given: it may differ from its spec while it is resized."""

    name: str | None = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One condition of a pod."""

    type: str | None = ""
    reason: str | None = ""
    message: str | None = ""
    observed_generation: Int64 | None = None


class ResourceClaimMapping(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An extended resource of a container that a resource claim stands for."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which requests of extended resources are met by a claim."""

    request_mappings: tuple[ResourceClaimMapping, ...] | None = None
    resource_claim_name: str = ""


class PodResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that was made from a template for one of the pod's; None: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a status that is read: phase, QoS class, and resize in place."""

    phase: str | None = ""
    qos_class: Literal["", "Guaranteed", "Burstable", "BestEffort"] | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod as the kubelet got it."""

    spec: PodSpec
    metadata: ObjectMeta = ObjectMeta()
    status: PodStatus | None = None


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of the node."""

    key: str | None = ""
    value: str | None = ""
    effect: str | None = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The node's taints."""

    taints: tuple[Taint, ...] | None = None


class NodeFeatures(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the node's runtime supports."""

    supplemental_groups_policy: bool | None = None


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What the node has to give."""

    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    features: NodeFeatures | None = None


class Node(msgspec.Struct, frozen=True, gc=False):
    """The node as the kubelet sees it in the API."""

    metadata: ObjectMeta
    status: NodeStatus
    spec: NodeSpec | None = None


def containers_of(pod: Pod) -> tuple[Container, ...]:
    """Init containers, then app containers."""
    return (pod.spec.init_containers or ()) + (pod.spec.containers or ())


def is_sidecar(container: Container) -> bool:
    """Whether an init container runs on beside the containers."""
    return container.restart_policy == SIDECAR


def lists_of_pods(pods: Iterable[Pod]) -> list[ResourceList]:
    """All resource lists of pods that are not empty, those of their statuses included."""
    lists: list[ResourceList] = []
    for pod in pods:
        spec = pod.spec
        containers = spec.containers or ()
        if spec.init_containers:
            containers += spec.init_containers
        lists += container_lists(containers)
        if spec.overhead:
            lists.append(spec.overhead)
        if spec.resources is not None:
            lists += _lists(spec.resources)
        if pod.status is not None:
            lists += _status_maps(pod.status)
    return lists


def container_lists(containers: Iterable[Container]) -> list[ResourceList]:
    """Requests and limits of containers that are not empty."""
    maps: list[ResourceList] = []
    for container in containers:
        resources = container.resources
        if resources is not None:
            if requests := resources.requests:
                maps.append(requests)
            if limits := resources.limits:
                maps.append(limits)
    return maps


def is_resizable(status: PodStatus) -> bool:
    """Whether the status says what is held, which may differ from the spec."""
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources is not None
        or status.allocated_resources
    )


def _status_maps(status: PodStatus) -> list[ResourceList]:
    maps = [status.allocated_resources or {}, *_lists(status.resources)]
    for held in chain(status.container_statuses or (), status.init_container_statuses or ()):
        maps += [held.allocated_resources or {}, *_lists(held.resources)]
    return maps


def _lists(resources: ResourceRequirements | None) -> list[ResourceList]:
    return [resources.requests or {}, resources.limits or {}] if resources is not None else []


# What the API server fills in where a pod leaves a field out, and the kubelet in a manifest.
#
# Source: v1.36.2 pkg/apis/core/v1/defaults.go SetDefaults_PodSpec SetDefaults_Container
#     SetDefaults_Probe SetDefaults_HTTPGetAction

GRACE_PERIOD_S: Final = 30
"""``terminationGracePeriodSeconds`` of a pod."""

POD_SPEC: Final[dict[str, Any]] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "terminationGracePeriodSeconds": GRACE_PERIOD_S,
}

CONTAINER: Final = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}

PROBE: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
"""Of a probe's times and thresholds; 0 stands for the default too."""

HTTP_GET: Final = {"path": "/", "scheme": "HTTP"}
"""Of ``httpGet`` of a probe or hook; an empty text stands for the default too."""
