"""Messages of what is waited for: stages of pods, and what keeps the node from being ready."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import FORMATTED_POD, TIME, Regex, ignore, klog, text, texts

STAGES = (
    klog("CreateContainer in sandbox from runtime service failed", since="1.21"),
    klog("CreatePodSandbox for pod failed", since="1.21"),
    klog("Error processing volume", since="1.21"),
    klog("Failed to add volume to desiredStateOfWorld", since="1.21"),
    klog("Failed to create log directory for pod", since="1.21"),
    klog("Failed to create sandbox for pod", since="1.21"),
    klog("Failed to create subPath directory for volumeMount of the container", since="1.21"),
    klog("Failed to delete cgroup paths", since="1.21"),
    klog("Failed to destroy orphaned pod cgroup", to="Failed to delete cgroup paths", since="1.34"),
    klog("Failed to execute PostStartHook", since="1.22"),
    klog("Failed to generate sandbox config for pod", since="1.21"),
    klog("Failed to kill all the processes attached to cgroup", since="1.21"),
    klog("Failed to prepare dynamic resources", since="1.26"),
    klog("Failed to prepare subPath for volumeMount of the container", since="1.21"),
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
            )
        },
    ),
    *texts(
        "kubelet_pods.go",
        {
            'failed to create subPath directory for volumeMount "{volumeMountName}" of container '
            '"{containerName}": {err}': (
                "Failed to create subPath directory for volumeMount of the container"
            ),
            'failed to prepare subPath for volumeMount "{volumeMountName}" of container '
            '"{containerName}": {err}': (
                "Failed to prepare subPath for volumeMount of the container"
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
            )
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


_CERTIFICATE = "Failed while requesting a signed certificate from the control plane"
_LEASE = "Failed to ensure lease exists, will retry"
_DONE = "Shutdown manager completed processing"
_COMPLETED = f"{_DONE} shutdown event, node will shutdown shortly"
_DETECTED = "Shutdown manager detected new shutdown event, isNodeShuttingDownNow"
_PROCESSING = "Shutdown manager processing shutdown event"
_NOT_READY = "Unable to register node with API server"
_RETRIED = "Error updating node status, will retry"
_STATUS_FILES = ("kubelet_node_status.go", "kubelet.go")
_UNANSWERED = "Container runtime did not answer"
_LEASE_FILES = ("controller.go", "nodelease.go")

_CONDITIONS = (
    klog("Fast updating node status as it just became ready", since="1.26"),
    klog("Node became not ready", since="1.21"),
    klog("Recording event message for node", since="1.21"),
    text(
        ("setters.go", *_STATUS_FILES),
        "Node became not ready: {condition:rest}",
        to="Node became not ready",
    ),
    text(
        _STATUS_FILES,
        "Recording {event:word} event message for node",
        to="Recording event message for node",
    ),
)

_RUNTIME = (
    klog("Container runtime network not ready", since="1.21"),
    klog("Container runtime not ready", since="1.21"),
    klog("Container runtime sanity check failed", since="1.21"),
    klog("Container runtime status", since="1.21"),
    klog("Container runtime status is nil", since="1.21"),
    klog("ListContainers with filter from runtime service failed", to=_UNANSWERED, since="1.21"),
    klog("ListPodSandbox with filter from runtime service failed", to=_UNANSWERED, since="1.21"),
    klog("Skipping pod synchronization", since="1.21"),
    klog("Status from runtime service failed", to=_UNANSWERED, since="1.21"),
    klog("Version from runtime service failed", to=_UNANSWERED, since="1.21"),
    text(
        "remote_runtime.go",
        Regex(
            r"(?:Version|Status|List(?:PodSandbox|Containers) with filter .*)"
            r" from runtime service failed: (?P<err>.*)"
        ),
        to=_UNANSWERED,
    ),
    *texts(
        "kubelet.go",
        {
            "Container runtime network not ready: {networkReady:rest}": (
                "Container runtime network not ready"
            ),
            "Container runtime not ready: {runtimeReady:rest}": "Container runtime not ready",
            "Container runtime sanity check failed: {err:rest}": (
                "Container runtime sanity check failed"
            ),
            "Container runtime status is nil": "Container runtime status is nil",
            "skipping pod synchronization - {err:rest}": "Skipping pod synchronization",
        },
    ),
    text(
        "csi_plugin.go",
        Regex(
            r"Failed to (?:contact API server when waiting for CSINode publishing"
            r"|initialize CSINode[\w ]*): (?P<err>.*)"
        ),
        to="Failed to initialize CSINode",
        until=None,
    ),
)

_API = (
    klog("Caches populated", since="1.33"),
    klog(_RETRIED, since="1.21"),
    klog("Error updating node status, will retry with syncNodeStatus", to=_RETRIED, since="1.26"),
    klog(_LEASE, since="1.27"),
    klog("Failed to update lease", to=_LEASE, since="1.27"),
    klog("Failed to watch", since="1.33"),
    klog("Node was previously registered", to="Successfully registered node", since="1.21"),
    klog("Successfully registered node", since="1.21"),
    klog("Error getting node", since="1.21", until="1.26"),
    klog("Error getting the current node from lister", to="Error getting node", since="1.25"),
    text("kubelet.go", Regex(r'(?P<err>node "[^"]*" not found)$'), to="Error getting node"),
    klog("Unable to construct v1.Node object for kubelet", to=_NOT_READY, since="1.21"),
    klog(
        "Unable to reconcile node with API server,error updating node", to=_NOT_READY, since="1.21"
    ),
    klog(_NOT_READY, since="1.21"),
    klog(f"{_NOT_READY}, error getting existing node", to=_NOT_READY, since="1.21"),
    klog(f"{_NOT_READY}, no node instance returned", to=_NOT_READY, since="1.21"),
    klog(f"{_NOT_READY}, reason is forbidden", to=_NOT_READY, since="1.32"),
    klog("Unable to update node status", since="1.21"),
    klog("Unhandled Error", since="1.31"),
    klog("Will retry updating lease", to=_LEASE, since="1.27"),
    text("reflector.go", "Caches populated for ", to="Caches populated", until="1.32"),
    text(
        "reflector.go",
        Regex(r"\S+: (?:Failed to (?:list|watch)|failed to list) \S+: (?P<err>.*)"),
        to="Failed to watch",
        until="1.32",
    ),
    *texts(
        _STATUS_FILES,
        {
            "Error updating node status, will retry: {err:rest}": _RETRIED,
            "Node {:word} was previously registered": "Successfully registered node",
            "Successfully registered node": "Successfully registered node",
            'Unable to re{:word} node "{:word} with API server: {err:rest}': _NOT_READY,
            "Unable to construct v1.Node object for kubelet: {err:rest}": _NOT_READY,
            "Unable to update node status: {err:rest}": "Unable to update node status",
        },
    ),
    text(
        _LEASE_FILES,
        Regex(
            r"failed to (?:ensure|update) (?:node )?lease(?: exists, will retry in \S+)?,"
            r" error: (?P<err>.*)"
        ),
        to=_LEASE,
        until="1.26",
    ),
)

_CERTIFICATES = (
    klog("Certificate request was not signed", to=_CERTIFICATE, since="1.33"),
    klog("Certificate rotation deadline determined", since="1.33"),
    klog("Current certificate is expired", to=_CERTIFICATE, since="1.33"),
    klog(_CERTIFICATE, since="1.33"),
    klog("Reached backoff limit, still unable to rotate certs", to=_CERTIFICATE, since="1.33"),
    *(
        klog(words, to=_CERTIFICATE, since="1.21")
        for words in (
            "No valid client certificate is found but the server is not responsive. A restart may "
            "be necessary to retrieve new initial credentials.",
            "The currently active client certificate has expired, but the server is not "
            "responsive. A restart may be necessary to retrieve new initial credentials.",
        )
    ),
    text(
        ("certificate_manager.go", "bootstrap.go"),
        Regex(
            r"(?:\S+: )?(?P<err>(?:[Cc]ertificate request was not signed|Current certificate is exp"
            r"|Failed while requesting a signed|Reached backoff limit|part of the existing boots"
            r").*)"
        ),
        to=_CERTIFICATE,
        until="1.32",
    ),
    text(
        "certificate_manager.go",
        Regex(rf"(?:\S+: )?Certificate expiration is (?P<expiration>{TIME})"),
        to="Certificate rotation deadline determined",
        until="1.32",
    ),
    text(
        "transport.go",
        Regex(r"(?P<err>(?:It has been|The currently active) .*the server is not responsive)"),
        to=_CERTIFICATE,
    ),
)

_SHUTDOWN = (
    klog("Creating node shutdown manager", since="1.23"),
    klog(f"{_DONE} preshutdown event, node will shutdown shortly", to=_COMPLETED, since="1.32"),
    klog(_COMPLETED, since="1.21"),
    klog("Shutdown manager detected new preshutdown event", to=_DETECTED, since="1.32"),
    klog("Shutdown manager detected new shutdown event", to=_DETECTED, since="1.23"),
    klog(_DETECTED, since="1.21"),
    klog("Shutdown manager pod killing time out", since="1.21"),
    klog("Shutdown manager processing preshutdown event", to=_PROCESSING, since="1.32"),
    klog(_PROCESSING, since="1.21"),
    *texts(
        "nodeshutdown_manager_linux.go",
        {
            _COMPLETED: _COMPLETED,
            f"{_DETECTED}: {{event:word}}": _DETECTED,
            "Shutdown manager pod killing did not complete in {gracePeriod:word}": (
                "Shutdown manager pod killing time out"
            ),
            _PROCESSING: _PROCESSING,
        },
    ),
    *ignore(
        "Shutdown manager get current preshutdown info",
        "Shutdown manager get current service preshutdown order",
        "Shutdown manager get started",
        "Shutdown manager override preshutdown info",
    ),
)

NODE_STATE = (*_CONDITIONS, *_RUNTIME, *_API, *_CERTIFICATES, *_SHUTDOWN)
