"""Available devices by their place in the NUMA affinity of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.profile.devices import DeviceFacts


class AffinitySets(NamedTuple):
    """Available devices in three sets.

    Attributes:
        aligned: on a NUMA node in the affinity.
        unaligned: on NUMA nodes outside of it.
        no_affinity: without a NUMA node, or all if alignment does not matter.
    """

    aligned: frozenset[str]
    unaligned: frozenset[str]
    no_affinity: frozenset[str]


def device_has_topology_alignment(manager: ManagerImpl, resource: str, facts: DeviceFacts) -> bool:
    """Whether alignment matters for a resource: some device of it, of any health, has topology.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go deviceHasTopologyAlignment
    Differs: no
    """
    devices = manager.all_devices.get(resource, {}).values()
    if facts.topology_needs_a_node:
        return any(device.numa_nodes for device in devices)
    return any(device.numa_nodes is not None for device in devices)


def filter_by_affinity(
    manager: ManagerImpl,
    resource: str,
    available: frozenset[str],
    affinity: int | None,
    facts: DeviceFacts,
) -> Iterator[AffinitySets]:
    """Every way in which the kubelet can sort the devices into the sets; mostly one.

    The kubelet puts the NUMA nodes in an order and each device where its first node in
    that order belongs. Since 1.22 nodes in the affinity come first, so a device with any
    of them is aligned. Before, the comparison of nodes looked up device counts by position
    in the list instead of by node, which makes some fixed permutation of Go's random map
    order of it: any order. But one and the same order goes for all devices.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go filterByAffinity;
        v1.36.2 the same
    Differs: all results instead of one.
    """
    if affinity is None or not device_has_topology_alignment(manager, resource, facts):
        yield AffinitySets(frozenset(), frozenset(), available)
        return
    nodes = {device: frozenset(manager.numa_node_ids(resource, device)) for device in available}
    inside = {node for of_one in nodes.values() for node in of_one if _is_set(affinity, node)}
    no_affinity = frozenset(device for device, of_one in nodes.items() if not of_one)
    touching = frozenset(device for device, of_one in nodes.items() if of_one & inside)
    outside = available - no_affinity - touching
    if facts.affinity_nodes_first:
        yield AffinitySets(touching, outside, no_affinity)
        return
    straddling = {nodes[device] for device in touching if not nodes[device] <= inside}
    for lost in _first_outside(frozenset(straddling), frozenset(inside)):
        aligned = frozenset(device for device in touching if nodes[device] not in lost)
        yield AffinitySets(aligned, outside | (touching - aligned), no_affinity)


def _is_set(mask: int, node: int) -> bool:
    return node >= 0 and bool(mask >> node & 1)


def _first_outside(
    straddling: frozenset[frozenset[int]], inside: frozenset[int]
) -> Iterator[frozenset[frozenset[int]]]:
    """The node sets whose first node is outside, for every order of the nodes; each once.

    The first node of the order settles all sets it is in; the rest of the order settles
    the others. The order in which all inside nodes come first is yielded first.
    """
    seen: set[frozenset[frozenset[int]]] = set()
    visited: set[tuple[frozenset[frozenset[int]], frozenset[frozenset[int]]]] = set()

    def settle(
        left: frozenset[frozenset[int]], lost: frozenset[frozenset[int]]
    ) -> Iterator[frozenset[frozenset[int]]]:
        if (left, lost) in visited:
            return
        visited.add((left, lost))
        if not left:
            if lost not in seen:
                seen.add(lost)
                yield lost
            return
        candidates = {node for nodes in left for node in nodes}
        for node in sorted(candidates, key=lambda n: (n not in inside, n)):
            settled = frozenset(nodes for nodes in left if node in nodes)
            yield from settle(left - settled, lost if node in inside else lost | settled)

    yield from settle(straddling, frozenset())
