"""Hints that the device manager gave: can its devices have led to them?

Only what is certain counts: with devices on unknown NUMA nodes, a set of nodes must have a
hint if it has one wherever they are, and must have none if it has none anywhere.
"""

from __future__ import annotations

from kubeledger.topologymanager.bitmask import BITS_MAX, iterate_bit_masks, mask_of
from kubeledger.topologymanager.records import Hint
from kubeledger.verify.devices.words import listing, nodes_text, times
from kubeledger.verify.devices.worlds import Evidence

__all__ = ["wrong_hints"]

_NODES_MAX = 8
"""More nodes have too many sets to look at."""


def wrong_hints(evidence: Evidence, hints: tuple[Hint, ...] | None) -> str:
    """Why the device manager cannot have given these hints; empty if it can.

    Args:
        evidence: what was known then; the affinity is not looked at.
        hints: recorded ones of one resource; None for no preference.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/topology_hints.go
        generateDeviceTopologyHints; v1.36.2 the same, over fewer nodes
    Differs: counts are spans where NUMA nodes are not known.
    """
    if not evidence.is_exact() or not evidence.numa_nodes or len(evidence.numa_nodes) > _NODES_MAX:
        return ""
    held = evidence.held or frozenset()
    usable = held or (evidence.free | evidence.reuse)
    if hints is None:
        return _without_topology(evidence)
    if held and len(held) != evidence.required:
        return "" if not hints else "the container holds another number of devices"
    if len(usable) < evidence.required:
        if not hints:
            return ""
        return (
            f"{times(evidence.required, 'device')} of {evidence.resource} are needed and "
            f"{len(usable)} could be used ({listing(usable)}), so there is no hint"
        )
    return _masks(evidence, usable, hints)


def _without_topology(evidence: Evidence) -> str:
    for device in sorted(evidence.listed.healthy):
        known, told = evidence.nodes_of(device)
        nodes = [node for node in told or () if 0 <= node < BITS_MAX]
        if known and nodes and nodes != [0]:
            return f"device {device} is on {nodes_text(mask_of(nodes))}, so there are hints"
    return ""


def _masks(evidence: Evidence, usable: frozenset[str], hints: tuple[Hint, ...]) -> str:
    machine = evidence.numa_nodes
    some_unknown = not all(evidence.nodes_of(device)[0] for device in evidence.listed.known)
    if evidence.facts.hints_on_device_nodes_only and len(machine) > 1 and some_unknown:
        return ""
    given = {hint.numa_nodes: hint for hint in hints}
    required = _spans(evidence, evidence.reuse if not evidence.held else frozenset())
    every = _spans(evidence, usable)
    for mask in iterate_bit_masks(machine):
        nodes = tuple(node for node in machine if mask >> node & 1)
        low, high = _touching(every, mask)
        _, kept = _touching(required, mask)
        if nodes in given:
            if high < evidence.required or kept < len(required):
                return f"{nodes_text(mask)} cannot serve {times(evidence.required, 'device')}"
        elif _must_be(evidence, low, required, mask):
            return f"{nodes_text(mask)} can serve the request, and no hint says so"
    return _preferred(evidence, given)


def _must_be(evidence: Evidence, low: int, required: list[int | None], mask: int) -> bool:
    if evidence.facts.hints_on_device_nodes_only and len(evidence.numa_nodes) > 1:
        return False  # only nodes with devices are looked at
    return low >= evidence.required and _touching(required, mask)[0] == len(required)


def _preferred(evidence: Evidence, given: dict[tuple[int, ...] | None, Hint]) -> str:
    """On a machine with one node, no set is smaller."""
    if len(evidence.numa_nodes) != 1:
        return ""
    wrong = [hint for hint in given.values() if not hint.preferred]
    return (
        f"{nodes_text(1 << evidence.numa_nodes[0])} is all there is, and preferred" if wrong else ""
    )


def _spans(evidence: Evidence, devices: frozenset[str]) -> list[int | None]:
    """(n,) masks of devices; None for one whose nodes are not known."""
    masks: list[int | None] = []
    for device in sorted(devices):
        known, nodes = evidence.nodes_of(device)
        masks.append(mask_of(n for n in nodes or () if 0 <= n < BITS_MAX) if known else None)
    return masks


def _touching(masks: list[int | None], mask: int) -> tuple[int, int]:
    certain = sum(1 for one in masks if one is not None and one & mask)
    return certain, certain + sum(1 for one in masks if one is None)
