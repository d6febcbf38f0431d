"""How many CPUs containers and pods get alone: what the static policy reads of a pod's spec."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import (
    Container,
    ContainerStatus,
    Pod,
    containers_of,
    is_sidecar,
)
from kubeledger.kubelet.kube.podlevel import is_equivalent_guaranteed, is_pod_level
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.kube.requests import Amount, milli_of, units_of
from kubeledger.kubelet.profile.resolve import KubeletProfile

CPU: Final = "cpu"
_REMEMBERED_MAX: Final = 1024


class _PodCPUs(msgspec.Struct):
    """What follows from one pod, once it was asked for.

    Attributes:
        pod: kept so that its identity stays its own.
        guaranteed: it is of the class Guaranteed.
        names: of its containers.
        by_container: ``id`` of a container -> CPUs.
        whole: CPUs of the pod; None: not asked yet.
    """

    pod: Pod
    guaranteed: bool
    names: frozenset[str]
    by_container: dict[int, int] = {}
    whole: int | None = None


class GuaranteedCPUs:
    """CPUs by container and pod, by the rules of one kubelet.

    Amounts are read once a pod: the same one is asked about over and over.
    """

    def __init__(self, profile: KubeletProfile) -> None:
        self._facts = profile.resourcemanagers
        self._cgroups = profile.cgroups
        self._pods: dict[int, _PodCPUs] = {}

    def of_container(self, pod: Pod, container: Container) -> int:
        """How many CPUs a container gets alone; 0: it runs in the shared pool.

        Raises:
            BadInputError: an amount of the spec is not a quantity.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go guaranteedCPUs
        Differs: no
        """
        known = self._known(pod)
        count = known.by_container.get(id(container))
        if count is None:
            count = self._count(pod, container) if known.guaranteed else 0
            known.by_container[id(container)] = count
        return count

    def of_pod(self, pod: Pod) -> int:
        """How many CPUs a pod needs at the worst moment.

        Raises:
            BadInputError: an amount of the spec is not a quantity.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go podGuaranteedCPUs
        Differs: no
        """
        known = self._known(pod)
        if known.whole is None:
            known.whole = self._whole(pod) if known.guaranteed else 0
        return known.whole

    def names_of(self, pod: Pod) -> frozenset[str]:
        """Names of all its containers."""
        return self._known(pod).names

    def is_skipped(self, pod: Pod) -> bool:
        """Whether the policy passes over a pod because it asks for something as a whole."""
        facts = self._facts
        skips = facts.pod_level_pods_skipped and not facts.pod_level_managers
        return skips and is_pod_level(pod.spec.resources)

    def is_managed_as_a_whole(self, pod: Pod) -> bool:
        """Whether a pod gets CPUs as a whole."""
        return self._facts.pod_level_managers and is_pod_level(pod.spec.resources)

    def empty_shared_pool(self, pod: Pod) -> str:
        """Why a pod as a whole leaves nothing for its containers that share; empty if it does.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go validatePodScopeResources
        Differs: no
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

    def _known(self, pod: Pod) -> _PodCPUs:
        known = self._pods.get(id(pod))
        if known is None:
            if len(self._pods) >= _REMEMBERED_MAX:
                self._pods.clear()
            cgroups = self._cgroups
            qos = pod_qos(
                pod,
                status_wins=cgroups.qos_class_from_status,
                pod_level=cgroups.pod_level_resources,
            )
            names = frozenset(container.name or "" for container in containers_of(pod))
            known = self._pods[id(pod)] = _PodCPUs(pod, qos == "Guaranteed", names)
        return known

    def _count(self, pod: Pod, container: Container) -> int:
        amount = container.requests.get(CPU)
        if self._facts.allocated_resources_win and pod.status is not None:
            amount = self._allocated(pod, container, amount)
        if self.is_managed_as_a_whole(pod) and not is_equivalent_guaranteed(container):
            return 0
        return _whole_cpus(amount)

    def _allocated(self, pod: Pod, container: Container, otherwise: Amount) -> Amount:
        """What the first status of a container says is allocated, be it nothing."""
        status = pod.status
        assert status is not None
        statuses: tuple[ContainerStatus, ...] = status.container_statuses or ()
        if self._facts.sidecars_allocated_resources_win and is_sidecar(container):
            statuses += status.init_container_statuses or ()
        for each in statuses:
            if each.name == container.name:
                return (each.allocated_resources or {}).get(CPU)
        return otherwise

    def _whole(self, pod: Pod) -> int:
        if self.is_managed_as_a_whole(pod):
            assert pod.spec.resources is not None
            return _whole_cpus((pod.spec.resources.requests or {}).get(CPU))
        at_start = beside = 0
        for container in pod.spec.init_containers or ():
            if CPU not in container.requests:
                continue
            count = self.of_container(pod, container)
            if is_sidecar(container) and self._facts.sidecars_keep_resources:
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
