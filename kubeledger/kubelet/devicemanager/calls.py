"""What the device manager is asked for a container, and what is said to have come of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.kubelet.devicemanager.allocate import Request
from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.devicemanager.pod_devices import DevicesPerNUMA
from kubeledger.kubelet.profile.devices import DeviceFacts


class AllocateCall(msgspec.Struct, frozen=True, kw_only=True):
    """The device manager is asked to allocate for a container.

    Attributes:
        pod: UID.
        container: name.
        limits: resource -> count, rounded up; all limits of the container, cpu and memory too.
        claimed: resources of the container that a resource claim of the pod stands for.
        is_init: it is an init container.
        is_restartable: it is an init container that keeps running (sidecar).
        affinity: mask of NUMA nodes stored for it; None for none.
        active_pods: UIDs of active pods, this one among them.
        sources_ready: all config sources have sent their pods. Before, devices of terminated
            pods are not collected.
        ran_at_start: the container was running when the kubelet started.
    """

    pod: str
    container: str
    limits: Mapping[str, int]
    claimed: frozenset[str] = frozenset()
    is_init: bool = False
    is_restartable: bool = False
    affinity: int | None = None
    active_pods: frozenset[str]
    sources_ready: bool = True
    ran_at_start: bool = False

    @property
    def runs_already(self) -> bool:
        """Whether this is a container of before a kubelet restart, by what the kubelet asks."""
        return self.ran_at_start and not self.sources_ready

    def served(self, facts: DeviceFacts) -> tuple[str, ...]:
        """Limits that may be the device manager's: all, but for those a claim stands for.

        Source: v1.36.2 pkg/kubelet/cm/devicemanager/manager.go isDRAExtendedResource
        Differs: no
        """
        if facts.claimed_resources_skipped:
            return tuple(resource for resource in self.limits if resource not in self.claimed)
        return tuple(self.limits)

    def collect(self, manager: ManagerImpl) -> None:
        """Collect stranded devices, which the kubelet does before the first limit it serves."""
        if self.sources_ready:
            manager.update_allocated_devices(self.active_pods)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What is said to have come of a call.

    Attributes:
        error: the kubelet's text, empty for success.
        devices: resource -> NUMA node -> sorted IDs that the container holds afterwards.
    """

    error: str
    devices: dict[str, DevicesPerNUMA]


def request_of(manager: ManagerImpl, call: AllocateCall, resource: str) -> Request:
    """One limit of a call, with the devices that the pod may use again."""
    reuse = manager.devices_to_reuse.get(call.pod, {})
    return Request(
        pod=call.pod,
        container=call.container,
        resource=resource,
        required=call.limits[resource],
        affinity=call.affinity,
        reusable=frozenset(reuse.get(resource, ())),
    )
