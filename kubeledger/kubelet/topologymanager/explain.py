"""Why hints merge to what they do, and why a policy admits or not."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.bitmask import mask_of, mask_text
from kubeledger.kubelet.topologymanager.hint import Hints, ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.merge import (
    filter_providers_hints,
    max_of_min_affinity_counts,
    merged_hints,
)
from kubeledger.kubelet.topologymanager.policies import Policy, filter_single_numa_hints


def hint_text(hint: TopologyHint) -> str:
    """As the kubelet logs a hint."""
    affinity = "<nil>" if hint.affinity is None else mask_text(hint.affinity)
    return f"{{{affinity} {str(hint.preferred).lower()}}}"


def merge_reason(
    policy: Policy,
    providers: Iterable[ProviderHints],
    facts: TopologyFacts,
    merged: TopologyHint,
) -> str:
    """The rule by which a policy comes to its hint.

    Args:
        policy: which merges.
        providers: what the providers answered.
        facts: of the kubelet version.
        merged: what they merge to.
    """
    if policy.name == "none":
        return "this policy collects no hints"
    hints = filter_providers_hints(providers)
    alone = ""
    if policy.name == "single-numa-node":
        hints = filter_single_numa_hints(hints)
        alone = "of preferred hints of one node, or of any, "
    all_nodes = mask_of(policy.numa_nodes)
    candidates = merged_hints(all_nodes, hints, facts)
    if not candidates:
        return f"{alone}no combination has a node in common, which leaves all nodes, not preferred"
    if not merged.preferred:
        return f"{alone}{_not_preferred(hints, facts)}"
    if all(hint == merged or not hint.preferred for hint in candidates):
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
