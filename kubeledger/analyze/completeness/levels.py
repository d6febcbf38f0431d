"""At which verbosity a kubelet logs the lines that records rest on, by version.

Read in the sources of every minor version from 1.19 to 1.36; a change stands at the first
minor version that has it. Warnings and errors are always there and have level 0.
"""

from __future__ import annotations

import msgspec


class LineKind(msgspec.Struct, frozen=True):
    """One kind of line.

    Attributes:
        name: what it shows, for people.
        records: kinds of records that rest on it, with spaces between.
        pattern: finds it in the text of a record's evidence.
        levels: first minor version -> the ``N`` of its ``klog.V(N)``, ascending; 0 is always
            logged, and there is none before the first.
        source: file and function that log it.
        lost: what is not known without it.
        period_s: a kubelet that runs logs it at least so often, so its absence means something;
            None for what need not happen.
    """

    name: str
    records: str
    pattern: str
    levels: dict[int, int]
    source: str
    lost: str
    period_s: int | None = None

    def level(self, minor: int) -> int | None:
        """The verbosity in that version; None when it has no such line."""
        held = [level for first, level in self.levels.items() if first <= minor]
        return held[-1] if held else None


KINDS: tuple[LineKind, ...] = (
    LineKind(
        "topology decisions",
        "topologymanager.AffinityDecided topologymanager.HintsGenerated",
        r"TopologyHint|Topology Affinity",
        {19: 0},
        "cm/topologymanager/scope_container.go Admit",
        "NUMA hints and what they were merged to",
    ),
    LineKind(
        "CPU and memory assignments",
        "cpumanager.CpuManagerStarted cpumanager.CpusAllocated cpumanager.CpusReleased "
        "memorymanager.MemoryAllocated memorymanager.MemoryReleased",
        r"AllocateCPUs|allocateCPUs: returning|Updated memory state",
        {19: 0},
        "cm/cpumanager/policy_static.go allocateCPUs, cm/memorymanager/state/state_mem.go "
        "SetMemoryBlocks",
        "which containers got CPUs and memory of their own, and when",
    ),
    LineKind(
        "device plugin registrations",
        "devicemanager.PluginRegistered",
        r"Got registration request",
        {19: 0},
        "cm/devicemanager Register",
        "when plugins registered",
    ),
    LineKind(
        "image GC starts and removals",
        "images.GarbageCollectionStarted images.ImageDeleted",
        r"Disk usage on image filesystem|Removing image",
        {19: 0},
        "images/image_gc_manager.go GarbageCollect, freeImage",
        "why images were removed, and which",
    ),
    LineKind(
        "preemptions",
        "preemption.PodPreempted",
        r"reempt\w* pod|attempting to evict pods|Attempting to evict pods",
        {19: 0, 22: 3, 34: 2},
        "preemption/preemption.go evictPodsToFreeRequests",
        "which pods were preempted, and for what amounts",
    ),
    LineKind(
        "settings (flags)",
        "node.SettingsObserved node.KubeletStarted",
        r"FLAG: --",
        {19: 1},
        "component-base flag PrintFlags",
        "settings that no configuration file holds",
    ),
    LineKind(
        "failed probes",
        "prober.ProbeExecuted",
        r"probe for .* (?:failed|errored)|Probe (?:failed|errored)",
        {19: 1},
        "prober/prober.go probe",
        "failures of probes",
    ),
    LineKind(
        "liveness changes that lead to a kill",
        "prober.ProbeTransitioned",
        r'SyncLoop \((?:container unhealthy\)|probe\).*"liveness")',
        {19: 1},
        "kubelet.go syncLoopIteration",
        "when a container was found unhealthy",
    ),
    LineKind(
        "readiness and startup changes",
        "prober.ProbeTransitioned",
        r'SyncLoop \(probe\).*"(?:readiness|startup)"',
        {21: 1},
        "kubelet.go handleProbeSync",
        "when a container became ready or started (before 1.21 it follows from each probe)",
    ),
    LineKind(
        "pod additions, updates, removals",
        "lifecycle.PodConfigChanged lifecycle.PodAdmitted",
        r"SyncLoop[ (]+(?:ADD|UPDATE|REMOVE|DELETE)",
        {19: 2},
        "kubelet.go syncLoopIteration",
        "when pods came and went",
    ),
    LineKind(
        "container starts and ends",
        "lifecycle.ContainerStarted lifecycle.ContainerDied lifecycle.ContainerRestarted",
        r"SyncLoop \(PLEG\)",
        {19: 2},
        "kubelet.go syncLoopIteration",
        "when containers started and ended",
    ),
    LineKind(
        "container kills",
        "lifecycle.ContainerKilled",
        r"Killing container",
        {19: 2},
        "kuberuntime/kuberuntime_container.go killContainer",
        "grace periods, and kills that no event reports",
    ),
    LineKind(
        "device lists",
        "devicemanager.DevicesReported",
        r"State pushed for device plugin|Processed device updates",
        {19: 2},
        "cm/devicemanager",
        "how many devices were healthy, and when that changed",
    ),
    LineKind(
        "failed admission predicates",
        "lifecycle.PodRejected",
        r"Predicate failed on Pod",
        {19: 2},
        "lifecycle/predicate.go Admit",
        "the amounts of a pod that did not fit (the status of the pod may have them)",
    ),
    LineKind(
        "events",
        "lifecycle.ReasonReported",
        r"Event occurred|Event\(v1\.ObjectReference",
        {19: 3},
        "client-go StartLogging, StartStructuredLogging",
        "events as they were sent; the API server's list drops many of them",
    ),
    LineKind(
        "successful probes",
        "prober.ProbeExecuted prober.ProbeTransitioned",
        r"probe for .* succeeded|Probe succeeded",
        {19: 3},
        "prober/prober.go probe",
        "successes of probes: their runs cannot be counted, and before 1.21 readiness and "
        "startup changes are not known",
    ),
    LineKind(
        "eviction signals",
        "images.EvictionSignalObserved",
        r"signal",
        {19: 3},
        "eviction/helpers.go debugLogObservations",
        "how full memory and disks were, every 10 s",
        period_s=10,
    ),
    LineKind(
        "device requests",
        "devicemanager.AllocationRequested",
        r"eeds? to allocate|Need devices to allocate",
        {19: 3},
        "cm/devicemanager/manager.go devicesToAllocate",
        "what each container asked for",
    ),
    LineKind(
        "device allocations",
        "devicemanager.DevicesAllocated",
        r"Making allocation request",
        {19: 3, 33: 4},
        "cm/devicemanager/manager.go allocateContainerResources",
        "when devices were given (a checkpoint shows which, later)",
    ),
    LineKind(
        "device releases",
        "devicemanager.DevicesReleased",
        r"ods to be removed",
        {19: 3},
        "cm/devicemanager/manager.go UpdateAllocatedDevices",
        "when devices were given back",
    ),
    LineKind(
        "QoS cgroup writes",
        "cgroups.QOSCgroupsUpdated",
        r"Updated QoS cgroup configuration",
        {19: 4},
        "cm/qos_container_manager_linux.go UpdateCgroups",
        "when the QoS cgroups were written (every minute, and with pods)",
        period_s=60,
    ),
    LineKind(
        "pod reconciliations",
        "lifecycle.PodConfigChanged",
        r"SyncLoop[ (]+RECONCILE",
        {19: 4},
        "kubelet.go syncLoopIteration",
        "when the API server confirmed a pod's status",
    ),
    LineKind(
        "image lists",
        "images.ImagesDetected",
        r"image_gc_manager\.go|Image ID|image ID",
        {19: 5},
        "images/image_gc_manager.go detectImages",
        "which images were in use when, so why an unused one was kept or removed",
        period_s=300,
    ),
)
