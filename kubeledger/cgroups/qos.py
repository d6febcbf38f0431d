"""The QoS class of a pod: which of its containers ask for what.

Only CPU and memory count, and only amounts above zero::

    nothing asked for or limited                                  BestEffort
    every container limits both, and what is requested is limited
    to the same amount over the pod                               Guaranteed
    everything else                                               Burstable
"""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.cgroups.pod import Pod, ResourceRequirements
from kubeledger.cgroups.records import QOSClass
from kubeledger.kube.requests import nanos_of
from kubeledger.profile.cgroups import CgroupFacts

__all__ = ["compute_pod_qos", "pod_qos"]


def pod_qos(pod: Pod, facts: CgroupFacts) -> QOSClass:
    """The class the kubelet puts a pod in.

    Raises:
        QuantityError: a CPU or memory amount is no quantity.

    Source: v1.36.2 pkg/apis/core/v1/helper/qos/qos.go GetPodQOS
    """
    if facts.qos_class_from_status and pod.status is not None and pod.status.qos_class:
        return pod.status.qos_class
    return compute_pod_qos(pod, facts)


def compute_pod_qos(pod: Pod, facts: CgroupFacts) -> QOSClass:
    """The class by what the pod asks for.

    Raises:
        QuantityError: a CPU or memory amount is no quantity.

    Source: v1.36.2 pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS
    Differs: stops at the first container that settles the class.
    """
    spec = pod.spec
    if facts.pod_level_resources and spec.resources is not None:
        return _class_of((spec.resources,), limits_needed=bool(spec.resources.limits))
    containers = spec.containers
    if spec.init_containers:
        containers = containers + spec.init_containers
    return _class_of([container.resources for container in containers], limits_needed=True)


def _class_of(
    requirements: Iterable[ResourceRequirements | None], *, limits_needed: bool
) -> QOSClass:
    """The class of what runs in a pod.

    Args:
        requirements: (n,) one of each container, or the one of the pod level.
        limits_needed: whether limits are looked for. Without any at the pod level none
            is missing; the comparison of the sums then decides.
    """
    guaranteed, asks = True, False
    request_cpu = request_memory = limit_cpu = limit_memory = 0
    for resources in requirements:
        cpu = memory = 0
        if resources is not None and (limits := resources.limits):
            cpu = nanos_of(limits["cpu"]) if "cpu" in limits else 0
            memory = nanos_of(limits["memory"]) if "memory" in limits else 0
            if cpu > 0:
                limit_cpu += cpu
                asks = True
            if memory > 0:
                limit_memory += memory
                asks = True
        if limits_needed and (cpu <= 0 or memory <= 0):
            guaranteed = False
        if resources is not None and (requests := resources.requests):
            if "cpu" in requests and (cpu := nanos_of(requests["cpu"])) > 0:
                request_cpu += cpu
                asks = True
            if "memory" in requests and (memory := nanos_of(requests["memory"])) > 0:
                request_memory += memory
                asks = True
        if asks and not guaranteed:
            return "Burstable"
    if not asks:
        return "BestEffort"
    if guaranteed and request_cpu == limit_cpu and request_memory == limit_memory:
        return "Guaranteed"
    return "Burstable"
