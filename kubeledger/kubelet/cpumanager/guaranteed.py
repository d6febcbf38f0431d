"""How many CPUs containers and pods get alone: what the static policy reads of a pod's spec."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import Container, Pod, is_sidecar
from kubeledger.kubelet.kube.requests import Amount, milli_of, units_of
from kubeledger.kubelet.topologymanager.resource_manager import PodAmounts, runs_on

CPU: Final = "cpu"


class GuaranteedCPUs(PodAmounts[int]):
    """How many CPUs containers and pods get alone, by the rules of one kubelet; 0: none.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go guaranteedCPUs, podGuaranteedCPUs
    """

    def empty_shared_pool(self, pod: Pod) -> str:
        """Why a pod as a whole leaves nothing for its containers that share; empty if it does.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go validatePodScopeResources
        """
        total = self.of_pod(pod)
        alone, shares = 0, False
        for container in pod.spec.init_containers or ():
            count = self.of_container(pod, container)
            if is_sidecar(container):
                shares = shares or not count
                alone += count
            elif not count and alone >= total:
                return "pod rejected, pod has shared init containers but no cpus available for them"
        for container in pod.spec.containers or ():
            count = self.of_container(pod, container)
            shares = shares or not count
            alone += count
        if shares and alone >= total:
            return (
                "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving "
                "no cpus for shared containers"
            )
        return ""

    def count(self, pod: Pod, container: Container) -> int:
        """CPUs of a container; 0: it runs in the shared pool."""
        if not self.is_guaranteed(pod):
            return 0
        return _whole_cpus(self.amounts_of(pod, container).get(CPU))

    def count_pod(self, pod: Pod) -> int:
        """CPUs of a pod."""
        if not self.is_guaranteed(pod):
            return 0
        if self.is_managed_as_a_whole(pod):
            assert pod.spec.resources is not None
            return _whole_cpus((pod.spec.resources.requests or {}).get(CPU))
        at_start = beside = 0
        for container in pod.spec.init_containers or ():
            if CPU not in container.requests:
                continue
            count = self.of_container(pod, container)
            if runs_on(container, self.facts):
                beside += count
            else:
                at_start = max(at_start, beside + count)
        containers = [c for c in pod.spec.containers or () if CPU in c.requests]
        return max(at_start, beside + sum(self.of_container(pod, c) for c in containers))


def _whole_cpus(amount: Amount) -> int:
    """The amount if it is of whole CPUs, to a thousandth; else 0."""
    if amount is None:
        return 0
    nanos = NANOS[amount]
    cpus = units_of(nanos)
    return cpus if cpus * 1000 == milli_of(nanos) else 0
