"""The device manager as a hint provider: which NUMA nodes could serve a request.

A hint is *preferred* if no smaller set of nodes could ever serve the request, with all
devices free: a machine that is merely busy gives hints that are not preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeledger.kubelet.devicemanager.affinity import device_has_topology_alignment
from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.topologymanager.bitmask import BITS_MAX, iterate_bit_masks
from kubeledger.kubelet.topologymanager.hint import Hints, TopologyHint


def topology_hints(
    manager: ManagerImpl,
    pod: str,
    container: str,
    limits: Mapping[str, int],
    active_pods: Iterable[str] | None,
    facts: DeviceFacts,
) -> dict[str, Hints | None]:
    """Hints for a container, by resource; None for a resource without topology.

    Devices held by terminated pods are collected first, so ``manager`` changes; not so while
    config sources are not ready (None for ``active_pods``).

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints
    Differs: no
    """
    if active_pods is not None:
        manager.update_allocated_devices(active_pods)
    hints: dict[str, Hints | None] = {}
    for resource, requested in limits.items():
        if not manager.is_device_plugin_resource(resource):
            continue
        held = manager.pod_devices.container_devices(pod, container, resource) or set()
        reusable = manager.devices_to_reuse.get(pod, {}).get(resource, set())
        hints[resource] = _hints(manager, resource, requested, held, reusable, facts)
    return hints


def pod_topology_hints(
    manager: ManagerImpl,
    pod: str,
    requests: Mapping[str, int],
    active_pods: Iterable[str] | None,
    facts: DeviceFacts,
) -> dict[str, Hints | None]:
    """Hints for a pod as a whole, by resource; see ``topology_hints``.

    Args:
        manager: stranded devices are collected.
        pod: UID.
        requests: resource -> devices that the pod needs at any time; see ``pod_request``.
        active_pods: UIDs, this pod among them; None while config sources are not ready.
        facts: of the kubelet version.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go GetPodTopologyHints
    Differs: no
    """
    if active_pods is not None:
        manager.update_allocated_devices(active_pods)
    return {
        resource: _hints(
            manager,
            resource,
            requested,
            manager.pod_devices.pod_devices(pod, resource),
            set(),
            facts,
        )
        for resource, requested in requests.items()
        if manager.is_device_plugin_resource(resource)
    }


def hint_shortage(
    manager: ManagerImpl,
    pod: str,
    container: str | None,
    resource: str,
    requested: int,
    facts: DeviceFacts,
) -> int | None:
    """Devices that there are for hints, where they are too few; None where that is no matter.

    Args:
        manager: as it is after ``topology_hints`` or ``pod_topology_hints``.
        pod: UID.
        container: None: of the pod as a whole.
        resource: what is asked for.
        requested: how many.
        facts: of the kubelet version.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints, the line
        "Unable to generate topology hints"
    Differs: no
    """
    if not device_has_topology_alignment(manager, resource, facts):
        return None
    reusable: set[str] = set()
    if container is None:
        held = manager.pod_devices.pod_devices(pod, resource)
    else:
        held = manager.pod_devices.container_devices(pod, container, resource) or set()
        reusable = manager.devices_to_reuse.get(pod, {}).get(resource, set())
    available = len(manager.available_devices(resource) | reusable)
    return None if held or available >= requested else available


def device_numa_nodes(manager: ManagerImpl, resource: str) -> tuple[int, ...]:
    """Nodes of the machine that host devices of a resource, ascending; all if none does.

    Source: v1.36.2 pkg/kubelet/cm/devicemanager/topology_hints.go deviceNUMANodes
    Differs: no
    """
    devices = manager.all_devices.get(resource, {})
    hosting = {node for device in devices.values() for node in device.numa_nodes or ()}
    return tuple(sorted(hosting.intersection(manager.numa_nodes))) or manager.numa_nodes


def generate_device_topology_hints(
    manager: ManagerImpl,
    resource: str,
    available: set[str],
    reusable: set[str],
    request: int,
    facts: DeviceFacts,
) -> Hints:
    """Every set of nodes that holds all reusable devices and, with others, enough of them.

    A reusable device with a topology that names no node rules out every set.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go
        generateDeviceTopologyHints; v1.36.2 the same, over fewer nodes
    Differs: no
    """
    nodes = manager.numa_nodes
    if facts.hints_on_device_nodes_only:
        nodes = device_numa_nodes(manager, resource)
    every = _masks(manager, resource, manager.all_devices.get(resource, ()))
    required = _masks(manager, resource, _with_topology(manager, resource, reusable))
    usable = required + _masks(manager, resource, available)
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


def _hints(
    manager: ManagerImpl,
    resource: str,
    requested: int,
    held: set[str],
    reusable: set[str],
    facts: DeviceFacts,
) -> Hints | None:
    if not device_has_topology_alignment(manager, resource, facts):
        return None
    if held:
        # Already allocated, as after a kubelet restart: the same hints again.
        if len(held) != requested:
            return ()
        return generate_device_topology_hints(manager, resource, held, set(), requested, facts)
    available = manager.available_devices(resource)
    if len(available | reusable) < requested:
        return ()
    return generate_device_topology_hints(manager, resource, available, reusable, requested, facts)


def _with_topology(manager: ManagerImpl, resource: str, devices: Iterable[str]) -> list[str]:
    known = manager.all_devices.get(resource, {})
    return [d for d in devices if d in known and known[d].numa_nodes is not None]


def _masks(manager: ManagerImpl, resource: str, devices: Iterable[str]) -> list[int]:
    """(n,) the nodes of each device as a mask; nodes that no mask can hold are left out."""
    masks = []
    for device in devices:
        mask = 0
        for node in manager.numa_node_ids(resource, device):
            if 0 <= node < BITS_MAX:
                mask |= 1 << node
        masks.append(mask)
    return masks


def _touching(masks: list[int], mask: int) -> int:
    return sum(1 for one in masks if one & mask)
