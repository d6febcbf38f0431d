"""Life of device plugins: registration, end of a stream, five minutes of grace, capacity.

A plugin's endpoint outlives the plugin: its devices become unhealthy, and the resource
stays with capacity but nothing allocatable until the grace is over or a plugin registers
again. Only the node status update looks at the clock (:func:`get_capacity`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping

import msgspec

from kubeledger.kubelet.devicemanager.manager import ManagerImpl, Plugin
from kubeledger.kubelet.profile.devices import DeviceFacts

STOP_GRACE_NS = 5 * 60 * 1_000_000_000
API_VERSION = "v1beta1"

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_PREFIX = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_PREFIX_MAX = 253 - len("requests.")


class Endpoint(msgspec.Struct, kw_only=True):
    """The kubelet's side of one registration.

    Attributes:
        generation: which registration of the resource.
        stopped_at_ns: when its stream ended; None while it runs.
    """

    generation: int
    stopped_at_ns: int | None = None

    def grace_expired(self, now_ns: int) -> bool:
        """Whether more than five minutes have passed since it stopped."""
        return self.stopped_at_ns is not None and now_ns - self.stopped_at_ns > STOP_GRACE_NS


Endpoints = MutableMapping[str, Endpoint]
"""Resource -> endpoint of the newest registration."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the node status has of device plugin resources.

    Attributes:
        capacity: resource -> devices.
        allocatable: resource -> healthy devices, those in use among them.
        deleted: resources whose capacity is set to 0, sorted.
    """

    capacity: dict[str, int]
    allocatable: dict[str, int]
    deleted: tuple[str, ...]


def registration_error(version: str, resource: str) -> str:
    """Why a registration is refused; empty if it is not.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go Register
    Differs: no
    """
    if version != API_VERSION:
        return (
            f'requested API version "{version}" is not supported by kubelet. '
            f'Supported version is ["{API_VERSION}"]'
        )
    if not is_extended_resource_name(resource):
        return f'the ResourceName "{resource}" is invalid'
    return ""


def is_extended_resource_name(name: str) -> bool:
    """Whether a resource may be a device plugin's: a qualified name outside of Kubernetes' own.

    Source: v1.20.2 pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName
    Differs: no
    """
    prefix, slash, bare = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return (
        len(prefix) <= _PREFIX_MAX
        and _DNS_PREFIX.fullmatch(prefix) is not None
        and _NAME.fullmatch(bare) is not None
    )


def register(manager: ManagerImpl, endpoints: Endpoints, resource: str, plugin: Plugin) -> Endpoint:
    """A plugin registered: its endpoint replaces the one before.

    Devices come later, with its first message (``ManagerImpl.report``).

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go addEndpoint
    Differs: no
    """
    before = endpoints.get(resource)
    endpoint = Endpoint(generation=before.generation + 1 if before else 1)
    endpoints[resource] = endpoint
    manager.endpoints[resource] = plugin
    return endpoint


def stream_ended(
    manager: ManagerImpl,
    endpoints: Endpoints,
    resource: str,
    endpoint: Endpoint,
    now_ns: int,
    facts: DeviceFacts,
) -> None:
    """A plugin's stream ended, or it deregistered: its devices are unhealthy from now on.

    From 1.25 on the end names the resource alone, so the late end of a stream that was
    replaced makes the devices of the new plugin unhealthy and stops its endpoint.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go runEndpoint;
        v1.36.2 PluginDisconnected
    Differs: no
    """
    current = endpoints.get(resource)
    if facts.end_of_old_stream_ignored:
        endpoint.stopped_at_ns = now_ns
        if current is not endpoint:
            return
    if current is None:
        return
    manager.unhealthy.setdefault(resource, set()).update(manager.healthy.get(resource, ()))
    if resource in manager.healthy:
        manager.healthy[resource] = set()
    current.stopped_at_ns = now_ns


def restart(
    manager: ManagerImpl, endpoints: Endpoints, registered: Iterable[str], now_ns: int
) -> None:
    """The kubelet started and read its checkpoint, with these resources registered in it.

    Each has no devices and a stopped endpoint: capacity 0 until its plugin comes back.
    What containers hold is in ``manager.pod_devices`` already.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go readCheckpoint
    Differs: no
    """
    manager.restore_allocated()
    for resource in registered:
        manager.healthy[resource] = set()
        manager.unhealthy[resource] = set()
        endpoints[resource] = Endpoint(generation=0, stopped_at_ns=now_ns)


def get_capacity(manager: ManagerImpl, endpoints: Endpoints, now_ns: int) -> Capacity:
    """Capacity for the node status; what has no endpoint, or one past its grace, is dropped.

    What is in use stays recorded, and so does the list of all devices. A dropped resource
    that is still in use fails new requests as unregistered; one that is not is no device
    plugin resource any more.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go GetCapacity
    Differs: the checkpoint, written if a resource was dropped, is not.
    """
    known = sorted(manager.healthy.keys() | manager.unhealthy.keys())
    deleted = [
        resource
        for resource in known
        if resource not in endpoints or endpoints[resource].grace_expired(now_ns)
    ]
    for resource in deleted:
        endpoints.pop(resource, None)
        manager.endpoints.pop(resource, None)
        manager.healthy.pop(resource, None)
        manager.unhealthy.pop(resource, None)
    healthy = {resource: len(ids) for resource, ids in sorted(manager.healthy.items())}
    capacity = dict(healthy)
    for resource, ids in sorted(manager.unhealthy.items()):
        capacity[resource] = capacity.get(resource, 0) + len(ids)
    return Capacity(capacity=capacity, allocatable=healthy, deleted=tuple(deleted))
