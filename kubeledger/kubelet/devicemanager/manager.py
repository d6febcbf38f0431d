"""What the device manager holds in memory, and how its plugins come and go (manager.go).

``healthy``, ``unhealthy`` and ``allocated`` are what the kubelet calls healthyDevices,
unhealthyDevices and allocatedDevices. In each, that a key is there says something of its
own: a resource without a key in ``healthy`` is not registered, one with a key in
neither ``healthy`` nor ``allocated`` is no device plugin resource at all.

A plugin's endpoint outlives the plugin: its devices become unhealthy, and the resource
stays with capacity but nothing allocatable until five minutes of grace are over or a plugin
registers again. Only the node status update looks at the clock (:meth:`ManagerImpl.get_capacity`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from kubeledger.kubelet.profile.devices import DeviceFacts

DevicesPerNUMA = dict[int, list[str]]
"""NUMA node -> device IDs; a device of several nodes stands under each of them."""


def devices_of(per_numa: DevicesPerNUMA) -> set[str]:
    """All devices of a record, each once."""
    return {device for devices in per_numa.values() for device in devices}


class PodDevices:
    """Pod UID -> container -> resource -> devices held.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/pod_devices.go podDevices
    Differs: the plugin's answer to Allocate is not kept here; an entry stands for one with
        an answer.
    """

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[str, DevicesPerNUMA]]] = {}

    def fork(self) -> PodDevices:
        """A copy that shares the records, which are never changed in place."""
        copy = PodDevices()
        copy._pods = {
            pod: {container: dict(held) for container, held in containers.items()}
            for pod, containers in self._pods.items()
        }
        return copy

    def pods(self) -> set[str]:
        """UIDs of all pods that hold something."""
        return set(self._pods)

    def containers(self, pod: str) -> list[str]:
        """Names of a pod's containers that hold something, sorted."""
        return sorted(self._pods.get(pod, ()))

    def insert(self, pod: str, container: str, resource: str, record: DevicesPerNUMA) -> None:
        """Record what a container holds of a resource, in place of what it held."""
        self._pods.setdefault(pod, {}).setdefault(container, {})[resource] = record

    def delete(self, pods: Iterable[str]) -> None:
        for pod in pods:
            self._pods.pop(pod, None)

    def held_by(self, pod: str, container: str) -> dict[str, DevicesPerNUMA]:
        """Resource -> devices of a container; empty if it holds none. Not to be changed."""
        return self._pods.get(pod, {}).get(container, {})

    def container_devices(self, pod: str, container: str, resource: str) -> set[str] | None:
        """Devices of a resource that a container holds; None if there is no record of it."""
        record = self.held_by(pod, container).get(resource)
        return None if record is None else devices_of(record)

    def pod_devices(self, pod: str, resource: str) -> set[str]:
        """Devices of a resource that the containers of a pod hold together."""
        held = self._pods.get(pod, {}).values()
        return {device for record in held for device in devices_of(record.get(resource, {}))}

    def devices(self) -> dict[str, set[str]]:
        """Resource -> devices in use; only resources that somebody has a record of.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/pod_devices.go devices
        """
        in_use: dict[str, set[str]] = {}
        for containers in self._pods.values():
            for held in containers.values():
                for resource, record in held.items():
                    in_use.setdefault(resource, set()).update(devices_of(record))
        return in_use


HEALTHY: Final = "Healthy"
"""The one health that counts as healthy; anything else does not."""
NODE_WITHOUT_TOPOLOGY: Final = -1
STOP_GRACE_NS: Final = 5 * 60 * 1_000_000_000


class Device(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A device as its plugin reported it.

    Attributes:
        numa_nodes: nodes it is attached to; None if the plugin sent no topology.
    """

    id: str = msgspec.field(name="ID")
    health: str
    numa_nodes: tuple[int, ...] | None = None


class RpcError(msgspec.Struct, frozen=True):
    """A call to a plugin failed; the text is that of the error."""

    text: str


class NoContainers(msgspec.Struct, frozen=True):
    """A plugin answered Allocate without a response for the container.

    Attributes:
        printed: the answer as the kubelet prints it, which is up to its gRPC library.
    """

    printed: str = ""


class Plugin(Protocol):
    """A device plugin's answers; they are input of a decision, so no call may change them."""

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | RpcError | None:
        """Answer to GetPreferredAllocation; None if the plugin does not offer it."""

    def allocate(self, devices: frozenset[str]) -> RpcError | NoContainers | None:
        """Answer to Allocate; None if it succeeds."""


class Endpoint(msgspec.Struct, kw_only=True):
    """The kubelet's side of one registration.

    Attributes:
        plugin: who registered; None for a resource that only the checkpoint knows.
        generation: which registration of the resource.
        stopped_at_ns: when its stream ended; None while it runs.
    """

    plugin: Plugin | None
    generation: int = 1
    stopped_at_ns: int | None = None

    def grace_expired(self, now_ns: int) -> bool:
        """Whether more than five minutes have passed since it stopped."""
        return self.stopped_at_ns is not None and now_ns - self.stopped_at_ns > STOP_GRACE_NS


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the node status has of device plugin resources.

    Attributes:
        allocatable: resource -> healthy devices, those in use among them.
        deleted: resources whose capacity is set to 0, sorted.
    """

    capacity: dict[str, int]
    allocatable: dict[str, int]
    deleted: tuple[str, ...]


class ManagerImpl:
    """The device manager's memory.

    Attributes:
        numa_nodes: (n,) of the machine, as cAdvisor lists them.
        all_devices: resource -> ID -> device, of the last message of its plugin.
        allocated: resource -> IDs in use.
        devices_to_reuse: pod UID -> resource -> IDs that its init containers are done with.
        endpoints: resource -> its newest registration.
    """

    __slots__ = (
        "all_devices",
        "allocated",
        "devices_to_reuse",
        "endpoints",
        "facts",
        "healthy",
        "numa_nodes",
        "pod_devices",
        "unhealthy",
    )

    def __init__(self, numa_nodes: Iterable[int], facts: DeviceFacts) -> None:
        self.numa_nodes: tuple[int, ...] = tuple(numa_nodes)
        self.facts = facts
        self.all_devices: dict[str, dict[str, Device]] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.allocated: dict[str, set[str]] = {}
        self.pod_devices = PodDevices()
        self.devices_to_reuse: dict[str, dict[str, set[str]]] = {}
        self.endpoints: dict[str, Endpoint] = {}

    def fork(self) -> ManagerImpl:
        """A copy on which an allocation may continue; what plugins reported is shared."""
        copy = ManagerImpl(self.numa_nodes, self.facts)
        copy.all_devices, copy.endpoints = self.all_devices, self.endpoints
        copy.healthy, copy.unhealthy = self.healthy, self.unhealthy
        copy.allocated = {resource: set(ids) for resource, ids in self.allocated.items()}
        copy.pod_devices = self.pod_devices.fork()
        copy.devices_to_reuse = {
            pod: {resource: set(ids) for resource, ids in reuse.items()}
            for pod, reuse in self.devices_to_reuse.items()
        }
        return copy

    def is_device_plugin_resource(self, resource: str) -> bool:
        """Whether limits of ``resource`` are the device manager's; others it skips in silence."""
        return resource in self.healthy or resource in self.allocated

    def plugin(self, resource: str) -> Plugin | None:
        endpoint = self.endpoints.get(resource)
        return None if endpoint is None else endpoint.plugin

    def available_devices(self, resource: str) -> set[str]:
        """Healthy devices that are not in use (getAvailableDevices)."""
        return self.healthy.get(resource, set()) - self.allocated.get(resource, set())

    def numa_node_ids(self, resource: str, device: str) -> tuple[int, ...]:
        """NUMA nodes of a device; none for one without topology or that is gone."""
        known = self.all_devices.get(resource, {}).get(device)
        return (known.numa_nodes or ()) if known else ()

    def has_topology_alignment(self, resource: str) -> bool:
        """Whether alignment matters: some device of a resource, of any health, has topology.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go deviceHasTopologyAlignment
        """
        devices = self.all_devices.get(resource, {}).values()
        if self.facts.topology_needs_a_node:
            return any(device.numa_nodes for device in devices)
        return any(device.numa_nodes is not None for device in devices)

    def restore_allocated(self) -> None:
        """Set what is in use to what is recorded, dropping picks that came to nothing."""
        self.allocated = self.pod_devices.devices()

    def update_allocated_devices(self, active_pods: Iterable[str]) -> None:
        """Collect stranded devices: those of pods that are not active any more.

        Args:
            active_pods: UIDs, the pod that is being admitted among them.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go UpdateAllocatedDevices
        Differs: it is for the caller not to call this before all config sources are ready.
        """
        to_be_removed = self.pod_devices.pods().difference(active_pods)
        if to_be_removed:
            self.pod_devices.delete(to_be_removed)
            self.restore_allocated()

    def devices_per_numa(self, resource: str, devices: Iterable[str]) -> DevicesPerNUMA:
        """The record of newly granted devices, by the NUMA nodes they have now; sorted."""
        facts = self.facts
        nodeless = NODE_WITHOUT_TOPOLOGY if facts.no_topology_is_minus_one else 0
        record: DevicesPerNUMA = {}
        for device in sorted(devices):
            nodes = self.numa_node_ids(resource, device) if facts.recorded_per_numa else ()
            for node in nodes or (nodeless,):
                record.setdefault(node, []).append(device)
        return dict(sorted(record.items()))

    # -- plugins ------------------------------------------------------------------------------

    def register(self, resource: str, plugin: Plugin) -> Endpoint:
        """A plugin registered: its endpoint replaces the one before; devices come later.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go addEndpoint
        """
        before = self.endpoints.get(resource)
        generation = before.generation + 1 if before else 1
        endpoint = self.endpoints[resource] = Endpoint(plugin=plugin, generation=generation)
        return endpoint

    def report(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a plugin's device list: it replaces the one before.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go genericDeviceUpdateCallback
        Differs: the checkpoint, which is written after each message, is not.
        """
        self.all_devices[resource] = {device.id: device for device in devices}
        current = self.all_devices[resource].values()
        self.healthy[resource] = {d.id for d in current if d.health == HEALTHY}
        self.unhealthy[resource] = {d.id for d in current if d.health != HEALTHY}

    def stream_ended(self, resource: str, endpoint: Endpoint, now_ns: int) -> None:
        """A plugin's stream ended, or it deregistered: its devices are unhealthy from now on.

        From 1.25 on the end names the resource alone, so the late end of a stream that was
        replaced makes the devices of the new plugin unhealthy and stops its endpoint.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go runEndpoint;
            v1.36.2 PluginDisconnected
        """
        current = self.endpoints.get(resource)
        if self.facts.end_of_old_stream_ignored:
            endpoint.stopped_at_ns = now_ns
            if current is not endpoint:
                return
        if current is None:
            return
        self.unhealthy.setdefault(resource, set()).update(self.healthy.get(resource, ()))
        if resource in self.healthy:
            self.healthy[resource] = set()
        current.stopped_at_ns = now_ns

    def restart(self, registered: Iterable[str], now_ns: int) -> None:
        """The kubelet started and read its checkpoint, with these resources registered in it.

        Each has no devices and a stopped endpoint: capacity 0 until its plugin comes back.
        What containers hold is in ``pod_devices`` already.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go readCheckpoint
        """
        self.restore_allocated()
        for resource in registered:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
            self.endpoints[resource] = Endpoint(plugin=None, generation=0, stopped_at_ns=now_ns)

    def get_capacity(self, now_ns: int) -> Capacity:
        """Capacity for the node status; what has no endpoint, or one past its grace, is dropped.

        What is in use stays recorded, and so does the list of all devices. A dropped resource
        that is still in use fails new requests as unregistered; one that is not is no device
        plugin resource any more.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go GetCapacity
        Differs: the checkpoint, written if a resource was dropped, is not.
        """
        known = sorted(self.healthy.keys() | self.unhealthy.keys())
        deleted = [
            resource
            for resource in known
            if resource not in self.endpoints or self.endpoints[resource].grace_expired(now_ns)
        ]
        for resource in deleted:
            for held in (self.endpoints, self.healthy, self.unhealthy):
                held.pop(resource, None)
        healthy = {resource: len(ids) for resource, ids in sorted(self.healthy.items())}
        capacity = dict(healthy)
        for resource, ids in sorted(self.unhealthy.items()):
            capacity[resource] = capacity.get(resource, 0) + len(ids)
        return Capacity(capacity=capacity, allocatable=healthy, deleted=tuple(deleted))
