"""Which containers own CPUs alone, and so run without a quota.

The static CPU policy gives whole CPUs to containers of Guaranteed pods that ask for whole
CPUs. A quota on top would throttle them on CPUs that nobody else may use.
"""

from __future__ import annotations

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

_CPU: int = 10**9
"""Nanos of one CPU."""


def exclusive_containers(pod: Pod, qos_class: QOSClass, facts: CgroupFacts) -> frozenset[str]:
    """Names of the containers that the static CPU policy gives CPUs of their own.

    Args:
        pod: init containers count as well.
        qos_class: of the pod.
        facts: of the kubelet's version.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go Allocate, guaranteedCPUs
    Differs: there are enough CPUs; PodLevelResourceManagers is off.
    """
    spec = pod.spec
    if qos_class != "Guaranteed" or (facts.pod_level_resources and spec.resources is not None):
        return frozenset()
    return frozenset(
        container.name or ""
        for container in (*(spec.init_containers or ()), *(spec.containers or ()))
        if _whole(NANOS[container.requests["cpu"]] if "cpu" in container.requests else 0)
    )


def _whole(cpu: int) -> bool:
    return cpu >= _CPU and cpu % _CPU == 0
