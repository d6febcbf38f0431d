"""Messages of the eviction manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import Regex, klog, text, texts

MESSAGES = (
    klog("Evicting pod", since="1.22"),
    klog("Eviction manager: able to reduce resource pressure without evicting pods.", since="1.21"),
    klog("Eviction manager: attempting to reclaim", since="1.21"),
    klog("Eviction manager: cannot evict a critical pod", since="1.21"),
    klog(
        "Eviction manager: eviction thresholds have been met, but no pods are active to evict",
        since="1.21",
    ),
    klog("Eviction manager: must evict pod(s) to reclaim", since="1.21"),
    klog("Eviction manager: no resources are starved", since="1.21"),
    klog("Eviction manager: node conditions - observed", since="1.21"),
    klog("Eviction manager: node conditions - transition period not met", since="1.21"),
    klog("Eviction manager: pod failed to evict", since="1.21"),
    klog("Eviction manager: pod is evicted successfully", since="1.21"),
    klog("Eviction manager: pods ranked for eviction", since="1.21"),
    klog("Eviction manager: synchronize housekeeping", since="1.21"),
    klog("Eviction manager: threshold observed resource", since="1.21", available="resource"),
    klog(
        "Eviction manager: unable to evict any pods from the node",
        to="Eviction manager: eviction thresholds have been met, but no pods are active to evict",
        since="1.21",
    ),
    klog("Killing container with a grace period", since="1.22"),
    klog("Killing container with a grace period override", since="1.21"),
    *texts(
        "eviction_manager.go",
        {
            "eviction manager: synchronize housekeeping": (
                "Eviction manager: synchronize housekeeping"
            ),
            "eviction manager: node conditions - observed: {nodeCondition}": (
                "Eviction manager: node conditions - observed"
            ),
            "eviction manager: node conditions - transition period not met: {nodeCondition}": (
                "Eviction manager: node conditions - transition period not met"
            ),
            "eviction manager: no resources are starved": (
                "Eviction manager: no resources are starved"
            ),
            "eviction manager: attempting to reclaim {resourceName:word}": (
                "Eviction manager: attempting to reclaim"
            ),
            "eviction manager: must evict pod(s) to reclaim {resourceName:word}": (
                "Eviction manager: must evict pod(s) to reclaim"
            ),
            "eviction manager: able to reduce {:word} pressure": (
                "Eviction manager: able to reduce resource pressure without evicting pods."
            ),
            "eviction manager: eviction thresholds have been": (
                "Eviction manager: eviction thresholds have been met, but no pods are active to "
                "evict"
            ),
            "eviction manager: unable to evict any pods": (
                "Eviction manager: eviction thresholds have been met, but no pods are active to "
                "evict"
            ),
            "eviction manager: pods ranked for eviction: {pods}": (
                "Eviction manager: pods ranked for eviction"
            ),
            "eviction manager: cannot evict a critical pod {pod:pod}": (
                "Eviction manager: cannot evict a critical pod"
            ),
            "eviction manager: cannot evict a critical static pod {pod:pod}": (
                "Eviction manager: cannot evict a critical pod"
            ),
            "eviction manager: pod {pod:pod} is evicted successfully": (
                "Eviction manager: pod is evicted successfully"
            ),
            "eviction manager: pod {pod:pod} failed": "Eviction manager: pod failed to evict",
            "eviction manager: failed to get summary stats after": (
                "Eviction manager: failed to get summary stats after resource reclaim"
            ),
            "eviction manager: unexpected error when attempting to reduce": (
                "Eviction manager: unexpected error when attempting to reduce resource pressure"
            ),
        },
    ),
    text(
        "helpers.go",
        Regex(
            r"eviction manager: (?P<log>observations[^:]*): signal=(?P<signal>[^,]+), "
            r"available: (?P<available>[^,]+), capacity: (?P<capacity>[^,\s]+)"
        ),
        to="Eviction manager:",
    ),
    text(
        "helpers.go",
        Regex(
            r"eviction manager: (?P<log>thresholds[^:]*): threshold \[signal=(?P<signal>[^,]+), "
            r"quantity=(?P<quantity>[^\]]+)\] observed (?P<available>\S+)"
        ),
        to="Eviction manager: threshold observed resource",
    ),
)
