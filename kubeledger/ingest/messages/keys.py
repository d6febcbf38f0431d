"""What is read of a message that has a handler: the keys of its lines.

A line of a message without a key that it needs is counted as not understood: what it says would be
lost. Message -> keys, as the newest kubelets name them:

* ``podUID``: the line needs it;
* ``imageKey/imageID``: it needs one of these;
* ``containerName?``: it is read where it is there.

Messages that are not here are heard for their words alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Keys(msgspec.Struct, frozen=True):
    """Keys of a message's lines.

    Attributes:
        needed: of each, one of the alternatives must be there.
        read: all that anybody asks for.
    """

    needed: tuple[tuple[str, ...], ...]
    read: frozenset[str]


def _keys(text: str) -> Keys:
    words = text.split()
    return Keys(
        needed=tuple(tuple(word.split("/")) for word in words if not word.endswith("?")),
        read=frozenset(key for word in words for key in word.removesuffix("?").split("/")),
    )


_EVENT = "Event occurred"
_FULL = (
    "Disk usage on image filesystem is over the high threshold, trying to free bytes down to the "
    "low threshold"
)
_HOLDER = "podUID containerName resourceName"
_KILL = "pod? podUID? containerID? containerStatusID? containerName? containerMessage?"
_TICK = "probeType pod podUID? containerName probeResult? output? err?"

KEYS: Mapping[str, Keys] = {
    message: _keys(keys)
    for message, keys in {
        "Added an OOM kill event": "container time",
        "Added Container": "pod podUID containerName containerID",
        "Adding image ID to currentImages": "imageKey/imageID",
        "Adding image ID with runtime class to currentImages": "imageKey/imageID",
        "Adding new entry to the queue for processing": "labels? id?",
        "After cpu setting is overwritten": "kubeReserved systemReserved",
        "Allocate": "containerName pod podUID?",
        "Allocate error": "err",
        "AllocateCPUs": "numCPUs/result",
        "Allocated pod resize is not currently feasible": "pod podUID? err",
        "Attempting to evict pods in order to free up resources": "pods insufficientResources?",
        "Availability is larger than capacity": "available capacity",
        "Back-off restarting failed container": "err pod? podUID?",
        "Bad registration request from device plugin": "resourceName?",
        "Certificate rotation deadline determined": "expiration",
        "Container runtime did not answer": "err",
        "Container runtime network not ready": "networkReady",
        "Container runtime not ready": "runtimeReady",
        "Container runtime status": "status",
        "Container runtime sanity check failed": "err",
        "Container termination failed with gracePeriod": "containerID",
        "ContainerTopologyHint": "bestHint/affinity pod? podUID? containerName?",
        "Could not initialize checkpoint manager, please drain node and remove policy "
        "state file": "err?",
        "CreateContainer in sandbox from runtime service failed": "podSandboxID err?",
        "CreatePodSandbox for pod failed": "pod err?",
        "Created PodSandbox for pod": "pod podUID? podSandboxID",
        "Created an OOM event in container": "container time",
        "Creating Container Manager object based on Node Config": "nodeConfig",
        "Creating topology manager with policy per scope": "topologyPolicyName topologyScopeName?",
        "Creating node shutdown manager": "shutdownGracePeriodByPodPriority?",
        "Detected CPU topology": "topology",
        "Device plugin connected": "resourceName",
        _FULL: "usage highThreshold? lowThreshold? amountToFree?",
        "Endpoint became unhealthy": "resourceName",
        "Error getting node": "err",
        "Error processing volume": "pod volumeName err?",
        "Error syncing pod, skipping": "err pod? podUID?",
        "Error updating node status, will retry": "err",
        "Evaluating image ID for possible garbage collection": "imageID",
        "Evaluating image ID for possible garbage collection based on image age": "imageID",
        _EVENT: "kind reason type? object? podUID? fieldPath? message?",
        "Evicting pod": "pod podUID? message?",
        "Eviction manager:": "log signal available capacity",
        "Eviction manager: attempting to reclaim": "resourceName",
        "Eviction manager: cannot evict a critical pod": "pod podUID?",
        "Eviction manager: must evict pod(s) to reclaim": "resourceName",
        "Eviction manager: node conditions - observed": "nodeCondition",
        "Eviction manager: node conditions - transition period not met": "nodeCondition",
        "Eviction manager: pod failed to evict": "pod podUID?",
        "Eviction manager: pod is evicted successfully": "pod podUID?",
        "Eviction manager: pods ranked for eviction": "pods",
        "Eviction manager: threshold observed resource": "log signal quantity available",
        "Exec-Probe runProbe": "pod podUID? containerName",
        "Failed to ensure lease exists, will retry": "err",
        "Failed to initialize CSINode": "err",
        "Failed to watch": "err",
        "Failed while requesting a signed certificate from the control plane": "err?",
        "FLAG": "name? value?",
        "Failed to add volume to desiredStateOfWorld": "pod/podUID volumeName err?",
        "Failed to admit pod": "pod podUID? message/err",
        "Failed to admit pod to node": "pod podUID? message? err? nodeCondition?",
        "Failed to admit pod, unexpected error while attempting to recover from admission "
        "failure": "pod podUID? err",
        "Failed to create log directory for pod": "pod err?",
        "Failed to create sandbox for pod": "pod err?",
        "Failed to delete cgroup paths": "cgroupName/podUID err?",
        "Failed to evict pod": "pod podUID?",
        "Failed to execute PostStartHook": "pod podUID? containerName err?",
        "Failed to generate sandbox config for pod": "pod err?",
        "Failed to kill all the processes attached to cgroup": "cgroupName err?",
        "Failed to create subPath directory for volumeMount of the container": (
            "containerName volumeMountName err?"
        ),
        "Failed to prepare dynamic resources": "pod err?",
        "Failed to prepare subPath for volumeMount of the container": (
            "containerName volumeMountName err?"
        ),
        "Failed to remove image": "imageID",
        "Failed to remove orphaned pod dir": "podUID err?",
        "Found pre-allocated devices for resource on pod": f"{_HOLDER} devices",
        "Generated pod name": "pod/podName podNamespace? podUID?",
        "Generic (PLEG): container finished": "containerID exitCode",
        "Get checkpoint entry": f"{_HOLDER} deviceIDs",
        "Got registration request from device plugin with resource": "resourceName",
        "Got topology affinity": "pod podUID? containerName hint",
        "Hint Provider has no possible NUMA affinities for resource": "resource",
        "Hint Provider has no preference for NUMA affinity with resource": "resource",
        "Image ID has size": "imageID size",
        "Image ID is new": "imageID",
        "Image ID is no longer present, removing from imageRecords": "imageID",
        "Image ID is pinned": "imageID pinned",
        "Image garbage collection failed multiple times in a row": "err",
        "Initializing Topology Manager with policy": "topologyPolicyName topologyScopeName?",
        "Invalid state, please drain node and remove policy state file": "err?",
        "Kill container failed": "pod podUID? containerName? err?",
        "KillPod failed": "pod err",
        "Killing container with a grace period": f"{_KILL} gracePeriod",
        "Killing container with a grace period override": f"{_KILL} gracePeriod",
        "Killing unwanted container for pod": f"{_KILL} gracePeriod?",
        "Kubelet version": "kubeletVersion",
        "KubeletConfiguration": "configuration/literal",
        "Making allocation request for device plugin": "resourceName devices pod? containerName?",
        "Mark all resources Unhealthy for resource": "resourceName",
        "Memory states for the NUMA node and resource are different": (
            "node? resource? memoryState1? memoryState2?"
        ),
        "Message for Container of pod": f"{_KILL} gracePeriod?",
        "Need devices to allocate for pod": f"{_HOLDER} deviceNumber",
        "No retries permitted": "err",
        "No sandbox for pod can be found. Need to start a new one": "pod podUID?",
        "Node became not ready": "condition",
        "Non-running container probed": "pod podUID? containerName",
        "Observed pod startup duration": (
            "pod podCreationTimestamp? pod.CreationTimestamp? observedRunningTime?"
            " firstStartedPulling? lastFinishedPulling? totalImagesPullingTime?"
            " podStartSLOduration?"
        ),
        "Orphan pod": "err",
        "Patch status for pod": "pod podUID? patch? status?",
        "Pod Admit Result": "pod podUID? message",
        "Pod admission denied": "pod podUID? operation? reason message",
        "Pod cannot start yet": "pod podUID?",
        "Pod evicted successfully": "pod podUID?",
        "Pod fully terminated and removed from etcd": "pod podUID?",
        "Pod has completed, ignoring remaining sync work": "pod podUID? syncType",
        "Pod is being synced for the first time": "pod podUID?",
        "Pod is stopped": "pod/podUID because gracePeriod?",
        "Pod is terminated and will need no more status updates": "pod podUID?",
        "Pod resize is deferred; will reevaluate later": "pod podUID?",
        "Pod resize is infeasible": "pod podUID?",
        "Pod resize successfully allocated": "pod podUID?",
        "Pod terminating with grace period": "pod podUID? gracePeriod",
        "Pods to be removed": "podUIDs",
        "Predicate failed on Pod": "pod podUID? message/err",
        "Preempting pod to free up resources": ("pod podUID? insufficientResources requestingPod?"),
        "Probe errored": _TICK,
        "Probe failed": _TICK,
        "Probe succeeded": _TICK,
        "Probe succeeded with a warning": _TICK,
        "Probe unknown without error": _TICK,
        "Processed device updates for resource": "resourceName totalCount healthyCount",
        "QoS pod memory limit": "qos limits percentReserve",
        "Recording event message for node": "event",
        "RemoveContainer": "containerName/containerID podUID? pod?",
        "Removing image to free bytes": "imageID size runtimeHandler?",
        "Reserved CPUs not available for exclusive assignment": "reserved",
        "Resize cannot be accommodated": "pod podUID? reason message?",
        "Running preStop hook": "containerID pod? podUID? containerName?",
        "Setting Image ID lastUsed": "imageID lastUsed",
        "Shutdown manager detected new shutdown event, isNodeShuttingDownNow": "event",
        "Shutdown manager pod killing time out": "gracePeriod? priority?",
        "Skipping pod synchronization": "err",
        "Starting CPU manager": "policy?",
        "Starting memorymanager": "policy",
        "State pushed for device plugin": "resourceName resourceCapacity?",
        "Static policy created with configuration": "options",
        "Static policy invalid state, please drain node and remove policy state file": "err?",
        "Static policy: Allocate": "pod podUID? containerName",
        "Static policy: RemoveContainer": "podUID/pod containerName",
        "Status Manager: adding pod": "podUID status",
        "Status Manager: syncing pod": "podUID status",
        "Status for pod updated successfully": "pod podUID? status",
        "Status shows a refusal": "pod message",
        "Stopping PodSandbox for pod, will start new one": "pod podUID?",
        "SyncLoop (PLEG): event for pod": "pod podUID? event refusals_follow?",
        "SyncLoop (PLEG): pod does not exist, ignore irrelevant event": "event",
        "SyncLoop (probe)": "probe/update pod? podUID? status?",
        "SyncLoop (probe): ignore irrelevant update": "update",
        "SyncLoop ADD": "source pods",
        "SyncLoop DELETE": "source pods",
        "SyncLoop RECONCILE": "source pods",
        "SyncLoop REMOVE": "source pods",
        "SyncLoop UPDATE": "source pods",
        "SyncPod enter": "pod podUID?",
        "The kubelet gives up": "err?",
        "Topology Admit Handler": "pod? podUID? podName? podNamespace?",
        "Topology Affinity": "bestHint/affinity pod podUID? containerName?",
        "Topology Affinity of CPUs": "affinity pod containerName",
        "TopologyHints": "hints pod podUID? containerName?",
        "Unable to allocate CPUs": "err pod? podUID? containerName?",
        "Unable to attach or mount volumes for pod; skipping pod": "pod err?",
        "Unable to generate topology hints: requested number of devices unavailable": (
            "resourceName request available pod? containerName?"
        ),
        "Unable to make pod data directories for pod": "pod err?",
        "Unable to register node with API server": "err?",
        "Unable to update node status": "err",
        "Unhandled Error": "err",
        "Unsupported probe result": _TICK,
        "Updated default CPUSet": "cpuSet",
        "Updated desired CPUSet": "podUID/pod containerName cpuSet",
        "Updated memory state": "podUID/pod containerName",
        "Using cgroup driver setting received from the CRI runtime": "cgroupDriver",
        "computePodActions got for pod": "pod podUID?",
        "killPodWithSyncResult failed": "err",
        "listAndWatch ended unexpectedly for device plugin": "resourceName err?",
    }.items()
}

NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    message: keys.needed for message, keys in KEYS.items() if keys.needed
}
"""Message -> keys that its lines need, each with its alternatives."""
