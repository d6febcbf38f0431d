"""Version differences of the CPU manager and the memory manager."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import Fact

__all__ = ["FACTS", "ResourceManagerFacts"]


class ResourceManagerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; see ``FACTS`` for each field."""

    cpus_kept_on_failed_update: bool
    init_memory_reused: bool
    whole_numa_nodes_first: bool
    release_spares_siblings: bool
    sidecars_keep_resources: bool
    pod_level_pods_skipped: bool


FACTS: tuple[Fact, ...] = (
    Fact(
        name="cpus_kept_on_failed_update",
        since=21,
        text="A container that cannot be moved to its CPUs keeps them; before, it gave them back.",
        source="cpumanager/cpu_manager.go AddContainer: v1.20.2 and v1.21.3 differ",
        proof="source",
    ),
    Fact(
        name="init_memory_reused",
        since=22,
        text="Memory of init containers is used again by the pod's later containers.",
        source="memorymanager/policy_static.go updateInitContainersMemoryBlocks",
        proof="source",
    ),
    Fact(
        name="whole_numa_nodes_first",
        since=23,
        text="Whole free NUMA nodes are taken like whole free sockets; before, sockets alone.",
        source="cpumanager/cpu_assignment.go takeFullFirstLevel, takeFullSecondLevel",
        proof="source",
    ),
    Fact(
        name="release_spares_siblings",
        since=24,
        text="CPUs that another container of the pod has as well do not return to the shared pool.",
        source="cpumanager/policy_static.go getAssignedCPUsOfSiblings",
        proof="source",
    ),
    Fact(
        name="sidecars_keep_resources",
        since=29,
        text="CPUs and memory of a restartable init container are not used again.",
        source="cpumanager/policy_static.go updateCPUsToReuse, memorymanager/policy_static.go "
        "updateInitContainersMemoryBlocks",
        proof="source",
    ),
    Fact(
        name="pod_level_pods_skipped",
        since=34,
        text="Containers of a pod with resources of its own get no CPUs and no memory alone.",
        source="policy_static.go of both, IsPodLevelResourcesSet; in 1.36 the gate "
        "PodLevelResourceManagers is off",
        proof="source",
    ),
)
"""(n,) one per field of ``ResourceManagerFacts``, in the order of versions."""
