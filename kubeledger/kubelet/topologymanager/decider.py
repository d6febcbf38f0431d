"""Topology manager: decide a merge, and say whether a recorded one could have been.

There is no choice here: which order Go's maps give the hints in cannot show in the
result (see ``merge``). So only what ``decide`` gives is admissible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.explain import admit_reason, hint_text, merge_reason
from kubeledger.kubelet.topologymanager.hint import ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.policies import Policy, merge


def decide(
    policy: Policy, providers: Iterable[ProviderHints], facts: TopologyFacts
) -> tuple[TopologyHint, bool]:
    """The merged hint, and whether the policy admits with it."""
    return merge(policy, providers, facts)


def admissible(
    policy: Policy,
    providers: Sequence[ProviderHints],
    facts: TopologyFacts,
    claimed: tuple[TopologyHint, bool],
) -> str:
    """Why ``claimed`` could not have come of the merge; empty if it could."""
    hint, fits = decide(policy, providers, facts)
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
