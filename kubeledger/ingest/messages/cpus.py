"""Messages of the CPU manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, klog, text

__all__ = ["MESSAGES"]

MESSAGES = (
    klog("Allocate error", since="1.21"),
    klog("Allocate start", to="Static policy: Allocate", since="1.35"),
    klog("AllocateCPUs", since="1.21"),
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
    text(
        "cpu_manager.go",
        "[cpumanager] detected CPU topology: {topology}",
        to="Detected CPU topology",
    ),
    text(
        "cpu_manager.go",
        "[cpumanager] starting with {policy} policy",
        to="Starting CPU manager",
    ),
    text("cpu_manager.go", "[cpumanager] Allocate error: {err}", to="Allocate error"),
    text(
        "policy_static.go",
        '[cpumanager] reserved {:int} CPUs ("{reserved}")',
        to="Reserved CPUs not available for exclusive assignment",
    ),
    text(
        "policy_static.go",
        "[cpumanager] static policy invalid state: {err:rest}, please drain node",
        to="Static policy invalid state, please drain node and remove policy state file",
    ),
    text(
        "policy_static.go",
        "[cpumanager] static policy: Allocate (pod: {pod:some}, container: {containerName:field})",
        to="Static policy: Allocate",
    ),
    text(
        "policy_static.go",
        "[cpumanager] static policy: container already present",
        to="Static policy: container already present in state, skipping",
    ),
    text(
        "policy_static.go",
        "[cpumanager] Pod {pod:word}, Container {containerName:word} Topology Affinity is: "
        "{affinity}",
        to="Topology Affinity of CPUs",
    ),
    text(
        "policy_static.go",
        "[cpumanager] allocateCpus: (numCPUs: {numCPUs:int},",
        to="AllocateCPUs",
    ),
    text("policy_static.go", '[cpumanager] allocateCPUs: returning "{result}"', to="AllocateCPUs"),
    text(
        "policy_static.go",
        "[cpumanager] unable to allocate {:int} CPUs (pod: {:rest}, error: {err:rest})",
        to="Unable to allocate CPUs",
    ),
    text(
        "policy_static.go",
        "[cpumanager] static policy: RemoveContainer "
        "(pod: {podUID:field}, container: {containerName:field})",
        to="Static policy: RemoveContainer",
    ),
    text(
        "state_mem.go",
        '[cpumanager] updated default cpuset: "{cpuSet}"',
        to="Updated default CPUSet",
    ),
    text(
        "state_mem.go",
        "[cpumanager] updated desired cpuset "
        '(pod: {podUID:field}, container: {containerName:field}, cpuset: "{cpuSet}")',
        to="Updated desired CPUSet",
    ),
    text(
        "state_mem.go",
        "[cpumanager] updated cpuset assignments",
        to="Updated CPUSet assignments",
    ),
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
