"""Messages of the memory manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore

__all__ = ["MESSAGES"]

MESSAGES = (
    *ignore(
        "Allocated exclusive memory",
        "Deleted memory assignment",
        "Failed to get container from container map",
        "Memory affinity",
        "Regenerating TopologyHints, resource was already allocated to pod",
    ),
)
