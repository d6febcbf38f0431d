"""Sentences about devices, and about what was there when a container asked for some."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.verify.rules.devices.evidence import Evidence

_LISTED_MAX = 16
_SHOWN_MAX = 8


def listing(ids: Collection[str]) -> str:
    """IDs in order; a long list is cut."""
    ordered = sorted(ids)
    more = f" and {len(ordered) - _LISTED_MAX} more" if len(ordered) > _LISTED_MAX else ""
    return f"{', '.join(ordered[:_LISTED_MAX])}{more}" if ordered else "none"


def joined(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = [*parts] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def times(count: int, noun: str) -> str:
    """``1 device``, ``2 devices``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nodes_text(mask: int | None) -> str:
    """``NUMA node 0``, ``NUMA nodes 0 and 1``, ``any NUMA node``."""
    if mask is None:
        return "any NUMA node"
    nodes = [str(node) for node in bits_of(mask)]
    return f"NUMA node{'s' if len(nodes) != 1 else ''} {joined(nodes) or 'none'}"


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
    reused, free = devices & evidence.reuse, evidence.perhaps_free
    fresh = devices - reused
    out_of = f"the {times(len(free), 'free healthy device')} {listing(free)}"
    clauses = [f"{_were(reused)} taken over from an init container of the pod"] if reused else []
    clauses += [f"{_were(fresh)} taken out of {out_of}"] if fresh else []
    _, container, resource = evidence.holder
    asks = f"container {container} asks for {evidence.required} {resource}"
    parts = [f"{asks}: {' and '.join(clauses)}", *surroundings(evidence).split("; ")[1:]]
    if fresh and len(set(evidence.affinities)) == 1 and (mask := evidence.affinities[0]):
        wanted = set(bits_of(mask))
        on_it = [d for d in free if wanted.intersection(evidence.nodes_of(d)[1] or ())]
        are = "is" if len(on_it) == 1 else "are"
        aligned = f"the container is aligned to {nodes_text(mask)}"
        parts.append(f"{aligned}, where {listing(on_it)} {are}")
    return "; ".join(parts)


def _were(devices: Collection[str]) -> str:
    return f"{joined(sorted(devices))} {'was' if len(devices) == 1 else 'were'}"
