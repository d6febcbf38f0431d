"""From chosen devices to a grant: the plugin's Allocate, the record, or the rollback."""

from __future__ import annotations

from kubeledger.kubelet.devicemanager.allocate import Refusal, Request
from kubeledger.kubelet.devicemanager.manager import ManagerImpl, NoContainers, RpcError
from kubeledger.kubelet.profile.devices import DeviceFacts


def refuse(manager: ManagerImpl, request: Request, refusal: Refusal) -> str:
    """Apply a refusal and give its error: devices picked before it stay in use.

    They stay so until what is in use is rebuilt from the records.
    """
    if refusal.leaked is not None:
        manager.allocated.setdefault(request.resource, set()).update(refusal.leaked)
    return refusal.error


def grant(
    manager: ManagerImpl, request: Request, devices: frozenset[str], facts: DeviceFacts
) -> str:
    """Ask the plugin for the devices and record them; its error, or empty.

    On an error what is in use is rebuilt from the records. What the container got of other
    resources before is on record and stays. After an answer without a response for the
    container nothing is rebuilt: the devices stay in use, held by no pod.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go allocateContainerResources
    Differs: no
    """
    resource = request.resource
    manager.allocated.setdefault(resource, set()).update(devices)
    plugin = manager.endpoints.get(resource)
    if plugin is None:
        manager.restore_allocated()
        return f"unknown Device Plugin {resource}"
    match plugin.allocate(devices):
        case RpcError(text):
            manager.restore_allocated()
            return text
        case NoContainers(printed):
            return f"no containers return in allocation response {printed}"
        case None:
            record = manager.devices_per_numa(resource, devices, facts)
            manager.pod_devices.insert(request.pod, request.container, resource, record)
            return ""
