"""Version differences of resizes in place: what is allocated to pods, and what is refused."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_MANAGER = "allocation/allocation_manager.go"


class AllocationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem."""

    pending_resizes_queued: bool = fact(
        since=34,
        text="Pending resizes stand in a queue, which is taken up when a pod is added, resized, "
        "removed or shrinks, and every 3 min; before, a pod's resize is looked at in its own sync.",
        source=f"{_MANAGER} retryPendingResizes; v1.33.13 kubelet.go handlePodResourcesResize",
        proof="source",
    )
    observed_generation: bool = fact(
        since=34,
        text="The conditions of a resize carry the generation of the pod.",
        source="status/status_manager.go SetPodResizePendingCondition: v1.33.13 and v1.34.9 differ",
        proof="source",
    )
    guaranteed_refused_by_resource: bool = fact(
        since=34,
        text="Beside a static CPU or memory manager a Guaranteed pod is refused if that resource "
        "changes; before, whatever changes.",
        source=f"{_MANAGER} guaranteedPodResourceResizeRequired; v1.33.13 kubelet.go canResizePod",
        proof="source",
    )
    capacity_ignores_eviction_threshold: bool = fact(
        since=34,
        text="The capacity that a resize may never exceed is allocatable before the hard eviction "
        "threshold is taken off; before, the node's allocatable.",
        source=f"{_MANAGER} canResizePod, GetNodeAllocatableAbsolute; v1.33.13 kubelet.go "
        "canResizePod",
        proof="source",
    )
    resize_events: bool = fact(
        since=35,
        text="Events tell that a resize has started, is deferred or infeasible.",
        source=f"{_MANAGER} handlePodResourcesResize: v1.34.9 and v1.35.6 differ",
        proof="source",
    )
    pod_level_changes_queued: bool = fact(
        since=35,
        text="A change of the pod's own resources is a resize, too.",
        source="kubelet.go recordPodLevelResourceResizeOperations: v1.34.9 and v1.35.6 differ",
        proof="source",
    )
    resize_is_an_admission: bool = fact(
        since=36,
        text="Admit handlers judge a resize. Capacity is no longer looked at: a resize larger "
        "than the node is deferred, and tried for ever; before, it was infeasible. The event "
        "begins with the handler's reason.",
        source="allocation/handlers.go podResizesAdmitHandler; v1.35.6 allocation_manager.go "
        "canResizePod",
        proof="conformance",
    )
    retried_when_pods_end: bool = fact(
        since=36,
        text="A pod that comes to its end lets pending resizes be tried again.",
        source="kubelet.go HandlePodReconcile: v1.35.6 and v1.36.2 differ",
        proof="conformance",
    )
