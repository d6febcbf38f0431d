"""From chosen devices to a grant: the plugin's Allocate, the record, or the rollback."""

from __future__ import annotations

from kubeledger.devicemanager.allocate import Refusal, Request
from kubeledger.devicemanager.manager import ManagerImpl
from kubeledger.profile.devices import DeviceFacts

__all__ = ["grant", "refuse"]


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
    resources before is on record and stays.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go allocateContainerResources
    Differs: an answer without container responses, after which the picks stay in use, is
        not modelled: what a plugin answers is told as an error or none.
    """
    resource = request.resource
    manager.allocated.setdefault(resource, set()).update(devices)
    plugin = manager.endpoints.get(resource)
    error = f"unknown Device Plugin {resource}" if plugin is None else plugin.allocate(devices)
    if error:
        manager.restore_allocated()
        return error
    record = manager.devices_per_numa(resource, devices, facts)
    manager.pod_devices.insert(request.pod, request.container, resource, record)
    return ""
