"""Admission by predicates: is a pod admitted, why not, and what it preempts (predicate.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.kube.pod import (
    Container,
    Node,
    Pod,
    PodSpec,
    Taint,
    Toleration,
    is_sidecar,
    lists_of_pods,
)
from kubeledger.kubelet.kube.podclass import is_static_pod
from kubeledger.kubelet.kube.resources import check_asked, is_extended_resource
from kubeledger.kubelet.lifecycle.nodeinfo import (
    InsufficientResourceError,
    NodeInfo,
    fits_request,
    matches_node,
    pod_request,
)
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.eviction import InsufficientResource

LABEL_OS: Final = "kubernetes.io/os"
GOOS: Final = "linux"
NO_EXECUTE: Final = "NoExecute"
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Domain of the resources that stand for a device class without a name of their own."""
_STRICT: Final = "Strict"
_EVERY_IP: Final = "0.0.0.0"  # compared with, never bound to
_TCP: Final = "TCP"


class PredicateFailureError(msgspec.Struct, frozen=True, gc=False):
    """A predicate that failed for another cause than resources (never raised).

    Attributes:
        predicate_name: also the reason of the rejection.
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


class PodAdmitResult(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What admission came to.

    Attributes:
        reason, message: why not; empty if it is.
        victims: UIDs of pods that were killed for it, in that order.
    """

    admit: bool
    reason: str
    message: str
    victims: tuple[str, ...]


Recovery = Callable[[tuple[InsufficientResource, ...]], tuple[tuple[str, ...], str]]
"""Makes room for a critical pod: amounts missing -> victims, and an error or nothing."""

_ADMITTED: Final = PodAdmitResult(True, "", "", ())


HostPort = tuple[str, str, int]
"""Host IP, protocol, port."""


def decide(
    pod: Pod,
    info: NodeInfo,
    recovery: Recovery | None,
    reasons: Sequence[PredicateFailureReason] | None = None,
) -> PodAdmitResult:
    """Run the predicates over a pod.

    Args:
        recovery: makes room by preemption; None for a pod that is not critical.
        reasons: the reasons against the pod, if they are known already.

    Raises:
        BadInputError: a quantity of the pod cannot be asked for.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go Admit; v1.20.2
    Differs: the node is there, no device is held, and all reasons are of known types.
    """
    facts = info.facts
    check_asked(lists_of_pods((pod,)))
    refusal = _checks_before(pod, info.node, facts)
    if refusal is not None:
        return refusal
    if reasons is None:
        reasons = general_filter(pod, info)
    admitted = _ADMITTED
    if reasons and recovery is not None:
        insufficient = [r for r in reasons if isinstance(r, InsufficientResourceError)]
        if len(insufficient) < len(reasons):
            # A critical pod is never kept out by resources, only by what is left.
            reasons = [r for r in reasons if not isinstance(r, InsufficientResourceError)]
        else:
            victims, error = recovery(tuple(reason.requirement for reason in insufficient))
            if error:
                return _rejected("UnexpectedAdmissionError", _unexpected(error))
            reasons, admitted = (), PodAdmitResult(True, "", "", victims)
    if reasons:
        return _rejected(reasons[0].reason, message_of(reasons[0], facts))
    late = _os_check(pod) if facts.os_checks and not facts.os_checks_first else None
    return admitted if late is None else msgspec.structs.replace(late, victims=admitted.victims)


def insufficient_scalars(reasons: Sequence[PredicateFailureReason]) -> range:
    """Positions of the reasons whose order is that of a Go map, so random."""
    scalars = [
        index
        for index, reason in enumerate(reasons)
        if isinstance(reason, InsufficientResourceError)
        and reason.resource_name not in ("pods", "cpu", "memory", "ephemeral-storage")
    ]
    return range(scalars[0], scalars[-1] + 1) if scalars else range(0)


def _unexpected(error: str) -> str:
    return f"Unexpected error while attempting to recover from admission failure: {error}"


def _checks_before(pod: Pod, node: Node, facts: AdmissionFacts) -> PodAdmitResult | None:
    """Refusals that no preemption would help against."""
    if facts.os_checks_first:
        refusal = _os_check(pod)
        if refusal is not None:
            return refusal
    if facts.supplemental_groups_check:
        refusal = _supplemental_groups_check(pod, node)
        if refusal is not None:
            return refusal
    if facts.sidecars_forbidden:
        for container in pod.spec.init_containers or ():
            if is_sidecar(container):
                return _rejected(
                    "InitContainerRestartPolicyForbidden",
                    f'Init container "{container.name or ""}" may not have a non-default '
                    "restartPolicy",
                )
    return None


def _os_check(pod: Pod) -> PodAdmitResult | None:
    """The kubelet runs on Linux.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go rejectPodAdmissionBasedOnOSSelector,
        rejectPodAdmissionBasedOnOSField
    Differs: no. It is the label of the pod, not its selector, that is compared.
    """
    if (pod.metadata.labels or {}).get(LABEL_OS, GOOS) != GOOS:
        return _rejected(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != GOOS:
        return _rejected(
            "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
        )
    return None


def _supplemental_groups_check(pod: Pod, node: Node) -> PodAdmitResult | None:
    context = pod.spec.security_context
    if context is None or context.supplemental_groups_policy != _STRICT:
        return None
    features = node.status.features
    if features is not None and features.supplemental_groups_policy:
        return None
    return _rejected(
        "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
    )


def _rejected(reason: str, message: str) -> PodAdmitResult:
    return PodAdmitResult(False, reason, message, ())


def message_of(reason: PredicateFailureReason, facts: AdmissionFacts) -> str:
    """Message of the rejection for a failed predicate."""
    if isinstance(reason, InsufficientResourceError):
        return reason.message
    if facts.predicate_reason_in_message:
        return f"Predicate {reason.predicate_name} failed: {reason.predicate_desc}"
    return f"Predicate {reason.predicate_name} failed"


def general_filter(pod: Pod, info: NodeInfo) -> list[PredicateFailureReason]:
    """All reasons against the pod: resources, then affinity, name, ports and taints.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go generalFilter,
        pkg/scheduler/eventhandlers.go AdmissionCheck; v1.20.2 GeneralPredicates
    Differs: the node is not asked for again when only its labels do not match.
    """
    node, facts = info.node, info.facts
    request = pod_request(_without_missing_resources(pod, info), facts)
    reasons: list[PredicateFailureReason] = [*fits_request(request, info)]
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


def _without_missing_resources(pod: Pod, info: NodeInfo) -> PodSpec:
    """The spec without requests of extended resources that the node does not list.

    They are cluster-level resources, which the kubelet knows nothing of.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources
    Differs: a copy is made only where something may be dropped.
    """
    spec, facts = pod.spec, info.facts
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
    containers: tuple[Container, ...] | None, info: NodeInfo, claimed: frozenset[tuple[str, str]]
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


def ports_are_free(spec: PodSpec, pods: Sequence[Pod], *, sidecars: bool) -> bool:
    """Whether no pod on the node has a host port that this pod wants.

    The same port and protocol collide on the same IP, and on any IP if one side wants all.

    Args:
        spec: the pod to admit; its own ports do not collide with each other.
        sidecars: whether ports of sidecars count; those of init containers never do.

    Source: v1.36.2 pkg/scheduler/framework/plugins/nodeports/node_ports.go Fits
    """
    wanted = set(_host_ports(spec, sidecars=sidecars))
    if not wanted:
        return True
    used = {port for pod in pods for port in _host_ports(pod.spec, sidecars=sidecars)}
    return not any(_collides(port, used) for port in wanted)


def _collides(wanted: HostPort, used: Iterable[HostPort]) -> bool:
    ip, protocol, port = wanted
    return any(
        protocol == other_protocol
        and port == other_port
        and (ip == other_ip or _EVERY_IP in (ip, other_ip))
        for other_ip, other_protocol, other_port in used
    )


def _host_ports(spec: PodSpec, *, sidecars: bool) -> Iterator[HostPort]:
    containers = list(spec.containers or ())
    if sidecars:
        containers += filter(is_sidecar, spec.init_containers or ())
    for container in containers:
        for port in container.ports or ():
            if port.host_port is not None and port.host_port > 0:
                yield port.host_ip or _EVERY_IP, port.protocol or _TCP, port.host_port


def tolerates_no_execute(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether each taint that evicts is tolerated; others are the scheduler's business.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go
        FindMatchingUntoleratedTaint
    Differs: no. Operators that compare numbers have a gate that is off.
    """
    tolerations = tuple(tolerations)
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect == NO_EXECUTE
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration is for a taint.

    Empty effect and key stand for all; ``Exists`` does not look at the value.

    Source: v1.36.2 staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", None, "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"
