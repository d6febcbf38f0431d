"""The OOM score adjustment of a container: who goes first when memory runs out.

The kernel's score of a process is the share of memory it uses, in thousandths, plus this.
A Burstable container that uses what it requested comes to a score of 1000 with its
adjustment of 1000 minus its requested share; one that uses more is above it.
"""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.cgroups.arithmetic import quotient
from kubeledger.kubelet.cgroups.pod_config import HUGE_PAGES_PREFIX
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.critical import is_critical_pod, is_node_critical_pod
from kubeledger.kubelet.kube.pod import Container, Pod, PodSpec, is_sidecar
from kubeledger.kubelet.kube.requests import aggregate, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

KUBELET_OOM_SCORE_ADJ: Final = -999
"""Of the kubelet itself and of kube-proxy."""
BEST_EFFORT_OOM_SCORE_ADJ: Final = 1000


def container_oom_score_adj(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    *,
    memory_capacity: int,
) -> tuple[int, str]:
    """The adjustment of one container, and its rule as users see it.

    Args:
        pod: that the container is part of.
        container: or init container.
        qos_class: of the pod.
        facts: of the kubelet's version.
        memory_capacity: bytes of the node, above 0.

    Raises:
        BadInputError: a memory request cannot be asked for.

    Source: v1.36.2 pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust
    """
    guaranteed = -997 if facts.oom_score_of_guaranteed_997 else -998
    only_node = facts.oom_only_node_critical_protected
    if is_node_critical_pod(pod) if only_node else is_critical_pod(pod):
        kind = "node-critical" if only_node else "critical"
        return guaranteed, f"all containers of a {kind} pod are protected with this"
    if qos_class != "Burstable":
        adjust = guaranteed if qos_class == "Guaranteed" else BEST_EFFORT_OOM_SCORE_ADJ
        return adjust, f"all containers of {qos_class} pods have this"
    share = _unallocated_share(pod.spec) if facts.pod_level_resources else 0
    request = _memory_request(container)
    of = f"of the node's {memory_capacity} bytes of memory {request} are requested, and"
    adjust = _score(request + share, memory_capacity)
    why = f"{of} 1000 - 1000 * {request} / {memory_capacity} = {adjust}"
    if share:
        why = f"{of} the container's part of what spec.resources requests beyond its containers"
    if facts.oom_sidecar_outlives_containers and _is_sidecar_of(pod, container):
        least = min(map(_memory_request, pod.spec.containers or ()), default=0)
        most = _score(least + share, memory_capacity)
        if most < adjust:
            adjust, why = most, f"{of} a sidecar's adjustment is at most that of the containers"
    if adjust < 1000 + guaranteed:
        return 1000 + guaranteed, f"{of} {1000 + guaranteed} is the least for Burstable pods"
    if adjust == BEST_EFFORT_OOM_SCORE_ADJ:
        none = "no thousandth of the node's memory is requested"
        return adjust - 1, f"{none}, and {adjust} is for BestEffort pods"
    return adjust, why


def _score(memory_request: int, memory_capacity: int) -> int:
    return 1000 - quotient(1000 * memory_request, memory_capacity)


def _memory_request(container: Container) -> int:
    requests = container.requests
    return units_of(NANOS[requests["memory"]]) if "memory" in requests else 0


def _is_sidecar_of(pod: Pod, container: Container) -> bool:
    """Source: v1.36.2 pkg/kubelet/qos/policy.go isSidecarContainer."""
    if not is_sidecar(container):
        return False
    return any(init.name == container.name for init in pod.spec.init_containers or ())


def _unallocated_share(spec: PodSpec) -> int:
    """Bytes per container of what the pod level requests beyond the containers' requests.

    Source: v1.36.2 pkg/kubelet/qos/helpers.go remainingPodMemReqPerContainer
    """
    own = (spec.resources.requests if spec.resources is not None else None) or {}
    if not any(n in ("cpu", "memory") or n.startswith(HUGE_PAGES_PREFIX) for n in own):
        return 0
    pod_request = NANOS[own["memory"]] if "memory" in own else 0
    if not pod_request:
        return 0
    inits = spec.init_containers or ()
    requested = aggregate(
        [container.requests for container in spec.containers or ()],
        [(container.requests, is_sidecar(container)) for container in inits],
        "memory",
    )
    remaining = units_of(pod_request) - units_of(requested or 0)
    return quotient(remaining, len(spec.containers or ()) + len(inits))
