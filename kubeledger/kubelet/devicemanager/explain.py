"""Whether the kubelet can have come to a recorded allocation, and why not.

The kubelet has three choices, all by Go's map order: which of a container's limits it
serves first, which devices it takes from a set that holds more than needed, and up to
1.21 in which order it looks at NUMA nodes. :func:`admissible` takes the choices from the claim
where they show in it, and tries all others; what remains open (devices that leaked) it hands on
as several possible managers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeledger.kubelet.devicemanager.allocate import (
    AllocateCall,
    begin_pod,
    carry_out,
    end_container,
)
from kubeledger.kubelet.devicemanager.manager import DevicesPerNUMA, ManagerImpl, devices_of
from kubeledger.kubelet.devicemanager.plans import Plan, Request, plans, take


def admissible(
    manager: ManagerImpl, call: AllocateCall, error: str, devices: Mapping[str, DevicesPerNUMA]
) -> list[ManagerImpl]:
    """Every memory the device manager may have after a call with this end; none if impossible.

    Args:
        manager: before the call; not changed.
        error: the kubelet's text, empty for success.
        devices: resource -> NUMA node -> sorted IDs that the container holds afterwards.
    """
    begin = manager.fork()
    begin_pod(begin, call.pod)
    search = _Search(call, error, devices)
    return list(search.serve(begin, frozenset(call.served(begin)), collected=False))


class _Search:
    """All ways through the limits of a container that end as claimed."""

    def __init__(
        self, call: AllocateCall, error: str, devices: Mapping[str, DevicesPerNUMA]
    ) -> None:
        self.call, self._error, self._devices = call, error, devices
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
        claimed = frozenset(devices_of(self._devices.get(resource, {})))
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
        held = manager.pod_devices.held_by(self.call.pod, self.call.container)
        shown = {
            resource: {node: sorted(ids) for node, ids in record.items()}
            for resource, record in held.items()
        }
        if error != self._error or shown != self._devices:
            return
        if not error:
            end_container(manager, self.call)
        yield manager


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
