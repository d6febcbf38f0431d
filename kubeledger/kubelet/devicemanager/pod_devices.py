"""The device manager's ledger: which container holds which devices (podDevices)."""

from __future__ import annotations

from collections.abc import Iterable

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
