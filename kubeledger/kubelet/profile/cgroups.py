"""Version differences of the cgroups subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact


class CgroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.cgroups``: what a kubelet version does in this subsystem."""

    qos_class_from_status: bool = fact(
        since=29,
        text="A QoS class in the pod's status is taken as it stands; otherwise it is computed.",
        source="pkg/apis/core/v1/helper/qos/qos.go GetPodQOS",
        proof="source",
    )
    pod_level_resources: bool = fact(
        since=34,
        text="spec.resources of a pod counts: for its class, cgroup values, container limits"
        " and OOM scores (gate PodLevelResources, in the code since 1.32).",
        source="pkg/features/kube_features.go PodLevelResources",
        proof="conformance",
    )
    sidecars_run_alongside: bool = fact(
        since=28,
        text="Restartable init containers add to the containers and to the init containers"
        " after them, whatever the gate SidecarContainers says.",
        source="pkg/api/v1/resource/helpers.go PodRequests, PodLimits",
        proof="conformance",
    )
    pod_config_visits_init_containers: bool = fact(
        since=23,
        text="An init container without a limit leaves the pod's cgroup without one, and its"
        " huge pages count for the pod.",
        source="pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
        proof="conformance",
    )
    huge_pages_from_pod_requests: bool = fact(
        since=27,
        text="Huge page limits of a pod come from its requests as a whole, overhead included.",
        source="pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
        proof="source",
    )
    container_shares_capped: bool = fact(
        since=24,
        text="Shares of a container end at 262144, as those of pods always did.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
        proof="source",
    )
    limit_is_share_only_without_request: bool = fact(
        since=26,
        text="The CPU limit stands in for a request that is absent; for one of 0 no longer.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
        proof="conformance",
    )
    oom_score_of_guaranteed_997: bool = fact(
        since=20,
        text="Protected containers have the OOM score adjustment -997 (before: -998), and"
        " Burstable ones at least 3 (before: 2).",
        source="pkg/kubelet/qos/policy.go guaranteedOOMScoreAdj",
        proof="source",
    )
    oom_only_node_critical_protected: bool = fact(
        since=22,
        text="Only pods of the class system-node-critical are protected from the OOM killer"
        " by priority; before, all critical, static and mirror pods were.",
        source="pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust",
        proof="conformance",
    )
    oom_sidecar_outlives_containers: bool = fact(
        since=32,
        text="A sidecar's OOM score adjustment is at most that of the container with the"
        " smallest memory request.",
        source="pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust",
        proof="source",
    )
    oom_kills_all_processes: bool = fact(
        since=28,
        text="With cgroup v2 the kernel is asked to kill all processes of a container at once"
        " (memory.oom.group).",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
        proof="conformance",
    )
    oom_kill_scope_configurable: bool = fact(
        since=32,
        text="singleProcessOOMKill decides about memory.oom.group; the kubelet sets it to"
        " false with cgroup v2, and where it is not set, the file is not written.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources",
        proof="conformance",
    )
    swap_file_written: bool = fact(
        since=28,
        text="Swap is limited through memory.swap.max, in proportion to the memory request of"
        " Burstable containers (LimitedSwap).",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go ConfigureLimitedSwap",
        proof="conformance",
    )
    swap_unlimited_unless_limited: bool = fact(
        since=28,
        until=30,
        text="Any swap behaviour but LimitedSwap is unlimited swap; later it is none.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go ConfigureUnlimitedSwap",
        proof="conformance",
    )
    swap_never_for_critical_pods: bool = fact(
        since=31,
        text="Critical pods get no swap.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
        " configureContainerSwapResources",
        proof="conformance",
    )
    memory_qos: bool = fact(
        since=22,
        text="With the gate MemoryQoS requests protect memory and memory.high throttles.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
        " generateLinuxContainerResources",
        proof="conformance",
    )
    memory_high_above_request: bool = fact(
        since=27,
        text="memory.high is a fraction of the way from request to limit, in whole pages;"
        " before, it was a fraction of the limit.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
        " generateLinuxContainerResources",
        proof="conformance",
    )
    memory_qos_gate_on: bool = fact(
        since=37,
        text="The gate MemoryQoS is on, and memoryThrottlingFactor unset: nothing throttles.",
        source="pkg/features/kube_features.go MemoryQoS, KEP-2570",
        proof="source",
    )
    memory_high_for_best_effort: bool = fact(
        since=37,
        text="memory.high throttles containers without request and limit, too; before, a request"
        " of 0 was taken for one that is the limit.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
        " generateLinuxContainerResources, PR 138139",
        proof="source",
    )
    memory_reservation_tiers: bool = fact(
        since=36,
        text="Memory is protected only by the policy TieredReservation: memory.min for"
        " Guaranteed, memory.low for Burstable.",
        source="pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
        proof="conformance",
    )
    exclusive_cpus_unlimited: bool = fact(
        since=33,
        text="A container with CPUs of its own has the quota -1, and so has its pod.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
        " generateLinuxContainerResources, pkg/kubelet/cm/pod_container_manager_linux.go"
        " EnsureExists; DisableCPUQuotaWithExclusiveCPUs (on)",
        proof="source",
    )
    process_ids_limited: bool = fact(
        since=20,
        text="Process IDs of pods and of the node are limited by the settings alone; before,"
        " gates decided besides, and pids.max is not compared.",
        source="pkg/features/kube_features.go SupportPodPidsLimit, SupportNodePidsLimit: locked"
        " since v1.20.0",
        proof="source",
    )
    huge_page_reservations_limited: bool = fact(
        since=29,
        text="Limits of huge pages are written for reservations (rsvd), too, where the kernel"
        " has the file.",
        source="libcontainer fs/hugetlb.go, fs2/hugetlb.go: in v1.31.0, not in"
        " v1.28.0-alpha.2 (PR 121739)",
        proof="source",
    )
    qos_update_names_root: bool = fact(
        since=22,
        text="The update of the QoS cgroups writes the root, kubepods, too.",
        source="pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups",
        proof="conformance",
    )
    qos_memory_counts_pod_level: bool = fact(
        since=32,
        text="Memory requests of spec.resources count for the QoS memory reserve even while"
        " the gate PodLevelResources is off.",
        source="pkg/kubelet/cm/qos_container_manager_linux.go getQoSMemoryRequests",
        proof="source",
    )
    eviction_percentage_at_most_100: bool = fact(
        since=21,
        text="An eviction threshold above 100 % is refused; before, one above 10000 %.",
        source="pkg/kubelet/eviction/helpers.go parseThresholdStatement",
        proof="source",
    )
    over_reservation_names_capacity: bool = fact(
        since=30,
        text="The error about over-reservation names reservation and capacity, no longer the"
        " reservation as allocatable and the difference as capacity.",
        source="pkg/kubelet/cm/node_container_manager_linux.go validateNodeAllocatable",
        proof="source",
    )
