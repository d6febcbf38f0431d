"""The node as the fit check sees it: allocatable, and what the pods on it take.

The scheduler adds each pod to its ``NodeInfo``. Here totals are worked out for the resources
that are asked about, one at a time: a pod without init containers counts with the plain sum
of its requests, so the requests of all such pods go into one list. Pods with init containers
are aggregated one by one; those with amounts for the pod as a whole, or in the status, go the
long way over their spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kubeledger.kubelet.kube.amounts import (
    NANOS,
    AmountTable,
    NotPlainError,
    check_asked,
    from_nanos,
    rounded_amounts,
    whole_amounts,
)
from kubeledger.kubelet.kube.names import is_scalar_resource
from kubeledger.kubelet.kube.pod import (
    Node,
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
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.profile.admission import AdmissionFacts


class NodeInfo:
    """A node and the pods that count on it, for one admission.

    Attributes:
        node: the node.
        pods: (n,) the pods, in the order the kubelet lists them.
    """

    __slots__ = ("_added_up", "_aggregated", "_facts", "_staged", "node", "pods")

    def __init__(self, node: Node, pods: Sequence[Pod], facts: AdmissionFacts) -> None:
        """Sort the pods and check their quantities.

        Raises:
            BadInputError: a pod asks for what cannot be, even if nothing depends on it.
        """
        self.node = node
        self.pods = pods
        self._facts = facts
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
        if not self._facts.requests_rounded_once:
            return self._sum(resource, rounded_amounts(resource))
        try:
            return self._sum(resource, whole_amounts(resource))
        except NotPlainError:
            whole = self._facts.pod_level_resources
            sidecars = self._facts.requests_count_sidecars
            return sum(
                from_nanos(resource, scheduled_total(spec, resource, NANOS, sidecars, whole))
                for spec in map(self._effective, self.pods)
            )

    def _sum(self, resource: str, table: AmountTable) -> int:
        total = sum([table[m[resource]] for m in self._added_up if resource in m])
        sidecars = self._facts.requests_count_sidecars
        for staged in self._staged:
            total += staged_total(staged, resource, table, sidecars)
        whole = self._facts.pod_level_resources
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
        facts = self._facts
        if not facts.resized_requests_count or pod.status is None:
            return pod.spec
        return resized_spec(pod, pod_level=facts.resized_pod_level_requests_count)
