"""What the device manager holds, and what plugins reported: records to state.

Holdings outlive the kubelet process, because its checkpoint keeps them; endpoints do not:
after a restart each plugin has to register again (:func:`stop_endpoints`). A holding ends
as it ends in the kubelet: not with its pod, but when the next container that asks for
devices makes the device manager release pods that ended (UpdateAllocatedDevices). Where
no record says so, it shows in a device of theirs being given to another pod.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers, as_told
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)


class HeldDevices(msgspec.Struct, kw_only=True):
    """Devices of one resource in the hands of one container.

    Attributes:
        namespace, pod: the pod's name, which may be gone from the node; None when not known.
        device_ids: sorted IDs.
        numa: NUMA node (decimal text) -> sorted IDs; None when no checkpoint shows it.
    """

    namespace: str | None
    pod: str | None
    device_ids: tuple[str, ...]
    numa: dict[str, tuple[str, ...]] | None
    since_ts_ns: int


class ResourceState(msgspec.Struct, kw_only=True):
    """One resource and the plugin that serves it.

    Attributes:
        registered_ts_ns: last registration of a plugin; None when none was seen.
        stopped_ts_ns: when the endpoint stopped; None while it runs.
        reported_ts_ns: last time anything was seen of its devices.
        total, healthy: devices in the plugin's last list; None when not known.
        device_ids: sorted IDs of the last list that showed them; None when none did.
    """

    registered_ts_ns: int | None = None
    stopped_ts_ns: int | None = None
    error: str | None = None
    reported_ts_ns: int | None = None
    total: int | None = None
    healthy: int | None = None
    device_ids: tuple[str, ...] | None = None


class CheckpointState(msgspec.Struct, kw_only=True):
    """The last ``kubelet_internal_checkpoint`` that was read."""

    read_ts_ns: int
    entries: int
    checksum: int
    checksum_ok: bool | None


class FailureState(msgspec.Struct, kw_only=True):
    """The last refusal of the device manager."""

    ts_ns: int
    pod: str | None
    container: str | None
    resource: str | None
    error: str


class DeviceManagerState(msgspec.Struct, kw_only=True):
    """The device manager's memory.

    Attributes:
        pods: pod key -> container -> resource -> devices held.
        resources: resource name -> plugin and device list.
        allocations, failures: decisions so far.
    """

    pods: dict[str, dict[str, dict[str, HeldDevices]]] = {}
    resources: dict[str, ResourceState] = {}
    checkpoint: CheckpointState | None = None
    last_failure: FailureState | None = None
    allocations: int = 0
    failures: int = 0


def stop_endpoints(state: DeviceManagerState, ts_ns: int) -> None:
    """A new kubelet process knows resources from its checkpoint, but no running plugin."""
    for resource in state.resources.values():
        if resource.stopped_ts_ns is None:
            resource.stopped_ts_ns = ts_ns
            resource.error = None
        resource.healthy = 0


def _resource(state: DeviceManagerState, name: str) -> ResourceState:
    resource = state.resources.get(name)
    if resource is None:
        resource = state.resources[name] = ResourceState()
    return resource


def _plugin_registered(state: DeviceManagerState, ts_ns: int, body: PluginRegistered) -> None:
    resource = _resource(state, body.resource)
    resource.registered_ts_ns = ts_ns
    if resource.stopped_ts_ns is not None:
        resource.healthy = None  # until the plugin sends its list again
    resource.stopped_ts_ns = None
    resource.error = None


def _devices_reported(state: DeviceManagerState, ts_ns: int, body: DevicesReported) -> None:
    resource = _resource(state, body.resource)
    resource.reported_ts_ns = ts_ns
    if body.total is not None:
        resource.total = body.total
    if body.healthy is not None:
        resource.healthy = body.healthy
    if body.device_ids is not None:
        resource.device_ids = body.device_ids


def _endpoint_stopped(state: DeviceManagerState, ts_ns: int, body: EndpointStopped) -> None:
    resource = _resource(state, body.resource)
    resource.stopped_ts_ns = ts_ns
    resource.error = body.error
    resource.healthy = 0


def _devices_allocated(state: DeviceManagerState, ts_ns: int, body: DevicesAllocated) -> None:
    state.allocations += 1
    key = pod_key(body.pod_uid, body.namespace, body.pod)
    if key is None:
        return
    _take_from_others(state, key, body)
    held = state.pods.setdefault(key, {}).setdefault(body.container, {})
    held[body.resource] = as_told(HeldDevices, body, since_ts_ns=ts_ns)


def _take_from_others(state: DeviceManagerState, key: str, body: DevicesAllocated) -> None:
    """A device is held by one pod: its former holder was released without a record."""
    taken = set(body.device_ids)
    losers = [
        other
        for other, containers in state.pods.items()
        if other != key
        and any(
            taken.intersection(held[body.resource].device_ids)
            for held in containers.values()
            if body.resource in held
        )
    ]
    for other in losers:
        del state.pods[other]


def _allocation_failed(state: DeviceManagerState, ts_ns: int, body: AllocationFailed) -> None:
    state.failures += 1
    pod = pod_key(body.pod_uid, body.namespace, body.pod)
    state.last_failure = as_told(FailureState, body, ts_ns=ts_ns, pod=pod)


def _devices_released(state: DeviceManagerState, ts_ns: int, body: DevicesReleased) -> None:
    containers = state.pods.get(body.pod_uid)
    if containers is None:
        return
    for container in sorted(containers) if body.container is None else [body.container]:
        held = containers.get(container)
        if held is None:
            continue
        if body.resource is None:
            held.clear()
        else:
            held.pop(body.resource, None)
        if not held:
            del containers[container]
    if not containers:
        del state.pods[body.pod_uid]


def _checkpoint_read(state: DeviceManagerState, ts_ns: int, body: CheckpointRead) -> None:
    """Take NUMA nodes and IDs from a sound checkpoint.

    The file alone gives and takes no device: it lags behind the kubelet's memory and may
    list pods that are gone. What follows from it is a record of its own.
    """
    entries = len(body.entries)
    state.checkpoint = as_told(CheckpointState, body, read_ts_ns=ts_ns, entries=entries)
    if body.checksum_ok is False:
        return
    for entry in body.entries:
        held = state.pods.get(entry.pod_uid, {}).get(entry.container, {}).get(entry.resource)
        listed = {device for devices in entry.numa.values() for device in devices}
        if held is not None and listed == set(held.device_ids) and "" not in entry.numa:
            held.numa = entry.numa
    for name, device_ids in body.registered.items():
        _resource(state, name).device_ids = device_ids


HANDLERS: Handlers[DeviceManagerState] = {
    AllocationFailed: _allocation_failed,
    CheckpointRead: _checkpoint_read,
    DevicesAllocated: _devices_allocated,
    DevicesReleased: _devices_released,
    DevicesReported: _devices_reported,
    EndpointStopped: _endpoint_stopped,
    PluginRegistered: _plugin_registered,
}
"""Body type -> what it does to the state; a request alone changes nothing."""
