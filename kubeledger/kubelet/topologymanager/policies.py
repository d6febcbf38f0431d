"""The four topology manager policies: how hints are merged, and whether to admit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, assert_never

import msgspec

from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.bitmask import mask_of
from kubeledger.kubelet.topologymanager.hint import Hints, ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.merge import (
    Fitness,
    closest,
    filter_providers_hints,
    merge_filtered_hints,
    narrowest,
)

PolicyName = Literal["none", "best-effort", "restricted", "single-numa-node"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with what it knows of the machine.

    Attributes:
        name: as in the kubelet's configuration.
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
    Differs: no
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
    Differs: no
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
