"""The node as admission sees it: allocatable, what its pods take, and affinity.

The scheduler adds each pod to its ``NodeInfo``. Here totals are worked out for the resources
that are asked about, one at a time: a pod without init containers counts with the plain sum
of its requests, so the requests of all such pods go into one list. Pods with init containers
are aggregated one by one; those with amounts for the pod as a whole, or in the status, go the
long way over their spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from kubeledger.kubelet.kube.gotexts import atoi
from kubeledger.kubelet.kube.pod import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    container_lists,
    is_resizable,
    lists_of_pods,
)
from kubeledger.kubelet.kube.podtotals import (
    StagedRequests,
    resized_spec,
    scheduled_total,
    staged_requests,
    staged_total,
)
from kubeledger.kubelet.kube.resources import (
    NANOS,
    AmountTable,
    NotPlainError,
    ResourceList,
    check_asked,
    from_nanos,
    is_label_value,
    is_qualified_name,
    is_scalar_resource,
    rounded_amounts,
    whole_amounts,
)
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.eviction import InsufficientResource

_IN: Final = "In"
_NOT_IN: Final = "NotIn"
_GREATER: Final = "Gt"
_NODE_NAME: Final = "metadata.name"


def matches_node(spec: PodSpec, labels: Mapping[str, str], node_name: str) -> bool:
    """Whether the pod may be on the node as far as labels and name go.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/
        nodeaffinity.go GetRequiredNodeAffinity, Match
    Differs: a nodeSelector that the API would not have taken is compared as it stands.
    """
    for key, value in (spec.node_selector or {}).items():
        if labels.get(key) != value:
            return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return _matches_any_term(affinity.required, labels, node_name)


def _matches_any_term(selector: NodeSelector, labels: Mapping[str, str], node_name: str) -> bool:
    return any(_matches_term(t, labels, node_name) for t in selector.node_selector_terms or ())


def _matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str) -> bool:
    """All requirements hold; a term without any, or with one that is invalid, matches nothing."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    if not all(map(_is_valid, expressions)) or not all(map(_is_valid_field, fields)):
        return False
    if not all(_matches_label(expression, labels) for expression in expressions):
        return False
    # A node without a name has no fields at all, and nothing is asked of it.
    return not node_name or all(_matches_field(field, node_name) for field in fields)


def _is_valid(requirement: NodeSelectorRequirement) -> bool:
    values: Sequence[str] = requirement.values or ()
    match requirement.operator:
        case "In" | "NotIn":
            fits = bool(values)
        case "Exists" | "DoesNotExist":
            fits = not values
        case "Gt" | "Lt":
            fits = len(values) == 1 and _integer(values[0]) is not None
        case _:
            fits = False
    return fits and is_qualified_name(requirement.key) and all(map(is_label_value, values))


def _is_valid_field(requirement: NodeSelectorRequirement) -> bool:
    return requirement.operator in (_IN, _NOT_IN) and len(requirement.values or ()) == 1


def _matches_label(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    values = requirement.values or ()
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    ours = _integer(value) if value is not None else None
    bound = _integer(values[0])
    if ours is None or bound is None:
        return False
    return ours > bound if requirement.operator == _GREATER else ours < bound


def _matches_field(requirement: NodeSelectorRequirement, node_name: str) -> bool:
    actual = node_name if requirement.key == _NODE_NAME else ""
    (wanted,) = requirement.values or ("",)
    return (actual == wanted) == (requirement.operator == _IN)


def _integer(text: str) -> int | None:
    try:
        return atoi(text)
    except ValueError:
        return None


class NodeInfo:
    """A node and the pods that count on it, for one admission.

    Attributes:
        pods: (n,) the pods, in the order the kubelet lists them.
    """

    __slots__ = ("_added_up", "_aggregated", "_staged", "facts", "node", "pods")

    def __init__(self, node: Node, pods: Sequence[Pod], facts: AdmissionFacts) -> None:
        """Sort the pods and check their quantities.

        Raises:
            BadInputError: a pod asks for what cannot be, even if nothing depends on it.
        """
        self.node = node
        self.pods = pods
        self.facts = facts
        self._added_up: list[ResourceList] = []
        self._staged: list[StagedRequests] = []
        self._aggregated: list[PodSpec] = []
        self._sort()

    def allocatable(self, resource: str) -> int:
        """What the node has for pods; 0 of what it does not list."""
        quantities = self.node.status.allocatable
        if not quantities or resource not in quantities:
            return 0
        return rounded_amounts(resource)[quantities[resource]]

    def lists_scalar(self, resource: str) -> bool:
        """Whether the node lists this scalar resource, even as 0."""
        return resource in (self.node.status.allocatable or ()) and is_scalar_resource(resource)

    def requested(self, resource: str) -> int:
        """What the pods take, millicores or whole units.

        Source: v1.36.2 pkg/scheduler/framework/types.go NodeInfo.update; v1.20.2 AddPod
        Differs: one resource, when asked.
        """
        if not self.facts.requests_rounded_once:
            return self._sum(resource, rounded_amounts(resource))
        try:
            return self._sum(resource, whole_amounts(resource))
        except NotPlainError:
            whole = self.facts.pod_level_resources
            sidecars = self.facts.requests_count_sidecars
            return sum(
                from_nanos(resource, scheduled_total(spec, resource, NANOS, sidecars, whole))
                for spec in map(self._effective, self.pods)
            )

    def _sum(self, resource: str, table: AmountTable) -> int:
        total = sum([table[m[resource]] for m in self._added_up if resource in m])
        sidecars = self.facts.requests_count_sidecars
        for staged in self._staged:
            total += staged_total(staged, resource, table, sidecars)
        whole = self.facts.pod_level_resources
        for spec in self._aggregated:
            total += scheduled_total(spec, resource, table, sidecars, whole)
        return total

    def _sort(self) -> None:
        added_up = self._added_up
        checked_only: list[ResourceList] = []
        for pod in self.pods:
            spec = pod.spec
            if spec.resources is not None or (pod.status is not None and is_resizable(pod.status)):
                checked_only += lists_of_pods((pod,))
                self._aggregated.append(self._effective(pod))
                continue
            inits = spec.init_containers
            requests = [] if inits else added_up
            for container in spec.containers or ():
                resources = container.resources
                if resources is not None:
                    if resources.requests:
                        requests.append(resources.requests)
                    if resources.limits:
                        checked_only.append(resources.limits)
            if inits:
                self._staged.append((requests, staged_requests(inits)))
                checked_only += requests
                checked_only += container_lists(inits)
            if spec.overhead:
                added_up.append(spec.overhead)
        check_asked(chain(added_up, checked_only))

    def _effective(self, pod: Pod) -> PodSpec:
        facts = self.facts
        if not facts.resized_requests_count or pod.status is None:
            return pod.spec
        return resized_spec(pod, pod_level=facts.resized_pod_level_requests_count)


PODS: Final = "pods"
FIRST_CLASS: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources checked before the scalar ones, in this order."""


class InsufficientResourceError(msgspec.Struct, frozen=True, gc=False):
    """A resource of which the node has too little left (the kubelet's name; never raised).

    Attributes:
        requested, used, capacity: millicores for cpu, whole units for all else; ``capacity``
            is the node's allocatable.
    """

    resource_name: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """Reason of the rejection, as in the pod's status."""
        return f"OutOf{self.resource_name}"

    @property
    def message(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource_name}, "
            f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        )

    @property
    def requirement(self) -> InsufficientResource:
        """What has to be freed for the pod to fit, as preemption gets it; at least 1."""
        missing = self.requested - (self.capacity - self.used)
        return InsufficientResource(resource=self.resource_name, quantity=missing)


PodRequest = Mapping[str, int]
"""Resource -> amount: cpu, memory and ephemeral-storage always, scalars that count as asked for."""


def pod_request(spec: PodSpec, facts: AdmissionFacts) -> PodRequest:
    """What the pod to admit asks for; its scalar resources come sorted by name.

    Source: v1.36.2 pkg/scheduler/framework/plugins/noderesources/fit.go
        computePodResourceRequest
    Differs: sorts what is a Go map there.
    """
    request = dict.fromkeys(FIRST_CLASS, 0)
    for resource in sorted(_names(spec, facts)):
        if resource in request or is_scalar_resource(resource):
            request[resource] = _total(spec, resource, facts)
    return request


def fits_request(request: PodRequest, node: NodeInfo) -> list[InsufficientResourceError]:
    """All resources of which the node has too little, in the kubelet's order.

    The order of the scalar ones is that of the request; the kubelet's is random.

    Source: v1.36.2 pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest; v1.20.2
    """
    facts, insufficient = node.facts, []
    allowed, count = node.allocatable(PODS), len(node.pods)
    if count + 1 > allowed:
        insufficient.append(InsufficientResourceError(PODS, 1, count, allowed))
    if len(request) == len(FIRST_CLASS) and not any(request.values()):
        return insufficient
    for resource, requested in request.items():
        if requested <= 0 and _zero_fits(resource, requested, facts):
            continue
        used, capacity = node.requested(resource), node.allocatable(resource)
        if requested > capacity - used:
            insufficient.append(InsufficientResourceError(resource, requested, used, capacity))
    return insufficient


def _zero_fits(resource: str, requested: int, facts: AdmissionFacts) -> bool:
    """Whether a request of nothing is not held against a node that is over-committed."""
    if resource in FIRST_CLASS:
        return facts.zero_requests_fit
    return requested == 0 and facts.zero_scalar_requests_fit


def _total(spec: PodSpec, resource: str, facts: AdmissionFacts) -> int:
    if not facts.requests_rounded_once:
        table = rounded_amounts(resource)
        return scheduled_total(spec, resource, table, sidecars=False, pod_level=False)
    whole, sidecars = facts.pod_level_resources, facts.requests_count_sidecars
    try:
        table = whole_amounts(resource)
        total = scheduled_total(spec, resource, table, sidecars=sidecars, pod_level=whole)
    except NotPlainError:
        nanos = scheduled_total(spec, resource, NANOS, sidecars=sidecars, pod_level=whole)
        total = from_nanos(resource, nanos)
    return max(0, total)


def _names(spec: PodSpec, facts: AdmissionFacts) -> set[str]:
    names = set(spec.overhead or ())
    for container in spec.containers or ():
        if container.resources is not None:
            names.update(container.resources.requests or ())
    for container in spec.init_containers or ():
        if container.resources is not None:
            for resource, written in (container.resources.requests or {}).items():
                if facts.init_container_zero_scalars_count or NANOS[written] > 0:
                    names.add(resource)
    if facts.pod_level_resources and spec.resources is not None:
        names.update(spec.resources.requests or ())
    return names
