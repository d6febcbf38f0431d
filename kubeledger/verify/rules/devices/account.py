"""What was there when a container asked for devices, in words."""

from __future__ import annotations

from kubeledger.topologymanager.bitmask import bits_of
from kubeledger.verify.rules.devices.words import joined, listing, nodes_text, times
from kubeledger.verify.rules.devices.worlds import Evidence

__all__ = ["surroundings", "taken"]

_SHOWN_MAX = 8


def surroundings(evidence: Evidence) -> str:
    """Which devices were there, which were free, and who held the others."""
    listed, in_use = evidence.listed, evidence.in_use
    free = evidence.free if evidence.is_exact() else evidence.perhaps_free
    perhaps = "" if evidence.is_exact() else "perhaps "
    parts = [f"{times(len(free), f'{perhaps}free healthy device')}: {listing(free)}"]
    by_holder: dict[str, list[str]] = {}
    for device in sorted(in_use.certain | in_use.maybe):
        holders = in_use.holders[device]
        names = joined(f"{evidence.name_of(pod)}/{container}" for pod, container, _ in holders)
        held = "held" if device in in_use.certain else "perhaps held"
        by_holder.setdefault(f"{held} by {names}", []).append(device)
    for held_by, ids in list(by_holder.items())[:_SHOWN_MAX]:
        parts.append(f"{listing(ids)} {held_by}")
    if listed.complete and (sick := listed.known - listed.maybe):
        parts.append(f"{listing(sick)} not healthy")
    return "; ".join(parts)


def taken(evidence: Evidence, devices: frozenset[str]) -> str:
    """``gpu-1 was taken out of the 3 free healthy devices gpu-1, gpu-2, gpu-3; ...``."""
    reused = devices & evidence.reuse
    fresh = devices - reused
    clauses = []
    if reused:
        were = "was" if len(reused) == 1 else "were"
        of_init = "taken over from an init container of the pod"
        clauses.append(f"{joined(sorted(reused))} {were} {of_init}")
    if fresh:
        free = evidence.perhaps_free
        were = "was" if len(fresh) == 1 else "were"
        out_of = f"the {times(len(free), 'free healthy device')} {listing(free)}"
        clauses.append(f"{joined(sorted(fresh))} {were} taken out of {out_of}")
    _, container, resource = evidence.holder
    asks = f"container {container} asks for {evidence.required} {resource}"
    held = surroundings(evidence).split("; ")[1:]
    aligned = _aligned(evidence)
    parts = [f"{asks}: {' and '.join(clauses)}", *held, *([aligned] if aligned and fresh else [])]
    return "; ".join(parts)


def _aligned(evidence: Evidence) -> str:
    """What the stored affinity came to."""
    if len(set(evidence.affinities)) != 1 or (mask := evidence.affinities[0]) is None:
        return ""
    wanted = set(bits_of(mask))
    free = evidence.perhaps_free
    on_it = [d for d in free if wanted.intersection(evidence.nodes_of(d)[1] or ())]
    are = "is" if len(on_it) == 1 else "are"
    return f"the container is aligned to {nodes_text(mask)}, where {listing(on_it)} {are}"
