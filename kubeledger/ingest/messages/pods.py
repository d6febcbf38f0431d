"""Messages of pods: their sources, workers and status."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text

__all__ = ["MESSAGES"]

MESSAGES = (
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
