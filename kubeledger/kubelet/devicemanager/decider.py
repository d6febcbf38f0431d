"""Device manager: decide one container's Allocate, and judge a recorded one.

The kubelet has three choices, all by Go's map order: which of a container's limits it
serves first, which devices it takes from a set that holds more than needed, and up to
1.21 in which order it looks at NUMA nodes. ``decide`` takes limits and devices in the
order in which they were written, which Go favours where a map is small. ``admissible``
takes the choices from the claim where they show in it, and tries all others; what
remains open (devices that leaked) it hands on as several possible managers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from kubeledger.kubelet.devicemanager.allocate import Plan, Refusal, Request, plans, take
from kubeledger.kubelet.devicemanager.calls import AllocateCall, Claim, request_of
from kubeledger.kubelet.devicemanager.grant import grant, refuse
from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.devicemanager.pod_devices import devices_of
from kubeledger.kubelet.devicemanager.refute import difference, misfit, refute
from kubeledger.kubelet.devicemanager.reuse import keep_or_pass_on, reusable_devices
from kubeledger.kubelet.profile.devices import DeviceFacts

__all__ = ["AllocateCall", "Claim", "Found", "Served", "admissible", "decide"]


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


class Found(msgspec.Struct, frozen=True):
    """What came of judging a claim.

    Attributes:
        managers: every memory the device manager may have afterwards; none if impossible.
        why: why it is impossible; empty if it is not.
    """

    managers: list[ManagerImpl]
    why: str = ""


def decide(
    manager: ManagerImpl,
    call: AllocateCall,
    facts: DeviceFacts,
    on_served: Callable[[Served], None] | None = None,
) -> str:
    """Allocate for one container, changing ``manager``; the error, or empty.

    Limits are served in the order given; the first error ends the call, and what was
    granted before it stays. ``on_served`` gets each limit as it is served.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go Allocate,
        allocateContainerResources
    Differs: no map order; the checkpoint is not written.
    """
    reusable_devices(manager, call.pod)
    collected = False
    for resource in call.served(facts):
        if not manager.is_device_plugin_resource(resource):
            continue
        if not collected:
            call.collect(manager)
            collected = True
        request = request_of(manager, call, resource)
        plan = next(plans(manager, request, facts, runs_already=call.runs_already))
        devices: frozenset[str] = frozenset()
        if isinstance(plan, Refusal):
            error = refuse(manager, request, plan)
        elif plan.size:
            devices = take(plan, manager.all_devices.get(resource, ()))
            error = grant(manager, request, devices, facts)
        else:
            error = ""
        if on_served is not None:
            needed = isinstance(plan, Refusal) or plan.size > 0
            on_served(Served(request, needed, frozenset() if error else devices, error))
        if error:
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
    managers = list(search.serve(begin, frozenset(call.served(facts)), collected=False))
    return Found(managers) if managers else Found([], refute(begin, call, claim, facts))


class _Search:
    """All ways through the limits of a container that end as claimed."""

    def __init__(self, call: AllocateCall, claim: Claim, facts: DeviceFacts) -> None:
        self.call, self.claim, self.facts = call, claim, facts
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
        request = request_of(manager, self.call, resource)
        served = False
        for plan in plans(manager, request, self.facts, runs_already=self.call.runs_already):
            state = manager.fork()
            if isinstance(plan, Refusal):
                yield from self._end(state, refuse(state, request, plan))
                continue
            if plan.size:
                devices, error = self._granted(state, request, plan)
                if error:
                    yield from self._end(state, error)
                    continue
                if misfit(manager, request, plan, devices):
                    continue
            if not served:
                # Which order of nodes led to the same grant makes no difference any more.
                served = True
                yield from self.serve(state, left, collected=True)

    def _granted(
        self, manager: ManagerImpl, request: Request, plan: Plan
    ) -> tuple[frozenset[str], str]:
        """Grant what is claimed; a plugin that refuses does so whatever the devices are."""
        claimed = frozenset(devices_of(self.claim.devices.get(request.resource, {})))
        devices = claimed or take(plan, manager.all_devices.get(request.resource, ()))
        error = grant(manager, request, devices, self.facts)
        return claimed, error

    def _end(self, manager: ManagerImpl, error: str) -> Iterator[ManagerImpl]:
        """The call ends here; its manager, if that is as claimed."""
        if difference(manager, self.call, self.claim, error):
            return
        if not error:
            _settle_reuse(manager, self.call, self.facts)
        yield manager


def _settle_reuse(manager: ManagerImpl, call: AllocateCall, facts: DeviceFacts) -> None:
    keeps = call.is_restartable and facts.restartable_init_keeps_devices
    keep_or_pass_on(manager, call.pod, call.container, pass_on=call.is_init and not keeps)
