"""A node's devices and plugins as cases of the device manager give them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from kubeledger.kubelet.cases.fields import are_sound, check_amounts, keyed, node_set
from kubeledger.kubelet.devicemanager.manager import Device, ManagerImpl, RpcError
from kubeledger.kubelet.kube.pod import ExtendedResourceClaimStatus
from kubeledger.kubelet.kube.quantity import Quantity, value_of
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.topologymanager.bitmask import BITS_MAX
from kubeledger.model.errors import BadInputError

_NodeKey = Annotated[int, msgspec.Meta(ge=-1, le=BITS_MAX - 1)]
"""-1 stands for devices without topology."""


class DeviceCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device as its plugin reports it; without ``numaNodes`` it has no topology."""

    id: str = msgspec.field(name="ID")
    health: Literal["Healthy", "Unhealthy"]
    numa_nodes: list[int] | None = msgspec.field(name="numaNodes", default=None)


class ResourceCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resource and what its plugin answers.

    Attributes:
        devices: as last reported.
        preferred_order: device IDs, best first; None if the plugin offers no preference.
        allocate_error: what Allocate fails with, or empty.
        no_endpoint: the plugin is gone.
    """

    devices: list[DeviceCase]
    preferred_order: list[str] | None = msgspec.field(name="preferredOrder", default=None)
    allocate_error: str = msgspec.field(name="allocateError", default="")
    no_endpoint: bool = msgspec.field(name="noEndpoint", default=False)


class Allocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices that a container held from the start: NUMA node -> IDs."""

    pod_uid: str = msgspec.field(name="podUID")
    container: str = msgspec.field(name="containerName")
    resource: str = msgspec.field(name="resourceName")
    devices: dict[_NodeKey, list[str]] = msgspec.field(name="deviceIDs")


class CaseResources(msgspec.Struct, frozen=True):
    """The resources of a container in the API's form; its requests are only checked."""

    limits: ResourceList | None = None
    requests: ResourceList | None = None


class CaseContainer(msgspec.Struct, frozen=True, rename="camel"):
    """The slice of a Container that is read."""

    name: str
    resources: CaseResources | None = None
    restart_policy: str | None = None

    @property
    def is_restartable(self) -> bool:
        """As an init container: whether it keeps running (sidecar)."""
        return self.restart_policy == "Always"


class CaseMetadata(msgspec.Struct, frozen=True):
    """The slice of ObjectMeta that is read."""

    uid: str


class CasePodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The slice of PodSpec that is read."""

    containers: list[CaseContainer]
    init_containers: list[CaseContainer] | None = None


class CasePodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The slice of a PodStatus that is read."""

    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class CasePod(msgspec.Struct, frozen=True):
    """The slice of a Pod that is read."""

    metadata: CaseMetadata
    spec: CasePodSpec
    status: CasePodStatus | None = None

    def claimed(self, container: str) -> frozenset[str]:
        """Resources of a container that a resource claim of the pod stands for."""
        claim = self.status.extended_resource_claim_status if self.status is not None else None
        mappings = claim.request_mappings if claim is not None else None
        return frozenset(m.resource_name for m in mappings or () if m.container_name == container)

    def container(self, name: str) -> tuple[CaseContainer, bool] | None:
        """A container by name, and whether it is an init container; None if there is none."""
        for container in self.spec.init_containers or ():
            if container.name == name:
                return container, True
        for container in self.spec.containers:
            if container.name == name:
                return container, False
        return None


class ScriptedPlugin(msgspec.Struct, frozen=True):
    """A plugin that answers as the case says."""

    order: tuple[str, ...] | None
    error: str

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | None:
        """What must be included first, then the order, as far as it is offered and fits."""
        if self.order is None:
            return None
        rest = [d for d in self.order if d in available and d not in must_include]
        return must_include.union(rest[: max(size - len(must_include), 0)])

    def allocate(self, devices: frozenset[str]) -> RpcError | None:
        """The error of the case, whatever the devices."""
        return RpcError(self.error) if self.error else None


def manager_of(
    numa_nodes: Iterable[int],
    resources: dict[str, ResourceCase],
    allocated: Iterable[Allocation],
    facts: DeviceFacts,
) -> ManagerImpl:
    """The device manager after its plugins reported and its ledger was restored.

    Raises:
        BadInputError: a NUMA node outside of 0 to 63 or there twice, or a device
            reported twice.
    """
    manager = ManagerImpl(node_set("input.numaNodes", numa_nodes), facts)
    for name, resource in resources.items():
        manager.report(name, _devices(f"{keyed('input.resources', name)}.devices", resource))
        if not resource.no_endpoint:
            preferred = resource.preferred_order
            order = None if preferred is None else tuple(preferred)
            manager.register(name, ScriptedPlugin(order, resource.allocate_error))
    for entry in allocated:
        manager.pod_devices.insert(entry.pod_uid, entry.container, entry.resource, entry.devices)
    manager.restore_allocated()
    return manager


def check_pod(path: str, pod: CasePod) -> None:
    """Make sure that all amounts of all containers are quantities, none of them negative.

    Raises:
        BadInputError: naming the field.
    """
    for kind, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers or ()),
    ):
        for index, container in enumerate(containers):
            resources = container.resources
            if resources is None:
                continue
            if not (are_sound(resources.limits) and are_sound(resources.requests)):
                where = f"{path}.spec.{kind}[{index}].resources"
                check_amounts(f"{where}.limits", resources.limits)
                check_amounts(f"{where}.requests", resources.requests)


def counted_limits(container: CaseContainer) -> dict[str, int]:
    """Resource -> limit in whole units, rounded up; of a container that was checked."""
    return {
        # The quick way for what nearly all limits are: a text that was seen before.
        name: value_of(amount) if type(amount) is str else Quantity.from_api(amount).value()
        for name, amount in _limits(container).items()
    }


def quantities(container: CaseContainer) -> dict[str, Quantity]:
    """Resource -> limit; of a container that was checked."""
    return {name: Quantity.from_api(amount) for name, amount in _limits(container).items()}


def _devices(path: str, resource: ResourceCase) -> list[Device]:
    devices: dict[str, Device] = {}
    for index, d in enumerate(resource.devices):
        if d.id in devices:
            raise BadInputError(f"{path}[{index}].ID: {d.id!r} is there twice")
        nodes = d.numa_nodes
        checked = None if nodes is None else node_set(f"{path}[{index}].numaNodes", nodes)
        devices[d.id] = Device(d.id, d.health, checked)
    return list(devices.values())


def _limits(container: CaseContainer) -> ResourceList:
    return (container.resources.limits if container.resources else None) or {}
