"""The predicates of the kubelet's admission, in their order, and what their failure says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.kube.critical import is_static_pod
from kubeledger.kubelet.kube.names import is_extended_resource
from kubeledger.kubelet.kube.pod import Container, Node, Pod, PodSpec
from kubeledger.kubelet.lifecycle.nodeaffinity import matches_node
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.lifecycle.nodeports import ports_are_free
from kubeledger.kubelet.lifecycle.resourcefit import (
    InsufficientResourceError,
    fits_request,
    pod_request,
)
from kubeledger.kubelet.lifecycle.taints import tolerates_no_execute
from kubeledger.kubelet.profile.admission import AdmissionFacts

LABEL_OS: Final = "kubernetes.io/os"
GOOS: Final = "linux"
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Domain of the resources that stand for a device class without a name of their own."""


class PredicateFailureError(msgspec.Struct, frozen=True, gc=False):
    """A predicate that failed for another cause than resources (never raised).

    Attributes:
        predicate_name: also the reason of the rejection.
        predicate_desc: why it failed.
    """

    predicate_name: str
    predicate_desc: str

    @property
    def reason(self) -> str:
        """Reason of the rejection, as in the pod's status."""
        return self.predicate_name


PredicateFailureReason = InsufficientResourceError | PredicateFailureError

NODE_AFFINITY: Final = PredicateFailureError(
    "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
)
NODE_NAME: Final = PredicateFailureError("NodeName", "node(s) didn't match the requested node name")
NODE_PORTS: Final = PredicateFailureError(
    "NodePorts", "node(s) didn't have free ports for the requested pod ports"
)
TAINT_TOLERATION: Final = PredicateFailureError(
    "TaintToleration", "node(s) had taints that the pod didn't tolerate"
)


def message_of(reason: PredicateFailureReason, facts: AdmissionFacts) -> str:
    """Message of the rejection for a failed predicate."""
    if isinstance(reason, InsufficientResourceError):
        return reason.message
    if facts.predicate_reason_in_message:
        return f"Predicate {reason.predicate_name} failed: {reason.predicate_desc}"
    return f"Predicate {reason.predicate_name} failed"


def general_filter(pod: Pod, info: NodeInfo, facts: AdmissionFacts) -> list[PredicateFailureReason]:
    """All reasons against the pod: resources, then affinity, name, ports and taints.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go generalFilter,
        pkg/scheduler/eventhandlers.go AdmissionCheck; v1.20.2 GeneralPredicates
    Differs: the node is not asked for again when only its labels do not match.
    """
    node = info.node
    request = pod_request(_without_missing_resources(pod, info, facts), facts)
    reasons: list[PredicateFailureReason] = [*fits_request(request, info, facts)]
    spec, node_name = pod.spec, node.metadata.name or ""
    if not matches_node(spec, node_labels(node, facts), node_name):
        reasons.append(NODE_AFFINITY)
    if spec.node_name and spec.node_name != node_name:
        reasons.append(NODE_NAME)
    if not ports_are_free(spec, info.pods, sidecars=facts.sidecar_host_ports):
        reasons.append(NODE_PORTS)
    if facts.no_execute_taints and not is_static_pod(pod):
        taints = node.spec.taints if node.spec is not None else None
        if not tolerates_no_execute(taints or (), spec.tolerations or ()):
            reasons.append(TAINT_TOLERATION)
    return reasons


def node_labels(node: Node, facts: AdmissionFacts) -> Mapping[str, str]:
    """Labels of the node as the predicates see them.

    The check of the pod's OS label writes the kubelet's own OS into the node's labels, if it
    has any. Where that check comes first, selectors match it.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go rejectPodAdmissionBasedOnOSSelector
    Differs: the node object is left as it is.
    """
    labels = node.metadata.labels or {}
    if labels and facts.os_checks_first and labels.get(LABEL_OS) != GOOS:
        return {**labels, LABEL_OS: GOOS}
    return labels


def _without_missing_resources(pod: Pod, info: NodeInfo, facts: AdmissionFacts) -> PodSpec:
    """The spec without requests of extended resources that the node does not list.

    They are cluster-level resources, which the kubelet knows nothing of.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources
    Differs: a copy is made only where something may be dropped.
    """
    spec = pod.spec
    claimed = _claimed_resources(pod) if facts.drops_resources_claimed_from_drivers else frozenset()
    containers = _filtered(spec.containers, info, claimed)
    init_containers = spec.init_containers
    if facts.init_containers_drop_missing_resources:
        init_containers = _filtered(init_containers, info, claimed)
    if containers is spec.containers and init_containers is spec.init_containers:
        return spec
    return msgspec.structs.replace(spec, containers=containers, init_containers=init_containers)


def _claimed_resources(pod: Pod) -> frozenset[tuple[str, str]]:
    """Pairs of container and extended resource that a resource claim stands for."""
    status = pod.status.extended_resource_claim_status if pod.status is not None else None
    mappings = status.request_mappings if status is not None else None
    return frozenset((m.container_name, m.resource_name) for m in mappings or ())


def _filtered(
    containers: tuple[Container, ...] | None,
    info: NodeInfo,
    claimed: frozenset[tuple[str, str]],
) -> tuple[Container, ...] | None:
    if not containers or not any(map(_names_a_domain, containers)):
        return containers

    def is_kept(container: Container, resource: str) -> bool:
        is_extended = is_extended_resource(resource)
        may_be_claimed = is_extended or resource.startswith(DEVICE_CLASS)
        if may_be_claimed and (container.name or "", resource) in claimed:
            return False
        return not is_extended or info.lists_scalar(resource)

    def filtered(container: Container) -> Container:
        resources = container.resources
        if resources is None or not resources.requests:
            return container
        kept = {r: q for r, q in resources.requests.items() if is_kept(container, r)}
        return msgspec.structs.replace(
            container, resources=msgspec.structs.replace(resources, requests=kept)
        )

    return tuple(map(filtered, containers))


def _names_a_domain(container: Container) -> bool:
    """Whether a request may be of an extended resource at all."""
    resources = container.resources
    requests = resources.requests if resources is not None else None
    return "/" in "".join(requests or ())
