"""The order in which Go goes through a map: any, so a decision may come out in several ways.

A decider asks a :class:`MapOrder` wherever the kubelet ranges over a map and it can show.
``decide`` takes the keys as they come; :func:`explore` runs the same walk in every order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class MapOrder:
    """Keys as they come."""

    def of(self, keys: Collection[T]) -> Sequence[T]:
        """The keys in the order of this walk."""
        return list(keys)

    def pick(self, keys: Sequence[T]) -> T:
        """The one that comes first; there is at least one."""
        return keys[0]

    def until_failure(self, keys: Collection[T], failing: Collection[T]) -> Iterator[T]:
        """Keys of a map that was filled in any order, where the first that fails ends the walk.

        Only which come before that one matters, so those that do not fail keep their order.
        """
        left = [*keys]
        while failing and any(key in failing for key in left):
            key = self.pick(left)
            yield key
            at = left.index(key)
            left = [other for other in left[:at] if other in failing] + left[at + 1 :]
        yield from left


FIRST_ORDER = MapOrder()


class _Scripted(MapOrder):
    """Each map from a given slot on, and which slots could have been taken."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = script
        self.taken: list[int] = []
        self.slots: list[int] = []

    def of(self, keys: Collection[T]) -> Sequence[T]:
        ordered = list(keys)
        start = self._start(len(ordered))
        return ordered[start:] + ordered[:start]

    def pick(self, keys: Sequence[T]) -> T:
        return keys[self._start(len(keys))]

    def _start(self, slots: int) -> int:
        if slots < 2:
            return 0
        at = len(self.taken)
        start = self._script[at] if at < len(self._script) else 0
        self.taken.append(start)
        self.slots.append(slots)
        return start


def explore(walk: Callable[[MapOrder], T], runs_max: int = 1 << 12) -> Iterator[T]:
    """What a walk gives in each order.

    Args:
        walk: takes its orders of maps from its argument alone, and changes nothing outside.
        runs_max: no more orders than this are tried.

    Source: Go 1.26 src/internal/runtime/maps/table.go Iter.Next: a map of up to eight keys is
        walked in the order of its slots, from a random one on
    Differs: a larger map is, too; Go walks it in any order.
    """
    script: list[int] = []
    for _ in range(runs_max):
        order = _Scripted(script)
        yield walk(order)
        script = order.taken
        while script and script[-1] + 1 == order.slots[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1
