"""How many devices a node lists, as admission sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubeledger.devicemanager.records import (
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.devicemanager.state import DeviceManagerState
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S, whole_number
from kubeledger.verify.rules.admission.case import UNCOUNTED

__all__ = ["Restored", "devices", "lagging"]

_COLLECTED_NS: Final = 60 * NS_PER_S
"""So soon a new kubelet process looks which pods are there still."""


class Restored:
    """Devices that count as in use again, because the checkpoint does not know of their release.

    It is written when devices are given and when a plugin sends its list, not when they are
    let go of. Until a new process looks for pods that are gone, it has those of its checkpoint.

    Source: v1.36.2 pkg/kubelet/cm/devicemanager/manager.go UpdateAllocatedDevices, readCheckpoint
    """

    def __init__(self) -> None:
        self._unwritten: dict[str, set[str]] = {}
        self._restored: dict[str, set[str]] = {}
        self._until_ns = 0

    def released(self, record: Record, body: DevicesReleased, state: NodeState) -> None:
        """A pod's devices are let go of."""
        self._restored = {}
        for by_resource in state.devicemanager.pods.get(body.pod_uid or "", {}).values():
            for resource, held in by_resource.items():
                self._unwritten.setdefault(resource, set()).update(held.device_ids)

    def written(
        self, record: Record, body: DevicesAllocated | DevicesReported, state: NodeState
    ) -> None:
        """The checkpoint is, unless it was only read."""
        if isinstance(body, DevicesAllocated) or record.cause is None:
            self._unwritten = {}

    def kubelet_started(self, ts_ns: int) -> None:
        """Another process reads the checkpoint."""
        self._restored = {name: set(ids) for name, ids in self._unwritten.items()}
        self._until_ns = ts_ns + _COLLECTED_NS

    def at(self, ts_ns: int) -> Mapping[str, set[str]]:
        """Resource -> IDs of devices that may count."""
        return self._restored if ts_ns <= self._until_ns else {}


def devices(
    resources: Mapping[str, None], manager: DeviceManagerState, written: Mapping[str, str]
) -> dict[str, str]:
    """Extended resource -> how many the node lists; one that it does not list is left out."""
    amounts: dict[str, str] = {}
    for resource in resources:
        plugin = manager.resources.get(resource)
        held = _held(resource, manager)
        if plugin is not None or held:
            healthy = plugin.healthy if plugin is not None else 0
            amounts[resource] = str(UNCOUNTED if healthy is None else max(healthy, len(held)))
        elif resource in written:
            amounts[resource] = written[resource]
    return amounts


def lagging(
    resources: Iterable[str],
    manager: DeviceManagerState,
    written: Mapping[str, str],
    restored: Mapping[str, set[str]],
) -> dict[str, str]:
    """The same by the node object, which is written every ten seconds; at least what is in use.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go sanitizeNodeAllocatable
    """
    amounts: dict[str, str] = {}
    for resource in resources:
        held = len(_held(resource, manager) | restored.get(resource, set()))
        shown = written.get(resource)
        if held or shown is not None:
            amounts[resource] = str(max(whole_number(shown) or 0, held))
    return amounts


def _held(resource: str, manager: DeviceManagerState) -> set[str]:
    """Devices of a resource that containers hold."""
    return {
        device
        for containers in manager.pods.values()
        for by_resource in containers.values()
        if resource in by_resource
        for device in by_resource[resource].device_ids
    }
