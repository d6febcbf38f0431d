"""Why the device manager gives a hint, or gives none: the devices on each set of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kubeledger.kubelet.devicemanager.topology_hints import Wanted


def preference(wanted: Wanted) -> str:
    """Why a resource has hints at all, or none."""
    if wanted.manager.has_topology_alignment(wanted.resource):
        return "one of its devices has a topology"
    return "none of its devices has a topology"


def no_hint(wanted: Wanted) -> str:
    """Why a resource with topology has an empty list."""
    asked, held = wanted.requested, len(wanted.held)
    if held and held != asked:
        return f"{_devices(held)} held, {asked} requested"
    if wanted.shortage is not None:
        return f"{_devices(wanted.shortage)} free, {asked} requested"
    return f"no set of nodes has all it must and {_devices(asked)} that can be had"


def given(wanted: Wanted, nodes: Sequence[int], *, preferred: bool) -> str:
    """Why there is this hint, with this preference."""
    asked = wanted.requested
    text = f"{_devices(_on(wanted, wanted.usable, nodes))} available there, {asked} requested"
    if preferred:
        return f"{text}, and no smaller set of nodes has {_devices(asked)}, used or not"
    return f"{text}, but a smaller set of nodes has {_devices(asked)}, used or not"


def not_given(wanted: Wanted, nodes: Sequence[int]) -> str:
    """Why there is no hint of these nodes."""
    if list(nodes) != sorted(set(nodes)):
        return "the nodes of a hint are listed in ascending order, each once"
    if not nodes or not set(nodes) <= set(wanted.nodes):
        return f"hints are made of the nodes {list(wanted.nodes)}"
    named, must = f"nodes {list(nodes)}", wanted.required
    if len(must) > _on(wanted, must, nodes):
        return f"{named} do not have all devices that init containers of the pod left"
    on, asked = _on(wanted, wanted.usable, nodes), wanted.requested
    if on < asked:
        return f"{_devices(on)} available on {named}, {asked} requested"
    return f"each set of nodes comes once, smaller ones first, and {named} not here"


def _on(wanted: Wanted, devices: Iterable[str], nodes: Collection[int]) -> int:
    """How many of the devices are on one of the nodes."""
    known = (wanted.manager.numa_node_ids(wanted.resource, device) for device in devices)
    return sum(not set(nodes).isdisjoint(each) for each in known)


def _devices(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"
