"""Why hints merge to what they do, and why a policy admits or not; whether a merge could have been.

There is no choice here: which order Go's maps give the hints in cannot show in the result (see
``policy``). So only what ``merge`` gives is admissible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

import msgspec

from kubeledger.kubelet.profile.resourcemanagers import TopologyFacts
from kubeledger.kubelet.topologymanager.policy import (
    Hints,
    Policy,
    ProviderHints,
    TopologyHint,
    bits_of,
    filter_providers_hints,
    filter_single_numa_hints,
    mask_of,
    mask_text,
    max_of_min_affinity_counts,
    merge,
    merged_masks,
    preferred_masks,
)


def hint_text(hint: TopologyHint) -> str:
    """As the kubelet logs a hint."""
    affinity = "<nil>" if hint.affinity is None else mask_text(hint.affinity)
    return f"{{{affinity} {str(hint.preferred).lower()}}}"


def merge_reason(
    policy: Policy, providers: Iterable[ProviderHints], facts: TopologyFacts, merged: TopologyHint
) -> str:
    """The rule by which a policy comes to its hint."""
    if policy.name == "none":
        return "this policy collects no hints"
    hints = filter_providers_hints(providers)
    alone = ""
    if policy.name == "single-numa-node":
        hints = filter_single_numa_hints(hints)
        alone = "of preferred hints of one node, or of any, "
    all_nodes = mask_of(policy.numa_nodes)
    if not merged_masks(all_nodes, ({hint.affinity for hint in each} for each in hints)):
        return f"{alone}no combination has a node in common, which leaves all nodes, not preferred"
    if not merged.preferred:
        return f"{alone}{_not_preferred(hints, facts)}"
    if preferred_masks(all_nodes, hints, facts) == {merged.affinity}:
        return f"{alone}no other combination is preferred"
    if merged.affinity is None:
        return f"{alone}all combine to all nodes, which is given as any"
    return f"{alone}of the preferred combinations it has {_best(policy)}"


def admit_reason(policy: Policy) -> str:
    """What a policy admits."""
    if policy.name in ("none", "best-effort"):
        return "it admits with any hint"
    return "it admits only with a preferred hint"


def _not_preferred(hints: list[Hints], facts: TopologyFacts) -> str:
    needs = "of hints that are all preferred"
    if facts.preferred_needs_equal_masks:
        needs += " and name the same nodes"
    none = f"no combination is {needs}"
    if not facts.fits_the_widest_need:
        return f"{none}, so the fewest nodes win, then the lowest"
    wanted = max_of_min_affinity_counts(hints)
    nodes = "1 node" if wanted == 1 else f"{wanted} nodes"
    return f"{none}, so the nearest to {nodes} wins, what the neediest resource requires"


def _best(policy: Policy) -> str:
    if policy.distances is None or policy.name == "single-numa-node":
        return "the fewest nodes, then the lowest"
    return "the fewest nodes, then the nearest to each other, then the lowest"


def admissible(
    policy: Policy,
    providers: Sequence[ProviderHints],
    facts: TopologyFacts,
    claimed: tuple[TopologyHint, bool],
) -> str:
    """Why ``claimed`` could not have come of the merge; empty if it could."""
    hint, fits = merge(policy, providers, facts)
    claimed_hint, claimed_fits = claimed
    if claimed_hint != hint:
        return (
            f"the hints merge to {hint_text(hint)} and not to {hint_text(claimed_hint)} "
            f"under policy {policy.name}: {merge_reason(policy, providers, facts, hint)}"
        )
    if claimed_fits != fits:
        verb = "admits" if fits else "does not admit"
        why = admit_reason(policy)
        return f"policy {policy.name} {verb} with the hint {hint_text(hint)}: {why}"
    return ""


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
