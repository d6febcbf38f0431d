"""What all known versions do alike: the main behaviours, with what proves them here.

Nothing is decided by these; they stand on the parity page beside the differences, so that it
says of each behaviour since when it is there.
"""

from kubeledger.kubelet.profile.facts import Fact, Proof


def _same(text: str, source: str, proof: Proof = "conformance", *, recorded: bool = False) -> Fact:
    return Fact(text=text, source=source, proof=proof, recorded=recorded)


_ADMISSION = {
    "schedulers_checks_again": _same(
        "Resources, node name, selector and affinity, host ports and taints are checked again.",
        "pkg/kubelet/lifecycle/predicate.go generalFilter",
    ),
    "insufficient_resource": _same(
        "What is short is reported as OutOf<resource>, with requested, used and capacity.",
        "pkg/kubelet/lifecycle/predicate.go InsufficientResourceError",
        recorded=True,
    ),
    "critical_pods_preempt": _same(
        "A critical pod that lacks only resources is admitted, and others are killed.",
        "pkg/kubelet/preemption/preemption.go HandleAdmissionFailure",
        recorded=True,
    ),
    "victims_class_by_class": _same(
        "Guaranteed victims are chosen as if all others were gone, then Burstable, then BestEffort"
        " ones; they are killed the other way round.",
        "pkg/kubelet/preemption/preemption.go getPodsToPreempt",
    ),
    "nearest_victim_first": _same(
        "Of a class the pod nearest to what is missing goes, of equals the smallest.",
        "pkg/kubelet/preemption/preemption.go getPodsToPreemptByDistance",
    ),
    "preempting_event_first": _same(
        "Each victim gets the event Preempting before it is killed, even if that fails.",
        "pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests",
        "source",
        recorded=True,
    ),
    "kill_wait": _same(
        "A kill is waited for half as long again as the grace period, at least 10 s; one that"
        " fails is passed over.",
        "pkg/kubelet/pod_workers.go killPodNow",
        "source",
    ),
    "preemptions_counted_by_first": _same(
        "Kills are counted under the first resource that was missing.",
        "pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests",
        "source",
        recorded=True,
    ),
}

_ALLOCATION = {
    "allocation_from_checkpoint": _same(
        "After a restart a pod is admitted with what was allocated to it, whatever its spec asks"
        " for by then.",
        "pkg/kubelet/allocation/allocation_manager.go AddPod; v1.33.13 kubelet.go"
        " HandlePodAdditions",
    ),
    "others_count_as_allocated": _same(
        "A resize is admitted like a new pod, beside the other pods with what is allocated to"
        " them, not what they ask for.",
        "pkg/kubelet/allocation/allocation_manager.go getAllocatedPods; v1.33.13 kubelet.go"
        " canResizePod",
    ),
    "swapping_container_kept": _same(
        "A container that may swap keeps its memory request, unless its resizePolicy restarts it"
        " for memory.",
        "pkg/kubelet/allocation/handlers.go disallowResizeForSwappableContainers; v1.33.13"
        " kubelet.go the same",
    ),
    "removed_pod_stays_in_file": _same(
        "allocated_pods_state is not written when a pod goes: one that went last is back after a"
        " restart.",
        "pkg/kubelet/allocation/state/state_checkpoint.go RemovePod",
    ),
}

_CGROUPS = {
    "shares_of_requests": _same(
        "1024 shares a core requested, 2 at least.",
        "pkg/kubelet/cm/helpers_linux.go MilliCPUToShares",
        recorded=True,
    ),
    "quota_of_limits": _same(
        "A limit becomes a quota of at least 1 ms a period; a pod is limited only where all"
        " that runs in it is.",
        "pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota, ResourceConfigForPod",
        recorded=True,
    ),
    "burstable_class_shares": _same(
        "The Burstable class has the shares of what its pods request, the BestEffort class 2.",
        "pkg/kubelet/cm/qos_container_manager_linux.go setCPUCgroupConfig",
        recorded=True,
    ),
    "memory_reserve": _same(
        "With a memory reserve a class may use what the classes above it do not request.",
        "pkg/kubelet/cm/qos_container_manager_linux.go setMemoryReserve",
        recorded=True,
    ),
    "memory_reserve_second_attempt": _same(
        "Where an update fails, a limit below the usage becomes the usage.",
        "pkg/kubelet/cm/qos_container_manager_linux.go retrySetMemoryReserve",
        "source",
    ),
    "all_pods_less_reserves": _same(
        "All pods may use the capacity less both reserves; eviction thresholds are not taken off.",
        "pkg/kubelet/cm/node_container_manager_linux.go getNodeAllocatableAbsolute",
        recorded=True,
    ),
    "weight_linear": _same(
        "In cgroup v2 the kubelet makes a weight of shares in proportion.",
        "pkg/kubelet/cm/cgroup_manager_linux.go getCPUWeight",
        "source",
    ),
    "oom_score_of_burstable": _same(
        "A Burstable container's OOM score adjustment is 1000 less the thousandths of the node's"
        " memory that it requests.",
        "pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust",
    ),
}

_DEVICES = {
    "too_few_devices": _same(
        "A pod that asks for more devices than are free fails with UnexpectedAdmissionError.",
        "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate",
        recorded=True,
    ),
    "init_devices_reused": _same(
        "Devices of an init container are taken first for the containers after it.",
        "pkg/kubelet/cm/devicemanager/manager.go Allocate",
        recorded=True,
    ),
    "aligned_devices_first": _same(
        "Devices on the NUMA nodes of the stored affinity come first, then others, then those"
        " without a node.",
        "pkg/kubelet/cm/devicemanager/manager.go filterByAffinity",
    ),
    "allocation_kept": _same(
        "A container that holds what it asks for keeps it, and no plugin is asked.",
        "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate",
    ),
}

_DRA = {
    "devices_added_again": _same(
        "Devices of a claim are appended: prepared again, after a failure or a restart, a claim"
        " holds them twice, and so does the container's list.",
        "pkg/kubelet/cm/dra/claiminfo.go addDevice",
    ),
    "last_reference_is_anyones": _same(
        "A pod that ends unprepares each of its claims to which one pod refers, even if that is"
        " another pod, which runs with it.",
        "pkg/kubelet/cm/dra/manager.go unprepareResources",
    ),
    "prepared_is_not_kept": _same(
        "After a restart no claim counts as prepared: the checkpoint holds its devices alone.",
        "pkg/kubelet/cm/dra/claiminfo.go newClaimInfoFromState",
    ),
    "first_error_ends_it": _same(
        "Drivers are asked one after the other; the first error ends the pod's turn, and devices"
        " of claims that were answered before are kept in memory.",
        "pkg/kubelet/cm/dra/manager.go prepareResources",
    ),
    "inactive_pods_unprepared": _same(
        "Every minute claims are unprepared for pods that are not active any more; what fails is"
        " tried again.",
        "pkg/kubelet/cm/dra/manager.go reconcileLoop",
    ),
}

_EVICTION = {
    "signal_below_threshold": _same(
        "A threshold is met when less than it is available; a share is of the capacity seen.",
        "pkg/kubelet/eviction/helpers.go thresholdsMet",
    ),
    "met_until_minimum_reclaim": _same(
        "A threshold whose grace period is over stays met until the minimum to be reclaimed is"
        " there on top of it.",
        "pkg/kubelet/eviction/helpers.go thresholdsMet, mergeThresholds",
    ),
    "pressure_stays": _same(
        "A condition stays for the transition period after it was last seen.",
        "pkg/kubelet/eviction/helpers.go nodeConditionsObservedSince",
    ),
    "memory_first": _same(
        "Memory is reclaimed before all else; of the rest any may be first.",
        "pkg/kubelet/eviction/helpers.go byEvictionPriority",
    ),
    "own_storage_first": _same(
        "Pods over their own limits of local storage are evicted first, and then no other.",
        "pkg/kubelet/eviction/eviction_manager.go localStorageEviction",
    ),
    "over_requests_then_priority": _same(
        "Pods without statistics go first, then those over their requests, by priority, by"
        " usage above the request; of inodes the request of bytes is taken off.",
        "pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankDiskPressureFunc",
    ),
    "one_pod_a_round": _same(
        "One pod is evicted for pressure in a round; critical pods are passed over.",
        "pkg/kubelet/eviction/eviction_manager.go synchronize, evictPod",
    ),
}

_IMAGES = {
    "least_recently_used_first": _same(
        "Images go by last use, then by first detection; any order of the rest can happen.",
        "pkg/kubelet/images/image_gc_manager.go byLastUsedAndDetected",
    ),
    "thresholds": _same(
        "At the high threshold, or above, so much is freed as leads to the low one.",
        "pkg/kubelet/images/image_gc_manager.go GarbageCollect",
        recorded=True,
    ),
    "images_in_use_stay": _same(
        "What a container uses, or was detected within the minimum age, is left.",
        "pkg/kubelet/images/image_gc_manager.go freeSpace",
    ),
    "first_failure_forgiven": _same(
        "One failed pass is only logged; the event ImageGCFailed comes with the second in a row.",
        "pkg/kubelet/kubelet.go StartGarbageCollection",
        "source",
        recorded=True,
    ),
    "free_disk_space_failed": _same(
        "A pass that frees too little sends FreeDiskSpaceFailed.",
        "pkg/kubelet/images/image_gc_manager.go GarbageCollect",
        recorded=True,
    ),
}

_KUBERUNTIME = {
    "one_ready_sandbox": _same(
        "A pod whose newest sandbox is not the only ready one, uses another network than the pod"
        " or has no address is stopped and gets another sandbox.",
        "pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged",
    ),
    "never_begins_once": _same(
        "With restart policy Never no second sandbox is made once a container was created.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions",
    ),
    "failed_init_is_final": _same(
        "An init container that fails under Never ends the pod; else it is started again.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions",
    ),
    "only_failures_kill": _same(
        "A running container is killed for a changed definition, else for a cached failure of"
        " its liveness probe, else of its startup probe.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions",
        recorded=True,
    ),
    "unknown_killed_first": _same(
        "A container in an unknown state is killed before it is started again.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions",
    ),
    "nothing_left_stops_pod": _same(
        "A pod of which no app container goes on or is started is stopped.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions",
    ),
    "back_off_doubles": _same(
        "Starts that follow an exited instance raise the back-off: 10 s, doubled up to 300 s"
        " where nothing else is set, forgotten after 600 s, and in no new kubelet process.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff",
        recorded=True,
    ),
    "back_off_expires_while_held": _same(
        "Housekeeping drops an expired entry also while it holds a container back.",
        "staging/src/k8s.io/client-go/util/flowcontrol/backoff.go GC",
    ),
    "restart_within_a_kill_looks_back": _same(
        "A sync that kills a container and starts it again counts the back-off from the end of"
        " the instance before.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod",
        "source",
        recorded=True,
    ),
}

_LIFECYCLE = {
    "least_grace_period": _same(
        "A container gets its pod's grace period, at least 2 s; a preStop hook takes of it.",
        "pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer",
        "source",
        recorded=True,
    )
}

_PROBER = {
    "thresholds": _same(
        "A result counts once it came so many times in a row as its threshold says.",
        "pkg/kubelet/prober/worker.go doProbe",
    ),
    "three_attempts": _same(
        "A probe is executed up to three times, until it neither errs nor is unknown.",
        "pkg/kubelet/prober/prober.go runProbeWithRetries",
    ),
    "on_hold_after_failure": _same(
        "A liveness or startup worker that reported a failure waits for a new container.",
        "pkg/kubelet/prober/worker.go doProbe",
    ),
    "failed_liveness_restarts": _same(
        "A container that fails its liveness or startup probe is killed and started again.",
        "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions",
        "source",
        recorded=True,
    ),
    "unhealthy_event": _same(
        "A probe that fails sends Unhealthy with its output.",
        "pkg/kubelet/prober/prober.go probe",
        recorded=True,
    ),
}

_RESOURCE_MANAGERS = {
    "whole_cpus_alone": _same(
        "Containers of Guaranteed pods that request whole CPUs get them alone, and no others.",
        "pkg/kubelet/cm/cpumanager/policy_static.go guaranteedCPUs",
        "source",
    ),
    "reserved_cpus_spared": _same(
        "Reserved CPUs are given to no container alone.",
        "pkg/kubelet/cm/cpumanager/policy_static.go GetAvailableCPUs",
        "source",
    ),
    "init_cpus_reused": _same(
        "CPUs of init containers are used again by the pod's later containers.",
        "pkg/kubelet/cm/cpumanager/policy_static.go updateCPUsToReuse",
        "source",
    ),
}

_IMAGE_PULL = {
    "pull_back_off": _same(
        "A pull that failed is tried again after 10 s, doubled up to 300 s; so long, a pod does"
        " not try that image. Only 600 s without a failure begin anew, not a success.",
        "pkg/kubelet/images/image_manager.go EnsureImageExists",
    ),
    "pull_back_off_by_pod_and_name": _same(
        "Each pod has its own back-off for each name of an image.",
        "pkg/kubelet/images/image_manager.go EnsureImageExists",
    ),
    "pull_rate_limited": _same(
        "A pull over registryPullQPS and registryBurst fails, and counts for the back-off.",
        "pkg/kubelet/images/helpers.go throttledImageService",
    ),
    "pulls_serialized": _same(
        "With serializeImagePulls one image is pulled after the other, in the order of requests.",
        "pkg/kubelet/images/puller.go serialImagePuller",
    ),
    "credential_by_credential": _same(
        "The runtime is asked with one credential after the other, the most specific registry"
        " first, pull secrets before those of the node; all errors are one.",
        "pkg/kubelet/kuberuntime/kuberuntime_image.go PullImage",
    ),
}

_STAGES = {
    "failed_syncs_again": _same(
        "A sync that failed is tried again after 10 s to 15 s, one that waits for the network"
        " after 1 s to 1.5 s.",
        "pkg/kubelet/pod_workers.go completeWork, before 1.22 wrapUp",
        "source",
    ),
    "mount_back_off": _same(
        "A mount that failed is tried again after 0.5 s, doubled up to 122 s; a sync waits 123 s.",
        "pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go",
        "source",
    ),
    "runtime_given_30_s": _same(
        "A kubelet whose runtime did not answer for 30 s, or list pods for three minutes, syncs"
        " no pods, and its node is not ready.",
        "pkg/kubelet/runtime.go runtimeErrors; pkg/kubelet/pleg/generic.go Healthy",
        "source",
    ),
}

_TOPOLOGY = {
    "no_preference": _same(
        "A provider or resource without hints stands for any NUMA node, preferred.",
        "pkg/kubelet/cm/topologymanager/policy.go filterProvidersHints",
        recorded=True,
    ),
    "masks_intersect": _same(
        "A merged hint has the nodes that all hints of a combination share, and is preferred only"
        " if all of them are.",
        "pkg/kubelet/cm/topologymanager/policy.go mergePermutation",
    ),
    "policies_admit": _same(
        "none and best-effort admit always, restricted and single-numa-node preferred hints only.",
        "pkg/kubelet/cm/topologymanager/policy_restricted.go, policy_single_numa_node.go",
    ),
}

BEHAVIOURS: dict[str, dict[str, Fact]] = {
    "admission": _ADMISSION,
    "allocation": _ALLOCATION,
    "cgroups": _CGROUPS,
    "devices": _DEVICES,
    "dra": _DRA,
    "eviction": _EVICTION,
    "imagepull": _IMAGE_PULL,
    "images": _IMAGES,
    "kuberuntime": _KUBERUNTIME,
    "lifecycle": _LIFECYCLE,
    "prober": _PROBER,
    "resourcemanagers": _RESOURCE_MANAGERS,
    "stages": _STAGES,
    "topology": _TOPOLOGY,
}
"""subsystem -> name -> behaviour that no known version lacks."""
