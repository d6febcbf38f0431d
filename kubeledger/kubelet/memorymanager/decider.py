"""The static policy's decisions, as far as they are no matter of topology hints."""

from __future__ import annotations

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import SIDECAR, Container, Pod
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.kube.requests import units_of
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts


def gets_memory(pod: Pod, facts: ResourceManagerFacts) -> bool:
    """Whether containers of the pod get memory of NUMA nodes: those of Guaranteed pods do.

    Raises:
        BadInputError: an amount of the spec is not a quantity.

    Source: v1.30.1 pkg/kubelet/cm/memorymanager/policy_static.go Allocate
    """
    pod_level = pod.spec.resources is not None
    if pod_level and facts.pod_level_pods_skipped:
        return False
    return pod_qos(pod, status_wins=True, pod_level=pod_level) == "Guaranteed"


def requested_memory(container: Container) -> dict[str, int]:
    """Type of memory -> bytes that a container asks for.

    Source: v1.30.1 pkg/kubelet/cm/memorymanager/policy_static.go getRequestedResources
    Differs: the amount allocated by a resize is not looked at.
    """
    return {
        name: units_of(NANOS[amount])
        for name, amount in container.requests.items()
        if name == "memory" or name.startswith("hugepages-")
    }


def sizes_after_reuse(
    pod: Pod, container: str, memory_type: str, facts: ResourceManagerFacts
) -> frozenset[int]:
    """Sizes in bytes that a block may show at any time.

    That of an init container shrinks by what each later container takes of it.

    Source: v1.30.1 pkg/kubelet/cm/memorymanager/policy_static.go updateInitContainersMemoryBlocks
    Differs: all blocks of the pod are taken to be on the same NUMA nodes.
    """
    init, app = pod.spec.init_containers or (), pod.spec.containers or ()
    sizes: dict[str, int] = {}
    sizes_used: set[int] = set()
    for current in (*init, *app):
        asked = requested_memory(current).get(memory_type)
        if asked is None:
            continue
        rest = asked if facts.init_memory_reused else 0
        for earlier in init:
            name = earlier.name or ""
            if earlier is current:
                break
            kept = earlier.restart_policy == SIDECAR and facts.sidecars_keep_resources
            taken = 0 if kept else min(rest, sizes.get(name, 0))
            rest -= taken
            if name in sizes:
                sizes[name] -= taken
        sizes[current.name or ""] = asked
        if container in sizes:
            sizes_used.add(sizes[container])
    return frozenset(sizes_used)
