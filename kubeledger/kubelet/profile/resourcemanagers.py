"""Version differences of the CPU, the memory and the topology manager."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_OPTIONS = "cpumanager/policy_options.go"


class ResourceManagerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.resourcemanagers``: what a kubelet version does in this subsystem."""

    cpus_kept_on_failed_update: bool = fact(
        since=21,
        text="A container that cannot be moved to its CPUs keeps them, and its ID is known; before,"
        " it gave them back, and the ID became known when the runtime was next told of CPUs.",
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
    release_spares_siblings: bool = fact(
        since=24,
        text="CPUs that another container of the pod has as well do not return to the shared pool.",
        source="cpumanager/policy_static.go getAssignedCPUsOfSiblings",
        proof="source",
    )
    sidecars_keep_resources: bool = fact(
        since=29,
        text="CPUs and memory of a restartable init container are not used again, and count beside"
        " those of the containers.",
        source="cpumanager/policy_static.go updateCPUsToReuse, podGuaranteedCPUs, "
        "memorymanager/policy_static.go updateInitContainersMemoryBlocks",
        proof="source",
    )
    pending_admission_pod: bool = fact(
        since=23,
        backports={22: 1},
        until=32,
        text="The last pod that was to be admitted counts as active until another one is.",
        source="memory_manager.go, cpu_manager.go pendingAdmissionPod: v1.22.0 and v1.23.0, "
        "v1.31.14 and v1.32.13 differ; for 1.22 #104267",
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
    pod_level_managers: bool = fact(
        since=37,
        text="A pod with resources of its own gets CPUs and memory as a whole (gate "
        "PodLevelResourceManagers: in 1.36, whose cases prove the rules, off by default; beta in "
        "1.37 by its enhancement's record).",
        source="policy_static.go of both AllocatePod",
        proof="source",
    )
    newest_checkpoint_form_first: bool = fact(
        since=36,
        text="A state file is read as one of the newest form first, and what is wrong is said of "
        "the oldest; before, the other way round.",
        source="state_checkpoint.go of both, restoreState",
        proof="conformance",
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

    sockets_are_known: bool = fact(
        since=20,
        backports={19: 9},
        text="A CPU's socket is what cAdvisor says; before, its NUMA node.",
        source="cpumanager/topology/topology.go Discover: v1.19.0 and v1.20.0 differ (#90980, for "
        "1.19 #99276)",
        proof="source",
    )
    hints_count_reusable_cpus: bool = fact(
        since=20,
        text="CPUs that init containers leave to the pod's later containers count for the CPU "
        "manager's hints; before, for the allocation alone.",
        source="cpumanager/policy_static.go generateCPUTopologyHints: v1.19.0 and v1.20.0 differ",
        proof="source",
    )
    sockets_counted_by_cadvisor: bool = fact(
        since=21,
        backports={19: 9, 20: 5},
        text="A machine has as many sockets as cAdvisor says; before, as many as NUMA nodes.",
        source="cpumanager/topology/topology.go Discover (#99464, for 1.20 #99493, for 1.19 "
        "#99771)",
        proof="source",
    )
    units_sorted_by_free_cpus: bool = fact(
        since=22,
        text="Sockets and cores are taken in the order of their free CPUs; before, in one that "
        "depends on how Go sorts.",
        source="cpumanager/cpu_assignment.go freeCores, freeCPUs",
        proof="source",
    )
    only_changed_cpusets_are_updated: bool = fact(
        since=22,
        text="The runtime is told of a container's CPUs when they change; before, each time that "
        "the CPU manager looks.",
        source="cpumanager/cpu_manager.go lastUpdateState",
        proof="source",
    )
    whole_numa_nodes_first: bool = fact(
        since=23,
        text="Whole free NUMA nodes are taken like whole free sockets; before, sockets alone.",
        source="cpumanager/cpu_assignment.go takeFullFirstLevel, takeFullSecondLevel",
        proof="source",
    )
    ended_containers_leave_the_map: bool = fact(
        since=25,
        backports={24: 2, 23: 8, 22: 10, 21: 13},
        text="The CPU manager forgets the IDs of containers of pods that are not active.",
        source="cpumanager/cpu_manager.go removeStaleState: v1.24.0 and v1.24.12, v1.25.0 differ "
        "(#109103, for 1.24 #110307, for 1.23 #109156, for 1.22 #109157, for 1.21 #109158)",
        proof="source",
    )
    free_cores_must_suffice: bool = fact(
        since=27,
        text="full-pcpus-only refuses a container for which too few whole cores are free, also one"
        " that has its CPUs already.",
        source="cpumanager/policy_static.go Allocate: v1.26.0 and v1.27.1 differ",
        proof="source",
    )
    cpu_shortage_names_numbers: bool = fact(
        since=30,
        text="A shortage of CPUs says how many were requested and available.",
        source="cpumanager/cpu_assignment.go takeByTopologyNUMAPacked: v1.29.0 and v1.30.0 differ",
        proof="source",
    )
    smt_error_tells_free_cores_apart: bool = fact(
        since=32,
        text="An SMTAlignmentError says that too few whole cores are free also where none is.",
        source="cpumanager/policy_static.go SMTAlignmentError.Error",
        proof="conformance",
    )
    odd_requests_in_one_uncore_cache: bool = fact(
        since=33,
        text="An odd number of CPUs is taken out of one uncore cache as well.",
        source="cpumanager/cpu_assignment.go takePartialUncore: v1.32.13 and v1.33.13 differ",
        proof="conformance",
    )

    cpu_policy_options: bool = fact(
        since=22,
        text="The static policy takes options: full-pcpus-only.",
        source=f"{_OPTIONS} NewStaticPolicyOptions",
        proof="source",
    )
    cpu_options_have_gates: bool = fact(
        since=23,
        text="Options are alpha, beta or stable, and the first two have a gate each.",
        source=f"{_OPTIONS} CheckPolicyOptionAvailable",
        proof="source",
    )
    cpu_beta_options: bool = fact(
        since=23,
        text="Beta options of the CPU manager may be used (gate CPUManagerPolicyBetaOptions).",
        source="pkg/features/kube_features.go CPUManagerPolicyBetaOptions",
        proof="source",
    )
    cpu_alpha_options: bool = fact(
        since=23,
        gate="CPUManagerPolicyAlphaOptions",
        text="Alpha options of the CPU manager may be used (gate CPUManagerPolicyAlphaOptions).",
        source="pkg/features/kube_features.go CPUManagerPolicyAlphaOptions",
        proof="source",
    )
    full_pcpus_stable: bool = fact(
        since=33,
        text="full-pcpus-only is stable; before, beta.",
        source=f"{_OPTIONS} stableOptions",
        proof="source",
    )
    distribute_numa_option: bool = fact(
        since=23,
        text="There is an option distribute-cpus-across-numa.",
        source=f"{_OPTIONS} alphaOptions",
        proof="source",
    )
    distribute_numa_beta: bool = fact(
        since=33,
        text="distribute-cpus-across-numa is beta; before, alpha.",
        source=f"{_OPTIONS} betaOptions: v1.32.13 and v1.33.13 differ",
        proof="conformance",
    )
    distribution_balances_machine: bool = fact(
        since=24,
        text="distribute-cpus-across-numa balances what is left on all NUMA nodes; before, on the "
        "chosen ones, of which each gave at most one CPU or core more than the others.",
        source="cpumanager/cpu_assignment.go takeByTopologyNUMADistributed: v1.23.0 and v1.24.0 "
        "differ",
        proof="source",
    )
    align_by_socket_option: bool = fact(
        since=25,
        text="There is an option align-by-socket, which is alpha.",
        source=f"{_OPTIONS} alphaOptions",
        proof="source",
    )
    distribute_cores_option: bool = fact(
        since=31,
        text="There is an option distribute-cpus-across-cores, which is alpha.",
        source=f"{_OPTIONS} alphaOptions",
        proof="conformance",
    )
    strict_reservation_option: bool = fact(
        since=32,
        text="There is an option strict-cpu-reservation.",
        source=f"{_OPTIONS} alphaOptions: v1.31.14 and v1.32.13 differ",
        proof="conformance",
    )
    strict_reservation_beta: bool = fact(
        since=33,
        text="strict-cpu-reservation is beta; before, alpha.",
        source=f"{_OPTIONS} betaOptions: v1.32.13 and v1.33.13 differ",
        proof="source",
    )
    strict_reservation_stable: bool = fact(
        since=35,
        text="strict-cpu-reservation is stable; before, beta.",
        source=f"{_OPTIONS} stableOptions: v1.34.9 and v1.35.6 differ",
        proof="conformance",
    )
    prefer_uncore_option: bool = fact(
        since=32,
        text="There is an option prefer-align-cpus-by-uncorecache.",
        source=f"{_OPTIONS} alphaOptions",
        proof="conformance",
    )
    prefer_uncore_beta: bool = fact(
        since=34,
        text="prefer-align-cpus-by-uncorecache is beta; before, alpha.",
        source=f"{_OPTIONS} betaOptions: v1.33.13 and v1.34.9 differ",
        proof="source",
    )
    prefer_uncore_stable: bool = fact(
        since=36,
        text="prefer-align-cpus-by-uncorecache is stable; before, beta.",
        source=f"{_OPTIONS} stableOptions: v1.35.6 and v1.36.2 differ",
        proof="conformance",
    )


# Version differences of the topology subsystem.


class TopologyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.topology``: what a kubelet version does in this subsystem."""

    pod_scope: bool = fact(
        since=20,
        text="One merged hint for the whole pod is possible; before, only per container.",
        source="topologymanager scope_pod.go",
        proof="source",
    )
    preferred_needs_equal_masks: bool = fact(
        since=24,
        text="A merged hint is preferred only if all masks that went into it are equal.",
        source="policy.go mergePermutation, PR 108052",
        proof="conformance",
    )
    fits_the_widest_need: bool = fact(
        since=24,
        text=(
            "Of hints that are not preferred, one with as many nodes as the resource that needs "
            "most of them wins; before, the narrowest."
        ),
        source="policy.go compareHints, PR 108154",
        proof="conformance",
    )
    policy_options: bool = fact(
        since=26,
        text="Policies take options; prefer-closest-numa-nodes weighs the distance of nodes.",
        source="policy_options.go, numa_info.go Closest",
        proof="conformance",
    )
    none_needs_nothing: bool = fact(
        since=28,
        text="Under policy none neither scope nor options nor the number of NUMA nodes are looked "
        "at.",
        source="topology_manager.go NewManager: v1.27.14 and v1.28.0 differ",
        proof="source",
    )
    alpha_options: bool = fact(
        since=26,
        gate="TopologyManagerPolicyAlphaOptions",
        text="Alpha options of the topology manager may be used.",
        source="policy_options.go CheckPolicyOptionAvailable",
        proof="source",
    )
    beta_options: bool = fact(
        since=28,
        text="Beta options may be used (gate TopologyManagerPolicyBetaOptions, in the code since "
        "1.26).",
        source="pkg/features/kube_features.go TopologyManagerPolicyBetaOptions",
        proof="source",
    )
    prefer_closest_beta: bool = fact(
        since=28,
        text="prefer-closest-numa-nodes needs the gate of beta options (on), not of alpha ones.",
        source="policy_options.go betaOptions",
        proof="source",
    )
    prefer_closest_stable: bool = fact(
        since=32,
        text="prefer-closest-numa-nodes needs no gate.",
        source="policy_options.go stableOptions",
        proof="source",
    )
    max_allowable_nodes_option: bool = fact(
        since=31,
        text="max-allowable-numa-nodes raises the limit of 8 NUMA nodes, behind a gate.",
        source="policy_options.go MaxAllowableNUMANodes",
        proof="source",
    )
    max_allowable_nodes_stable: bool = fact(
        since=35,
        text="max-allowable-numa-nodes needs no gate.",
        source="policy_options.go stableOptions",
        proof="source",
    )
    option_errors_in_lower_case: bool = fact(
        since=33,
        text="The error about a gate that is off begins in lower case.",
        source="policy_options.go CheckPolicyOptionAvailable: v1.32.0 and v1.33.1 differ",
        proof="source",
    )
