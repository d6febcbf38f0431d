"""Messages of the device manager."""

from __future__ import annotations

import re

import msgspec

from kubeledger.ingest.klog.rows import Regex, ignore, ignore_text, klog, text, texts
from kubeledger.model.patterns import regex

_ADMISSION = regex(
    r"(?:Allocate|Update plugin resources) failed due to (?P<error>.*), which is unexpected",
    re.DOTALL,
)
_TOPOLOGY = "Resources cannot be allocated with Topology locality"

_RESOURCE = r"(?P<resource>[^\s,]+)"
_BEFORE_CALL = (
    rf"requested number of devices unavailable for {_RESOURCE}\. "
    r"Requested: (?P<requested>-?\d+), Available: (?P<available>-?\d+)",
    r'pod "[^"]*" container "(?P<container>[^"]*)" changed request for resource '
    r'"(?P<resource>[^"]+)" from \d+ to (?P<requested>-?\d+)',
    rf"can(?:'t|not) allocate unregistered device {_RESOURCE}",
    rf"no healthy devices present; cannot allocate unhealthy devices {_RESOURCE}",
    r"previously allocated devices are no longer healthy; "
    rf"cannot allocate unhealthy devices {_RESOURCE}",
    r"unexpectedly allocated less resources than required\. Requested: (?P<requested>\d+), Got:",
    rf"[Uu]nknown Device Plugin {_RESOURCE}",
    rf"endpoint not found in cache for a registered resource: {_RESOURCE}",
    r"device plugin GetPreferredAllocation rpc failed with err: ",
)
_IN_CALL = (
    r"rpc error: ",
    r"endpoint .+ has been stopped",
    r"no containers return in allocation response",
)
_AFTER_CALL = (r'failed to write checkpoint file "kubelet_internal_checkpoint"',)


class DeviceError(msgspec.Struct, frozen=True):
    """An error of the device manager, taken apart.

    Attributes:
        error: its text, without what the kubelet put around it.
        container, resource, requested, available: None when the text does not hold them.
        undoes_call: the Allocate call that had been logged gave no devices.
    """

    error: str
    container: str | None = None
    resource: str | None = None
    requested: int | None = None
    available: int | None = None
    undoes_call: bool = False


_KINDS = (
    *((regex(pattern), False) for pattern in _BEFORE_CALL),
    *((regex(pattern, re.DOTALL), True) for pattern in _IN_CALL),
    *((regex(pattern), False) for pattern in _AFTER_CALL),
)


def device_error(message: str) -> DeviceError | None:
    """The device manager's error in an admission message; None when it holds no such error.

    Other managers fail with the same words around their errors, so the error itself decides.
    """
    admission = _ADMISSION.search(message)
    if admission is None:
        return None
    error = admission["error"]
    for pattern, undoes_call in _KINDS:
        if match := pattern.match(error):
            found = match.groupdict()
            return DeviceError(
                error=error,
                container=found.get("container"),
                resource=found.get("resource"),
                requested=_number(found.get("requested")),
                available=_number(found.get("available")),
                undoes_call=undoes_call,
            )
    return None


def is_topology_refusal(message: str) -> bool:
    """The topology manager's policy refused the pod."""
    return _TOPOLOGY in message


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


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
