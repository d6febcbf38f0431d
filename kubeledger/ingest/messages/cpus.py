"""Messages of the CPU manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text

__all__ = ["MESSAGES"]

MESSAGES = (
    *ignore(
        " RemoveContainer end",
        "Added Container",
        "Allocate end",
        "Allocated exclusive CPUs",
        "CPUs already allocated to container with different number than request",
        "Reconciling",
        "Regenerating TopologyHints for CPUs already allocated",
        "TopologyHints generated",
    ),
    *ignore_text(
        "policy_static.go",
        r"\[cpumanager\] (?:Regenerating TopologyHints|TopologyHints generated|CPUs already)",
    ),
)
