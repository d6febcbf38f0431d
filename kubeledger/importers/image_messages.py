"""Messages of the image manager and the eviction manager that tell nothing to be recorded."""

from __future__ import annotations

__all__ = ["HARMLESS", "HARMLESS_FREE"]

HARMLESS = (
    "Container uses image",
    "Container uses image as mount",
    "Eviction manager: cannot evict a critical pod",
    "Eviction manager: created memoryThresholdNotifier",
    "Eviction manager: eviction criteria not yet met",
    "Eviction manager: eviction thresholds have been met, but no pods are active to evict",
    "Eviction manager: failed to construct signal",
    "Eviction manager: failed to create memory threshold notifier",
    "Eviction manager: failed to get HasDedicatedImageFs",
    "Eviction manager: failed to get get summary stats",
    "Eviction manager: failed to get summary stats",
    "Eviction manager: failed to synchronize",
    "Eviction manager: failed to update notifier",
    "Eviction manager: no observation found for eviction signal",
    "Eviction manager: no ranking function for signal",
    "Eviction manager: no resources are starved",
    "Eviction manager: node conditions - observed",
    "Eviction manager: node conditions - transition period not met",
    "Eviction manager: pod failed to evict",
    "Eviction manager: pod is evicted successfully",
    "Eviction manager: pods evicted, waiting for pod to be cleaned up",
    "Eviction manager: pods ranked for eviction",
    "Eviction manager: pods successfully cleaned up",
    "Eviction manager: setting notifier to capacity",
    "Eviction manager: starting control loop",
    "Eviction manager: threshold had no observation",
    "Eviction manager: threshold observed resource",
    "Eviction manager: threshold was crossed, but reclaim is not implemented for this threshold.",
    "Eviction manager: timed out waiting for pods to be cleaned up",
    "Eviction manager: unable to evict any pods from the node",
    "Failed to monitor images",
    "Failed to update image list",
    "FileSystem detection",
    "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC",
    "ImageGCHighThresholdPercent is set 100, Disable image GC",
    "eviction manager: failed to check if we have separate container filesystem. Ignoring.",
    "eviction manager: found conflicting containerfs eviction. Ignoring.",
)

HARMLESS_FREE = {
    "eviction_manager.go": (r"eviction manager: ",),
    "helpers.go": (
        r"eviction manager: no observation found for eviction signal ",
        r"eviction manager: .*: threshold \[signal=",
        r"eviction manager: threshold .* was crossed, but reclaim is not implemented",
        r"eviction manager: eviction criteria not yet met for ",
        r"eviction manager: failed to construct signal",
    ),
    "image_gc_manager.go": (
        r"Pod \S+, container \S+ uses image ",
        r"\[imageGCManager\] Failed to (?:monitor images|update image list): ",
    ),
    "kubelet.go": (r"ImageGCHighThresholdPercent is set 100, Disable image GC",),
    "memory_threshold_notifier.go": (r"eviction manager: (?:created|setting) ",),
    "threshold_notifier_linux.go": (r"eviction manager: error ",),
    "threshold_notifier_unsupported.go": (r"cgroup notifications not supported",),
}
