"""Messages of the cgroup managers."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, klog, texts

MESSAGES = (
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
