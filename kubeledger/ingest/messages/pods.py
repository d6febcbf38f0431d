"""Messages of pods: their sources, workers and status."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, text

__all__ = ["MESSAGES"]

MESSAGES = (
    *(
        text(
            "kubelet.go",
            f'SyncLoop ({operation}, "{{source}}"): "{{pods:rest}}"',
            to=f"SyncLoop {operation}",
        )
        for operation in ("ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE")
    ),
    text("kubelet.go", "SyncLoop (SYNC", to="SyncLoop (SYNC) pods"),
    text("kubelet.go", "SyncLoop (housekeeping)", to="SyncLoop (housekeeping)"),
    text(
        "kubelet.go",
        "SyncLoop (housekeeping, sk",
        to="SyncLoop (housekeeping, skipped): sources aren't ready yet",
    ),
    text("kubelet.go", "Starting kubelet main sync loop", to="Starting kubelet main sync loop"),
    text(
        "kubelet.go",
        'Pod "{pod:pod}" has completed, ignoring remaining sync work: {syncType}',
        to="Pod has completed, ignoring remaining sync work",
    ),
    text(
        "kubelet.go",
        'Pod "{pod:pod}" has completed execution and should be deleted from the API server: '
        "{syncType}",
        to="Pod has completed, ignoring remaining sync work",
    ),
    text(
        "status_manager.go",
        'Pod "{pod:pod}" fully terminated and removed from',
        to="Pod fully terminated and removed from etcd",
    ),
    text(
        "status_manager.go",
        'Status Manager: adding pod: "{podUID}", with status: {status}',
        to="Status Manager: adding pod",
    ),
    text(
        "status_manager.go",
        'Status Manager: syncing pod: "{podUID}", with status: {status}',
        to="Status Manager: syncing pod",
    ),
    text(
        "predicate.go",
        "Predicate failed on Pod: {pod:pod}, for reason: {message}",
        to="Predicate failed on Pod",
    ),
    text(
        ("predicate.go", "eviction_manager.go"),
        "Failed to admit pod {pod:pod} - Unexpected error while attempting to recover from "
        "admission failure: {err}",
        to="Failed to admit pod, unexpected error while attempting to recover from admission "
        "failure",
    ),
    text(
        ("predicate.go", "eviction_manager.go"),
        "Failed to admit pod {pod:pod} - {message}",
        to="Failed to admit pod",
    ),
    text(
        "preemption.go",
        "preemption: attempting to evict pods [{pods:rest}in order to free up resources: "
        "{insufficientResources}",
        to="Attempting to evict pods in order to free up resources",
    ),
    text(
        "preemption.go",
        "preemption: attempting to evict pods [{pods}",
        to="Attempting to evict pods in order to free up resources",
    ),
    text(
        "preemption.go",
        "preemption: pod {pod:pod} evicted successfully",
        to="Pod evicted successfully",
    ),
    text("preemption.go", "preemption: pod {pod:pod} failed to evict ", to="Failed to evict pod"),
    *ignore(
        "Cancelling current pod sync",
        "Pod has been terminated and is no longer known to the kubelet, remove all history",
        "Pod is complete and the worker can now stop",
        "Pod is finished processing, no further updates",
        "Pod is terminated and all resources are reclaimed",
        "Pod is terminated, but pod cgroup sandbox has not been cleaned up",
        "Pod is terminated, but some container status has not yet been reported",
        "Pod is terminated, but some containers are still running",
        "Pod is terminated, but some volumes have not been cleaned up",
        "Pod terminated all containers successfully",
        "Pod terminated all orphaned containers successfully and worker can now stop",
        "Pod termination cleaned up volume paths",
        "Pod termination removed cgroups",
        "Pod termination stopped all running containers",
        "Pod termination stopped all running orphan containers",
        "Pod termination unmounted volumes",
        "Pod worker has stopped",
        "Post-termination container state",
        "Status manager phase was terminal, updating phase to match",
        "SyncPod exit",
        "SyncTerminatedPod enter",
        "SyncTerminatedPod exit",
        "SyncTerminatingPod enter",
        "SyncTerminatingPod exit",
        "TerminatePod calling updateStatusInternal",
        "syncPod enter",
        "syncPod exit",
        "syncTerminatedPod enter",
        "syncTerminatedPod exit",
        "syncTerminatingPod enter",
        "syncTerminatingPod exit",
    ),
    *ignore_text(
        "kubelet_pods.go",
        'Pod "[^"]*" is terminated, but ',
        "marking pod (?:pending )?termination ",
        r"pod \S+ is pending termination",
    ),
    *ignore_text(
        "status_manager.go",
        "Pod status is inconsistent with cached status for pod ",
        "Removing ",
        "Status Manager: ",
    ),
    *ignore_text(
        "config.go",
        "Receiving a new pod ",
    ),
)
