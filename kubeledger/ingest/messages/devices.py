"""Messages of the device manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import Regex, ignore, ignore_text, klog, text, texts

_REFUSAL = (
    r"(?P<message>(?:Allocate|Update plugin resources) failed due to .*?, which is unexpected"
    r"|Resources cannot be allocated with Topology locality)"
)
_UP_TO_REFUSAL = rf"[^AUR]*+(?:[AUR][^AUR]*+)*?{_REFUSAL}"
"""``.*?`` would try a refusal at each letter of a pod's status, this at its first letters only."""

MESSAGES = (
    klog("Bad registration request from device plugin", since="1.21"),
    klog(
        "Bad registration request from device plugin with resource",
        to="Bad registration request from device plugin",
        since="1.21",
    ),
    klog(
        "Bad registration request from device plugin with resource name",
        to="Bad registration request from device plugin",
    ),
    klog("Checkpoint file written", since="1.33"),
    klog("Device plugin connected", since="1.28"),
    klog("Endpoint became unhealthy", since="1.21"),
    klog(
        "Error connecting to device plugin client",
        to="Bad registration request from device plugin",
        since="1.25",
    ),
    klog(
        "Failed to connect to new client",
        to="Bad registration request from device plugin",
        since="1.25",
        resourceName="resource",
    ),
    klog(
        "Failed to dial device plugin with request",
        to="Bad registration request from device plugin",
        since="1.21",
        until="1.24",
    ),
    klog("Found pre-allocated devices for resource on pod", since="1.21"),
    klog("Get checkpoint entry", since="1.21"),
    klog("Got registration request from device plugin with resource", since="1.21"),
    klog(
        "Got registration request from device plugin with resource name",
        to="Got registration request from device plugin with resource",
    ),
    klog(
        "ListAndWatch ended unexpectedly for device plugin",
        to="listAndWatch ended unexpectedly for device plugin",
        since="1.25",
        resourceName="resource",
    ),
    klog("Making allocation request for device plugin", since="1.21"),
    klog("Mark all resources Unhealthy for resource", since="1.21"),
    klog("Need devices to allocate for pod", since="1.21"),
    klog("Pods to be removed", since="1.21"),
    klog("Processed device updates for resource", since="1.28"),
    klog("Registered endpoint", since="1.21", until="1.24"),
    klog("State pushed for device plugin", since="1.21", resourceName="resource"),
    klog(
        "Unable to generate topology hints: requested number of devices unavailable",
        since="1.21",
        resourceName="resource",
    ),
    klog("listAndWatch ended unexpectedly for device plugin", since="1.21", until="1.24"),
    *texts(
        "manager.go",
        {
            'Needs to allocate {deviceNumber:int} "{resourceName}" for pod "{podUID}" container '
            '"{containerName}"': ("Need devices to allocate for pod"),
            "Making allocation request for devices {devices:list} for device plugin "
            "{resourceName:word}": ("Making allocation request for device plugin"),
            "Found pre-allocated devices for resource {resourceName:word} container "
            '"{containerName}" in Pod "{podUID}": {devices:list}': (
                "Found pre-allocated devices for resource on pod"
            ),
            "pods to be removed: {podUIDs:list}": "Pods to be removed",
            'Got registration request from device plugin with resource name "{resourceName}"': (
                "Got registration request from device plugin with resource"
            ),
            'Bad registration request from device plugin with resource name "{resourceName}"': (
                "Bad registration request from device plugin"
            ),
            "Bad registration request from device plugin": (
                "Bad registration request from device plugin"
            ),
            "Failed to dial device plugin": "Bad registration request from device plugin",
            "Registered endpoint ": "Registered endpoint",
            "Mark all resources Unhealthy for resource {resourceName:word}": (
                "Mark all resources Unhealthy for resource"
            ),
            "Endpoint ({resourceName:field}, {:rest}) became unhealthy": (
                "Endpoint became unhealthy"
            ),
        },
    ),
    *texts(
        "endpoint.go",
        {
            "State pushed for device plugin {resourceName:word}": "State pushed for device plugin",
            "listAndWatch ended unexpectedly for device plugin {resourceName:word} with error "
            "{err}": ("listAndWatch ended unexpectedly for device plugin"),
        },
    ),
    text(
        "pod_devices.go",
        Regex(
            r"Get checkpoint entry: (?P<podUID>\S+) (?P<containerName>\S+) (?P<resourceName>\S+) "
            r"(?P<deviceIDs>map\[.*\]|\[[^\]]*\]) \[[\d ]*\]\s*$"
        ),
        to="Get checkpoint entry",
    ),
    text(
        "topology_hints.go",
        "[devicemanager] Unable to generate topology hints: requested number of devices "
        "unavailable for '{resourceName}': requested: {request:int}, available: {available:int}",
        to="Unable to generate topology hints: requested number of devices unavailable",
    ),
    *(
        text(
            "status_manager.go",
            Regex(rf'{change} for pod "(?P<pod>[^"]*)" {_UP_TO_REFUSAL}'),
            to="Status shows a refusal",
        )
        for change in ("Patch status", "Status")
    ),
    *ignore(
        "Add CDI device",
        "Add annotation",
        "Add device",
        "Add env",
        "Add mount",
        "Annotation has conflicting setting",
        "Can't create new endpoint with socket path",
        "Can't marshal allocResp",
        "Can't marshal allocResp, allocation response is missing",
        "Can't unmarshal allocResp",
        "Connected to new client",
        "Container detected running, nothing to do",
        "Container device has conflicting mapping host devices",
        "Container found in map but not in running set",
        "Container found in the initial running set",
        "Container mount has conflicting mapping host mounts",
        "Container not found in the initial map, assumed NOT running",
        "Container not present in the initial running set",
        "Continue after failing to read checkpoint file. Device allocation info may NOT "
        "be up-to-date",
        "Created deprecation file",
        "Creating Device Plugin manager",
        "Creating device plugin registration server",
        "Deregistered client",
        "Deregistering plugin",
        "Device plugin disconnected",
        "Device plugin validated",
        "Environment variable has conflicting setting",
        "Error while processing device plugin registration server",
        "Error while serving device plugin registration grpc server",
        "Fail to clean up stale content under socket dir",
        "Failed to clean up stale content under socket dir",
        "Failed to close grpc connection",
        "Failed to create deprecation file at socket dir",
        "Failed to create device plugin directory",
        "Failed to delete socket",
        "Failed to disconnect device plugin client",
        "Failed to listen to socket while starting device plugin registry",
        "Failed to read data from checkpoint",
        "Failed to remove file",
        "Failed to retrieve checkpoint",
        "Failed to stat file",
        "Failed to write checkpoint file",
        "GetAllocatableDevices",
        "Got plugin at endpoint with versions",
        "Ignoring NUMA node IDs reported by device plugin that are unknown to cadvisor",
        "Issuing a GetPreferredAllocation call for container",
        "Issuing a PreStartContainer call for container",
        "Issuing an PreStartContainer call for container",
        "Looking for needed resources",
        "Needs to re-allocate device plugin resources for pod",
        "No devices needed, nothing to do",
        "Plugin options indicate to skip GetPreferredAllocation for resource",
        "Plugin options indicate to skip PreStartContainer for resource",
        "Pod deleted from activePods, skip to reAllocate",
        "Read data from checkpoint file",
        "Regenerating TopologyHints for resource already allocated to pod",
        "Registered client",
        "Registering plugin at endpoint",
        "Resource already allocated to pod with different number than request",
        "Resource does not have a topology preference",
        "Serving device plugin registration server on socket",
        "Skip existing CDI Device",
        "Skip existing annotation",
        "Skip existing device",
        "Skip existing env",
        "Skip existing mount",
        "Skipping allocation for DRA-backed extended resource",
        "Starting Device Plugin manager",
        "Starting device plugin registration server",
        "Stopping device plugin registration server",
        "Unable to connect to device plugin client with socket path",
        "Unable to disconnect client",
        "Unexpected: healthyDevices and endpoints are out of sync",
        "Unexpected: unhealthyDevices and endpoints became out of sync",
        "Unprivileged containerized plugins might not work. Could not set selinux context "
        "on socket dir",
        "Updated allocatable",
        "Writing checkpoint encountered",
        "container not present in the initial running set",
        "discard pods info",
        "disconnecting client",
    ),
    *ignore_text(
        "manager.go",
        "Creating Device Plugin manager at ",
        "Starting Device Plugin manager",
        "Serving device plugin registration server on ",
        "created deprecation file ",
        "Failed to create deprecation file ",
        "Failed to retrieve checkpoint for ",
        "Continue after failing to read checkpoint file",
        "Fail(?:ed)? to clean up stale contents under ",
        "Failed to (?:stat|remove) file .*: ",
        "Unprivileged containerized plugins might not work",
        "Got Plugin .* at endpoint ",
        "Registering Plugin .* at endpoint ",
        r"needs -?\d+ \S+$",
        "needs re-allocate device plugin resources for pod ",
        "Plugin options indicate to skip (?:GetPreferredAllocation|PreStartContainer) ",
        "Issuing an? (?:GetPreferredAllocation|PreStartContainer) call for container, ",
        "[Ww]riting checkpoint encountered",
        "failed to write checkpoint file ",
        "unexpected: (?:un)?healthyDevices and endpoints are out of sync",
        "failed to listen to socket while starting device plugin registry",
        "Error while processing device plugin registration server",
    ),
    *ignore_text(
        "endpoint.go",
        'parsed scheme: "',
        'scheme "[^"]*" not registered, fallback',
        "Can't create new endpoint with path",
    ),
    *ignore_text(
        "pod_devices.go",
        "Add (?:env|device|mount|annotation) ",
        "Skip existing (?:env|device|mount|annotation) ",
        "Can't (?:un)?marshal allocResp for ",
        "(?:Environment variable|Container device|Container mount|Annotation) .* has conflicting",
    ),
    *ignore_text(
        "topology_hints.go",
        r"\[devicemanager\] Resource '.*' does not have a topology preference",
        r"\[devicemanager\] Resource '.*' already allocated to \(pod ",
        r"\[devicemanager\] Regenerating TopologyHints for resource ",
    ),
)
