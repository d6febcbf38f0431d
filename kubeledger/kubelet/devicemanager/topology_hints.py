"""The device manager as a hint provider: which NUMA nodes could serve a request.

A hint is *preferred* if no smaller set of nodes could ever serve the request, with all
devices free: a machine that is merely busy gives hints that are not preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.kube.pod import Container, PodSpec, is_sidecar
from kubeledger.kubelet.kube.quantity import Quantity, value_of
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.topologymanager.policy import (
    BITS_MAX,
    Hints,
    TopologyHint,
    iterate_bit_masks,
)


class Wanted(NamedTuple):
    """Devices of one resource that a container, or a pod as a whole, asks for.

    Attributes:
        held: IDs it has already, as after a kubelet restart.
        reusable: IDs that the pod's init containers are done with; none for a pod.
    """

    manager: ManagerImpl
    resource: str
    requested: int
    held: set[str]
    reusable: set[str]

    @property
    def usable(self) -> set[str]:
        """What it may get: what it has, or else what is free."""
        return self.held or self.manager.available_devices(self.resource) | self.reusable

    @property
    def required(self) -> list[str]:
        """What every hint must hold: of what may be used again what has a topology."""
        known = self.manager.all_devices.get(self.resource, {})
        reusable = () if self.held else self.reusable
        return [d for d in reusable if d in known and known[d].numa_nodes is not None]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes that hints are made of, all or those that host devices of the resource.

        Source: v1.36.2 pkg/kubelet/cm/devicemanager/topology_hints.go deviceNUMANodes
        """
        manager = self.manager
        if not manager.facts.hints_on_device_nodes_only:
            return manager.numa_nodes
        devices = manager.all_devices.get(self.resource, {})
        hosting = {node for device in devices.values() for node in device.numa_nodes or ()}
        return tuple(sorted(hosting.intersection(manager.numa_nodes))) or manager.numa_nodes

    @property
    def shortage(self) -> int | None:
        """Devices that there are, where they are too few; None where that is no matter.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints, the line
            "Unable to generate topology hints"
        """
        if self.held or not self.manager.has_topology_alignment(self.resource):
            return None
        available = len(self.usable)
        return None if available >= self.requested else available

    def hints(self) -> Hints | None:
        """Hints; None without topology. What is held already gives the same hints again."""
        manager, held = self.manager, self.held
        if not manager.has_topology_alignment(self.resource):
            return None
        if held:
            return self._generate(held) if len(held) == self.requested else ()
        available = manager.available_devices(self.resource)
        enough = len(available | self.reusable) >= self.requested
        return self._generate(available) if enough else ()

    def _generate(self, available: set[str]) -> Hints:
        """Every set of nodes that holds all required devices and, with others, enough of them.

        A required device with a topology that names no node rules out every set.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go
            generateDeviceTopologyHints; v1.36.2 the same, over fewer nodes
        """
        request, nodes = self.requested, self.nodes
        every = self._masks(self.manager.all_devices.get(self.resource, ()))
        required = self._masks(self.required)
        usable = required + self._masks(available)
        smallest = len(nodes)
        fitting: list[int] = []
        for mask in iterate_bit_masks(nodes):
            if mask.bit_count() < smallest and _touching(every, mask) >= request:
                smallest = mask.bit_count()
            if _touching(required, mask) < len(required):
                continue
            if _touching(usable, mask) >= request:
                fitting.append(mask)
        return tuple(TopologyHint(mask, mask.bit_count() == smallest) for mask in fitting)

    def _masks(self, devices: Iterable[str]) -> list[int]:
        """(n,) the nodes of each device as a mask; nodes that no mask can hold are left out."""
        known, masks = self.manager.all_devices.get(self.resource, {}), []
        for device in devices:
            mask = 0
            for node in (known[device].numa_nodes or ()) if device in known else ():
                if 0 <= node < BITS_MAX:
                    mask |= 1 << node
            masks.append(mask)
        return masks


def _touching(masks: list[int], mask: int) -> int:
    return sum(1 for one in masks if one & mask)


def wanted(
    manager: ManagerImpl, pod: str, container: str | None, resource: str, requested: int
) -> Wanted:
    """What a container asks for, or (None) the pod as a whole."""
    if container is None:
        held = manager.pod_devices.pod_devices(pod, resource)
        return Wanted(manager, resource, requested, held, set())
    held = manager.pod_devices.container_devices(pod, container, resource) or set()
    reusable = manager.devices_to_reuse.get(pod, {}).get(resource, set())
    return Wanted(manager, resource, requested, held, reusable)


def topology_hints(
    manager: ManagerImpl,
    pod: str,
    container: str | None,
    requests: Mapping[str, int],
    active_pods: Iterable[str] | None,
) -> dict[str, Hints | None]:
    """Hints for a container or a pod, by device plugin resource; None for one without topology.

    Args:
        manager: devices held by terminated pods are collected first.
        container: its name; None for the pod as a whole.
        requests: resource -> limit of the container, or what the pod needs at any time
            (:func:`pod_device_request`).
        active_pods: UIDs, this pod among them; None while config sources are not ready, when
            nothing is collected.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints,
        GetPodTopologyHints
    """
    if active_pods is not None:
        manager.update_allocated_devices(active_pods)
    return {
        resource: wanted(manager, pod, container, resource, requested).hints()
        for resource, requested in requests.items()
        if manager.is_device_plugin_resource(resource)
    }


def device_limits(container: Container) -> dict[str, int]:
    """Resource -> limit of a container in whole units, rounded up."""
    return {
        # The quick way for what nearly all limits are: a text that was seen before.
        name: value_of(amount) if type(amount) is str else Quantity.from_api(amount).value()
        for name, amount in container.limits.items()
    }


def pod_device_request(spec: PodSpec, facts: DeviceFacts) -> dict[str, int]:
    """Resource -> count: what app containers need together, or one init container needs.

    Since 1.28 restartable init containers count with the app containers, and those before
    an init container count with it.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go getPodDeviceRequest;
        v1.36.2 component-helpers/resource/helpers.go PodLimits
    Differs: resources that are no devices are in the result as well.
    """
    total: dict[str, Quantity] = {}
    for container in spec.containers or ():
        _add(total, _counted(container, facts))
    sidecars: dict[str, Quantity] = {}
    peaks: list[dict[str, Quantity]] = []
    for container in spec.init_containers or ():
        limits, peak = _counted(container, facts), dict(sidecars)
        _add(peak, limits)
        peaks.append(peak)
        if is_sidecar(container) and facts.pod_request_counts_sidecars:
            _add(total, limits)
            sidecars = peak
    for peak in peaks:
        for resource, amount in peak.items():
            if resource not in total or amount > total[resource]:
                total[resource] = amount
    return {resource: amount.value() for resource, amount in total.items()}


def _counted(container: Container, facts: DeviceFacts) -> dict[str, Quantity]:
    """Limits as they are added up: as written, or up to 1.26 rounded up one by one."""
    if facts.pod_request_rounded_once:
        return {name: Quantity.from_api(amount) for name, amount in container.limits.items()}
    return {name: Quantity.of(count) for name, count in device_limits(container).items()}


def _add(total: dict[str, Quantity], limits: Mapping[str, Quantity]) -> None:
    for resource, amount in limits.items():
        known = total.get(resource)
        total[resource] = amount if known is None else known.add(amount)
