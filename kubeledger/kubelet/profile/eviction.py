"""Version differences of the eviction manager."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven

_MANAGER = "pkg/kubelet/eviction/eviction_manager.go"
_HELPERS = "pkg/kubelet/eviction/helpers.go"


class EvictionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.eviction``: what a kubelet version does in this subsystem.

    Requests in the ranking, limits of pods and the range of percentages follow facts of other
    subsystems: ``admission.victims_counted_with_sidecars``, ``admission.pod_level_resources``,
    ``cgroups.sidecars_run_alongside`` and ``cgroups.eviction_percentage_at_most_100``.
    """

    split_disk_known: bool = fact(
        "The eviction manager knows a container filesystem beside the image filesystem, signals "
        "containerfs.available and containerfs.inodesFree included; their thresholds are those of "
        "nodefs (shared and split disks) or imagefs (dedicated), from the second synchronization "
        "on where none were configured.",
        since=29,
        source=f"{_HELPERS} UpdateContainerFsThresholds, buildSignalToRankFunc: v1.28.0 and "
        "v1.29.0 differ (KEP-4191)",
    )
    split_disk_gate_on: bool = fact(
        "Split disks are supported (gate KubeletSeparateDiskGC, on by default). Without it the "
        "first synchronization fails on such a node, and later ones rank none.",
        since=31,
        source=f"{_MANAGER} synchronize and pkg/features/kube_features.go of v1.30.1, v1.31.0",
    )
    containerfs_reclaims: bool = proven(
        "Pressure on containerfs reclaims as its disk does; before, it evicted pods at once.",
        since=32,
        source=f"{_HELPERS} buildSignalToNodeReclaimFuncs: v1.31.0 and v1.32.0 differ",
    )
    reclaim_must_reach_minimum: bool = fact(
        "Pods are spared after a reclaim only if evictionMinimumReclaim is there on top of the "
        "thresholds.",
        since=22,
        source=f"{_MANAGER} reclaimNodeLevelResources: v1.21.3 and v1.22.3 differ",
    )
    summary_has_pod_storage: bool = fact(
        "A pod's use of local storage is what the summary says of it; before, its containers, "
        "local volumes and hosts file were added up.",
        since=21,
        source=f"{_MANAGER} podEphemeralStorageLimitEviction: v1.20.2 and v1.21.3 differ",
    )
    local_volumes_on_default_medium: bool = fact(
        "Only emptyDir volumes on the default medium count as local; before, all but those in "
        "memory, huge pages included.",
        since=21,
        source=f"{_HELPERS} localVolumeNames: v1.20.2 and v1.21.3 differ; pkg/volume/util "
        "IsLocalEphemeralVolume",
    )
    ties_keep_their_order: bool = fact(
        "Pods that rank alike are evicted in the order of the kubelet's list while there are at "
        "most 12 pods; before (Go's sort up to 1.18), at most 6. Beyond, any may be first.",
        since=25,
        source=f"{_HELPERS} multiSorter.Sort, sort.Sort of the Go version it was built with",
    )
    immediate_eviction_grants_a_second: bool = proven(
        "A pod that is evicted at once is given 1 s; before, 0 s, which the pod worker of 1.22 to "
        "1.30 replaces by the pod's own period.",
        since=31,
        source=f"{_MANAGER} immediateEvictionGracePeriodSeconds: v1.30.1 and v1.31.0 differ",
    )
    soft_eviction_grace_at_most_the_pods: bool = proven(
        "A soft eviction gives a pod at most its own grace period (up to 1.34 unless the gate "
        "AllowOverwriteTerminationGracePeriodSeconds is on).",
        since=32,
        source=f"{_MANAGER} synchronize: v1.31.0 and v1.32.0 differ",
    )
    eviction_message_names_threshold: bool = fact(
        "The message of an eviction names the threshold and what was available, and words the "
        "consumption of containers otherwise.",
        since=26,
        source=f"{_HELPERS} evictionMessage: v1.24.0 and v1.26.7 differ",
    )
    message_names_init_containers: bool = fact(
        "Init containers over their request are named in the message, too, and of several "
        "containers of one name only the first.",
        since=32,
        source=f"{_HELPERS} evictionMessage: v1.31.0 and v1.32.0 differ",
    )
    message_reads_allocated_memory: bool = fact(
        "What a container's status says is allocated of memory stands for its request in the "
        "message, be it nothing.",
        since=27,
        until=32,
        gate="InPlacePodVerticalScaling",
        source=f"{_HELPERS} evictionMessage: v1.26.0 and v1.27.1, v1.31.14 and v1.32.13 differ",
    )
    message_names_pod_request: bool = fact(
        "Under memory pressure the message has usage and request of a pod that requests memory as "
        "a whole (gate PodLevelResources, on by default).",
        since=34,
        source=f"{_HELPERS} evictionMessage: v1.33.1 and v1.34.1 differ",
    )
    event_is_a_format: bool = fact(
        "The text of an Evicted event is used as a format: a `%` in it is mangled.",
        until=36,
        source=f"{_MANAGER} evictPod: v1.35.0 and v1.36.2 differ",
    )
    sidecar_storage_limits_evict: bool = fact(
        "Limits of ephemeral-storage of sidecars are looked at like those of containers.",
        since=37,
        source=f"{_MANAGER} containerEphemeralStorageLimitEviction, PR 138462",
    )
    evicted_status_kept: bool = fact(
        "Phase, reason and message are set in an evicted pod's status, the rest stays; before, "
        "they were all of it.",
        since=22,
        source=f"{_MANAGER} evictPod: v1.21.3 and v1.22.3 differ",
    )
    disruption_target_condition: bool = fact(
        "A pod evicted for pressure gets the condition DisruptionTarget with the reason "
        "TerminationByKubelet and the same message (gate PodDisruptionConditions); one evicted "
        "for its own use of storage does not.",
        since=26,
        source=f"{_MANAGER} synchronize: v1.24.0 and v1.26.7 differ",
    )
    disruption_target_generation: bool = fact(
        "The condition DisruptionTarget of an evicted pod has the generation of the pod.",
        since=34,
        source=f"{_MANAGER} evictPod: v1.32.0 and v1.33.1 differ; "
        "PodObservedGenerationTracking (on; in 1.33 off)",
    )
