"""What was there when a container asked for devices, in words."""

from __future__ import annotations

from kubeledger.topologymanager.bitmask import bits_of
from kubeledger.verify.devices.desk import Desk
from kubeledger.verify.devices.words import joined, listing, nodes_text, times
from kubeledger.verify.devices.worlds import Evidence, Topic

__all__ = ["open_inputs", "surroundings", "taken"]

_SHOWN_MAX = 8


def open_inputs(
    evidence: Evidence, topics: tuple[Topic, ...], devices: frozenset[str]
) -> tuple[str, ...]:
    """The open topics as inputs that are missing."""
    resource = evidence.resource
    unknown = sorted(
        device for device in evidence.perhaps_free | devices if not evidence.nodes_of(device)[0]
    )
    phrases: dict[Topic, str] = {
        "health": f"the healthy devices of {resource} at that time",
        "use": f"all holders of {resource} at that time",
        "numa": f"the NUMA nodes of {listing(unknown)} of {resource}",
        "affinity": f"the affinity of container {evidence.container}",
        "preferred": f"the answer to GetPreferredAllocation of the plugin of {resource}",
        "registered": f"whether {resource} was registered at that time",
    }
    return tuple(phrases[topic] for topic in topics)


def surroundings(evidence: Evidence, desk: Desk) -> str:
    """Which devices were there, which were free, and who held the others."""
    listed, in_use = evidence.listed, evidence.in_use
    free = evidence.free if evidence.is_exact() else evidence.perhaps_free
    perhaps = "" if evidence.is_exact() else "perhaps "
    text = f"{times(len(free), f'{perhaps}free healthy device')}: {listing(free)}"
    parts = [text]
    by_holder: dict[str, list[str]] = {}
    for device in sorted(in_use.certain | in_use.maybe):
        holders = in_use.sharers.get(device) or (in_use.holders[device],)
        names = joined(f"{desk.name_of(pod)}/{container}" for pod, container, _ in holders)
        held = "held" if device in in_use.certain else "perhaps held"
        by_holder.setdefault(f"{held} by {names}", []).append(device)
    for held_by, ids in list(by_holder.items())[:_SHOWN_MAX]:
        parts.append(f"{listing(ids)} {held_by}")
    sick = listed.known - listed.maybe if listed.complete else frozenset()
    if sick:
        parts.append(f"{listing(sick)} not healthy")
    return "; ".join(parts)


def taken(evidence: Evidence, devices: frozenset[str], desk: Desk) -> str:
    """``gpu-1 was taken out of the 3 free healthy devices gpu-1, gpu-2, gpu-3; ...``."""
    reused = devices & evidence.reuse
    fresh = devices - reused
    clauses = []
    if reused:
        clauses.append(
            f"{joined(sorted(reused))} {'was' if len(reused) == 1 else 'were'} taken over from an "
            "init container of the pod"
        )
    if fresh:
        free = evidence.perhaps_free
        clauses.append(
            f"{joined(sorted(fresh))} {'was' if len(fresh) == 1 else 'were'} taken out of the "
            f"{times(len(free), 'free healthy device')} {listing(free)}"
        )
    text = f"container {evidence.container} asks for {evidence.required} {evidence.resource}"
    text = f"{text}: {' and '.join(clauses)}"
    held = surroundings(evidence, desk).split("; ")[1:]
    aligned = _aligned(evidence)
    return "; ".join([text, *held, *([aligned] if aligned and fresh else [])])


def _aligned(evidence: Evidence) -> str:
    """What the stored affinity came to."""
    masks = {mask for mask in evidence.affinities if mask is not None}
    if len(masks) != 1 or None in evidence.affinities:
        return ""
    mask = masks.pop()
    wanted = set(bits_of(mask))
    on_it = [
        device
        for device in evidence.perhaps_free
        if wanted.intersection(evidence.nodes_of(device)[1] or ())
    ]
    return f"the container is aligned to {nodes_text(mask)}, where {listing(on_it)} {_are(on_it)}"


def _are(ids: list[str]) -> str:
    return "is" if len(ids) == 1 else "are"
