"""Why the device manager gives a hint, or gives none: the devices on each set of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeledger.kubelet.devicemanager.affinity import device_has_topology_alignment
from kubeledger.kubelet.devicemanager.hints import device_numa_nodes
from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.profile.devices import DeviceFacts


class HintReasons(msgspec.Struct, frozen=True, kw_only=True):
    """What hints were made from.

    Attributes:
        manager: as it was when they were made, stranded devices collected.
        pod: UID.
        container: None in pod scope.
        requests: resource -> devices.
        facts: of the kubelet version.
    """

    manager: ManagerImpl
    pod: str
    container: str | None
    requests: Mapping[str, int]
    facts: DeviceFacts

    def no_resource(self, resource: str) -> str:
        """Why a resource has no entry."""
        if resource not in self.requests:
            return f"{resource} is not requested"
        return f"no device plugin serves {resource}"

    def preference(self, resource: str) -> str:
        """Why a resource has hints at all, or none."""
        if device_has_topology_alignment(self.manager, resource, self.facts):
            return "one of its devices has a topology"
        return "none of its devices has a topology"

    def no_hint(self, resource: str) -> str:
        """Why a resource with topology has an empty list."""
        asked, held = self.requests[resource], self._held(resource)
        if held:
            if len(held) != asked:
                return f"{_devices(len(held))} held, {asked} requested"
            return _nowhere(asked)
        reusable = self.manager.devices_to_reuse.get(self.pod, {}).get(resource, set())
        left = reusable if self.container is not None else set()
        free = len(self.manager.available_devices(resource) | left)
        return _nowhere(asked) if free >= asked else f"{_devices(free)} free, {asked} requested"

    def given(self, resource: str, nodes: Sequence[int], *, preferred: bool) -> str:
        """Why there is this hint, with this preference."""
        asked, usable = self.requests[resource], self._usable(resource)
        on = self._on(resource, usable, nodes)
        text = f"{_devices(on)} available there, {asked} requested"
        if preferred:
            return f"{text}, and no smaller set of nodes has {_devices(asked)}, used or not"
        return f"{text}, but a smaller set of nodes has {_devices(asked)}, used or not"

    def not_given(self, resource: str, nodes: Sequence[int]) -> str:
        """Why there is no hint of these nodes."""
        known: Sequence[int] = self.manager.numa_nodes
        if self.facts.hints_on_device_nodes_only:
            known = device_numa_nodes(self.manager, resource)
        named = f"nodes {list(nodes)}"
        if list(nodes) != sorted(set(nodes)):
            return "the nodes of a hint are listed in ascending order, each once"
        if not nodes or not set(nodes) <= set(known):
            return f"hints are made of the nodes {list(known)}"
        must = self._reusable(resource)
        if len(must) > self._on(resource, must, nodes):
            return f"{named} do not have all devices that init containers of the pod left"
        on, asked = self._on(resource, self._usable(resource), nodes), self.requests[resource]
        if on < asked:
            return f"{_devices(on)} available on {named}, {asked} requested"
        return f"each set of nodes comes once, smaller ones first, and {named} not here"

    def _held(self, resource: str) -> set[str]:
        devices = self.manager.pod_devices
        if self.container is None:
            return devices.pod_devices(self.pod, resource)
        return devices.container_devices(self.pod, self.container, resource) or set()

    def _reusable(self, resource: str) -> set[str]:
        """Those with a topology of what init containers left."""
        if self.container is None or self._held(resource):
            return set()
        reusable = self.manager.devices_to_reuse.get(self.pod, {}).get(resource, set())
        known = self.manager.all_devices.get(resource, {})
        return {d for d in reusable if d in known and known[d].numa_nodes is not None}

    def _usable(self, resource: str) -> set[str]:
        held = self._held(resource)
        return held or self.manager.available_devices(resource) | self._reusable(resource)

    def _on(self, resource: str, devices: Iterable[str], nodes: Sequence[int]) -> int:
        """How many of the devices are on one of the nodes."""
        wanted = set(nodes)
        return sum(
            not wanted.isdisjoint(self.manager.numa_node_ids(resource, device))
            for device in devices
        )


def _devices(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"


def _nowhere(asked: int) -> str:
    return f"no set of nodes has all it must and {_devices(asked)} that can be had"
