"""What must hold of devices, whatever happens on a node."""

from collections.abc import Iterator
from typing import Any

from kubeledger.model.bodies.devicemanager import DevicesAllocated, DevicesReleased
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    PodConfigChanged,
    PodEvicted,
    PodRejected,
)
from kubeledger.model.record import Record
from kubeledger.simulate.engine.plan import Plan, PluginScript

Device = tuple[str, str]
_LATE = 1_000_000_000
"""Deaths are recorded when containers are listed the next time."""
_NEVER = 2**63


def held_by_one(plan: Plan, records: list[Record]) -> Iterator[str]:
    """No two pods hold a device, nor two containers of a pod that run side by side."""
    holders: dict[Device, str] = {}
    containers: dict[Device, str] = {}
    main = {
        (p.manifest["metadata"]["uid"], c["name"])
        for p in plan.pods
        for c in p.manifest["spec"]["containers"]
    }
    died_ns = {r.body.container_id: r.ts_ns for r in records if isinstance(r.body, ContainerDied)}
    gone_ns = {
        p.manifest["metadata"]["uid"]: plan.start_ns + p.deleted_ns
        for p in plan.pods
        if p.source == "file" and p.deleted_ns is not None
    }
    running: set[tuple[str, str]] = set()
    failed: set[str | None] = set()
    for record in records:
        body = record.body
        if isinstance(body, ContainerStarted) and body.pod_uid:
            running.add((body.pod_uid, body.container_id))
        elif isinstance(body, ContainerDied) and body.pod_uid:
            running.discard((body.pod_uid, body.container_id))
        elif isinstance(body, PodConfigChanged) and body.operation == "ADD":
            failed.discard(body.pod_uid)
        elif isinstance(body, PodRejected | PodEvicted):
            failed.add(body.pod_uid)
        elif isinstance(body, PodPreempted):
            failed.add(body.victim_uid)
        elif isinstance(body, DevicesReleased):
            for device in [each for each, uid in holders.items() if uid == body.pod_uid]:
                del holders[device]
                containers.pop(device, None)
            # A pod that failed, or whose file is gone, counts no more, though something of it
            # runs still.
            left = [
                c
                for uid, c in running
                if uid == body.pod_uid not in failed
                and gone_ns.get(uid, _NEVER) > record.ts_ns
                and died_ns.get(c, _NEVER) > record.ts_ns + _LATE
            ]
            if left:
                yield f"{record.seq}: devices of {body.pod_uid} released, {left} run"
        elif isinstance(body, DevicesAllocated):
            assert body.pod_uid is not None
            for device_id in body.device_ids:
                device = (body.resource, device_id)
                other = holders.setdefault(device, body.pod_uid)
                if other != body.pod_uid:
                    yield f"{record.seq}: {device} goes to {body.pod_uid}, {other} holds it"
                if (body.pod_uid, body.container) in main:
                    sibling = containers.setdefault(device, body.container)
                    if sibling != body.container:
                        yield f"{record.seq}: {device} is of {sibling} and {body.container}"


def within_reports(plan: Plan, records: list[Record]) -> Iterator[str]:
    """What is given to a container is of those that its plugin offered, and healthy then."""
    plugins = {plugin.resource: plugin for plugin in plan.plugins}
    held: set[tuple[Any, ...]] = set()
    for record in records:
        body = record.body
        if isinstance(body, DevicesReleased):
            held = {each for each in held if each[0] != body.pod_uid}
        if not isinstance(body, DevicesAllocated):
            continue
        plugin = plugins.get(body.resource)
        if plugin is None:
            yield f"{record.seq}: no plugin offers {body.resource}"
            continue
        if unknown := set(body.device_ids) - {device.id for device in plugin.devices}:
            yield f"{record.seq}: {sorted(unknown)} of {body.resource} were never offered"
        mine = {(body.pod_uid, body.resource, device) for device in body.device_ids}
        if body.told_by == "call":
            fresh = {device for _, _, device in mine - held}
            ill = fresh - _healthy(plugin, record.ts_ns - plan.start_ns)
            if ill:
                yield f"{record.seq}: {sorted(ill)} of {body.resource} are not healthy"
        held |= mine


def _healthy(plugin: PluginScript, at_ns: int) -> set[str]:
    """Devices that are healthy at a time or within the second before it."""
    healthy: set[str] = set()
    for step in plugin.steps:
        if step.at_ns > at_ns:
            break
        everything = {device.id for device in plugin.devices}
        recent = at_ns - step.at_ns < 1_000_000_000
        if step.does == "register":
            healthy = everything
        elif step.does == "healthy":
            healthy = healthy | set(step.devices)
        elif not recent:
            healthy = set() if step.does == "crash" else healthy - set(step.devices)
    return healthy
