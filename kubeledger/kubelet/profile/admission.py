"""Version differences of admission: predicates, requests, preemption, and resizes in place."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven


class AdmissionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.admission``: what a kubelet version does in this subsystem."""

    os_checks: bool = fact(
        "A pod labelled for, or with spec.os of, another system than the node's is rejected.",
        since=23,
        source="lifecycle/predicate.go rejectPodAdmissionBasedOnOSSelector, ...OSField",
    )
    os_checks_first: bool = fact(
        "These checks come before all others; before, they came last, after victims had been "
        "killed for the pod.",
        since=29,
        source="lifecycle/predicate.go Admit, PR 116892",
    )
    supplemental_groups_check: bool = fact(
        "supplementalGroupsPolicy Strict is rejected where the node does not support it.",
        since=33,
        source="lifecycle/predicate.go rejectPodAdmissionBasedOnSupplementalGroupsPolicy",
    )
    sidecars_forbidden: bool = proven(
        "The SidecarContainers gate exists and is off: pods with sidecars are rejected.",
        since=28,
        until=29,
        source="lifecycle/predicate.go Admit, features SidecarContainers",
    )
    init_containers_drop_missing_resources: bool = fact(
        "Extended resources that the node does not list are dropped from the requests of init "
        "containers, too; before, only of app containers.",
        since=31,
        source="lifecycle/predicate.go removeMissingExtendedResources, PR 124273",
    )
    drops_resources_claimed_from_drivers: bool = fact(
        "Extended resources that a resource claim of the pod stands for are dropped.",
        since=36,
        source="lifecycle/predicate.go removeMissingExtendedResources, DRAExtendedResource (on), "
        "PR 135725 (in the notes of v1.36.0)",
    )
    requests_rounded_once: bool = fact(
        "A pod's requests are added up exactly and rounded once; before, each container's request "
        "was rounded.",
        since=27,
        source="noderesources/fit.go computePodResourceRequest, framework/types.go "
        "calculateResource: v1.26.7 and v1.27.0 differ",
    )
    requests_count_sidecars: bool = proven(
        "Sidecars count with all that runs beside them; before, they were unknown.",
        since=28,
        source="pkg/api/v1/resource/helpers.go PodRequests: v1.27.0 and v1.28.0 differ",
    )
    pod_level_resources: bool = proven(
        "Requests of the pod as a whole stand in for those of its containers.",
        since=34,
        source="features PodLevelResources (on), component-helpers resource PodRequests",
    )
    resized_requests_count: bool = fact(
        "A running pod counts with the most of its spec, allocation and actual resources.",
        since=33,
        source="framework/types.go calculateResource, features InPlacePodVerticalScaling (on)",
    )
    resized_pod_level_requests_count: bool = fact(
        "A running pod's own requests count with the most of spec, allocation and actual "
        "resources.",
        since=36,
        source="features InPlacePodLevelResourcesVerticalScaling (on)",
    )
    init_container_zero_scalars_count: bool = fact(
        "A scalar resource of which only init containers ask for 0 counts as asked for.",
        since=22,
        source="framework/types.go Resource.SetMaxResource",
    )
    zero_scalar_requests_fit: bool = fact(
        "A request of 0 of a scalar resource fits a node that has too little already.",
        since=26,
        source="noderesources/fit.go fitsRequest, PR 111544",
    )
    zero_requests_fit: bool = proven(
        "A pod that requests no cpu, memory or ephemeral storage fits a node that has too little "
        "already.",
        since=28,
        source="noderesources/fit.go fitsRequest, PR 116408",
    )
    sidecar_host_ports: bool = fact(
        "Host ports of sidecars are taken into account.",
        since=34,
        backports={33: 6},
        source="scheduler/util GetHostPorts, PR 132040, PR 133390",
    )
    no_execute_taints: bool = fact(
        "A NoExecute taint that a pod does not tolerate keeps it out, unless it is static.",
        since=24,
        source="lifecycle/predicate.go generalFilter",
    )
    predicate_reason_in_message: bool = proven(
        "The message of a failed predicate gives the reason.",
        since=31,
        source="lifecycle/predicate.go PredicateFailureError.Error, PR 125498",
    )
    victims_counted_with_sidecars: bool = proven(
        "What a victim would free includes its sidecars, or is what it asks for as a whole; "
        "before, a sidecar counted as an init container.",
        since=34,
        source="pkg/api/v1/resource/helpers.go GetResourceRequestQuantity",
    )
    kill_error_ends_wait: bool = fact(
        "An error of the runtime while a victim is killed ends the wait for it; later, the pod "
        "worker tries again and only the end of the wait is an error.",
        until=22,
        source="pod_workers.go killPodNow: v1.21.0 and v1.22.0 differ",
    )
    preempted_pod_status_kept: bool = fact(
        "Phase, reason and message are set in a victim's status, the rest stays; before, they "
        "were all of it.",
        since=22,
        source="preemption/preemption.go evictPodsToFreeRequests: v1.21.0 and v1.22.0 differ",
        recorded=True,
    )
    preempted_pod_condition: bool = fact(
        "A victim gets the condition DisruptionTarget with the reason TerminationByKubelet.",
        since=28,
        backports={26: 6, 27: 3},
        source="preemption/preemption.go evictPodsToFreeRequests: in v1.26.7 and v1.28.0, not in "
        "v1.25.0, v1.27.0, PR 117586 (for 1.27 #118219, for 1.26 #118221); "
        "PodDisruptionConditions (on)",
        recorded=True,
    )
    preempted_pod_condition_generation: bool = fact(
        "The condition DisruptionTarget of a victim has the generation of the pod.",
        since=34,
        source="preemption/preemption.go evictPodsToFreeRequests, PodObservedGenerationTracking "
        "(on; in 1.33 off)",
    )
    qos_class_from_status: bool = fact(
        "The QoS class in a pod's status is taken as it stands.",
        since=29,
        source="pkg/apis/core/v1/helper/qos/qos.go GetPodQOS",
    )
    terminating_pods_count: bool = fact(
        "A pod that is killed or deleted counts on the node until its containers are down; "
        "before, one whose phase had become final no longer did.",
        since=22,
        source="pkg/kubelet/kubelet_pods.go filterOutInactivePods (1.22: filterOutTerminatedPods)",
    )


# Version differences of resizes in place: what is allocated to pods, and what is refused.

_MANAGER = "allocation/allocation_manager.go"


class AllocationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.allocation``: what a kubelet version does in this subsystem."""

    pending_resizes_queued: bool = fact(
        "Pending resizes stand in a queue, which is taken up when a pod is added, resized, "
        "removed or shrinks, and every 3 min; before, a pod's resize is looked at in its own sync.",
        since=34,
        source=f"{_MANAGER} retryPendingResizes; v1.33.13 kubelet.go handlePodResourcesResize",
    )
    observed_generation: bool = fact(
        "The conditions of a resize carry the generation of the pod.",
        since=34,
        source="status/status_manager.go SetPodResizePendingCondition: v1.33.13 and v1.34.9 differ",
    )
    guaranteed_refused_by_resource: bool = fact(
        "Beside a static CPU or memory manager a Guaranteed pod is refused if that resource "
        "changes; before, whatever changes.",
        since=34,
        source=f"{_MANAGER} guaranteedPodResourceResizeRequired; v1.33.13 kubelet.go canResizePod",
    )
    capacity_ignores_eviction_threshold: bool = fact(
        "The capacity that a resize may never exceed is allocatable before the hard eviction "
        "threshold is taken off; before, the node's allocatable.",
        since=34,
        source=f"{_MANAGER} canResizePod, GetNodeAllocatableAbsolute; v1.33.13 kubelet.go "
        "canResizePod",
    )
    resize_events: bool = fact(
        "Events tell that a resize has started, is deferred or infeasible.",
        since=35,
        source=f"{_MANAGER} handlePodResourcesResize: v1.34.9 and v1.35.6 differ",
    )
    pod_level_changes_queued: bool = fact(
        "A change of the pod's own resources is a resize, too.",
        since=35,
        source="kubelet.go recordPodLevelResourceResizeOperations: v1.34.9 and v1.35.6 differ",
    )
    resize_is_an_admission: bool = proven(
        "Admit handlers judge a resize. Capacity is no longer looked at: a resize larger than the "
        "node is deferred, and tried for ever; before, it was infeasible. The event begins with "
        "the handler's reason.",
        since=36,
        source="allocation/handlers.go podResizesAdmitHandler; v1.35.6 allocation_manager.go "
        "canResizePod",
    )
    retried_when_pods_end: bool = proven(
        "A pod that comes to its end lets pending resizes be tried again.",
        since=36,
        source="kubelet.go HandlePodReconcile: v1.35.6 and v1.36.2 differ",
    )
