"""Which rule gives the OOM score adjustment of a container."""

from __future__ import annotations

from kubeledger.kubelet.cgroups.oom import container_oom_score_adj
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.critical import is_critical_pod, is_node_critical_pod
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.requests import units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

__all__ = ["oom_reason"]


def oom_reason(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    *,
    memory_capacity: int,
) -> str:
    """Protection by class, or the share of the node's memory that is requested."""
    only_node = facts.oom_only_node_critical_protected
    if is_node_critical_pod(pod) if only_node else is_critical_pod(pod):
        kind = "node-critical" if only_node else "critical"
        return f"all containers of a {kind} pod are protected with this"
    if qos_class != "Burstable":
        return f"all containers of {qos_class} pods have this"
    adjust = container_oom_score_adj(
        pod, container, qos_class, facts, memory_capacity=memory_capacity
    )
    requests = container.requests
    request = units_of(NANOS[requests["memory"]]) if "memory" in requests else 0
    exact = 1000 - 1000 * request // memory_capacity
    of = f"of the node's {memory_capacity} bytes of memory {request} are requested"
    level = facts.pod_level_resources and pod.spec.resources is not None
    if adjust == exact:
        return f"{of}, and 1000 - 1000 * {request} / {memory_capacity} = {adjust}"
    if exact == 1000 and adjust == 999:
        return "no thousandth of the node's memory is requested, and 1000 is for BestEffort pods"
    if adjust <= 3 and exact < adjust:
        return f"{of}, and {adjust} is the least for Burstable pods"
    if level:
        return (
            f"{of}, and the container's part of what spec.resources requests beyond its containers"
        )
    return f"{of}, and a sidecar's adjustment is at most that of the containers"
