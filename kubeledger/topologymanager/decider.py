"""Topology manager: decide a merge, and say whether a recorded one could have been.

There is no choice here: which order Go's maps give the hints in cannot show in the
result (see ``merge``). So only what ``decide`` gives is admissible.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.profile.topology import TopologyFacts
from kubeledger.topologymanager.bitmask import mask_text
from kubeledger.topologymanager.hint import ProviderHints, TopologyHint
from kubeledger.topologymanager.policies import Policy, merge

__all__ = ["admissible", "decide"]


def decide(
    policy: Policy, providers: Iterable[ProviderHints], facts: TopologyFacts
) -> tuple[TopologyHint, bool]:
    """The merged hint, and whether the policy admits with it."""
    return merge(policy, providers, facts)


def admissible(
    decided: tuple[TopologyHint, bool], claimed: tuple[TopologyHint, bool], policy: Policy
) -> str:
    """Why ``claimed`` could not have been where ``decided`` was; empty if it could."""
    (hint, fits), (claimed_hint, claimed_fits) = decided, claimed
    if claimed_hint != hint:
        return (
            f"the hints merge to {_text(hint)} and not to {_text(claimed_hint)} "
            f"under policy {policy.name}"
        )
    if claimed_fits != fits:
        verb = "admits" if fits else "does not admit"
        return f"policy {policy.name} {verb} with the hint {_text(hint)}"
    return ""


def _text(hint: TopologyHint) -> str:
    """As the kubelet logs a hint."""
    affinity = "<nil>" if hint.affinity is None else mask_text(hint.affinity)
    return f"{{{affinity} {str(hint.preferred).lower()}}}"
