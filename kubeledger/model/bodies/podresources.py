"""What the kubelet's pod-resources API reports (pkg/kubelet/apis/podresources, v1).

It is asked on the node, over a socket. Sets of CPUs are text in the kubelet's notation (``0-3,7``).
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kubeledger.model.bodies.memorymanager import MemoryBlock
from kubeledger.model.record import Observation

__all__ = [
    "AllocatableResourcesListed",
    "ContainerResources",
    "ListedDevices",
    "PodResourcesListed",
]


class ListedDevices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices of one resource on the same NUMA nodes.

    Attributes:
        numa_nodes: sorted; empty where the plugin reports none.
        device_ids: sorted.
    """

    resource: str
    numa_nodes: tuple[int, ...] = ()
    device_ids: tuple[str, ...]


class ContainerResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one container has for itself.

    Attributes:
        pod_uid: None where no other source shows it: the API names pods only.
        devices: sorted by resource and NUMA nodes.
        cpu_set: CPUs that no other container may use; until 1.22 those of the shared pool
            for any other container. Empty for none.
        memory: sorted by type and NUMA nodes.
        claims: NAMESPACE/NAME of a resource claim -> sorted DRIVER/POOL/DEVICE.
    """

    namespace: str
    pod: str
    pod_uid: str | None
    container: str
    devices: tuple[ListedDevices, ...] = ()
    cpu_set: str = ""
    memory: tuple[MemoryBlock, ...] = ()
    claims: dict[str, tuple[str, ...]] = {}


class PodResourcesListed(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to ``List``, recorded when it changed.

    Attributes:
        containers: that have something for themselves, sorted by namespace, pod and name. Init
            containers that end are never listed.
    """

    kind: ClassVar[str] = "devicemanager.PodResourcesListed"
    containers: tuple[ContainerResources, ...]


class AllocatableResourcesListed(
    Observation, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The answer to ``GetAllocatableResources``, recorded when it changed.

    Attributes:
        devices: healthy ones, until 1.22 all; sorted by resource and NUMA nodes.
        cpu_set: CPUs that containers may get for themselves.
        memory: sorted by type and NUMA nodes.
    """

    kind: ClassVar[str] = "devicemanager.AllocatableResourcesListed"
    devices: tuple[ListedDevices, ...] = ()
    cpu_set: str = ""
    memory: tuple[MemoryBlock, ...] = ()
