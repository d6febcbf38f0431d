"""Which devices a container gets (devicesToAllocate), as tiers to take from in turn.

The kubelet takes what it still needs from one set of devices after the other. Within a
set Go's map order picks, so a set that holds more than needed is a choice. :func:`plans`
gives the sets as tiers: up to the last one taken from, all devices of a tier are taken.
``decide`` takes in the plugin's order; any other pick from the same tiers is admissible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from kubeledger.kubelet.devicemanager.affinity import (
    AffinitySets,
    device_has_topology_alignment,
    filter_by_affinity,
)
from kubeledger.kubelet.devicemanager.manager import ManagerImpl, RpcError
from kubeledger.kubelet.profile.devices import DeviceFacts

REUSABLE = "reusable"
ALIGNED = "aligned"
PREFERRED = "preferred"
UNALIGNED = "unaligned"
NO_AFFINITY = "without affinity"
AVAILABLE = "available"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One device limit of one container.

    Attributes:
        pod: UID.
        container: name.
        resource: name of the device plugin resource.
        required: devices asked for.
        affinity: mask of NUMA nodes stored by the topology manager; None for none.
        reusable: devices that the pod's init containers are done with.
    """

    pod: str
    container: str
    resource: str
    required: int
    affinity: int | None
    reusable: frozenset[str]


class Tier(NamedTuple):
    """Devices that are taken before those of the next tier.

    Attributes:
        name: what they are, as an adjective.
        devices: some of them may be in an earlier tier as well.
    """

    name: str
    devices: frozenset[str]


class Plan(msgspec.Struct, frozen=True):
    """What the kubelet takes: ``size`` devices, tier by tier; 0 if nothing is to do.

    Tiers may continue after the one that completes the grant.
    """

    size: int
    tiers: tuple[Tier, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """No devices.

    Attributes:
        error: the kubelet's text.
        leaked: devices that were picked before and stay marked as in use, held by nobody;
            None if picking had not begun.
    """

    error: str
    leaked: frozenset[str] | None = None


NOTHING_TO_DO = Plan(0)


def plans(
    manager: ManagerImpl, request: Request, facts: DeviceFacts, *, runs_already: bool = False
) -> Iterator[Plan | Refusal]:
    """Every plan or refusal that the kubelet can come to; one, but for the order of nodes.

    Args:
        manager: not changed.
        request: what is asked for.
        facts: of the kubelet version.
        runs_already: config sources are not ready, and the container ran at kubelet start.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate;
        v1.36.2 the same
    Differs: devices are not picked yet; see the module.
    """
    resource, required = request.resource, request.required
    held = manager.pod_devices.container_devices(request.pod, request.container, resource)
    early = _already_settled(manager, request, held, facts, runs_already)
    if early is not None:
        yield early
        return
    reuse = request.reusable
    if 0 < required <= len(reuse):
        yield Plan(required, (Tier(REUSABLE, reuse),))
        return
    in_use = manager.allocated.get(resource, set()) | reuse
    available = frozenset(manager.healthy[resource] - in_use)
    needed = required - len(reuse)
    if len(available) < needed:
        yield Refusal(
            f"requested number of devices unavailable for {resource}. "
            f"Requested: {needed}, Available: {len(available)}",
            leaked=reuse,
        )
        return
    for sets in filter_by_affinity(manager, resource, available, request.affinity, facts):
        yield _plan_from_available(manager, request, available, sets, facts)


def take(plan: Plan, advertised: Iterable[str]) -> frozenset[str]:
    """The devices of a plan, where there is a choice in the order of ``advertised``.

    That is also what the kubelet most likely takes: a small Go map is iterated from a
    random slot on, so the entry put in first comes first more often than others.

    Args:
        plan: what to take from.
        advertised: devices in the order in which their plugin lists them; what it does not
            list any more comes last, by ID.
    """
    order = list(advertised)
    taken: set[str] = set()
    for tier in plan.tiers:
        fresh = tier.devices - taken
        ranked = [device for device in order if device in fresh]
        ranked += sorted(fresh.difference(ranked))
        taken.update(ranked[: plan.size - len(taken)])
    return frozenset(taken)


def _already_settled(
    manager: ManagerImpl,
    request: Request,
    held: set[str] | None,
    facts: DeviceFacts,
    runs_already: bool,
) -> Plan | Refusal | None:
    """What is known before any device is looked for; None to continue."""
    needed = request.required
    if held is not None:
        needed -= len(held)
        if needed:
            return Refusal(
                f'pod "{request.pod}" container "{request.container}" changed request for '
                f'resource "{request.resource}" from {len(held)} to {request.required}'
            )
    if facts.running_container_needs_nothing and runs_already:
        return NOTHING_TO_DO
    healthy = manager.healthy.get(request.resource)
    if not facts.health_checked_first:
        if not needed:
            return NOTHING_TO_DO
        if healthy is None:
            return Refusal(f"can't allocate unregistered device {request.resource}")
        return None
    if error := _health_error(request.resource, healthy, held):
        return Refusal(error)
    return None if needed else NOTHING_TO_DO


def _health_error(resource: str, healthy: set[str] | None, held: set[str] | None) -> str:
    """The checks that a node reboot made necessary, when plugins come after the pods."""
    if healthy is None:
        return f"cannot allocate unregistered device {resource}"
    if not healthy:
        return f"no healthy devices present; cannot allocate unhealthy devices {resource}"
    if not healthy.issuperset(held or ()):
        return (
            "previously allocated devices are no longer healthy; "
            f"cannot allocate unhealthy devices {resource}"
        )
    return ""


def _plan_from_available(
    manager: ManagerImpl,
    request: Request,
    available: frozenset[str],
    sets: AffinitySets,
    facts: DeviceFacts,
) -> Plan | Refusal:
    """Tiers when the reusable devices do not suffice: all of them, then available ones.

    If more devices are aligned than needed, the plugin is asked which of them. If not, all
    aligned ones are taken, and if that is too few the plugin is asked about all available.
    """
    reuse = request.reusable
    needed = request.required - len(reuse)
    if needed < 0:
        # Not with a pod that the API server admitted: a limit is not negative.
        return _counted_past_zero(manager, request, sets)
    begin = (Tier(REUSABLE, reuse), Tier(ALIGNED, sets.aligned))
    unsorted = len(sets.no_affinity) == len(available) and not _is_sorted(manager, request, facts)
    last = AVAILABLE if unsorted else NO_AFFINITY
    rest = (Tier(UNALIGNED, sets.unaligned), Tier(last, sets.no_affinity))
    if needed == len(sets.aligned):
        return Plan(request.required, (*begin, *rest))
    enough = needed < len(sets.aligned)
    offered, picked = (sets.aligned, reuse) if enough else (available, reuse | sets.aligned)
    answer = _preferred(manager, request, offered, picked)
    if isinstance(answer, Refusal):
        return answer
    preferred = Tier(PREFERRED, answer & offered)
    if enough:
        return Plan(request.required, (begin[0], preferred, begin[1], *rest))
    return Plan(request.required, (*begin, preferred, *rest))


def _preferred(
    manager: ManagerImpl, request: Request, offered: frozenset[str], picked: frozenset[str]
) -> frozenset[str] | Refusal:
    """What the plugin answers; nothing if it does not offer to. What was picked may leak.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go
        callGetPreferredAllocationIfAvailable
    Differs: no
    """
    plugin = manager.endpoints.get(request.resource)
    if plugin is None:
        return Refusal(
            f"endpoint not found in cache for a registered resource: {request.resource}", picked
        )
    answer = plugin.preferred(offered | picked, picked, request.required)
    if isinstance(answer, RpcError):
        return Refusal(
            f"device plugin GetPreferredAllocation rpc failed with err: {answer.text}", picked
        )
    return answer or frozenset()


def _counted_past_zero(manager: ManagerImpl, request: Request, sets: AffinitySets) -> Refusal:
    """A negative number is never counted down to zero, so all reusable and aligned are picked."""
    answer = _preferred(manager, request, sets.aligned, request.reusable)
    if isinstance(answer, Refusal):
        return answer
    picked = request.reusable | sets.aligned
    return Refusal(
        "unexpectedly allocated less resources than required. "
        f"Requested: {request.required}, Got: {len(picked)}",
        picked,
    )


def _is_sorted(manager: ManagerImpl, request: Request, facts: DeviceFacts) -> bool:
    """Whether available devices are sorted by affinity."""
    return request.affinity is not None and device_has_topology_alignment(
        manager, request.resource, facts
    )
