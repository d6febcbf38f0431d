"""Cases of the topology manager: hints of all providers in, one hint and a verdict out."""

from __future__ import annotations

from typing import Annotated, get_args

import msgspec

from kubeledger.kubelet.cases.fields import Strict, node_set
from kubeledger.kubelet.cases.hints import HintCase, hints_of
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import (
    BITS_MAX,
    Policy,
    PolicyName,
    ProviderHints,
    bits_of,
    merge,
)
from kubeledger.model.errors import BadInputError

_Node = Annotated[int, msgspec.Meta(ge=0, lt=BITS_MAX)]
_Distance = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class MergeCase(Strict, frozen=True, kw_only=True):
    """Input of a merge.

    Attributes:
        providers_hints: a provider -> resource -> hints; None at either level, or an empty
            list, as the kubelet's providers answer.
        prefer_closest: the option prefer-closest-numa-nodes is on.
        numa_distances: NUMA node -> distance to node 0, 1, ...
    """

    policy: str
    numa_nodes: list[int]
    providers_hints: list[dict[str, list[HintCase] | None] | None] | None
    prefer_closest: bool = msgspec.field(name="preferClosestNUMANodes", default=False)
    numa_distances: dict[_Node, list[_Distance] | None] | None = None


class MergeOutcome(Strict, frozen=True, kw_only=True):
    """The merged hint, and whether the policy admits with it."""

    affinity: list[int] | None
    preferred: bool
    admit: bool


INPUT = MergeCase
OUTCOME = MergeOutcome


def decide(case_input: MergeCase, profile: KubeletProfile) -> MergeOutcome:
    """The hint that the topology manager settles on."""
    hint, admit = merge(_policy(case_input, profile), _providers(case_input), profile.topology)
    affinity = None if hint.affinity is None else bits_of(hint.affinity)
    return MergeOutcome(affinity=affinity, preferred=hint.preferred, admit=admit)


def _providers(case_input: MergeCase) -> list[ProviderHints]:
    return [
        None if provider is None else hints_of(f"input.providersHints[{index}]", provider)
        for index, provider in enumerate(case_input.providers_hints or ())
    ]


def _policy(case_input: MergeCase, profile: KubeletProfile) -> Policy:
    name = case_input.policy
    if name not in get_args(PolicyName):
        raise BadInputError(
            f"input.policy: unknown policy {name!r}",
            advice=f"one of {', '.join(get_args(PolicyName))}",
        )
    node_set("input.numaNodes", case_input.numa_nodes)
    closest = case_input.prefer_closest and profile.topology.policy_options
    return Policy(
        name=name,  # type: ignore[arg-type]  # checked just above
        numa_nodes=tuple(case_input.numa_nodes),
        distances=_distances(case_input) if closest else None,
    )


def _distances(case_input: MergeCase) -> dict[int, list[int]]:
    distances = case_input.numa_distances or {}
    farthest = max(case_input.numa_nodes, default=-1)
    rows = {node: distances.get(node) or [] for node in case_input.numa_nodes}
    for node, row in rows.items():
        if len(row) <= farthest:
            raise BadInputError(f"input.numaDistances[{node}]: no distance to node {farthest}")
    return rows
