"""Version differences of the CPU, the memory and the topology manager."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven

_OPTIONS = "cpumanager/policy_options.go"


class ResourceManagerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.resourcemanagers``: what a kubelet version does in this subsystem."""

    cpus_kept_on_failed_update: bool = fact(
        "A container that cannot be moved to its CPUs keeps them, and its ID is known; before, it "
        "gave them back, and the ID became known when the runtime was next told of CPUs.",
        since=21,
        source="cpumanager/cpu_manager.go AddContainer: v1.20.2 and v1.21.3 differ",
    )
    memory_manager_gate_on: bool = fact(
        "There is a memory manager, which gives hints (gate MemoryManager, in the code since "
        "1.21).",
        since=22,
        source="pkg/features/kube_features.go MemoryManager, cm/container_manager_linux.go "
        "NewContainerManager",
    )
    init_memory_reused: bool = fact(
        "Memory of init containers is used again by the pod's later containers.",
        since=22,
        source="memorymanager/policy_static.go updateInitContainersMemoryBlocks",
    )
    release_spares_siblings: bool = fact(
        "CPUs that another container of the pod has as well do not return to the shared pool.",
        since=24,
        source="cpumanager/policy_static.go getAssignedCPUsOfSiblings",
    )
    sidecars_keep_resources: bool = fact(
        "CPUs and memory of a restartable init container are not used again, and count beside "
        "those of the containers.",
        since=29,
        source="cpumanager/policy_static.go updateCPUsToReuse, podGuaranteedCPUs, "
        "memorymanager/policy_static.go updateInitContainersMemoryBlocks",
    )
    pending_admission_pod: bool = proven(
        "The last pod that was to be admitted counts as active until another one is.",
        since=23,
        backports={22: 1},
        until=32,
        source="memory_manager.go, cpu_manager.go pendingAdmissionPod: v1.22.0 and v1.23.0, "
        "v1.31.14 and v1.32.13 differ; for 1.22 #104267",
    )
    allocated_resources_win: bool = fact(
        "What a container's status says is allocated stands for its requests.",
        since=33,
        until=35,
        source="policy_static.go of both, InPlacePodVerticalScaling: off before 1.33; v1.34.9 and "
        "v1.35.6 differ",
    )
    sidecars_allocated_resources_win: bool = fact(
        "Statuses of init containers are looked at for sidecars as well.",
        since=33,
        source="policy_static.go of both: v1.32.13 and v1.33.13 differ",
    )
    pod_level_pods_skipped: bool = proven(
        "Containers of a pod with resources of its own get no CPUs and no memory alone.",
        since=34,
        source="policy_static.go of both, IsPodLevelResourcesSet: v1.33.13 and v1.34.9 differ",
    )
    pod_level_managers: bool = fact(
        "A pod with resources of its own gets CPUs and memory as a whole (gate "
        "PodLevelResourceManagers: in 1.36, whose cases prove the rules, off by default; beta in "
        "1.37 by its enhancement's record).",
        since=37,
        source="policy_static.go of both AllocatePod",
    )
    newest_checkpoint_form_first: bool = proven(
        "A state file is read as one of the newest form first, and what is wrong is said of the "
        "oldest; before, the other way round.",
        since=36,
        source="state_checkpoint.go of both, restoreState",
    )

    hints_extend_to_the_last_node: bool = fact(
        "A hint is extended to groups whose last node is its own as well; before, to none of them.",
        since=22,
        source="memorymanager/policy_static.go isHintInGroup: v1.21.0 and v1.22.0 differ",
    )
    sized_before_groups: bool = fact(
        "The fewest NUMA nodes that a request needs are counted by what is allocatable; before, "
        "only among nodes that no group keeps from it.",
        since=23,
        source="memorymanager/policy_static.go calculateHints: v1.22.0 and v1.23.0 differ",
    )
    reuse_ends_with_another_pod: bool = fact(
        "What a pod's init containers leave to reuse is forgotten at another pod's allocation; "
        "before, the other pod's was.",
        since=23,
        source="memorymanager/policy_static.go updatePodReusableMemory: v1.22.0 and v1.23.0 differ",
    )
    groups_guarded: bool = proven(
        "Memory of several NUMA nodes is refused where one of them is used alone or in another "
        "group; before, the topology manager's affinity was taken.",
        since=32,
        source="memorymanager/policy_static.go isAffinityViolatingNUMAAllocations: v1.31.14 and "
        "v1.32.13 differ",
    )
    groups_compared_by_sums: bool = proven(
        "At the start what is free and reserved is compared by group of NUMA nodes; before, node "
        "by node.",
        since=32,
        source="memorymanager/policy_static.go areMachineStatesEqual: v1.31.14 and v1.32.13 differ",
    )
    memory_checkpoint_v1: bool = proven(
        "memory_manager_state is read as version 1, and a checksum of 0 is not checked.",
        since=36,
        source="memorymanager/state/checkpoint.go: v1.35.6 and v1.36.2 differ",
    )
    no_hints_without_requests: bool = proven(
        "The memory manager gives a pod that requests none no preference; before, no hints.",
        since=36,
        source="memorymanager/policy_static.go GetPodTopologyHints: v1.35.6 and v1.36.2 differ",
    )

    sockets_are_known: bool = fact(
        "A CPU's socket is what cAdvisor says; before, its NUMA node.",
        since=20,
        backports={19: 9},
        source="cpumanager/topology/topology.go Discover: v1.19.0 and v1.20.0 differ (#90980, for "
        "1.19 #99276)",
    )
    hints_count_reusable_cpus: bool = fact(
        "CPUs that init containers leave to the pod's later containers count for the CPU "
        "manager's hints; before, for the allocation alone.",
        since=20,
        source="cpumanager/policy_static.go generateCPUTopologyHints: v1.19.0 and v1.20.0 differ",
    )
    sockets_counted_by_cadvisor: bool = fact(
        "A machine has as many sockets as cAdvisor says; before, as many as NUMA nodes.",
        since=21,
        backports={19: 9, 20: 5},
        source="cpumanager/topology/topology.go Discover (#99464, for 1.20 #99493, for 1.19 "
        "#99771)",
    )
    units_sorted_by_free_cpus: bool = fact(
        "Sockets and cores are taken in the order of their free CPUs; before, in one that depends "
        "on how Go sorts.",
        since=22,
        source="cpumanager/cpu_assignment.go freeCores, freeCPUs",
    )
    only_changed_cpusets_are_updated: bool = fact(
        "The runtime is told of a container's CPUs when they change; before, each time that the "
        "CPU manager looks.",
        since=22,
        source="cpumanager/cpu_manager.go lastUpdateState",
    )
    whole_numa_nodes_first: bool = fact(
        "Whole free NUMA nodes are taken like whole free sockets; before, sockets alone.",
        since=23,
        source="cpumanager/cpu_assignment.go takeFullFirstLevel, takeFullSecondLevel",
    )
    ended_containers_leave_the_map: bool = fact(
        "The CPU manager forgets the IDs of containers of pods that are not active.",
        since=25,
        backports={24: 2, 23: 8, 22: 10, 21: 13},
        source="cpumanager/cpu_manager.go removeStaleState: v1.24.0 and v1.24.12, v1.25.0 differ "
        "(#109103, for 1.24 #110307, for 1.23 #109156, for 1.22 #109157, for 1.21 #109158)",
    )
    free_cores_must_suffice: bool = fact(
        "full-pcpus-only refuses a container for which too few whole cores are free, also one "
        "that has its CPUs already.",
        since=27,
        source="cpumanager/policy_static.go Allocate: v1.26.0 and v1.27.1 differ",
    )
    cpu_shortage_names_numbers: bool = fact(
        "A shortage of CPUs says how many were requested and available.",
        since=30,
        source="cpumanager/cpu_assignment.go takeByTopologyNUMAPacked: v1.29.0 and v1.30.0 differ",
    )
    smt_error_tells_free_cores_apart: bool = proven(
        "An SMTAlignmentError says that too few whole cores are free also where none is.",
        since=32,
        source="cpumanager/policy_static.go SMTAlignmentError.Error",
    )
    odd_requests_in_one_uncore_cache: bool = proven(
        "An odd number of CPUs is taken out of one uncore cache as well.",
        since=33,
        source="cpumanager/cpu_assignment.go takePartialUncore: v1.32.13 and v1.33.13 differ",
    )

    cpu_policy_options: bool = fact(
        "The static policy takes options: full-pcpus-only.",
        since=22,
        source=f"{_OPTIONS} NewStaticPolicyOptions",
    )
    cpu_options_have_gates: bool = fact(
        "Options are alpha, beta or stable, and the first two have a gate each.",
        since=23,
        source=f"{_OPTIONS} CheckPolicyOptionAvailable",
    )
    cpu_beta_options: bool = fact(
        "Beta options of the CPU manager may be used (gate CPUManagerPolicyBetaOptions).",
        since=23,
        source="pkg/features/kube_features.go CPUManagerPolicyBetaOptions",
    )
    cpu_alpha_options: bool = fact(
        "Alpha options of the CPU manager may be used (gate CPUManagerPolicyAlphaOptions).",
        since=23,
        gate="CPUManagerPolicyAlphaOptions",
        source="pkg/features/kube_features.go CPUManagerPolicyAlphaOptions",
    )
    full_pcpus_stable: bool = fact(
        "full-pcpus-only is stable; before, beta.", since=33, source=f"{_OPTIONS} stableOptions"
    )
    distribute_numa_option: bool = fact(
        "There is an option distribute-cpus-across-numa.",
        since=23,
        source=f"{_OPTIONS} alphaOptions",
    )
    distribute_numa_beta: bool = proven(
        "distribute-cpus-across-numa is beta; before, alpha.",
        since=33,
        source=f"{_OPTIONS} betaOptions: v1.32.13 and v1.33.13 differ",
    )
    distribution_balances_machine: bool = fact(
        "distribute-cpus-across-numa balances what is left on all NUMA nodes; before, on the "
        "chosen ones, of which each gave at most one CPU or core more than the others.",
        since=24,
        source="cpumanager/cpu_assignment.go takeByTopologyNUMADistributed: v1.23.0 and v1.24.0 "
        "differ",
    )
    align_by_socket_option: bool = fact(
        "There is an option align-by-socket, which is alpha.",
        since=25,
        source=f"{_OPTIONS} alphaOptions",
    )
    distribute_cores_option: bool = proven(
        "There is an option distribute-cpus-across-cores, which is alpha.",
        since=31,
        source=f"{_OPTIONS} alphaOptions",
    )
    strict_reservation_option: bool = proven(
        "There is an option strict-cpu-reservation.",
        since=32,
        source=f"{_OPTIONS} alphaOptions: v1.31.14 and v1.32.13 differ",
    )
    strict_reservation_beta: bool = fact(
        "strict-cpu-reservation is beta; before, alpha.",
        since=33,
        source=f"{_OPTIONS} betaOptions: v1.32.13 and v1.33.13 differ",
    )
    strict_reservation_stable: bool = proven(
        "strict-cpu-reservation is stable; before, beta.",
        since=35,
        source=f"{_OPTIONS} stableOptions: v1.34.9 and v1.35.6 differ",
    )
    prefer_uncore_option: bool = proven(
        "There is an option prefer-align-cpus-by-uncorecache.",
        since=32,
        source=f"{_OPTIONS} alphaOptions",
    )
    prefer_uncore_beta: bool = fact(
        "prefer-align-cpus-by-uncorecache is beta; before, alpha.",
        since=34,
        source=f"{_OPTIONS} betaOptions: v1.33.13 and v1.34.9 differ",
    )
    prefer_uncore_stable: bool = proven(
        "prefer-align-cpus-by-uncorecache is stable; before, beta.",
        since=36,
        source=f"{_OPTIONS} stableOptions: v1.35.6 and v1.36.2 differ",
    )


# Version differences of the topology subsystem.


class TopologyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.topology``: what a kubelet version does in this subsystem."""

    pod_scope: bool = fact(
        "One merged hint for the whole pod is possible; before, only per container.",
        since=20,
        source="topologymanager scope_pod.go",
    )
    preferred_needs_equal_masks: bool = proven(
        "A merged hint is preferred only if all masks that went into it are equal.",
        since=24,
        source="policy.go mergePermutation, PR 108052",
    )
    fits_the_widest_need: bool = proven(
        "Of hints that are not preferred, one with as many nodes as the resource that needs most "
        "of them wins; before, the narrowest.",
        since=24,
        source="policy.go compareHints, PR 108154",
    )
    policy_options: bool = proven(
        "Policies take options; prefer-closest-numa-nodes weighs the distance of nodes.",
        since=26,
        source="policy_options.go, numa_info.go Closest",
    )
    none_needs_nothing: bool = fact(
        "Under policy none neither scope nor options nor the number of NUMA nodes are looked at.",
        since=28,
        source="topology_manager.go NewManager: v1.27.14 and v1.28.0 differ",
    )
    alpha_options: bool = fact(
        "Alpha options of the topology manager may be used.",
        since=26,
        gate="TopologyManagerPolicyAlphaOptions",
        source="policy_options.go CheckPolicyOptionAvailable",
    )
    beta_options: bool = fact(
        "Beta options may be used (gate TopologyManagerPolicyBetaOptions, in the code since 1.26).",
        since=28,
        source="pkg/features/kube_features.go TopologyManagerPolicyBetaOptions",
    )
    prefer_closest_beta: bool = fact(
        "prefer-closest-numa-nodes needs the gate of beta options (on), not of alpha ones.",
        since=28,
        source="policy_options.go betaOptions",
    )
    prefer_closest_stable: bool = fact(
        "prefer-closest-numa-nodes needs no gate.",
        since=32,
        source="policy_options.go stableOptions",
    )
    max_allowable_nodes_option: bool = fact(
        "max-allowable-numa-nodes raises the limit of 8 NUMA nodes, behind a gate.",
        since=31,
        source="policy_options.go MaxAllowableNUMANodes",
    )
    max_allowable_nodes_stable: bool = fact(
        "max-allowable-numa-nodes needs no gate.",
        since=35,
        source="policy_options.go stableOptions",
    )
    option_errors_in_lower_case: bool = fact(
        "The error about a gate that is off begins in lower case.",
        since=33,
        source="policy_options.go CheckPolicyOptionAvailable: v1.32.0 and v1.33.1 differ",
    )
