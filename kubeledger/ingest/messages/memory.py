"""Messages of the memory manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, klog

MESSAGES = (
    klog("Allocate", since="1.21"),
    klog("Container already present in state, skipping", since="1.21"),
    klog("Got topology affinity", since="1.21"),
    klog("Invalid state, please drain node and remove policy state file", since="1.21"),
    klog("Memory states for the NUMA node and resource are different", since="1.21"),
    klog(
        "NUMA node and resource had different memory states",
        to="Memory states for the NUMA node and resource are different",
        since="1.33",
    ),
    klog("RemoveContainer", since="1.21"),
    klog("Starting memorymanager", since="1.21"),
    klog("State checkpoint: restored state from checkpoint", since="1.21"),
    klog("Updated machine memory state", since="1.21"),
    klog("Updated memory state", since="1.21"),
    *ignore(
        "AllocatePod called for pod-level managed pod",
        "Allocated exclusive memory",
        "Allocation skipped, pod is using pod-level resources which are not supported by the "
        "static Memory manager policy",
        "Calculated total pod memory",
        "Deleted memory assignment",
        "Exclusive Memory allocation skipped, container is not eligible, request and limit are not "
        "equal",
        "Exclusive memory allocation skipped, pod QoS is not guaranteed",
        "Failed to get container from container map",
        "Memory Manager pod hint generation skipped, pod is using pod-level resources but the "
        "PodLevelResourceManagers feature gate is not enabled",
        "Memory affinity",
        "Memory already allocated with different numbers than requested",
        "Partitioned pod-level memory allocation",
        "Regenerating TopologyHints, resource was already allocated to pod",
        "Released container-level memory",
        "Released pod-level memory",
        "Topology hints generation skipped, pod is using pod-level resources which are not "
        "supported by the static Memory manager policy",
    ),
)
