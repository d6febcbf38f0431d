"""Finding the nearest of many pods again and again, while what is missing shrinks.

The distance of a pod is the squared length of its vector of shares left. When the amounts
missing shrink from ``old`` to ``new``, a share ``1 - freed / missing`` falls by no more than
``(old / new - 1) * most / old``, where ``most`` is the most that any pod frees, and by the
triangle inequality a vector's length falls by no more than the length of the vector of these.
So pods are kept in the order of a length worked out some victims ago, and only those at the
front, that could be the nearest by now, are measured. What all pods free alike (each
frees one of ``pods``) does not distinguish them and is left out of the lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kubeledger.kubelet.preemption.requirements import distances

_ROUNDING: Final = 1e-6
"""Far above what floats can be off by in a length, of which none is far above 1."""
_MEASURED_MAX: Final = 48
"""Beyond so many measured it pays to sort again."""


class Shortlist:
    """Pods by position, as the array of the kubelet changes: the last one moves to a gap."""

    __slots__ = ("_at", "_freed", "_most", "_order", "_pods", "_reference", "_spread")

    def __init__(self, freed: Sequence[Sequence[int]]) -> None:
        """Args: freed: (r, n) what each pod frees of each requirement, n > 0."""
        self._freed = [list(amounts) for amounts in freed]
        self._pods = list(range(len(freed[0])))
        self._at = list(self._pods)
        self._order: list[tuple[float, int]] = []
        self._reference: list[int] = []
        self._most = [max(amounts) for amounts in freed]
        self._spread = [max(amounts) - min(amounts) for amounts in freed]

    def take(self, index: int) -> None:
        """Remove the pod at a position; the last one moves there."""
        pods, at = self._pods, self._at
        at[pods[index]] = -1
        last = pods.pop()
        if index < len(pods):
            pods[index] = last
            at[last] = index

    def drop(self, requirement: int) -> None:
        """Forget a requirement that is met."""
        del self._freed[requirement], self._most[requirement], self._spread[requirement]
        self._order = []

    def nearest(self, missing: Sequence[int]) -> Sequence[int]:
        """Positions of all pods at the smallest distance, in order.

        Args:
            missing: (r,) amounts, each above 0 and not above what it was before.
        """
        if not self._order:
            self._sort(missing)
        slack, same = self._slack(missing), self._same(missing)
        found: list[int] = []
        smallest, reach, measured = math.inf, math.inf, 0
        at, columns = self._at, list(zip(missing, self._freed, strict=True))
        for length, pod in self._order:
            if length > reach:
                break
            if at[pod] < 0:
                continue
            measured += 1
            distance = 0.0
            for quantity, amounts in columns:
                if (amount := amounts[pod]) < quantity:
                    share = (quantity - amount) / quantity
                    distance += share * share
            if distance < smallest:
                smallest, found = distance, [at[pod]]
                reach = math.sqrt(max(distance - same, 0.0) + _ROUNDING**2) + slack
            elif distance == smallest:
                found.append(at[pod])
        if measured - len(found) > _MEASURED_MAX:
            self._order = []
        return sorted(found)

    def _sort(self, missing: Sequence[int]) -> None:
        pods = self._pods
        uses = [i for i, spread in enumerate(self._spread) if spread]
        freed = [[self._freed[i][pod] for pod in pods] for i in uses]
        lengths = map(math.sqrt, distances([missing[i] for i in uses], freed))
        self._order = sorted(zip(lengths, pods, strict=True)) if uses else [(0.0, p) for p in pods]
        self._reference = list(missing)

    def _slack(self, missing: Sequence[int]) -> float:
        """By how much a pod may have come nearer since the order was made, at most."""
        falls = (
            (old / new - 1) * min(1.0, most / old)
            for old, new, most, spread in zip(
                self._reference, missing, self._most, self._spread, strict=True
            )
            if spread
        )
        return math.hypot(*falls) + _ROUNDING

    def _same(self, missing: Sequence[int]) -> float:
        """The part of the distance that all pods have in common."""
        shares = (
            max(1 - most / quantity, 0.0)
            for quantity, most, spread in zip(missing, self._most, self._spread, strict=True)
            if not spread
        )
        return sum(share * share for share in shares)
