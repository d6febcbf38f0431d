"""Hints as cases write them: those that providers are given, and those that come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from kubeledger.kubelet.cases.fields import Strict, keyed, node_set
from kubeledger.kubelet.topologymanager.policy import (
    Hints,
    ProviderHints,
    TopologyHint,
    bits_of,
    mask_of,
)


class HintCase(Strict, frozen=True, kw_only=True):
    """A hint of a provider; nodes None: any."""

    numa_nodes: tuple[int, ...] | None
    preferred: bool


class HintOutcome(Strict, frozen=True):
    """One hint that comes out."""

    numa_nodes: tuple[int, ...]
    preferred: bool


def hint_of(path: str, nodes: Iterable[int] | None, preferred: bool) -> TopologyHint:
    """The hint of these nodes, which stand at ``path``."""
    return TopologyHint(None if nodes is None else mask_of(node_set(path, nodes)), preferred)


def hints_of(
    path: str, resources: Mapping[str, Sequence[HintCase] | None]
) -> dict[str, Hints | None]:
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
def shown(hint: TopologyHint) -> HintOutcome:
    """A hint as it comes out."""
    return HintOutcome(tuple(bits_of(hint.affinity or 0)), hint.preferred)


def hints_shown(hints: ProviderHints) -> dict[str, list[HintOutcome]] | None:
    """Those of a provider; of a resource without a preference none."""
    if hints is None:
        return None
    return {name: [shown(hint) for hint in found or ()] for name, found in hints.items()}
