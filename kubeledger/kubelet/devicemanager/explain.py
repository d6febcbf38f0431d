"""Whether the kubelet can have come to a recorded allocation, and why not.

The kubelet has three choices, all by Go's map order: which of a container's limits it
serves first, which devices it takes from a set that holds more than needed, and up to
1.21 in which order it looks at NUMA nodes. :func:`admissible` takes the choices from the claim
where they show in it, and tries all others; what remains open (devices that leaked) it hands on
as several possible managers.

The limits of a container do not touch each other: whatever the order in which they are
served, each can be granted or fails for itself, and the first that fails ends the call.
So the fault of a claim is looked for in each limit alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kubeledger.kubelet.devicemanager.allocate import (
    AllocateCall,
    begin_pod,
    carry_out,
    end_container,
)
from kubeledger.kubelet.devicemanager.manager import DevicesPerNUMA, ManagerImpl, devices_of
from kubeledger.kubelet.devicemanager.plans import Plan, Request, plans, take


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What is said to have come of a call.

    Attributes:
        error: the kubelet's text, empty for success.
        devices: resource -> NUMA node -> sorted IDs that the container holds afterwards.
    """

    error: str
    devices: dict[str, DevicesPerNUMA]


class Found(msgspec.Struct, frozen=True):
    """What came of judging a claim.

    Attributes:
        managers: every memory the device manager may have afterwards; none if impossible.
        why: why it is impossible; empty if it is not.
    """

    managers: list[ManagerImpl]
    why: str = ""


def admissible(manager: ManagerImpl, call: AllocateCall, claim: Claim) -> Found:
    """Whether the kubelet can have come to ``claim``, and with what in memory.

    Args:
        manager: before the call; not changed.
    """
    begin = manager.fork()
    begin_pod(begin, call.pod)
    search = _Search(call, claim)
    managers = list(search.serve(begin, frozenset(call.served(begin)), collected=False))
    return Found(managers) if managers else Found([], _refute(begin, call, claim))


class _Search:
    """All ways through the limits of a container that end as claimed."""

    def __init__(self, call: AllocateCall, claim: Claim) -> None:
        self.call, self.claim = call, claim
        self._seen: set[tuple[frozenset[str], bool]] = set()

    def serve(
        self, manager: ManagerImpl, left: frozenset[str], *, collected: bool
    ) -> Iterator[ManagerImpl]:
        """Serve each of the limits that are left first; give what it can end with.

        With the claim given, what was served decides the state, whatever the order.
        """
        if (left, collected) in self._seen:
            return
        self._seen.add((left, collected))
        if not left:
            yield from self._end(manager, "")
            return
        ours = [r for r in sorted(left) if manager.is_device_plugin_resource(r)]
        if not ours:
            yield from self.serve(manager, frozenset(), collected=collected)
        for resource in ours:
            state = manager.fork()
            if not collected:
                self.call.collect(state)
            yield from self._serve_one(state, resource, left - {resource})

    def _serve_one(
        self, manager: ManagerImpl, resource: str, left: frozenset[str]
    ) -> Iterator[ManagerImpl]:
        request = self.call.request(manager, resource)
        claimed = frozenset(devices_of(self.claim.devices.get(resource, {})))
        served = False
        for plan in plans(manager, request):
            state = manager.fork()
            # A plugin that refuses does so whatever the devices are.
            devices = claimed or take(plan, manager.all_devices.get(resource, ()))
            if error := carry_out(state, request, plan, devices):
                yield from self._end(state, error)
                continue
            if isinstance(plan, Plan) and plan.size and misfit(manager, request, plan, claimed):
                continue
            if not served:
                # Which order of nodes led to the same grant makes no difference any more.
                served = True
                yield from self.serve(state, left, collected=True)

    def _end(self, manager: ManagerImpl, error: str) -> Iterator[ManagerImpl]:
        """The call ends here; its manager, if that is as claimed."""
        if _difference(manager, self.call, self.claim, error):
            return
        if not error:
            end_container(manager, self.call)
        yield manager


class _Ends(msgspec.Struct, frozen=True):
    """What serving one limit can come to.

    Attributes:
        grants: plans that it can be granted by; of size 0 if nothing is to do.
    """

    errors: list[str]
    grants: list[Plan]


def _refute(manager: ManagerImpl, call: AllocateCall, claim: Claim) -> str:
    """The fault of a claim that no way through the limits of a container ends with."""
    state = manager.fork()
    ours = sorted(r for r in call.served(manager) if manager.is_device_plugin_resource(r))
    if ours:
        call.collect(state)
    ends = {resource: _ends(state, call, resource) for resource in ours}
    why = _error_fault(state, call, claim, ends) if claim.error else _failure_to_tell(ends)
    why = why or _grant_fault(state, call, claim, ends)
    return why or _record_fault(state, call, claim, ends)


def misfit(manager: ManagerImpl, request: Request, plan: Plan, devices: frozenset[str]) -> str:
    """Why a plan cannot have given these devices to begin with ``manager``; empty if it can."""
    resource, size = request.resource, plan.size
    if not devices:
        return f"the limit of {size} {resource} is granted, but no device is held"
    if len(devices) != size:
        return f"{len(devices)} devices of {resource} are held where the limit is {size}"
    never = devices.difference(*(tier.devices for tier in plan.tiers))
    taken: frozenset[str] = frozenset()
    for tier in plan.tiers:
        fresh = tier.devices - taken
        needed = size - len(taken)
        chosen = devices & fresh
        if len(chosen) < min(needed, len(fresh)):
            stray, left = min(never or devices - taken - fresh), min(fresh - chosen)
            kind = next((later.name for later in plan.tiers if stray in later.devices), "")
            kind = kind or _not_offered(manager, request, stray)
            return f"device {stray}, {kind}, was taken while {left}, {tier.name}, was left"
        taken |= chosen
        if len(taken) >= size:
            break
    return ""


def _difference(manager: ManagerImpl, call: AllocateCall, claim: Claim, error: str) -> str:
    """Why an end with ``error`` is not the one claimed; empty if it is."""
    if error != claim.error:
        return f"the kubelet ends here with {error!r}, not with {claim.error!r}"
    held = manager.pod_devices.held_by(call.pod, call.container)
    for resource in sorted(held.keys() | claim.devices.keys()):
        why = _record_difference(call, resource, held.get(resource), claim.devices.get(resource))
        if why:
            return why
    return ""


def _ends(manager: ManagerImpl, call: AllocateCall, resource: str) -> _Ends:
    request = call.request(manager, resource)
    ends = _Ends([], [])
    for plan in plans(manager, request):
        devices = take(plan, manager.all_devices.get(resource, ()))
        if error := carry_out(manager.fork(), request, plan, devices):
            ends.errors.append(error)
        elif isinstance(plan, Plan):
            ends.grants.append(plan)
    return ends


def _failure_to_tell(ends: Mapping[str, _Ends]) -> str:
    """The error that the kubelet comes to where none is claimed."""
    for of_one in ends.values():
        if not of_one.grants:
            return f"the kubelet fails here with: {of_one.errors[0]}"
    return ""


def _error_fault(
    manager: ManagerImpl, call: AllocateCall, claim: Claim, ends: Mapping[str, _Ends]
) -> str:
    """What is wrong about the error that is claimed, or about what is held in spite of it."""
    failing = [resource for resource, of_one in ends.items() if claim.error in of_one.errors]
    if not failing:
        for of_one in ends.values():
            if not of_one.grants:
                return f"the kubelet fails here with {of_one.errors[0]!r}, not with {claim.error!r}"
        granted = ", ".join(f"{call.limits[r]} {r}" for r in ends if ends[r].grants[0].size)
        but = f": {granted} can be granted" if granted else ""
        return f"no limit of container {call.container} fails with {claim.error!r}{but}"
    before = manager.pod_devices.held_by(call.pod, call.container)
    for resource, of_one in ends.items():
        why = _record_difference(call, resource, before.get(resource), claim.devices.get(resource))
        if not why:
            continue
        if not of_one.grants:
            return f"{why}, for the kubelet fails there with: {of_one.errors[0]}"
        if failing == [resource]:
            return f"{why}, where the call ends with the claimed error"
    return ""


def _grant_fault(
    manager: ManagerImpl, call: AllocateCall, claim: Claim, ends: Mapping[str, _Ends]
) -> str:
    """What is wrong about the devices that are claimed to be granted."""
    for resource, of_one in ends.items():
        claimed = frozenset(devices_of(claim.devices.get(resource, {})))
        if not of_one.grants or (claim.error and resource not in claim.devices):
            continue  # after an error it may not have been served
        request = call.request(manager, resource)
        whys = [
            misfit(manager, request, plan, claimed) if plan.size else "" for plan in of_one.grants
        ]
        if all(whys):
            return whys[0] + (
                "; no other order of the NUMA nodes gives it either" if len(whys) > 1 else ""
            )
    return ""


def _record_fault(
    manager: ManagerImpl, call: AllocateCall, claim: Claim, ends: Mapping[str, _Ends]
) -> str:
    """Where the devices that are claimed may be held, but are recorded otherwise."""
    before = manager.pod_devices.held_by(call.pod, call.container)
    for resource in sorted(before.keys() | claim.devices.keys()):
        mine, theirs = before.get(resource), claim.devices.get(resource)
        if resource in ends and theirs is not None and any(p.size for p in ends[resource].grants):
            mine = manager.devices_per_numa(resource, devices_of(theirs))
        if why := _record_difference(call, resource, mine, theirs):
            return why
    return f"no order of the limits ends so with {claim.error or 'success'!r}"


def _not_offered(manager: ManagerImpl, request: Request, device: str) -> str:
    """What keeps a device from being taken at all."""
    resource = request.resource
    if device in manager.allocated.get(resource, ()):
        return _in_use(manager, request, device)
    if device not in manager.all_devices.get(resource, ()):
        return "not known to its plugin"
    return "available" if device in manager.healthy.get(resource, ()) else "unhealthy"


def _in_use(manager: ManagerImpl, request: Request, device: str) -> str:
    """By whom a device is held; nobody holds one that leaked."""
    for pod in sorted(manager.pod_devices.pods(), key=lambda uid: (uid != request.pod, uid)):
        for container in manager.pod_devices.containers(pod):
            held = manager.pod_devices.container_devices(pod, container, request.resource)
            if device in (held or ()):
                of = "" if pod == request.pod else f" of pod {pod}"
                return f"held by container {container}{of}"
    return "in use since an allocation that failed"


def _record_difference(
    call: AllocateCall, resource: str, mine: DevicesPerNUMA | None, theirs: DevicesPerNUMA | None
) -> str:
    """What a container holds of a resource, where that is not what is claimed."""
    if theirs is None:
        return f"container {call.container} holds devices of {resource}" if mine is not None else ""
    if mine is None:
        return f"container {call.container} holds no devices of {resource}"
    for node in sorted(mine.keys() | theirs.keys()):
        ours = sorted(mine[node]) if node in mine else None
        if ours != theirs.get(node):
            return (
                f"container {call.container} holds {_listed(ours)} of {resource} "
                f"under NUMA node {node}, not {_listed(theirs.get(node))}"
            )
    return ""


def _listed(devices: list[str] | None) -> str:
    return ", ".join(devices) if devices else "nothing" if devices is None else "an empty list"
