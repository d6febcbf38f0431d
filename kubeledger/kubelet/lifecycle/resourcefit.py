"""Does the pod's request fit what is left on the node? (scheduler plugin NodeResourcesFit)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.kube.amounts import (
    NANOS,
    NotPlainError,
    from_nanos,
    rounded_amounts,
    whole_amounts,
)
from kubeledger.kubelet.kube.names import is_scalar_resource
from kubeledger.kubelet.kube.pod import PodSpec
from kubeledger.kubelet.kube.podtotals import scheduled_total
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.preemption import InsufficientResource

PODS: Final = "pods"
FIRST_CLASS: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources checked before the scalar ones, in this order."""


class InsufficientResourceError(msgspec.Struct, frozen=True, gc=False):
    """A resource of which the node has too little left (the kubelet's name; never raised).

    Attributes:
        resource_name: resource.
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
        """Message of the rejection."""
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


def fits_request(
    request: PodRequest, node: NodeInfo, facts: AdmissionFacts
) -> list[InsufficientResourceError]:
    """All resources of which the node has too little, in the kubelet's order.

    The order of the scalar ones is that of the request; the kubelet's is random.

    Source: v1.36.2 pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest; v1.20.2
    Differs: no.
    """
    insufficient = []
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
