"""Whose hints a policy refuses, in words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Final

import msgspec

from kubeledger.kubelet.profile.resourcemanagers import TopologyFacts
from kubeledger.kubelet.topologymanager.policy import (
    Hints,
    Policy,
    bits_of,
    merge,
)

_RESOURCES_MAX: Final = 8
"""Of more together the fewest are not looked for."""


class Blame(msgspec.Struct, frozen=True):
    """The resources whose hints a policy refuses.

    Attributes:
        resources: their hints, by name.
        apart: each of them is admitted by itself; they have no common nodes.
    """

    resources: Mapping[str, Hints | None]
    apart: bool


def blamed(policy: Policy, hints: Mapping[str, Hints | None], facts: TopologyFacts) -> Blame | None:
    """Whose hints a policy refuses: all that it refuses alone, else the fewest together.

    Of several sets of equally many the first by name is taken; None where it admits.
    """
    names = sorted(hints)
    alone = {name: hints[name] for name in names if not _admits(policy, {name: hints[name]}, facts)}
    if alone:
        return Blame(alone, apart=False)
    for size in range(2, min(len(names), _RESOURCES_MAX) + 1):
        for some in combinations(names, size):
            together = {name: hints[name] for name in some}
            if not _admits(policy, together, facts):
                return Blame(together, apart=True)
    return None


def blame_text(blame: Blame, policy: Policy) -> str:
    """The blame in words."""
    given = list(blame.resources.items())
    if blame.apart:
        places = " and ".join(
            f"{name} on {_places(_preferred(hints or ()))}" for name, hints in given
        )
        return f"each fits by itself, {places}, but not on the same NUMA nodes"
    return " and ".join(_one(name, hints or (), policy) for name, hints in given)


def _one(name: str, hints: Hints, policy: Policy) -> str:
    """Why a policy refuses the hints of one resource."""
    if not hints:
        return f"{name} fits on no NUMA nodes"
    if preferred := _preferred(hints):
        return f"{name} needs {_places(preferred)} where policy {policy.name} admits one"
    return f"{name} fits on {_places(hints)} only, and would fit on fewer if nothing was in use"


def _preferred(hints: Hints) -> Hints:
    return tuple(hint for hint in hints if hint.preferred)


def _places(hints: Hints) -> str:
    """The smallest groups of nodes: ``NUMA node 0 or NUMA nodes 1 and 2``."""
    masks = [hint.affinity for hint in hints if hint.affinity is not None]
    if len(masks) < len(hints):
        return "any NUMA node"
    fewest = min(map(int.bit_count, masks))
    return " or ".join(_nodes(mask) for mask in masks if mask.bit_count() == fewest)


def _nodes(mask: int) -> str:
    *most, last = map(str, bits_of(mask))
    return f"NUMA nodes {', '.join(most)} and {last}" if most else f"NUMA node {last}"


def _admits(policy: Policy, hints: Mapping[str, Hints | None], facts: TopologyFacts) -> bool:
    return merge(policy, [hints], facts)[1]
