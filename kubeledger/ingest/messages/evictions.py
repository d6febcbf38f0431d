"""Messages of the eviction manager."""

from __future__ import annotations

import re

from kubeledger.ingest.klog.rows import klog, text

__all__ = ["MESSAGES"]

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
    text(
        "eviction_manager.go",
        "eviction manager: synchronize housekeeping",
        to="Eviction manager: synchronize housekeeping",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: node conditions - observed: {nodeCondition}",
        to="Eviction manager: node conditions - observed",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: node conditions - transition period not met: {nodeCondition}",
        to="Eviction manager: node conditions - transition period not met",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: no resources are starved",
        to="Eviction manager: no resources are starved",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: attempting to reclaim {resourceName:word}",
        to="Eviction manager: attempting to reclaim",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: must evict pod(s) to reclaim {resourceName:word}",
        to="Eviction manager: must evict pod(s) to reclaim",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: able to reduce {:word} pressure",
        to="Eviction manager: able to reduce resource pressure without evicting pods.",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: eviction thresholds have been",
        to="Eviction manager: eviction thresholds have been met, but no pods are active to evict",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: unable to evict any pods",
        to="Eviction manager: eviction thresholds have been met, but no pods are active to evict",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: pods ranked for eviction: {pods}",
        to="Eviction manager: pods ranked for eviction",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: cannot evict a critical pod {pod:pod}",
        to="Eviction manager: cannot evict a critical pod",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: pod {pod:pod} is evicted successfully",
        to="Eviction manager: pod is evicted successfully",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: pod {pod:pod} failed",
        to="Eviction manager: pod failed to evict",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: failed to get summary stats after",
        to="Eviction manager: failed to get summary stats after resource reclaim",
    ),
    text(
        "eviction_manager.go",
        "eviction manager: unexpected error when attempting to reduce",
        to="Eviction manager: unexpected error when attempting to reduce resource pressure",
    ),
    text(
        "helpers.go",
        re.compile(
            r"eviction manager: (?P<log>observations[^:]*): signal=(?P<signal>[^,]+), "
            r"available: (?P<available>[^,]+), capacity: (?P<capacity>[^,\s]+)"
        ),
        to="Eviction manager:",
    ),
    text(
        "helpers.go",
        re.compile(
            r"eviction manager: (?P<log>thresholds[^:]*): threshold \[signal=(?P<signal>[^,]+), "
            r"quantity=(?P<quantity>[^\]]+)\] observed (?P<available>\S+)"
        ),
        to="Eviction manager: threshold observed resource",
    ),
)
