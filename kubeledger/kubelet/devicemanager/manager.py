"""What the device manager holds in memory while it decides.

``healthy``, ``unhealthy`` and ``allocated`` are what the kubelet calls healthyDevices,
unhealthyDevices and allocatedDevices. In each, that a key is there says something of its
own: a resource without a key in ``healthy`` is not registered, one with a key in
neither ``healthy`` nor ``allocated`` is no device plugin resource at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from kubeledger.kubelet.devicemanager.pod_devices import DevicesPerNUMA, PodDevices
from kubeledger.kubelet.profile.devices import DeviceFacts

HEALTHY = "Healthy"
"""The one health that counts as healthy; anything else does not."""

NODE_WITHOUT_TOPOLOGY = -1


class Device(msgspec.Struct, frozen=True):
    """A device as its plugin reported it.

    Attributes:
        id: unique in its resource.
        health: as reported.
        numa_nodes: nodes it is attached to; None if the plugin sent no topology.
    """

    id: str
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


class ManagerImpl:
    """The device manager's memory.

    Attributes:
        numa_nodes: (n,) of the machine, as cAdvisor lists them.
        all_devices: resource -> ID -> device, of the last message of its plugin.
        healthy, unhealthy: resource -> IDs.
        allocated: resource -> IDs in use.
        pod_devices: the ledger.
        devices_to_reuse: pod UID -> resource -> IDs that its init containers are done with.
        endpoints: resource -> its plugin.
    """

    __slots__ = (
        "all_devices",
        "allocated",
        "devices_to_reuse",
        "endpoints",
        "healthy",
        "numa_nodes",
        "pod_devices",
        "unhealthy",
    )

    def __init__(self, numa_nodes: Iterable[int]) -> None:
        self.numa_nodes: tuple[int, ...] = tuple(numa_nodes)
        self.all_devices: dict[str, dict[str, Device]] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.allocated: dict[str, set[str]] = {}
        self.pod_devices = PodDevices()
        self.devices_to_reuse: dict[str, dict[str, set[str]]] = {}
        self.endpoints: dict[str, Plugin] = {}

    def fork(self) -> ManagerImpl:
        """A copy on which an allocation may continue; what plugins reported is shared."""
        copy = ManagerImpl(self.numa_nodes)
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

    def report(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a plugin's device list: it replaces the one before.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go genericDeviceUpdateCallback
        Differs: the checkpoint, which is written after each message, is not.
        """
        self.all_devices[resource] = {device.id: device for device in devices}
        current = self.all_devices[resource].values()
        self.healthy[resource] = {d.id for d in current if d.health == HEALTHY}
        self.unhealthy[resource] = {d.id for d in current if d.health != HEALTHY}

    def available_devices(self, resource: str) -> set[str]:
        """Healthy devices that are not in use (getAvailableDevices)."""
        return self.healthy.get(resource, set()) - self.allocated.get(resource, set())

    def numa_node_ids(self, resource: str, device: str) -> tuple[int, ...]:
        """NUMA nodes of a device; none for one without topology or that is gone."""
        known = self.all_devices.get(resource, {}).get(device)
        return (known.numa_nodes or ()) if known else ()

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

    def devices_per_numa(
        self, resource: str, devices: Iterable[str], facts: DeviceFacts
    ) -> DevicesPerNUMA:
        """The record of newly granted devices, by the NUMA nodes they have now.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go allocateContainerResources
        Differs: IDs and nodes are sorted.
        """
        nodeless = NODE_WITHOUT_TOPOLOGY if facts.no_topology_is_minus_one else 0
        record: DevicesPerNUMA = {}
        for device in sorted(devices):
            nodes = self.numa_node_ids(resource, device) if facts.recorded_per_numa else ()
            for node in nodes or (nodeless,):
                record.setdefault(node, []).append(device)
        return dict(sorted(record.items()))
