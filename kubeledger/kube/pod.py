"""The slice of Pod and Node objects that admission and preemption read.

Typed for decoding from the API's own JSON: keys that are not read are passed over, ``null`` is
the same as absent, nothing is defaulted. Quantities stay as written, see :mod:`.amounts`.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Affinity",
    "Container",
    "ContainerPort",
    "ContainerStatus",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "Pod",
    "PodSpec",
    "PodStatus",
    "QuantityMap",
    "ResourceRequirements",
    "SecurityContext",
    "Taint",
    "Toleration",
]

QuantityMap = dict[str, str | int | float | None]
"""Resource name -> quantity as it stands in the object (a ``ResourceList``)."""


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits of a container, of a pod or in a status."""

    requests: QuantityMap | None = None
    limits: QuantityMap | None = None


class ContainerPort(msgspec.Struct, frozen=True, gc=False):
    """A port of a container, as far as it takes one of the host's."""

    host_port: int | None = msgspec.field(default=0, name="hostPort")
    host_ip: str | None = msgspec.field(default="", name="hostIP")
    protocol: str | None = ""


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An app or init container; ``restart_policy`` ``Always`` makes an init one a sidecar."""

    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    name: str | None = ""


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


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod asks for; ``resources`` are those of the pod as a whole."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    priority: int | None = None
    overhead: QuantityMap | None = None
    resources: ResourceRequirements | None = None
    node_name: str | None = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    os: Named | None = None
    security_context: SecurityContext | None = None


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """Identity of an object."""

    name: str | None = ""
    uid: str | None = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a container has been given: it may differ from its spec while it is resized."""

    name: str | None = ""
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a pod."""

    type: str | None = ""
    reason: str | None = ""


class ResourceClaimMapping(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An extended resource of a container that a resource claim stands for."""

    container_name: str = ""
    resource_name: str = ""


class ExtendedResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which requests of extended resources are met by a claim."""

    request_mappings: tuple[ResourceClaimMapping, ...] | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a status that admission reads: QoS class, and resize in place."""

    qos_class: str | None = ""
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod as the kubelet got it."""

    metadata: ObjectMeta
    spec: PodSpec
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

    allocatable: QuantityMap | None = None
    capacity: QuantityMap | None = None
    features: NodeFeatures | None = None


class Node(msgspec.Struct, frozen=True, gc=False):
    """The node as the kubelet sees it in the API."""

    metadata: ObjectMeta
    status: NodeStatus
    spec: NodeSpec | None = None
