"""Which pod goes first when something is short, and what its eviction is said to be for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubeledger.cgroups.pod_config import pod_limit, pod_request
from kubeledger.kube.amounts import NANOS
from kubeledger.kube.quantity import Format, Quantity
from kubeledger.kube.requests import units_of
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.simulate.plan import Usage
from kubeledger.simulate.thresholds import RESOURCE_OF, Reading, Threshold, amount_of
from kubeledger.simulate.world import SimPod

__all__ = ["Used", "message_of", "over_its_limit", "rank"]

Used = Mapping[str, Usage]
"""Container -> what it uses."""


class _Place(NamedTuple):
    """Less goes first."""

    within_requests: bool
    priority: int
    less_above: int


def rank(
    pods: Sequence[SimPod], resource: str, used: Callable[[SimPod], Used], profile: KubeletProfile
) -> list[SimPod]:
    """Pods in the order in which they are evicted.

    Pods that use more than they request first, then by priority, then by how much more. What a
    container uses of inodes and process IDs is not simulated: priority alone counts then.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankDiskPressureFunc,
        rankPIDPressure
    Differs: equals stay in their order; there the sort is not stable.
    """

    def place(pod: SimPod) -> _Place:
        priority = pod.api.spec.priority or 0
        if resource not in ("memory", "ephemeral-storage"):
            return _Place(True, priority, 0)
        usage = sum(_of(each, resource) for each in used(pod).values())
        pod_level = profile.cgroups.pod_level_resources
        requested = units_of(
            pod_request(pod.api.spec, resource, profile.cgroups, pod_level=pod_level) or 0
        )
        return _Place(usage <= requested, priority, requested - usage)

    return sorted(pods, key=place)


def _of(usage: Usage, resource: str) -> int:
    return usage.memory_bytes if resource == "memory" else usage.disk_bytes


def message_of(
    pod: SimPod,
    resource: str,
    used: Used,
    thresholds: Sequence[Threshold],
    readings: Mapping[str, Reading],
    profile: KubeletProfile,
) -> str:
    """What the pod's status says of its eviction.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go evictionMessage; v1.20.2
    Differs: containers in the order of the spec; pods with resources of their own are not
        named by them.
    """
    message = f"The node was low on resource: {resource}. "
    newer = profile.eviction.eviction_message_names_threshold
    about = [t for t in thresholds if RESOURCE_OF[t.signal] == resource and t.signal in readings]
    if newer and about:
        reading = readings[about[0].signal]
        bytes_only = resource in ("memory", "ephemeral-storage")
        style = Format.BINARY_SI if bytes_only else Format.DECIMAL_SI
        value = about[0].value
        limit = value if isinstance(value, Quantity) else None
        limit = limit or Quantity.of(amount_of(value, reading.capacity), Format.BINARY_SI)
        available = Quantity.of(reading.available, style)
        message += f"Threshold quantity: {limit.canonical()}, available: {available.canonical()}. "
    if resource not in ("memory", "ephemeral-storage"):
        return message
    spec = pod.api.spec
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        name = container.name or ""
        if name not in used:
            continue
        usage = _of(used[name], resource)
        written = container.requests.get(resource)
        request = Quantity.from_api(str(written)) if written is not None else Quantity.of(0)
        if usage <= request.value():
            continue
        amount = Quantity.of(usage, Format.BINARY_SI).canonical()
        if newer:
            message += (
                f"Container {name} was using {amount}, request is {request.canonical()}, has "
                f"larger consumption of {resource}. "
            )
        else:
            message += (
                f"Container {name} was using {amount}, which exceeds its request of "
                f"{request.canonical()}. "
            )
    return message


def over_its_limit(pod: SimPod, used: Used, profile: KubeletProfile) -> str | None:
    """Why a pod is evicted for its own use of local storage; None when it is not.

    Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go localStorageEviction
    Differs: volumes are not simulated, so none exceeds its limit.
    """
    spec = pod.api.spec
    limit = pod_limit(spec, "ephemeral-storage", profile.cgroups)
    total = sum(usage.disk_bytes for usage in used.values())
    if limit is not None and total > units_of(limit):
        written = Quantity.of(units_of(limit), Format.BINARY_SI).canonical()
        return (
            f"Pod ephemeral local storage usage exceeds the total limit of containers {written}. "
        )
    for container in spec.containers or ():
        amount = container.limits.get("ephemeral-storage")
        name = container.name or ""
        if amount is None or not NANOS[amount] or name not in used:
            continue
        if units_of(NANOS[amount]) < used[name].disk_bytes:
            written = Quantity.from_api(str(amount)).canonical()
            return f'Container {name} exceeded its local ephemeral storage limit "{written}". '
    return None
