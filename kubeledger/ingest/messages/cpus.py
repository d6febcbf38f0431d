"""Messages of the CPU manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, text

__all__ = ["MESSAGES"]

MESSAGES = (
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
