"""Allocating devices for one container, one limit after the other (manager.go Allocate)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from kubeledger.kubelet.devicemanager.manager import (
    DevicesPerNUMA,
    ManagerImpl,
    NoContainers,
    RpcError,
    devices_of,
)
from kubeledger.kubelet.devicemanager.plans import Plan, Refusal, Request, plans, take


class AllocateCall(msgspec.Struct, frozen=True, kw_only=True):
    """The device manager is asked to allocate for a container.

    Attributes:
        pod: UID.
        limits: resource -> count, rounded up; all limits of the container, cpu and memory too.
        claimed: resources of the container that a resource claim of the pod stands for.
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

    def served(self, manager: ManagerImpl) -> tuple[str, ...]:
        """Limits that may be the device manager's: all, but for those a claim stands for.

        Source: v1.36.2 pkg/kubelet/cm/devicemanager/manager.go isDRAExtendedResource
        """
        if manager.facts.claimed_resources_skipped:
            return tuple(resource for resource in self.limits if resource not in self.claimed)
        return tuple(self.limits)

    def collect(self, manager: ManagerImpl) -> None:
        """Collect stranded devices, which the kubelet does before the first limit it serves."""
        if self.sources_ready:
            manager.update_allocated_devices(self.active_pods)

    def request(self, manager: ManagerImpl, resource: str) -> Request:
        """One of its limits, with the devices that the pod may use again."""
        reuse = manager.devices_to_reuse.get(self.pod, {})
        return Request(
            pod=self.pod,
            container=self.container,
            resource=resource,
            required=self.limits[resource],
            affinity=self.affinity,
            reusable=frozenset(reuse.get(resource, ())),
            runs_already=self.ran_at_start and not self.sources_ready,
        )


class Served(NamedTuple):
    """One limit that was served.

    Attributes:
        needed: False where the container holds what it asks for, so nothing was to do.
        devices: granted just now; none after an error.
        error: the kubelet's text, empty for success.
    """

    request: Request
    needed: bool
    devices: frozenset[str]
    error: str


def decide(
    manager: ManagerImpl, call: AllocateCall, on_served: Callable[[Served], None] | None = None
) -> str:
    """Allocate for one container, changing ``manager``; the error, or empty.

    Limits are served in the order given; the first error ends the call, and what was
    granted before it stays. ``on_served`` gets each limit as it is served.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go Allocate,
        allocateContainerResources
    Differs: no map order; the checkpoint is not written.
    """
    begin_pod(manager, call.pod)
    collected = False
    for resource in call.served(manager):
        if not manager.is_device_plugin_resource(resource):
            continue
        if not collected:
            call.collect(manager)
            collected = True
        request = call.request(manager, resource)
        plan = next(plans(manager, request))
        devices = take(plan, manager.all_devices.get(resource, ()))
        error = carry_out(manager, request, plan, devices)
        if on_served is not None:
            needed = isinstance(plan, Refusal) or plan.size > 0
            on_served(Served(request, needed, frozenset() if error else devices, error))
        if error:
            return error
    end_container(manager, call)
    return ""


def begin_pod(manager: ManagerImpl, pod: str) -> None:
    """A container of a pod is served: what init containers of other pods left is forgotten.

    Init containers end before the next one begins, so what they hold is free for those
    that follow; what an app container or a restartable init container (sidecar) takes is
    its own from then on.
    """
    manager.devices_to_reuse = {pod: manager.devices_to_reuse.get(pod, {})}


def end_container(manager: ManagerImpl, call: AllocateCall) -> None:
    """A container was served: offer its devices to those that follow, or not.

    All devices on record count, so the set is built up again when a pod is admitted once
    more after a kubelet restart.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/pod_devices.go
        addContainerAllocatedResources, removeContainerAllocatedResources
    """
    keeps = call.is_restartable and manager.facts.restartable_init_keeps_devices
    reuse = manager.devices_to_reuse[call.pod]
    for resource, record in manager.pod_devices.held_by(call.pod, call.container).items():
        before, held = reuse.get(resource, set()), devices_of(record)
        reuse[resource] = before | held if call.is_init and not keeps else before - held


def carry_out(
    manager: ManagerImpl, request: Request, plan: Plan | Refusal, devices: frozenset[str]
) -> str:
    """Do what was planned, with these devices of the plan; the error, or empty.

    Devices picked before a refusal stay in use, until what is in use is rebuilt from the
    records, as it is when the plugin fails. What the container got of other resources before is
    on record and stays. After an answer without a response for the container nothing is rebuilt.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go allocateContainerResources
    """
    resource = request.resource
    if isinstance(plan, Refusal):
        if plan.leaked is not None:
            manager.allocated.setdefault(resource, set()).update(plan.leaked)
        return plan.error
    if not plan.size:
        return ""
    manager.allocated.setdefault(resource, set()).update(devices)
    plugin = manager.plugin(resource)
    if plugin is None:
        manager.restore_allocated()
        return f"unknown Device Plugin {resource}"
    match plugin.allocate(devices):
        case RpcError(text):
            manager.restore_allocated()
            return text
        case NoContainers(printed):
            return f"no containers return in allocation response {printed}"
        case None:
            record = manager.devices_per_numa(resource, devices)
            manager.pod_devices.insert(request.pod, request.container, resource, record)
            return ""


# Whether the kubelet can have come to a recorded allocation.
#
# The kubelet has three choices, all by Go's map order: which of a container's limits it
# serves first, which devices it takes from a set that holds more than needed, and up to
# 1.21 in which order it looks at NUMA nodes. :func:`admissible` takes the choices from the claim
# where they show in it, and tries all others; what remains open (devices that leaked) it hands on
# as several possible managers.


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
