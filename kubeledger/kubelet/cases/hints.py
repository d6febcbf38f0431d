"""Hints as cases write them: those that providers are given, and those that come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, get_args

import msgspec

from kubeledger.kubelet.cases.fields import Strict, Subsystem, keyed, node_set
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import (
    BITS_MAX,
    Hints,
    Policy,
    PolicyName,
    ProviderHints,
    TopologyHint,
    bits_of,
    mask_of,
    merge,
)
from kubeledger.model.errors import BadInputError


class Hint(Strict, frozen=True):
    """A hint of a provider, or one that comes out; nodes None: any."""

    numa_nodes: tuple[int, ...] | None
    preferred: bool


def hint_of(path: str, nodes: Iterable[int] | None, preferred: bool) -> TopologyHint:
    """The hint of these nodes, which stand at ``path``."""
    return TopologyHint(None if nodes is None else mask_of(node_set(path, nodes)), preferred)


def hints_of(path: str, resources: Mapping[str, Sequence[Hint] | None]) -> dict[str, Hints | None]:
    """What a provider says."""
    return {
        name: None
        if hints is None
        else tuple(
            hint_of(f"{keyed(path, name)}[{index}].numaNodes", hint.numa_nodes, hint.preferred)
            for index, hint in enumerate(hints)
        )
        for name, hints in resources.items()
    }


@lru_cache(maxsize=1 << 12)
def shown(hint: TopologyHint) -> Hint:
    """A hint as it comes out."""
    return Hint(tuple(bits_of(hint.affinity or 0)), hint.preferred)


def hints_shown(hints: ProviderHints) -> dict[str, list[Hint]] | None:
    """Those of a provider; of a resource without a preference none."""
    if hints is None:
        return None
    return {name: [shown(hint) for hint in found or ()] for name, found in hints.items()}


# ``topologymerge``: hints of all providers in, one hint and a verdict out.

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
    providers_hints: list[dict[str, list[Hint] | None] | None] | None
    prefer_closest: bool = msgspec.field(name="preferClosestNUMANodes", default=False)
    numa_distances: dict[_Node, list[_Distance] | None] | None = None


def decide_topologymerge(case_input: MergeCase, profile: KubeletProfile) -> dict[str, object]:
    """The hint that the topology manager settles on, and whether the policy admits with it."""
    hint, admit = merge(_policy_of(case_input, profile), _providers(case_input), profile.topology)
    affinity = None if hint.affinity is None else bits_of(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred, "admit": admit}


def _providers(case_input: MergeCase) -> list[ProviderHints]:
    return [
        None if provider is None else hints_of(f"input.providersHints[{index}]", provider)
        for index, provider in enumerate(case_input.providers_hints or ())
    ]


def _policy_of(case_input: MergeCase, profile: KubeletProfile) -> Policy:
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


TOPOLOGYMERGE = Subsystem(MergeCase, object, decide_topologymerge)
