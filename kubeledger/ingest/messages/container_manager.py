"""Messages of the container manager (pkg/kubelet/cm): cgroups, CPU, memory and topology manager."""

from __future__ import annotations

import re
from typing import Any

from kubeledger.ingest.klog.forms import integer
from kubeledger.ingest.klog.rows import Regex, ignore, ignore_text, klog, text, texts
from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.model.bodies.resourcemanagers import CpuManagerStarted, CpuPlace, Hint
from kubeledger.model.patterns import regex
from kubeledger.model.record import Body

CGROUPS = (
    klog("Failed to update QoS cgroup configuration", since="1.21"),
    klog("QoS pod memory limit", since="1.21"),
    klog("Updated QoS cgroup configuration", since="1.21"),
    *texts(
        "qos_container_manager_linux.go",
        {
            "[ContainerManager]: Updated QoS cgroup": "Updated QoS cgroup configuration",
            "[ContainerManager]: Failed to update QoS cgroup": (
                "Failed to update QoS cgroup configuration"
            ),
            "[Container Manager] {qos} pod requests total {limits:int} bytes (reserve "
            "{percentReserve:int}%)": ("QoS pod memory limit"),
        },
    ),
    *ignore(
        "Allocatable memory reported as 0, might be in standalone mode, not setting QoS "
        "memory limits",
        "Allocatable memory value could not be determined, not setting QoS memory limits",
        "Attempt failed to kill all unwanted process from cgroup, retrying",
        "Attempting to enforce Node Allocatable",
        "Attempting to kill process from cgroup",
        "Cgroup has some missing controllers",
        "Cgroup has some missing paths",
        "Cgroup manager encountered error getting procs for cgroup path",
        "Cgroup manager encountered error scanning cgroup path",
        "Cgroup manager encountered error scanning pids for directory",
        "Disabled CFS quota",
        "Enforcing CFS quota",
        "Enforcing kube reserved compressible on cgroup",
        "Enforcing kube reserved on cgroup",
        "Enforcing limits on cgroup",
        "Enforcing system reserved compressible on cgroup",
        "Enforcing system reserved on cgroup",
        "Failed to get resource stats",
        "Failed to kill process from cgroup",
        "Failed to reserve QoS requests",
        "MemoryQoS config for container",
        "MemoryQoS config for pod",
        "MemoryQoS config for qos",
        "Optional subsystem not supported: hugetlb",
        "Pod cgroup manager ignored unexpected cgroup because it is not a pod",
        "Process no longer exists",
        "Successfully killed all unwanted processes from cgroup",
        "The Cgroup has some missing controllers",
        "The Cgroup has some missing paths",
    ),
    *ignore_text(
        "cgroup_manager_linux.go",
        "The Cgroup .* has some missing (?:paths|controllers)",
        "Unable to find subsystem mount for optional subsystem",
        "Optional subsystem not supported",
        "pageSize is invalid",
        "cgroup manager encountered error",
    ),
    *ignore_text(
        "node_container_manager_linux.go",
        "Attempting to enforce Node Allocatable",
        "Enforcing ",
        "Failed to create ",
    ),
    *ignore_text(
        "pod_container_manager_linux.go",
        "process with pid ",
        "Attempt ",
        "(?:failed to|successfully) kill",
        "pod cgroup manager ignoring unexpected cgroup",
    ),
    *ignore_text(
        "qos_container_manager_linux.go",
        r"\[Container ?Manager\]:? (?:Failed|Allocatable|Memory allocatable)",
        r"\[Container Manager\] ",
    ),
)


# The lines in which a CPU manager logs the machine and its options, before it starts.

_CPU_INFO = regex(
    r"(?P<cpu>\d+):\{(?:NUMANodeID:)?(?P<numa>\d+) (?:SocketID:)?(?P<socket>\d+) "
    r"(?:CoreID:)?(?P<core>\d+)(?: (?:UncoreCacheID:)?(?P<uncore>\d+))?[^}]*\}"
)
_PLACE = ("NUMANodeID", "SocketID", "CoreID")
_OPTION = regex(r"(\w+):true")
_STRICT = "StrictCPUReservation"


class CpuMachine:
    """What has been logged since the last line about the machine.

    Attributes:
        reported: field of ``CpuManagerStarted`` -> value.
    """

    def __init__(self) -> None:
        self.reported: dict[str, Any] = {}

    def topology(self, topology: Any) -> None:  # noqa: ANN401 - any decoded value
        """CPUs, each with its place; this line is the first of a new manager."""
        cpus: dict[str, CpuPlace] = {}
        if isinstance(topology, dict):
            for cpu, info in (topology.get("CPUDetails") or {}).items():
                place = [integer(info.get(key)) for key in _PLACE]
                if None not in place:
                    cpus[str(cpu)] = _place(*place, integer(info.get("UncoreCacheID")))
        else:
            for match in _CPU_INFO.finditer(str(topology)):
                cpus[match["cpu"]] = _place(*match.group("numa", "socket", "core", "uncore"))
        ordered = sorted(cpus.items(), key=lambda entry: int(entry[0]))
        self.reported = {"cpus": dict(ordered) or None}

    def options(self, options: Any) -> None:  # noqa: ANN401 - any decoded value
        """The static policy's options."""
        if isinstance(options, dict):
            named = [name for name, value in options.items() if value is True]
        else:
            named = _OPTION.findall(str(options))
        self.reported["options"] = tuple(sorted(named))

    def reserve(self, cpus: str | None) -> None:
        """CPUs that no container gets."""
        self.reported["reserved_cpu_set"] = sound_set(cpus)


def _place(*numbers: Any) -> CpuPlace:  # noqa: ANN401 - whole numbers, or texts of them
    """Of NUMA node, socket, core and, where it is logged, uncore cache."""
    numa_node, socket, core = map(int, numbers[:3])
    uncore = None if numbers[3] is None else int(numbers[3])
    return CpuPlace(numa_node=numa_node, socket=socket, core=core, uncore_cache=uncore)


def from_file(started: Body, cpus: str) -> bool | None:
    """False where the first shared pool is what a process without a state file begins with."""
    if not isinstance(started, CpuManagerStarted) or started.cpus is None:
        return None
    if started.restored:
        return True
    every, reserved = {int(cpu) for cpu in started.cpus}, cpus_of(started.reserved_cpu_set or "")
    wanted = every - reserved if _STRICT in (started.options or ()) else every
    return False if cpus_of(cpus) == wanted else None


def sound_set(text: str | None) -> str | None:
    """The set in its one notation; None when it is none."""
    if text is None:
        return None
    try:
        return cpu_set_text(cpus_of(text))
    except ValueError:
        return None


# Messages of the CPU manager.

CPUS = (
    klog("Added Container", since="1.35"),
    klog("Allocate error", since="1.21"),
    klog("Allocate start", to="Static policy: Allocate", since="1.35"),
    klog("AllocateCPUs", since="1.21"),
    klog(
        "Could not initialize checkpoint manager, please drain node and remove policy state file",
        since="1.21",
    ),
    klog("Detected CPU topology", since="1.21"),
    klog("RemoveContainer start", to="Static policy: RemoveContainer", since="1.35"),
    klog("Reserved CPUs not available for exclusive assignment", since="1.21"),
    klog("Starting", since="1.21", to="Starting CPU manager"),
    klog("Starting CPU manager", since="1.21", until="1.34"),
    klog("Static policy created with configuration", since="1.22", until="1.34"),
    klog(
        "Static policy invalid state, please drain node and remove policy state file",
        since="1.21",
        until="1.34",
    ),
    klog("Static policy: Allocate", since="1.21", until="1.35"),
    klog("Static policy: RemoveContainer", since="1.21", until="1.34"),
    klog("Static policy: container already present in state, skipping", since="1.21"),
    klog("Unable to allocate CPUs", since="1.21"),
    klog("Updated CPUSet assignments", since="1.21"),
    klog("Updated default CPUSet", since="1.21"),
    klog("Updated desired CPUSet", since="1.21"),
    klog("created with configuration", to="Static policy created with configuration", since="1.35"),
    klog(
        "invalid state, please drain node and remove policy state file",
        to="Static policy invalid state, please drain node and remove policy state file",
        since="1.35",
    ),
    klog("policy error", since="1.35", to="Unable to allocate CPUs"),
    *texts(
        "cpu_manager.go",
        {
            "[cpumanager] detected CPU topology: {topology}": "Detected CPU topology",
            "[cpumanager] starting with {policy} policy": "Starting CPU manager",
            "[cpumanager] Allocate error: {err}": "Allocate error",
            "[cpumanager] could not initialize checkpoint manager: {err:some}, please drain node": (
                "Could not initialize checkpoint manager, please drain node and remove policy "
                "state file"
            ),
        },
    ),
    *texts(
        "policy_static.go",
        {
            '[cpumanager] reserved {:int} CPUs ("{reserved}")': (
                "Reserved CPUs not available for exclusive assignment"
            ),
            "[cpumanager] static policy invalid state: {err:rest}, please drain node": (
                "Static policy invalid state, please drain node and remove policy state file"
            ),
            "[cpumanager] static policy: Allocate (pod: {pod:some}, container: "
            "{containerName:field})": ("Static policy: Allocate"),
            "[cpumanager] static policy: container already present": (
                "Static policy: container already present in state, skipping"
            ),
            "[cpumanager] Pod {pod:word}, Container {containerName:word} Topology Affinity is: "
            "{affinity}": ("Topology Affinity of CPUs"),
            "[cpumanager] allocateCpus: (numCPUs: {numCPUs:int},": "AllocateCPUs",
            '[cpumanager] allocateCPUs: returning "{result}"': "AllocateCPUs",
            "[cpumanager] unable to allocate {:int} CPUs (pod: {:rest}, error: {err:rest})": (
                "Unable to allocate CPUs"
            ),
            "[cpumanager] static policy: RemoveContainer (pod: {podUID:field}, container: "
            "{containerName:field})": ("Static policy: RemoveContainer"),
        },
    ),
    *texts(
        "state_mem.go",
        {
            '[cpumanager] updated default cpuset: "{cpuSet}"': "Updated default CPUSet",
            "[cpumanager] updated desired cpuset (pod: {podUID:field}, container: "
            '{containerName:field}, cpuset: "{cpuSet}")': ("Updated desired CPUSet"),
            "[cpumanager] updated cpuset assignments": "Updated CPUSet assignments",
        },
    ),
    *ignore(
        " RemoveContainer end",
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


# Messages of the memory manager.

MEMORY = (
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


# Topology hints as log lines write them: Go's ``{01 true}``, or JSON since 1.31 or so.

Hints = dict[str, tuple[Hint, ...] | None]
"""Resource -> hints; None means no preference, empty no possible affinity."""

_HINT = regex(
    r"\{(?:NUMANodeAffinity:)?(?P<mask><nil>|[01]+) (?:Preferred:)?(?P<preferred>true|false)\}"
)
_RESOURCE = regex(r"(?P<resource>[^\s\[\]{}:]+):\[(?P<hints>[^\]]*)\]")


def nodes_of_mask(mask: int) -> tuple[int, ...]:
    """The bits that are set, in ascending order."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def hint_of(value: Any) -> Hint | None:  # noqa: ANN401 - any decoded value
    """One hint in either form; None when it is none."""
    if isinstance(value, dict):
        mask = integer(value.get("NUMANodeAffinity"))
        nodes = None if mask is None or mask < 0 else nodes_of_mask(mask)
        return Hint(numa_nodes=nodes, preferred=value.get("Preferred") is True)
    match = _HINT.search(str(value))
    return None if match is None else _text_hint(match)


def hints_of(value: Any) -> tuple[Hints, frozenset[str]]:  # noqa: ANN401 - any decoded value
    """All hints of one provider, and the resources whose list is empty or nil: Go writes both so.

    JSON tells them apart, so nothing is uncertain there.
    """
    if value is None or isinstance(value, dict):
        return {
            key: _json_hints(hints) for key, hints in sorted((value or {}).items())
        }, frozenset()
    hints: Hints = {
        match["resource"]: tuple(_text_hint(hint) for hint in _HINT.finditer(match["hints"]))
        for match in _RESOURCE.finditer(str(value))
    }
    return hints, frozenset(resource for resource, found in hints.items() if not found)


def _json_hints(value: Any) -> tuple[Hint, ...] | None:  # noqa: ANN401 - any decoded value
    if not isinstance(value, list):
        return None
    return tuple(hint for item in value if (hint := hint_of(item)) is not None)


def _text_hint(match: re.Match[str]) -> Hint:
    mask = match["mask"]
    nodes = None if mask == "<nil>" else nodes_of_mask(int(mask, 2))
    return Hint(numa_nodes=nodes, preferred=match["preferred"] == "true")


# Messages of the topology manager.

_FILES = ("topology_manager.go", "scope_container.go", "scope_pod.go")
_SUBJECT = r"\(pod: (?P<pod>\S+?)(?: container: (?P<containerName>\S+))?\): "

TOPOLOGY = (
    klog("Best TopologyHint", to="ContainerTopologyHint", since="1.21"),
    klog("ContainerTopologyHint", since="1.21"),
    klog("Creating topology manager with none policy", since="1.28"),
    klog("Hint Provider has no possible NUMA affinities for resource", since="1.21"),
    klog("Hint Provider has no preference for NUMA affinity with resource", since="1.21"),
    klog("Pod Admit Result", since="1.33", message="Message"),
    klog("Pod admission denied", since="1.31"),
    klog("PodTopologyHint", to="ContainerTopologyHint", since="1.21"),
    klog("Topology Affinity", since="1.21"),
    klog("TopologyHints", since="1.21"),
    text(
        _FILES,
        Regex(
            r"\[topologymanager\] Creating topology manager with (?P<topologyPolicyName>\S+) policy"
            r"(?: per (?P<topologyScopeName>\w+) scope)?"
        ),
        to="Creating topology manager with policy per scope",
    ),
    text(
        _FILES,
        Regex(
            r"\[topologymanager\] TopologyHints for pod '(?P<pod>[^']*)'"
            r"(?:, container '(?P<containerName>[^']*)')?: (?P<hints>map\[.*\])"
        ),
        to="TopologyHints",
    ),
    text(
        _FILES,
        Regex(r"\[topologymanager\] (?:Container|Pod)TopologyHint: (?P<bestHint>\{.*\})"),
        to="ContainerTopologyHint",
    ),
    text(
        _FILES,
        Regex(rf"\[topologymanager\] Best TopologyHint for {_SUBJECT}(?P<bestHint>\{{.*\}})"),
        to="ContainerTopologyHint",
    ),
    text(
        _FILES,
        Regex(rf"\[topologymanager\] Topology Affinity for {_SUBJECT}(?P<affinity>\{{.*\}})"),
        to="Topology Affinity",
    ),
    *texts(
        "policy.go",
        {
            "[topologymanager] Hint Provider has no preference for NUMA affinity with resource "
            "'{resource}'": ("Hint Provider has no preference for NUMA affinity with resource"),
            "[topologymanager] Hint Provider has no possible NUMA affinities for resource "
            "'{resource}'": ("Hint Provider has no possible NUMA affinities for resource"),
        },
    ),
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
    *ignore_text("scope.go", r"\[topologymanager\] RemoveContainer"),
)
