"""Why a claimed round of the eviction manager cannot have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from kubeledger.kubelet.eviction.decisions import Decision, Round
from kubeledger.kubelet.eviction.explain import (
    condition_reason,
    observed_text,
    outrank_text,
    why_nobody,
)
from kubeledger.kubelet.eviction.ranking import Candidate
from kubeledger.kubelet.eviction.synchronize import EvictionManager

Ranked = tuple[str, Sequence[Sequence[Candidate]]]
"""A signal, and groups of equal pods in the order of their eviction for it."""


class _Strict(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    pass


class EvictedPod(_Strict, frozen=True, kw_only=True):
    """A pod and what its status says."""

    pod: str
    grace_period_seconds: int
    reason: str
    message: str
    condition_message: str


class StepOutcome(_Strict, frozen=True, kw_only=True):
    """What one round did; ``rank`` is of the pods that were active before it."""

    evicted: list[EvictedPod]
    node_conditions: list[str]
    node_level_reclaim: list[str]
    events: list[str]
    rank: dict[str, list[list[str]]]


def why_not_so(
    claim: StepOutcome,
    outcomes: Sequence[StepOutcome],
    found: Round,
    decisions: Sequence[Decision],
    manager: EvictionManager,
    ranks: Mapping[str, Ranked],
) -> str:
    """The first difference to what can have been, with the reason.

    Args:
        claim: a round that cannot have been.
        outcomes: (n,) all that can.
        found: what the round saw.
        decisions: (n,) of the outcomes.
        manager: after the round.
    """
    decided = outcomes[0]
    for condition in sorted(set(claim.node_conditions) ^ set(decided.node_conditions)):
        return condition_reason(condition, found, manager.thresholds)
    if claim.node_conditions != decided.node_conditions:
        return f"the node's conditions are {decided.node_conditions}, each once and sorted"
    if claim.rank != decided.rank:
        return _wrong_rank(claim, ranks)
    uids = [each.pod for each in claim.evicted]
    same = [i for i, o in enumerate(outcomes) if [e.pod for e in o.evicted] == uids]
    if not same:
        return _wrong_pods(uids, found, decisions)
    reclaimed = [i for i in same if outcomes[i].node_level_reclaim == claim.node_level_reclaim]
    if not reclaimed:
        return _wrong_reclaim(outcomes[same[0]], decisions[same[0]])
    return _wrong_words(claim, outcomes[reclaimed[0]], decisions[reclaimed[0]])


def _wrong_rank(claim: StepOutcome, ranks: Mapping[str, Ranked]) -> str:
    """The first order that is another, and two pods misplaced in it."""
    if claim.rank.keys() != ranks.keys():
        return f"the orders are of {', '.join(ranks)}"
    for name, (signal, groups) in ranks.items():
        claimed = claim.rank[name]
        if claimed == uids_of(groups):
            continue
        place = {c.uid: (at, c) for at, group in enumerate(groups) for c in group}
        flat = [(uid, at) for at, group in enumerate(claimed) for uid in group]
        if sorted(uid for uid, _ in flat) != sorted(place):
            return f"the order for {name} holds each of the {len(place)} active pods once"
        for (one, one_at), (other, other_at) in pairwise(flat):
            (first_at, first), (second_at, second) = place[one], place[other]
            if first_at == second_at and one_at != other_at:
                return f"for {name} pods {one} and {other} are equal, so of one group"
            if first_at < second_at and one_at == other_at:
                return f"for {name} {outrank_text(first, second, signal)}"
            if first_at > second_at:
                return f"for {name} {outrank_text(second, first, signal)}"
        return f"the groups for {name} are not empty, and each is sorted by UID"
    return ""


def uids_of(groups: Sequence[Sequence[Candidate]]) -> list[list[str]]:
    """Groups as an outcome shows them."""
    return [
        [group[0].uid] if len(group) == 1 else sorted(candidate.uid for candidate in group)
        for group in groups
    ]


def _wrong_pods(uids: Sequence[str], found: Round, decisions: Sequence[Decision]) -> str:
    """Other pods are evicted."""
    decision = decisions[0]
    if not decision.evicted:
        return f"no pod is evicted: {why_nobody(found, decision)}"
    evicted = [each.pod.metadata.uid or "" for each in decision.evicted]
    threshold = decision.threshold
    if threshold is None:
        causes = "; ".join(
            f"pod {each.pod.metadata.uid}: {each.message.text.strip()}" for each in decision.evicted
        )
        return f"pods over their own limits go first, and no other: {causes}"
    short = observed_text(threshold, found.observations.get(threshold.signal))
    if len(uids) != 1:
        return f"pod {evicted[0]} is evicted, and no other: {short}"
    ranked: dict[str, Candidate] = {c.uid: c for group in decision.ranking for c in group}
    if uids[0] not in ranked:
        return f"pod {uids[0]} is not active, pod {evicted[0]} is evicted: {short}"
    if uids[0] in decision.passed_over:
        return f"pod {uids[0]} is critical, so pod {evicted[0]} is evicted: {short}"
    why = outrank_text(ranked[evicted[0]], ranked[uids[0]], threshold.signal)
    return f"{short}, and {why}"


def _wrong_reclaim(decided: StepOutcome, decision: Decision) -> str:
    called = ", ".join(decided.node_level_reclaim) or "nothing"
    if decision.threshold is None:
        return f"no threshold is acted on, so {called} is reclaimed before"
    return f"for {decision.threshold.signal} {called} is reclaimed on these disks"


def _wrong_words(claim: StepOutcome, decided: StepOutcome, decision: Decision) -> str:
    """The same pods, but with another grace period or in other words."""
    for claimed_pod, pod, eviction in zip(
        claim.evicted, decided.evicted, decision.evicted, strict=True
    ):
        if claimed_pod.grace_period_seconds != pod.grace_period_seconds:
            kind = "hard" if decision.threshold is None or decision.threshold.is_hard else "soft"
            return (
                f"pod {pod.pod} is given {pod.grace_period_seconds} s, as for a {kind} eviction "
                f"for {eviction.cause}, not {claimed_pod.grace_period_seconds} s"
            )
        for name in msgspec.structs.fields(EvictedPod):
            value = getattr(pod, name.name)
            if getattr(claimed_pod, name.name) != value:
                return f"the {name.encode_name} of pod {pod.pod} is {value!r}"
    return f"the events are {decided.events}"
