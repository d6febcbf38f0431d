"""Decisions that the kubelet reports to the API server, and those that it never reports."""

from __future__ import annotations

from kubeledger.model.record import Body

__all__ = ["NO_EVENT", "TOLD", "subject_of"]

TOLD: dict[str, frozenset[str]] = {
    "images.GarbageCollected": frozenset(
        {"ImageGCFailed", "FreeDiskSpaceFailed", "InvalidDiskCapacity"}
    ),
    "lifecycle.ContainerKilled": frozenset({"Killing"}),
    "lifecycle.ContainerRestarted": frozenset({"Started", "Created"}),
    "lifecycle.PodEvicted": frozenset({"Evicted"}),
    "lifecycle.PodRejected": frozenset(),
    "lifecycle.RestartBackedOff": frozenset({"BackOff"}),
    "preemption.PodPreempted": frozenset({"Preempting"}),
}
"""Kind of decision -> reasons of its events; of a rejection it is the rejection's own."""

NO_EVENT: dict[str, str] = {
    "cgroups.CgroupRemoved": "the kubelet sends no event about cgroups",
    "cgroups.CgroupUpdated": "the kubelet sends no event about cgroups",
    "cgroups.QOSCgroupsUpdated": "the kubelet sends no event about cgroups",
    "cpumanager.CpuAllocationFailed": "only the rejection of the pod is an event",
    "cpumanager.CpuStateRefused": "the kubelet ends without an event",
    "cpumanager.CpusAllocated": "the kubelet sends no event about CPUs it gives",
    "cpumanager.CpusReleased": "the kubelet sends no event about CPUs it takes back",
    "devicemanager.AllocationFailed": "only the rejection of the pod is an event",
    "devicemanager.DevicesAllocated": "the kubelet sends no event about devices it gives",
    "devicemanager.DevicesReleased": "the kubelet sends no event about devices it takes back",
    "eviction.NodeConditionsChanged": "conditions are in the node's status",
    "eviction.PodSpared": "only a pod that is evicted has an event",
    "eviction.ReclaimAttempted": "its event EvictionThresholdMet is about the node",
    "images.GarbageCollectionStarted": "only a collection that fails is an event",
    "images.ImageDeleted": "the kubelet sends no event about images it removes",
    "lifecycle.PodAdmitted": "the kubelet sends no event about pods it admits",
    "memorymanager.MemoryAllocated": "the kubelet sends no event about memory it gives",
    "memorymanager.MemoryAllocationFailed": "only the rejection of the pod is an event",
    "memorymanager.MemoryReleased": "the kubelet sends no event about memory it takes back",
    "memorymanager.MemoryStateRefused": "the kubelet ends without an event",
    "oom.ProcessKilled": "only a shortage of the node's own memory is an event",
    "preemption.PreemptionFailed": "only the rejection of the pod is an event",
    "prober.ProbeTransitioned": "each failed probe is an event, a changed result is not",
    "topologymanager.AffinityDecided": "only the rejection of a pod is an event",
}
"""Kind of decision -> why it never becomes an event."""


def subject_of(body: Body) -> str:
    """What a decision is about, for people: ``pod/NS/NAME``, ``container/NS/POD/C``, ``node``."""
    namespace = getattr(body, "victim_namespace", None) or getattr(body, "namespace", None)
    pod = getattr(body, "victim_pod", None) or getattr(body, "pod", None)
    if not pod:
        return "node"
    container = getattr(body, "container", None)
    if container:
        return f"container/{namespace}/{pod}/{container}"
    return f"pod/{namespace}/{pod}"
