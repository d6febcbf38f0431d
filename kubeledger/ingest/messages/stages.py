"""Messages about stages that a pod does not get past: volumes, sandboxes, starts, ends."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import FORMATTED_POD, Regex, klog, text, texts

MESSAGES = (
    klog("CreateContainer in sandbox from runtime service failed", since="1.21"),
    klog("CreatePodSandbox for pod failed", since="1.21"),
    klog("Error processing volume", since="1.21"),
    klog("Failed to add volume to desiredStateOfWorld", since="1.21"),
    klog("Failed to create log directory for pod", since="1.21"),
    klog("Failed to create sandbox for pod", since="1.21"),
    klog("Failed to delete cgroup paths", since="1.21"),
    klog("Failed to destroy orphaned pod cgroup", to="Failed to delete cgroup paths", since="1.34"),
    klog("Failed to execute PostStartHook", since="1.22"),
    klog("Failed to generate sandbox config for pod", since="1.21"),
    klog("Failed to kill all the processes attached to cgroup", since="1.21"),
    klog("Failed to prepare dynamic resources", since="1.26"),
    klog("Failed to remove orphaned pod dir", since="1.21"),
    klog("Failed to remove orphaned pod subdir", to="Failed to remove orphaned pod dir"),
    klog("Kill container failed", since="1.21"),
    klog("KillPod failed", since="1.22"),
    klog("Orphan pod", since="1.21"),
    klog(
        "Orphaned pod found, but failed to remove volumes subdir",
        to="Failed to remove orphaned pod dir",
    ),
    klog("Pod cannot start yet", since="1.22"),
    klog(
        "There were many similar errors. Turn up verbosity to see them.",
        to="Orphan pod",
        since="1.21",
    ),
    klog("Unable to attach or mount volumes for pod; skipping pod", since="1.21"),
    klog("Unable to make pod data directories for pod", since="1.21"),
    klog("killContainer for pod failed", to="Kill container failed", since="1.21"),
    klog("killPod failed", to="KillPod failed", since="1.21", until="1.21"),
    klog("killPodWithSyncResult failed", since="1.21"),
    text(
        ("kuberuntime_manager.go", "runtime.go"),
        Regex(r"(?P<err>(?:init |ephemeral )?container &Container\{.* start failed in pod .*)"),
        to="Unhandled Error",
        until="1.29",
    ),
    text(
        "kubelet.go", Regex(r'(?P<err>.*failed to "KillPodSandbox" for .*)'), to="Unhandled Error"
    ),
    text(
        "nestedpendingoperations.go",
        Regex(r"(?P<err>Operation for .* failed\. No retries permitted until .*)"),
        to="No retries permitted",
        until=None,
    ),
    text(
        "kubelet.go",
        Regex(
            rf'Unable to (?:attach or )?mount volumes for pod "(?P<pod>{FORMATTED_POD})": '
            r"(?P<err>.*?)(?:; skipping pod)?$"
        ),
        to="Unable to attach or mount volumes for pod; skipping pod",
    ),
    text(
        "kubelet_volumes.go",
        Regex(r"(?P<err>[Oo]rphaned pod .*?) : There were a total of "),
        to="Orphan pod",
    ),
    *texts(
        "kubelet.go",
        {
            'Unable to make pod data directories for pod "{pod:pod}": {err}': (
                "Unable to make pod data directories for pod"
            ),
        },
    ),
    *texts(
        "kubelet_volumes.go",
        {
            "Orphan pod: {err}": "Orphan pod",
            'Failed to remove orphaned pod "{podUID}" dir; err: {err}': (
                "Failed to remove orphaned pod dir"
            ),
        },
    ),
    *texts(
        "kuberuntime_manager.go",
        {
            'createPodSandbox for pod "{pod:pod}" failed: {err}': "CreatePodSandbox for pod failed",
            "killPodWithSyncResult failed: {err}": "killPodWithSyncResult failed",
        },
    ),
    *texts(
        "kuberuntime_sandbox.go",
        {
            'CreatePodSandbox for pod "{pod:pod}" failed: {err}': (
                "Failed to create sandbox for pod"
            ),
            'Create pod log directory for pod "{pod:pod}" failed: {err}': (
                "Failed to create log directory for pod"
            ),
        },
    ),
    *texts(
        "remote_runtime.go",
        {
            'CreateContainer in sandbox "{podSandboxID}" from runtime service failed: {err}': (
                "CreateContainer in sandbox from runtime service failed"
            ),
        },
    ),
    *texts(
        "desired_state_of_world_populator.go",
        {
            'Error processing volume "{volumeName}" for pod "{pod:pod}": {err}': (
                "Error processing volume"
            ),
            'Failed to add volume {volumeName:word} (specName: {:field}) for pod "{podUID}" to '
            "desiredStateOfWorld: {err}": "Failed to add volume to desiredStateOfWorld",
        },
    ),
    *texts(
        "pod_container_manager_linux.go",
        {
            "failed to delete cgroup paths for {cgroupName:list} : {err}": (
                "Failed to delete cgroup paths"
            ),
            "failed to kill all the processes attached to the {cgroupName:list} cgroups": (
                "Failed to kill all the processes attached to cgroup"
            ),
        },
    ),
    text(
        "pod_workers.go",
        "Error syncing pod {podUID}, skipping: {err}",
        to="Error syncing pod, skipping",
    ),
)
