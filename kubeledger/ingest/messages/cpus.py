"""Messages of the CPU manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, klog, texts

MESSAGES = (
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
