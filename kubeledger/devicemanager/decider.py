"""Device manager: decide one container's Allocate, and judge a recorded one.

The kubelet has three choices, all by Go's map order: which of a container's limits it
serves first, which devices it takes from a set that holds more than needed, and up to
1.21 in which order it looks at NUMA nodes. ``decide`` takes limits and devices in the
order in which they were written, which Go favours where a map is small. ``admissible``
takes the choices from the claim where they show in it, and tries all others; what
remains open (devices that leaked) it hands on as several possible managers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kubeledger.devicemanager.allocate import Plan, Refusal, Request, plans, take
from kubeledger.devicemanager.grant import grant, refuse
from kubeledger.devicemanager.manager import ManagerImpl
from kubeledger.devicemanager.pod_devices import DevicesPerNUMA, devices_of
from kubeledger.devicemanager.reuse import keep_or_pass_on, reusable_devices
from kubeledger.profile.devices import DeviceFacts

__all__ = ["AllocateCall", "Claim", "Found", "admissible", "decide", "misfit"]


class AllocateCall(msgspec.Struct, frozen=True, kw_only=True):
    """The device manager is asked to allocate for a container.

    Attributes:
        pod: UID.
        container: name.
        limits: resource -> count, rounded up; all limits of the container, cpu and memory too.
        is_init: it is an init container.
        is_restartable: it is an init container that keeps running (sidecar).
        affinity: mask of NUMA nodes stored for it; None for none.
        active_pods: UIDs of active pods, this one among them.
    """

    pod: str
    container: str
    limits: Mapping[str, int]
    is_init: bool = False
    is_restartable: bool = False
    affinity: int | None = None
    active_pods: frozenset[str]


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


def decide(manager: ManagerImpl, call: AllocateCall, facts: DeviceFacts) -> str:
    """Allocate for one container, changing ``manager``; the error, or empty.

    Limits are served in the order given; the first error ends the call, and what was
    granted before it stays.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go Allocate,
        allocateContainerResources
    Differs: no map order; the checkpoint is not written.
    """
    reuse = reusable_devices(manager, call.pod)
    collected = False
    for resource in call.limits:
        if not manager.is_device_plugin_resource(resource):
            continue
        if not collected:
            manager.update_allocated_devices(call.active_pods)
            collected = True
        request = _request(call, resource, reuse)
        plan = next(plans(manager, request, facts))
        if isinstance(plan, Refusal):
            return refuse(manager, request, plan)
        if plan.size:
            devices = take(plan, manager.all_devices.get(resource, ()))
            if error := grant(manager, request, devices, facts):
                return error
    _settle_reuse(manager, call, facts)
    return ""


def admissible(manager: ManagerImpl, call: AllocateCall, claim: Claim, facts: DeviceFacts) -> Found:
    """Whether the kubelet can have come to ``claim``, and with what in memory.

    Args:
        manager: before the call; not changed.
        call: the call.
        claim: what is said to have come of it.
        facts: of the kubelet version.
    """
    begin = manager.fork()
    reusable_devices(begin, call.pod)
    search = _Search(call, claim, facts)
    managers = list(search.serve(begin, frozenset(call.limits), collected=False))
    if managers:
        return Found(managers)
    return Found([], search.whys[0] if search.whys else _no_such_end(claim))


class _Search:
    """All ways through the limits of a container that end as claimed."""

    def __init__(self, call: AllocateCall, claim: Claim, facts: DeviceFacts) -> None:
        self.call, self.claim, self.facts = call, claim, facts
        self.whys: list[str] = []
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
                state.update_allocated_devices(self.call.active_pods)
            yield from self._serve_one(state, resource, left - {resource})

    def _serve_one(
        self, manager: ManagerImpl, resource: str, left: frozenset[str]
    ) -> Iterator[ManagerImpl]:
        request = _request(self.call, resource, manager.devices_to_reuse[self.call.pod])
        misfits: list[str] = []
        served = False
        for plan in plans(manager, request, self.facts):
            state = manager.fork()
            if isinstance(plan, Refusal):
                yield from self._end(state, refuse(state, request, plan))
                continue
            if plan.size:
                devices, error = self._granted(state, request, plan)
                if error:
                    yield from self._end(state, error)
                    continue
                if why := misfit(manager, request, plan, devices):
                    misfits.append(why)
                    continue
            if not served:
                # Which order of nodes led to the same grant makes no difference any more.
                served = True
                yield from self.serve(state, left, collected=True)
        if misfits and not served:
            self.whys.insert(0, misfits[0])

    def _granted(
        self, manager: ManagerImpl, request: Request, plan: Plan
    ) -> tuple[frozenset[str], str]:
        """Grant what is claimed; a plugin that refuses does so whatever the devices are."""
        claimed = frozenset(devices_of(self.claim.devices.get(request.resource, {})))
        devices = claimed or take(plan, manager.all_devices.get(request.resource, ()))
        error = grant(manager, request, devices, self.facts)
        return claimed, error

    def _end(self, manager: ManagerImpl, error: str) -> Iterator[ManagerImpl]:
        """The call ends here: it is as claimed, or this is why it is not."""
        why = _difference(manager, self.call, self.claim, error)
        if why:
            self.whys.append(why)
            return
        if not error:
            _settle_reuse(manager, self.call, self.facts)
        yield manager


def _request(call: AllocateCall, resource: str, reuse: Mapping[str, set[str]]) -> Request:
    return Request(
        pod=call.pod,
        container=call.container,
        resource=resource,
        required=call.limits[resource],
        affinity=call.affinity,
        reusable=frozenset(reuse.get(resource, ())),
    )


def _settle_reuse(manager: ManagerImpl, call: AllocateCall, facts: DeviceFacts) -> None:
    keeps = call.is_restartable and facts.restartable_init_keeps_devices
    keep_or_pass_on(manager, call.pod, call.container, pass_on=call.is_init and not keeps)


def misfit(manager: ManagerImpl, request: Request, plan: Plan, devices: frozenset[str]) -> str:
    """Why a plan cannot have given these devices; empty if it can.

    Args:
        manager: in which the plan was made.
        request: that it was made for.
        plan: what to take from.
        devices: what is said to have been taken.
    """
    resource, size = request.resource, plan.size
    if not devices:
        return f"the limit of {size} {resource} is granted, but no device is held"
    if len(devices) != size:
        return f"{len(devices)} devices of {resource} are held where the limit is {size}"
    taken: frozenset[str] = frozenset()
    for tier in plan.tiers:
        fresh = tier.devices - taken
        needed = size - len(taken)
        chosen = devices & fresh
        if len(chosen) < min(needed, len(fresh)):
            stray, left = min(devices - taken - fresh), min(fresh - chosen)
            kind = next((later.name for later in plan.tiers if stray in later.devices), "")
            kind = kind or _not_offered(manager, resource, stray)
            return f"device {stray}, {kind}, was taken while {left}, {tier.name}, was left"
        taken |= chosen
        if len(taken) >= size:
            break
    return ""


def _not_offered(manager: ManagerImpl, resource: str, device: str) -> str:
    """What keeps a device from being taken at all."""
    if device in manager.allocated.get(resource, ()):
        return "in use"
    known = device in manager.all_devices.get(resource, ())
    return "unhealthy" if known else "not known to its plugin"


def _difference(manager: ManagerImpl, call: AllocateCall, claim: Claim, error: str) -> str:
    """Why an end with ``error`` is not the one claimed; empty if it is."""
    if error != claim.error:
        if not claim.error:
            return f"the kubelet fails here with: {error}"
        return (
            f"the kubelet fails here with {error!r}, not with {claim.error!r}"
            if error
            else (f"no limit of container {call.container} fails with: {claim.error}")
        )
    held = manager.pod_devices.held_by(call.pod, call.container)
    for resource in sorted(held.keys() | claim.devices.keys()):
        mine, theirs = held.get(resource), claim.devices.get(resource)
        if mine is None:
            return f"container {call.container} holds no devices of {resource}"
        if theirs is None:
            return f"container {call.container} holds devices of {resource}"
        if _sorted(mine) != theirs:
            return _record_difference(call, resource, _sorted(mine), theirs)
    return ""


def _record_difference(
    call: AllocateCall, resource: str, mine: DevicesPerNUMA, theirs: DevicesPerNUMA
) -> str:
    for node in sorted(mine.keys() | theirs.keys()):
        if mine.get(node) != theirs.get(node):
            return (
                f"container {call.container} holds {_listed(mine.get(node))} of {resource} "
                f"under NUMA node {node}, not {_listed(theirs.get(node))}"
            )
    return ""


def _listed(devices: list[str] | None) -> str:
    return ", ".join(devices) if devices else "nothing"


def _sorted(record: DevicesPerNUMA) -> DevicesPerNUMA:
    return {node: sorted(devices) for node, devices in record.items()}


def _no_such_end(claim: Claim) -> str:
    return f"no order of the limits ends with: {claim.error or 'success'}"
