"""Which devices a container gets (devicesToAllocate), as tiers to take from in turn.

The kubelet takes what it still needs from one set of devices after the other. Within a
set Go's map order picks, so a set that holds more than needed is a choice. :func:`plans`
gives the sets as tiers: up to the last one taken from, all devices of a tier are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.devicemanager.manager import ManagerImpl, RpcError

REUSABLE: Final = "reusable"
ALIGNED: Final = "aligned"
PREFERRED: Final = "preferred"
UNALIGNED: Final = "unaligned"
NO_AFFINITY: Final = "without affinity"
AVAILABLE: Final = "available"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One device limit of one container.

    Attributes:
        affinity: mask of NUMA nodes stored by the topology manager; None for none.
        reusable: devices that the pod's init containers are done with.
        runs_already: config sources are not ready, and the container ran at kubelet start.
    """

    pod: str
    container: str
    resource: str
    required: int
    affinity: int | None
    reusable: frozenset[str]
    runs_already: bool = False


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


NOTHING_TO_DO: Final = Plan(0)


def plans(manager: ManagerImpl, request: Request) -> Iterator[Plan | Refusal]:
    """Every plan or refusal that the kubelet can come to; one, but for the order of nodes.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate;
        v1.36.2 the same
    Differs: devices are not picked yet; see the module.
    """
    resource, required = request.resource, request.required
    held = manager.pod_devices.container_devices(request.pod, request.container, resource)
    early = _already_settled(manager, request, held)
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
    for sets in filter_by_affinity(manager, resource, available, request.affinity):
        yield _plan_from_available(manager, request, available, sets)


def take(plan: Plan | Refusal, advertised: Iterable[str]) -> frozenset[str]:
    """The devices of a plan, where there is a choice in the order of ``advertised``.

    That is also what the kubelet most likely takes: a small Go map is iterated from a
    random slot on, so the entry put in first comes first more often than others.

    Args:
        advertised: devices in the order in which their plugin lists them; what it does not
            list any more comes last, by ID.
    """
    if isinstance(plan, Refusal) or not plan.size:
        return frozenset()
    order = list(advertised)
    taken: set[str] = set()
    for tier in plan.tiers:
        fresh = tier.devices - taken
        ranked = [device for device in order if device in fresh]
        ranked += sorted(fresh.difference(ranked))
        taken.update(ranked[: plan.size - len(taken)])
    return frozenset(taken)


def _already_settled(
    manager: ManagerImpl, request: Request, held: set[str] | None
) -> Plan | Refusal | None:
    """What is known before any device is looked for; None to continue."""
    facts, needed = manager.facts, request.required
    if held is not None:
        needed -= len(held)
        if needed:
            return Refusal(
                f'pod "{request.pod}" container "{request.container}" changed request for '
                f'resource "{request.resource}" from {len(held)} to {request.required}'
            )
    if facts.running_container_needs_nothing and request.runs_already:
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
    manager: ManagerImpl, request: Request, available: frozenset[str], sets: AffinitySets
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
    sorts = request.affinity is not None and manager.has_topology_alignment(request.resource)
    last = NO_AFFINITY if sorts or len(sets.no_affinity) < len(available) else AVAILABLE
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
    """
    plugin = manager.plugin(request.resource)
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


def filter_by_affinity(
    manager: ManagerImpl, resource: str, available: frozenset[str], affinity: int | None
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
    if affinity is None or not manager.has_topology_alignment(resource):
        yield AffinitySets(frozenset(), frozenset(), available)
        return
    nodes = {device: frozenset(manager.numa_node_ids(resource, device)) for device in available}
    inside = {node for of_one in nodes.values() for node in of_one if _is_set(affinity, node)}
    no_affinity = frozenset(device for device, of_one in nodes.items() if not of_one)
    touching = frozenset(device for device, of_one in nodes.items() if of_one & inside)
    outside = available - no_affinity - touching
    if manager.facts.affinity_nodes_first:
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
