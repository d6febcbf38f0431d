"""Recorded topology hints as the deciders have them."""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kubelet.topologymanager.bitmask import BITS_MAX, mask_of
from kubeledger.kubelet.topologymanager.hint import Hints, TopologyHint
from kubeledger.model.bodies.topologymanager import Hint


def mask_of_hint(hint: Hint) -> int | None:
    """Its NUMA nodes as the kubelet holds them; None for no preference."""
    if hint.numa_nodes is None:
        return None
    return mask_of(node for node in hint.numa_nodes if 0 <= node < BITS_MAX)


def masks_of(hints: Mapping[str, tuple[Hint, ...] | None]) -> dict[str, Hints | None]:
    """Hints by resource."""
    return {
        name: None
        if given is None
        else tuple(TopologyHint(mask_of_hint(hint), hint.preferred) for hint in given)
        for name, given in hints.items()
    }
