"""The four topology manager policies: one hint out of all providers', and whether to admit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, Literal, NamedTuple, assert_never

import msgspec

from kubeledger.kubelet.kube.containermanager import cpus_in
from kubeledger.kubelet.profile.resourcemanagers import TopologyFacts

BITS_MAX = 64


class NUMANodeError(ValueError):
    """A NUMA node that no mask can hold; the text is the kubelet's."""


def mask_of(nodes: Iterable[int]) -> int:
    """The mask with these nodes.

    Raises:
        NUMANodeError: a node below 0 or above 63.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/bitmask/bitmask.go NewBitMask
    """
    mask = 0
    for node in nodes:
        if not 0 <= node < BITS_MAX:
            raise NUMANodeError("bit number must be in range 0-63")
        mask |= 1 << node
    return mask


bits_of: Final = cpus_in
"""(n,) the nodes of a mask, ascending."""


def iterate_bit_masks(nodes: Sequence[int]) -> Iterator[int]:
    """Every mask over ``nodes`` but the empty one: by size, then by position in ``nodes``.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/bitmask/bitmask.go IterateBitMasks
    """
    singles = [1 << node for node in nodes]
    for size in range(1, len(singles) + 1):
        for chosen in combinations(singles, size):
            mask = 0
            for bit in chosen:
                mask |= bit
            yield mask


# A topology hint inside the deciders: a mask instead of a list of nodes.


class TopologyHint(NamedTuple):
    """One way to place a resource.

    Attributes:
        affinity: mask of NUMA nodes; None means any.
        preferred: no smaller set of nodes could do.
    """

    affinity: int | None
    preferred: bool


DONT_CARE = TopologyHint(affinity=None, preferred=True)
"""What a provider or resource without a preference counts as."""

IMPOSSIBLE = TopologyHint(affinity=None, preferred=False)
"""What a resource that fits nowhere counts as."""

Hints = tuple[TopologyHint, ...]
"""(n,) the ways to place one resource, in the order generated."""

ProviderHints = Mapping[str, Hints | None] | None
"""A hint provider's answer: resource -> hints; None for no preference, empty for no way."""


# The four topology manager policies: one hint out of those of all providers, and whether to admit.
#
# The kubelet goes through every combination of one hint a resource, ANDs their masks and
# keeps the best merged hint so far. What "best" means is a total order on merged hints,
# so the order of the combinations (Go maps) cannot show, and combinations that merge to
# the same hint need be seen once only: :func:`merged_masks` folds resource by resource.

Fitness = Callable[[int], tuple[int, ...]]
"""Mask -> sort key: the smaller, the fitter among hints of the same preference."""

Masks = set[int | None]
"""Masks of one resource's hints; None: any nodes."""
_ANYWHERE: Masks = {None}


def narrowest(mask: int) -> tuple[int, ...]:
    """Fewer nodes first, then the lower-numbered ones.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/bitmask/bitmask.go IsNarrowerThan
    Differs: a sort key instead of a comparison.
    """
    return (mask.bit_count(), mask)


def closest(distances: Mapping[int, Sequence[int]]) -> Fitness:
    """Fewer nodes first, then the nearer to each other, then the lower-numbered ones.

    Args:
        distances: NUMA node -> (n,) distance to node 0, 1, ...

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/numa_info.go Closest
    Differs: masks of the same size are compared by the sum of distances, not by the mean. Where
        the numbers of nodes have a gap, the kubelet crashes when it looks beyond a row; here
        that distance is 0.
    """

    def fitness(mask: int) -> tuple[int, ...]:
        nodes = bits_of(mask)
        rows = [distances[node] for node in nodes]
        far = sum(row[other] for row in rows for other in nodes if other < len(row))
        return (len(nodes), far, mask)

    return fitness


def filter_providers_hints(providers: Iterable[ProviderHints]) -> list[Hints]:
    """The hints of each resource of each provider, none left without one.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/policy.go filterProvidersHints
    """
    collected: list[Hints] = []
    for provider in providers:
        if not provider:
            collected.append((DONT_CARE,))
            continue
        for hints in provider.values():
            if hints is None:
                collected.append((DONT_CARE,))
            else:
                collected.append(hints or (IMPOSSIBLE,))
    return collected


def merged_masks(all_nodes: int, masks_by_resource: Iterable[Masks]) -> set[int]:
    """The nodes that the masks of some combination have in common, if any.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/policy.go mergePermutation
    Differs: a set of distinct results instead of a callback a combination.
    """
    merged = {all_nodes}
    for masks in masks_by_resource:
        if masks != _ANYWHERE:
            each = {all_nodes if mask is None else mask for mask in masks}
            merged = {mask & other for mask in merged for other in each}
    merged.discard(0)
    return merged


def preferred_masks(
    all_nodes: int, hints_by_resource: Iterable[Hints], facts: TopologyFacts
) -> set[int]:
    """The same of the combinations that count as preferred: of preferred hints alone.

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/policy.go mergePermutation
    Differs: as ``merged_masks``.
    """
    by_resource = [{h.affinity for h in hints if h.preferred} for hints in hints_by_resource]
    if not facts.preferred_needs_equal_masks:
        return merged_masks(all_nodes, by_resource)
    common: Masks = {None}
    for masks in by_resource:
        equal = common & masks
        if None in common:
            equal |= masks
        common = equal | common if None in masks else equal
    return merged_masks(all_nodes, [common])


def merge_filtered_hints(
    all_nodes: int, hints_by_resource: Sequence[Hints], fitness: Fitness, facts: TopologyFacts
) -> TopologyHint:
    """The best merged hint; all nodes, not preferred, if there is none.

    A preferred hint goes before others. Preferred ones go by ``fitness``. Of the others,
    up to 1.23 the narrowest is best; since 1.24 the one whose number of nodes is that of
    the resource that needs most, then the nearest number below it, then above it.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/policy.go mergeFilteredHints;
        v1.36.2 HintMerger.compare
    Differs: a sort key instead of a running comparison.
    """
    if preferred := preferred_masks(all_nodes, hints_by_resource, facts):
        return TopologyHint(min(preferred, key=fitness), preferred=True)
    merged = merged_masks(all_nodes, ({hint.affinity for hint in h} for h in hints_by_resource))
    if not facts.fits_the_widest_need:
        # The running best begins with all nodes, which only something narrower replaces.
        return TopologyHint(min(merged | {all_nodes}, key=fitness), preferred=False)
    wanted = max_of_min_affinity_counts(hints_by_resource)
    best = min(merged, key=lambda m: (_off_by(m, wanted), fitness(m)), default=all_nodes)
    return TopologyHint(best, preferred=False)


def max_of_min_affinity_counts(hints_by_resource: Iterable[Hints]) -> int:
    """Nodes that the resource that needs most of them can do with.

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/policy.go maxOfMinAffinityCounts
    """
    return max(
        (
            min((h.affinity.bit_count() for h in hints if h.affinity is not None), default=0)
            for hints in hints_by_resource
        ),
        default=0,
    )


def _off_by(mask: int, wanted: int) -> tuple[int, int]:
    """Sort key: the wanted number of nodes, then fewer (nearest first), then more."""
    off = mask.bit_count() - wanted
    return (off > 0, abs(off))


PolicyName = Literal["none", "best-effort", "restricted", "single-numa-node"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with what it knows of the machine.

    Attributes:
        numa_nodes: (n,) of the machine.
        distances: NUMA node -> (n,) distances; None unless the option
            prefer-closest-numa-nodes is on.
    """

    name: PolicyName
    numa_nodes: tuple[int, ...]
    distances: Mapping[int, Sequence[int]] | None = None


def merge(
    policy: Policy, providers: Iterable[ProviderHints], facts: TopologyFacts
) -> tuple[TopologyHint, bool]:
    """The best hint, and whether the policy admits with it.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/policy_none.go, policy_best_effort.go,
        policy_restricted.go, policy_single_numa_node.go Merge
    """
    match policy.name:
        case "none":
            return TopologyHint(affinity=None, preferred=False), True
        case "best-effort":
            return _merge_all(policy, providers, facts), True
        case "restricted":
            hint = _merge_all(policy, providers, facts)
            return hint, hint.preferred
        case "single-numa-node":
            hint = _merge_single(policy, providers, facts)
            return hint, hint.preferred
        case _ as never:
            assert_never(never)


def filter_single_numa_hints(hints_by_resource: Iterable[Hints]) -> list[Hints]:
    """Only preferred hints that name one node, or any; a resource may keep none.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/policy_single_numa_node.go
        filterSingleNumaHints
    """
    return [
        tuple(
            hint
            for hint in hints
            if hint.preferred and (hint.affinity is None or hint.affinity.bit_count() == 1)
        )
        for hints in hints_by_resource
    ]


def _merge_all(
    policy: Policy, providers: Iterable[ProviderHints], facts: TopologyFacts
) -> TopologyHint:
    hints = filter_providers_hints(providers)
    fitness: Fitness = narrowest if policy.distances is None else closest(policy.distances)
    return merge_filtered_hints(mask_of(policy.numa_nodes), hints, fitness, facts)


def _merge_single(
    policy: Policy, providers: Iterable[ProviderHints], facts: TopologyFacts
) -> TopologyHint:
    """As all, but on one node; all nodes of the machine is written as any."""
    all_nodes = mask_of(policy.numa_nodes)
    hints = filter_single_numa_hints(filter_providers_hints(providers))
    best = merge_filtered_hints(all_nodes, hints, narrowest, facts)
    if best.affinity == all_nodes:
        return TopologyHint(affinity=None, preferred=best.preferred)
    return best


# Whose hints a policy refuses, in words.

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
