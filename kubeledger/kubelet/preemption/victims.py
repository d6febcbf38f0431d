"""Which pods are killed to let a critical pod in: getPodsToPreempt, step by step.

Candidates are split by QoS class. Guaranteed pods are chosen as if all others were gone, then
Burstable ones as if all BestEffort and the chosen Guaranteed ones were gone, then BestEffort
ones for what is left. Inside a class the pod nearest to what is missing goes first, and of
equally near ones the one that asks for less memory, then less cpu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from kubeledger.kubelet.kube.podqos import QOSClass
from kubeledger.kubelet.preemption.candidates import Candidates
from kubeledger.kubelet.preemption.requirements import (
    NoVictimsError,
    Requirements,
    distances,
    subtract,
)
from kubeledger.kubelet.preemption.shortlist import Shortlist

KILL_ORDER: Final[tuple[QOSClass, ...]] = ("BestEffort", "Burstable", "Guaranteed")

T = TypeVar("T")

_MANY: Final = 48
"""From so many pods on it pays to keep them sorted."""
_FLOATS_DIFFER: Final = 1 << 50
"""Below this, pods that free different amounts of one resource differ in their distance."""

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
        if not groups[group]:
            return []
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
        NoVictimsError: the class does not free enough; it names all that was asked of it.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go getPodsToPreemptByDistance
    Differs: the input is not changed. The error is never seen: the caller has made sure
        that the class frees enough.
    """
    if len(requirements) > 1 and len(group) > _MANY:
        return _of_many(candidates, group, requirements)
    victims: list[Pick] = []
    pods = list(group)
    missing = [r.quantity for r in requirements]
    freed = [list(amounts) for amounts in candidates.freed(requirements, pods)]
    sizes: list[tuple[int, int]] = []
    while missing:
        if not pods:
            raise NoVictimsError(requirements)
        ties = nearest(missing, freed)
        index = ties[0]
        if len(ties) > 1:
            sizes = sizes or [candidates.sizes()[pick] for pick in pods]
            index = _smallest(sizes, ties)
        victims.append(_take(pods, index))
        if sizes:
            _take(sizes, index)
        missing = [m - _take(amounts, index) for m, amounts in zip(missing, freed, strict=True)]
        if min(missing) <= 0:
            freed = [amounts for m, amounts in zip(missing, freed, strict=True) if m > 0]
            missing = [m for m in missing if m > 0]
    return victims


def _of_many(
    candidates: Candidates, group: Sequence[Pick], requirements: Requirements
) -> list[Pick]:
    """The same, without measuring all pods at each step."""
    victims: list[Pick] = []
    pods = list(group)
    missing = [r.quantity for r in requirements]
    freed = [list(amounts) for amounts in candidates.freed(requirements, pods)]
    sizes = [candidates.sizes()[pick] for pick in pods]
    shortlist = Shortlist(freed)
    while missing:
        if not pods:
            raise NoVictimsError(requirements)
        index = _smallest(sizes, shortlist.nearest(missing))
        victims.append(_take(pods, index))
        _take(sizes, index)
        shortlist.take(index)
        missing = [m - _take(amounts, index) for m, amounts in zip(missing, freed, strict=True)]
        for met in [position for position, m in enumerate(missing) if m <= 0][::-1]:
            del missing[met], freed[met]
            shortlist.drop(met)
    return victims


def _take(array: list[T], index: int) -> T:
    """Remove an element as the kubelet does: the last one moves to its place."""
    taken = array[index]
    array[index] = array[-1]
    array.pop()
    return taken


def nearest(quantities: Sequence[int], freed: Sequence[Sequence[int]]) -> Sequence[int]:
    """Positions of all pods at the smallest distance.

    Args:
        quantities: (r,) amounts missing, each above 0.
        freed: (r, n) what each pod frees of each, n > 0.
    """
    if len(quantities) == 1 and quantities[0] < _FLOATS_DIFFER:
        # The distance falls with what a pod frees until that is enough: no floats are needed.
        (quantity,), (amounts,) = quantities, freed
        most = max(amounts)
        if most < quantity:
            return _positions(amounts, most)
        return [index for index, amount in enumerate(amounts) if amount >= quantity]
    remoteness = distances(quantities, freed)
    return _positions(remoteness, min(remoteness))


def _positions(values: Sequence[float], value: float) -> Sequence[int]:
    count = values.count(value)
    if count == 1:
        return [values.index(value)]
    if count == len(values):
        return range(count)
    return [index for index, other in enumerate(values) if other == value]


def _smallest(sizes: Sequence[tuple[int, int]], ties: Sequence[int]) -> int:
    """Of equally near pods the one with the smallest request; the last one of equals."""
    tied = list(sizes) if len(ties) == len(sizes) else [sizes[index] for index in ties]
    smallest = min(tied)
    tied.reverse()
    return ties[len(ties) - 1 - tied.index(smallest)]
