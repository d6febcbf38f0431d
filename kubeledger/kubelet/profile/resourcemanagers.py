"""Version differences of the CPU manager and the memory manager."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact


class ResourceManagerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem."""

    cpus_kept_on_failed_update: bool = fact(
        since=21,
        text="A container that cannot be moved to its CPUs keeps them; before, it gave them back.",
        source="cpumanager/cpu_manager.go AddContainer: v1.20.2 and v1.21.3 differ",
        proof="source",
    )
    memory_manager_gate_on: bool = fact(
        since=22,
        text="There is a memory manager, which gives hints (gate MemoryManager, in the code since "
        "1.21).",
        source="pkg/features/kube_features.go MemoryManager, cm/container_manager_linux.go "
        "NewContainerManager",
        proof="source",
    )
    init_memory_reused: bool = fact(
        since=22,
        text="Memory of init containers is used again by the pod's later containers.",
        source="memorymanager/policy_static.go updateInitContainersMemoryBlocks",
        proof="source",
    )
    whole_numa_nodes_first: bool = fact(
        since=23,
        text="Whole free NUMA nodes are taken like whole free sockets; before, sockets alone.",
        source="cpumanager/cpu_assignment.go takeFullFirstLevel, takeFullSecondLevel",
        proof="source",
    )
    release_spares_siblings: bool = fact(
        since=24,
        text="CPUs that another container of the pod has as well do not return to the shared pool.",
        source="cpumanager/policy_static.go getAssignedCPUsOfSiblings",
        proof="source",
    )
    sidecars_keep_resources: bool = fact(
        since=29,
        text="CPUs and memory of a restartable init container are not used again.",
        source="cpumanager/policy_static.go updateCPUsToReuse, memorymanager/policy_static.go "
        "updateInitContainersMemoryBlocks",
        proof="source",
    )
    pod_level_pods_skipped: bool = fact(
        since=34,
        text="Containers of a pod with resources of its own get no CPUs and no memory alone.",
        source="policy_static.go of both, IsPodLevelResourcesSet; in 1.36 the gate "
        "PodLevelResourceManagers is off",
        proof="source",
    )
