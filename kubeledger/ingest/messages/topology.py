"""Messages of the topology manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text

__all__ = ["MESSAGES"]

MESSAGES = (
    *ignore(
        "Adding hint provider",
        "Calling AllocatePod on hint providers",
        "Hint Provider has no preference for NUMA affinity with any resource",
        "Pod-level allocation failed",
        "Resource alignment at container scope guaranteed",
        "Resource alignment at pod scope guaranteed",
        "Topology manager admission check",
        "WARNING: the value of max-allowable-numa-nodes is more than the default recommended value",
    ),
    *ignore_text(
        "topology_manager.go",
        r"\[topologymanager\] RemoveContainer",
        r"\[topologymanager\] Topology Admit Handler",
    ),
    *ignore_text(
        "policy.go",
        r"\[topologymanager\] Hint Provider has no preference for NUMA affinity with any "
        r"resource",
    ),
    *ignore_text(
        "scope.go",
        r"\[topologymanager\] RemoveContainer",
    ),
)
