"""Version differences in what a kubelet says of a pod, or a node, that something keeps waiting."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_WAIT = "pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount"


class StageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem."""

    network_error_names_container: bool = fact(
        since=21,
        text="A network that is not ready is the container runtime's network; before, the runtime "
        "network.",
        source="pkg/kubelet/kubelet.go updateRuntimeUp: v1.20.0 and v1.21.0 differ",
        proof="source",
    )
    volumes_not_processed_named: bool = fact(
        since=27,
        text="The error of volumes that are not mounted names those that were not processed, and "
        "as unattached those alone that are attached; before, all that the pod mounts.",
        source=f"{_WAIT}: v1.26.0 and v1.27.0 differ",
        proof="source",
    )
    volume_wait_takes_context: bool = fact(
        since=28,
        text="The wait for volumes ends with a deadline, of which no event is sent, and when the "
        "pod is to be stopped.",
        source=f"{_WAIT}; pkg/kubelet/kubelet.go SyncPod, wait.Interrupted: v1.27.0 and v1.28.0 "
        "differ",
        proof="source",
    )
    dynamic_resources: bool = fact(
        since=34,
        text="Claims of a pod are prepared before its sandbox.",
        source="pkg/features/kube_features.go DynamicResourceAllocation",
        proof="source",
    )
    claim_failures_reported: bool = fact(
        since=28,
        text="A claim that cannot be prepared is an event, and no error of the sync.",
        source="pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod: v1.27.0 and v1.28.0 differ",
        proof="source",
    )
    hook_event_has_words: bool = fact(
        until=26,
        text="The event of a post-start hook that failed has the handler's own words.",
        source="pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer: v1.25.0 and "
        "v1.26.0 differ",
        proof="source",
    )
    status_read_from_lister: bool = fact(
        since=31,
        text="The first try to write the node's status reads the node from a cache, so that an API "
        "server that is gone is noticed only when there is something to write.",
        source="pkg/kubelet/kubelet_node_status.go tryUpdateNodeStatus: v1.30.0 and v1.31.0 differ",
        proof="source",
    )
