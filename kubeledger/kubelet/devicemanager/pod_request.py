"""How many devices a pod needs at any one time, for hints in pod scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.devices import DeviceFacts


class ContainerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one container.

    Attributes:
        limits: resource -> amount.
        is_restartable: an init container that keeps running.
    """

    limits: Mapping[str, Quantity]
    is_restartable: bool = False


def pod_device_request(
    init_containers: Iterable[ContainerLimits],
    containers: Iterable[ContainerLimits],
    facts: DeviceFacts,
) -> dict[str, int]:
    """Resource -> count: what app containers need together, or one init container needs.

    Since 1.28 restartable init containers count with the app containers, and those before
    an init container count with it.

    Args:
        init_containers: in the pod's order.
        containers: app containers.
        facts: of the kubelet version.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go getPodDeviceRequest;
        v1.36.2 component-helpers/resource/helpers.go PodLimits
    Differs: resources that are no devices are in the result as well.
    """
    total: dict[str, Quantity] = {}
    for container in containers:
        _add(total, _counted(container, facts))
    sidecars: dict[str, Quantity] = {}
    peaks: list[dict[str, Quantity]] = []
    for container in init_containers:
        limits = _counted(container, facts)
        if container.is_restartable and facts.pod_request_counts_sidecars:
            _add(total, limits)
            _add(sidecars, limits)
            peaks.append(dict(sidecars))
        else:
            peak = dict(sidecars)
            _add(peak, limits)
            peaks.append(peak)
    for peak in peaks:
        for resource, amount in peak.items():
            if resource not in total or amount > total[resource]:
                total[resource] = amount
    return {resource: amount.value() for resource, amount in total.items()}


def _counted(container: ContainerLimits, facts: DeviceFacts) -> Mapping[str, Quantity]:
    """Limits as they are added up: as written, or up to 1.26 rounded up one by one."""
    if facts.pod_request_rounded_once:
        return container.limits
    return {name: Quantity.of(amount.value()) for name, amount in container.limits.items()}


def _add(total: dict[str, Quantity], limits: Mapping[str, Quantity]) -> None:
    for resource, amount in limits.items():
        known = total.get(resource)
        total[resource] = amount if known is None else known.add(amount)
