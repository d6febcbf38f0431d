"""Version differences of the cgroups subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven


class CgroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.cgroups``: what a kubelet version does in this subsystem."""

    qos_class_from_status: bool = fact(
        "A QoS class in the pod's status is taken as it stands; otherwise it is computed.",
        since=29,
        source="pkg/apis/core/v1/helper/qos/qos.go GetPodQOS",
    )
    pod_level_resources: bool = proven(
        "spec.resources of a pod counts: for its class, cgroup values, container limits and OOM "
        "scores (gate PodLevelResources, in the code since 1.32).",
        since=34,
        source="pkg/features/kube_features.go PodLevelResources",
    )
    sidecars_run_alongside: bool = proven(
        "Restartable init containers add to the containers and to the init containers after them, "
        "whatever the gate SidecarContainers says.",
        since=28,
        source="pkg/api/v1/resource/helpers.go PodRequests, PodLimits",
    )
    pod_config_visits_init_containers: bool = proven(
        "An init container without a limit leaves the pod's cgroup without one, and its huge "
        "pages count for the pod.",
        since=23,
        source="pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
    )
    huge_pages_from_pod_requests: bool = fact(
        "Huge page limits of a pod come from its requests as a whole, overhead included.",
        since=27,
        source="pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
    )
    container_shares_capped: bool = fact(
        "Shares of a container end at 262144, as those of pods always did.",
        since=24,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
    )
    limit_is_share_only_without_request: bool = proven(
        "The CPU limit stands in for a request that is absent; for one of 0 no longer.",
        since=26,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
    )
    oom_score_of_guaranteed_997: bool = fact(
        "Protected containers have the OOM score adjustment -997 (before: -998), and Burstable "
        "ones at least 3 (before: 2).",
        since=20,
        source="pkg/kubelet/qos/policy.go guaranteedOOMScoreAdj",
    )
    oom_only_node_critical_protected: bool = proven(
        "Only pods of the class system-node-critical are protected from the OOM killer by "
        "priority; before, all critical, static and mirror pods were.",
        since=22,
        source="pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust",
    )
    oom_sidecar_outlives_containers: bool = fact(
        "A sidecar's OOM score adjustment is at most that of the container with the smallest "
        "memory request.",
        since=32,
        source="pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust",
    )
    oom_kills_all_processes: bool = proven(
        "With cgroup v2 the kernel is asked to kill all processes of a container at once "
        "(memory.oom.group).",
        since=28,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
    )
    oom_kill_scope_configurable: bool = proven(
        "singleProcessOOMKill decides about memory.oom.group; the kubelet sets it to false with "
        "cgroup v2, and where it is not set, the file is not written.",
        since=32,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
    )
    swap_file_written: bool = proven(
        "Swap is limited through memory.swap.max, in proportion to the memory request of "
        "Burstable containers (LimitedSwap).",
        since=28,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go ConfigureLimitedSwap",
    )
    swap_unlimited_unless_limited: bool = proven(
        "Any swap behaviour but LimitedSwap is unlimited swap; later it is none.",
        since=28,
        until=30,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go ConfigureUnlimitedSwap",
    )
    swap_never_for_critical_pods: bool = proven(
        "Critical pods get no swap.",
        since=31,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
        "configureContainerSwapResources",
    )
    memory_qos: bool = proven(
        "With the gate MemoryQoS requests protect memory and memory.high throttles.",
        since=22,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
        "generateLinuxContainerResources",
    )
    memory_high_above_request: bool = proven(
        "memory.high is a fraction of the way from request to limit, in whole pages; before, it "
        "was a fraction of the limit.",
        since=27,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
        "generateLinuxContainerResources",
    )
    memory_qos_gate_on: bool = fact(
        "The gate MemoryQoS is on, and memoryThrottlingFactor unset: nothing throttles.",
        since=37,
        source="pkg/features/kube_features.go MemoryQoS, KEP-2570",
    )
    memory_high_for_best_effort: bool = fact(
        "memory.high throttles containers without request and limit, too; before, a request of 0 "
        "was taken for one that is the limit.",
        since=37,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
        "generateLinuxContainerResources, PR 138139",
    )
    memory_reservation_tiers: bool = proven(
        "Memory is protected only by the policy TieredReservation: memory.min for Guaranteed, "
        "memory.low for Burstable.",
        since=36,
        source="pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
    )
    exclusive_cpus_unlimited: bool = fact(
        "A container with CPUs of its own has the quota -1, and so has its pod.",
        since=33,
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
        "generateLinuxContainerResources, pkg/kubelet/cm/pod_container_manager_linux.go "
        "EnsureExists; DisableCPUQuotaWithExclusiveCPUs (on)",
    )
    process_ids_limited: bool = fact(
        "Process IDs of pods and of the node are limited by the settings alone; before, gates "
        "decided besides, and pids.max is not compared.",
        since=20,
        source="pkg/features/kube_features.go SupportPodPidsLimit, SupportNodePidsLimit: locked "
        "since v1.20.0",
    )
    huge_page_reservations_limited: bool = fact(
        "Limits of huge pages are written for reservations (rsvd), too, where the kernel has the "
        "file.",
        since=29,
        source="libcontainer fs/hugetlb.go, fs2/hugetlb.go: in v1.31.0, not in v1.28.0-alpha.2 "
        "(PR 121739)",
    )
    qos_update_names_root: bool = proven(
        "The update of the QoS cgroups writes the root, kubepods, too.",
        since=22,
        source="pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups",
    )
    qos_memory_counts_pod_level: bool = fact(
        "Memory requests of spec.resources count for the QoS memory reserve even while the gate "
        "PodLevelResources is off.",
        since=32,
        source="pkg/kubelet/cm/qos_container_manager_linux.go getQoSMemoryRequests",
    )
    eviction_percentage_at_most_100: bool = fact(
        "An eviction threshold above 100 % is refused; before, one above 10000 %.",
        since=21,
        source="pkg/kubelet/eviction/helpers.go parseThresholdStatement",
    )
    over_reservation_names_capacity: bool = fact(
        "The error about over-reservation names reservation and capacity, no longer the "
        "reservation as allocatable and the difference as capacity.",
        since=30,
        source="pkg/kubelet/cm/node_container_manager_linux.go validateNodeAllocatable",
    )
