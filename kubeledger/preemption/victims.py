"""Which pods are killed to let a critical pod in: getPodsToPreempt, step by step.

Candidates are split by QoS class. Guaranteed pods are chosen as if all others were gone, then
Burstable ones as if all BestEffort and the chosen Guaranteed ones were gone, then BestEffort
ones for what is left. Inside a class the pod nearest to what is missing goes first, and of
equally near ones the one that asks for less memory, then less cpu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.kube.podqos import QOSClass
from kubeledger.preemption.candidates import Candidates
from kubeledger.preemption.requirements import (
    NoVictimsError,
    Requirements,
    distances,
    subtract,
)

__all__ = ["KILL_ORDER", "nearest", "pods_to_preempt", "pods_to_preempt_by_distance"]

KILL_ORDER: Final[tuple[QOSClass, ...]] = ("BestEffort", "Burstable", "Guaranteed")

Pick = int
"""Index of a pod among the candidates."""


def pods_to_preempt(candidates: Candidates, requirements: Requirements) -> list[Pick]:
    """Choose the victims.

    Args:
        candidates: pods that may be preempted, in the order the kubelet lists them.
        requirements: (r,) what is missing, as the fit check listed it.

    Returns:
        (k,) victims in the order they are killed: BestEffort, Burstable, Guaranteed.

    Raises:
        NoVictimsError: all candidates together do not free enough.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go getPodsToPreempt
    Differs: no.
    """
    missing = subtract(requirements, candidates.freed(requirements))
    if missing:
        raise NoVictimsError(missing)
    groups = candidates.by_qos()

    def chosen(group: QOSClass, gone: list[Pick]) -> list[Pick]:
        left = subtract(requirements, candidates.freed(requirements, gone))
        return pods_to_preempt_by_distance(candidates, groups[group], left)

    best_effort, burstable = groups["BestEffort"], groups["Burstable"]
    guaranteed_to_evict = chosen("Guaranteed", best_effort + burstable)
    burstable_to_evict = chosen("Burstable", best_effort + guaranteed_to_evict)
    best_effort_to_evict = chosen("BestEffort", burstable_to_evict + guaranteed_to_evict)
    return best_effort_to_evict + burstable_to_evict + guaranteed_to_evict


def pods_to_preempt_by_distance(
    candidates: Candidates, group: Sequence[Pick], requirements: Requirements
) -> list[Pick]:
    """Take the nearest pod of a class until nothing is missing.

    The array that the kubelet scans is kept as it keeps it: the last pod moves to where the
    victim stood. That decides later ties, of which the last in the array wins.

    Raises:
        NoVictimsError: the class does not free enough.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go getPodsToPreemptByDistance
    Differs: the input is not changed.
    """
    victims: list[Pick] = []
    pods = list(group)
    freed = [list(amounts) for amounts in candidates.freed(requirements, pods)]
    while requirements:
        if not pods:
            raise NoVictimsError(requirements)
        ties = nearest(distances([r.quantity for r in requirements], freed))
        index = ties[0] if len(ties) == 1 else _smallest(candidates, pods, ties)
        victims.append(_take(pods, index))
        taken = [[_take(amounts, index)] for amounts in freed]
        left = subtract(requirements, taken)
        if len(left) < len(requirements):
            freed = _still_asked(requirements, left, freed)
        requirements = left
    return victims


def _take(array: list[int], index: int) -> int:
    """Remove an element as the kubelet does: the last one moves to its place."""
    taken = array[index]
    array[index] = array[-1]
    array.pop()
    return taken


def _still_asked(
    before: Requirements, after: Requirements, freed: list[list[int]]
) -> list[list[int]]:
    names = {requirement.resource for requirement in after}
    return [amounts for r, amounts in zip(before, freed, strict=True) if r.resource in names]


def nearest(remoteness: Sequence[float]) -> list[int]:
    """Positions of all smallest distances."""
    best = min(remoteness)
    if remoteness.count(best) == 1:
        return [remoteness.index(best)]
    return [index for index, distance in enumerate(remoteness) if distance == best]


def _smallest(candidates: Candidates, pods: Sequence[Pick], ties: Sequence[int]) -> int:
    """Of equally near pods the one with the smallest request; the last one of equals."""

    def size(index: int) -> tuple[int, int, int]:
        return (*candidates.request_size(pods[index]), -index)

    return min(ties, key=size)
