"""What is missing for the critical pod, and how near a pod's requests come to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add

from kubeledger.model.bodies.preemption import InsufficientResource

Requirements = tuple[InsufficientResource, ...]
"""The kubelet's ``admissionRequirementList``: what is still missing, in order."""


class NoVictimsError(Exception):
    """No set of pods frees what is missing.

    Attributes:
        missing: what would still be missing if all candidates were gone.
    """

    def __init__(self, missing: Requirements) -> None:
        super().__init__(f"no set of running pods found to reclaim resources: {to_string(missing)}")
        self.missing = missing


def to_string(requirements: Requirements) -> str:
    """As the kubelet's errors and log lines write it.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go toString
    Differs: no.
    """
    entries = (f"(res: {r.resource}, q: {r.quantity}), " for r in requirements)
    return f"[{''.join(entries)}]"


def subtract(requirements: Requirements, freed: Sequence[Iterable[int]]) -> Requirements:
    """What is still missing after some pods are gone.

    Args:
        requirements: (r,) what is missing.
        freed: (r, n) what each pod frees of each.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go subtract
    Differs: no. Requests are not negative, so nothing changes once a requirement is met.
    """
    return tuple(
        InsufficientResource(resource=r.resource, quantity=left)
        for r, amounts in zip(requirements, freed, strict=True)
        if (left := r.quantity - sum(amounts)) > 0
    )


def distances(quantities: Sequence[int], freed: Sequence[Sequence[int]]) -> list[float]:
    """How far each pod is from freeing all that is missing: 0 is enough, r is nothing.

    The share of each requirement that is left is squared, and the squares are added in the
    order of the requirements, in 64-bit floats as the kubelet does it.

    Args:
        quantities: (r,) amounts missing, each above 0.
        freed: (r, n) what each pod frees of each.

    Returns:
        (n,) distances.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go distance
    Differs: all pods at once.
    """
    total: list[float] = []
    for quantity, amounts in zip(quantities, freed, strict=True):
        squares = _squares(quantity, amounts)
        total = list(map(add, total, squares)) if total else squares
    return total


def _squares(quantity: int, amounts: Sequence[int]) -> list[float]:
    """Squared share of one requirement that each pod leaves."""
    whole = float(quantity)
    # Each pod frees one of "pods", BestEffort ones nothing else: often all are the same.
    if amounts and amounts.count(amounts[0]) == len(amounts):
        share = max(quantity - amounts[0], 0) / whole
        return [share * share] * len(amounts)
    if max(amounts, default=0) < quantity:
        return [(share := (quantity - amount) / whole) * share for amount in amounts]
    return [
        (share := (quantity - amount) / whole) * share if amount < quantity else 0.0
        for amount in amounts
    ]
