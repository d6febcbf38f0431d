"""The pods that may be preempted, and what killing each would free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import itemgetter

from kubeledger.kubelet.kube.amounts import NANOS, NotPlainError, from_nanos, whole_amounts
from kubeledger.kubelet.kube.critical import is_critical_pod, preemptable
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podqos import QOSClass, pod_qos
from kubeledger.kubelet.kube.podtotals import freed_total
from kubeledger.kubelet.preemption.requirements import Requirements
from kubeledger.kubelet.profile.admission import AdmissionFacts

_PODS = "pods"


class Candidates:
    """Pods that a preemptor may preempt; amounts are worked out once, when asked for.

    Attributes:
        pods: (n,) in the order the kubelet lists them.
    """

    __slots__ = ("_facts", "_freed", "_qos", "_sizes", "pods")

    def __init__(self, preemptor: Pod, pods: Iterable[Pod], facts: AdmissionFacts) -> None:
        """Leave out the pods that the preemptor may not preempt."""
        self.pods = [pod for pod in pods if not is_critical_pod(pod) or preemptable(preemptor, pod)]
        self._facts = facts
        self._freed: dict[str, list[int]] = {}
        self._sizes: list[tuple[int, int]] | None = None
        self._qos: list[QOSClass] | None = None

    def freed(
        self, requirements: Requirements, picks: Sequence[int] | None = None
    ) -> list[Sequence[int]]:
        """What pods free of each requirement: (r, n), or (r, k) of the picks."""
        columns = [self._column(r.resource) for r in requirements]
        if picks is None:
            return [*columns]
        if len(picks) < 2:
            return [[column[pick] for pick in picks] for column in columns]
        chosen = itemgetter(*picks)
        return [chosen(column) for column in columns]

    def sizes(self) -> list[tuple[int, int]]:
        """Memory and cpu of each pod: the smaller of two requests is the smaller pair.

        Source: v1.20.2 pkg/kubelet/preemption/preemption.go smallerResourceRequest
        Differs: a key to compare by.
        """
        if self._sizes is None:
            self._sizes = list(zip(self._column("memory"), self._column("cpu"), strict=True))
        return self._sizes

    def qos(self, pick: int) -> QOSClass:
        """QoS class of a pod."""
        return self._classes()[pick]

    def by_qos(self) -> dict[QOSClass, list[int]]:
        """Picks of each QoS class, in order.

        Source: v1.20.2 pkg/kubelet/preemption/preemption.go sortPodsByQOS
        Differs: no.
        """
        classes = self._classes()
        picks = range(len(classes))
        return {
            "BestEffort": list(compress(picks, [c == "BestEffort" for c in classes])),
            "Burstable": list(compress(picks, [c == "Burstable" for c in classes])),
            "Guaranteed": list(compress(picks, [c == "Guaranteed" for c in classes])),
        }

    def _classes(self) -> list[QOSClass]:
        if self._qos is None:
            facts = self._facts
            self._qos = [
                pod_qos(
                    pod,
                    status_wins=facts.qos_class_from_status,
                    pod_level=facts.pod_level_resources,
                )
                for pod in self.pods
            ]
        return self._qos

    def _column(self, resource: str) -> list[int]:
        column = self._freed.get(resource)
        if column is None:
            column = self._freed[resource] = self._requests(resource)
        return column

    def _requests(self, resource: str) -> list[int]:
        """What each pod frees of a resource; a pod is always one of ``pods``.

        Source: v1.20.2 pkg/api/v1/resource/helpers.go GetResourceRequest
        Differs: no.
        """
        if resource == _PODS:
            return [1] * len(self.pods)
        try:
            return self._plain_requests(resource)
        except NotPlainError:
            sidecars = self._facts.victims_counted_with_sidecars
            return [
                from_nanos(
                    resource,
                    freed_total(pod.spec, resource, NANOS, sidecars=sidecars, pod_level=sidecars),
                )
                for pod in self.pods
            ]

    def _plain_requests(self, resource: str) -> list[int]:
        table = whole_amounts(resource)
        sidecars = self._facts.victims_counted_with_sidecars
        requests = []
        for pod in self.pods:
            spec = pod.spec
            if spec.init_containers or spec.resources is not None:
                requests.append(
                    freed_total(spec, resource, table, sidecars=sidecars, pod_level=sidecars)
                )
                continue
            total = 0
            for container in spec.containers or ():
                resources = container.resources
                if resources is not None and (asked := resources.requests) and resource in asked:
                    total += table[asked[resource]]
            if total and spec.overhead and resource in spec.overhead:
                total += table[spec.overhead[resource]]
            requests.append(total)
        return requests
