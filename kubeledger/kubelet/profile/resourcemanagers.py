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
    hints_extend_to_the_last_node: bool = fact(
        since=22,
        text="A hint is extended to groups whose last node is its own as well; before, to none of "
        "them.",
        source="memorymanager/policy_static.go isHintInGroup: v1.21.0 and v1.22.0 differ",
        proof="source",
    )
    sized_before_groups: bool = fact(
        since=23,
        text="The fewest NUMA nodes that a request needs are counted by what is allocatable; "
        "before, only among nodes that no group keeps from it.",
        source="memorymanager/policy_static.go calculateHints: v1.22.0 and v1.23.0 differ",
        proof="source",
    )
    reuse_ends_with_another_pod: bool = fact(
        since=23,
        text="What a pod's init containers leave to reuse is forgotten at another pod's "
        "allocation; before, the other pod's was.",
        source="memorymanager/policy_static.go updatePodReusableMemory: v1.22.0 and v1.23.0 differ",
        proof="source",
    )
    pending_admission_pod: bool = fact(
        since=23,
        until=32,
        text="The last pod that was to be admitted counts as active until another one is.",
        source="memory_manager.go, cpu_manager.go pendingAdmissionPod: v1.22.0 and v1.23.0, "
        "v1.31.14 and v1.32.13 differ",
        proof="conformance",
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
    groups_guarded: bool = fact(
        since=32,
        text="Memory of several NUMA nodes is refused where one of them is used alone or in "
        "another group; before, the topology manager's affinity was taken.",
        source="memorymanager/policy_static.go isAffinityViolatingNUMAAllocations: v1.31.14 and "
        "v1.32.13 differ",
        proof="conformance",
    )
    groups_compared_by_sums: bool = fact(
        since=32,
        text="At the start what is free and reserved is compared by group of NUMA nodes; before, "
        "node by node.",
        source="memorymanager/policy_static.go areMachineStatesEqual: v1.31.14 and v1.32.13 differ",
        proof="conformance",
    )
    allocated_resources_win: bool = fact(
        since=33,
        until=35,
        text="What a container's status says is allocated stands for its requests.",
        source="policy_static.go of both, InPlacePodVerticalScaling: off before 1.33; v1.34.9 and "
        "v1.35.6 differ",
        proof="source",
    )
    sidecars_allocated_resources_win: bool = fact(
        since=33,
        text="Statuses of init containers are looked at for sidecars as well.",
        source="policy_static.go of both: v1.32.13 and v1.33.13 differ",
        proof="source",
    )
    pod_level_pods_skipped: bool = fact(
        since=34,
        text="Containers of a pod with resources of its own get no CPUs and no memory alone.",
        source="policy_static.go of both, IsPodLevelResourcesSet: v1.33.13 and v1.34.9 differ",
        proof="conformance",
    )
    memory_checkpoint_v1: bool = fact(
        since=36,
        text="memory_manager_state is read as version 1, and a checksum of 0 is not checked.",
        source="memorymanager/state/checkpoint.go: v1.35.6 and v1.36.2 differ",
        proof="conformance",
    )
    no_hints_without_requests: bool = fact(
        since=36,
        text="The memory manager gives a pod that requests none no preference; before, no hints.",
        source="memorymanager/policy_static.go GetPodTopologyHints: v1.35.6 and v1.36.2 differ",
        proof="conformance",
    )
    pod_level_managers: bool = fact(
        since=36,
        gate="PodLevelResourceManagers",
        text="A pod with resources of its own gets CPUs and memory as a whole.",
        source="policy_static.go of both AllocatePod",
        proof="conformance",
    )
