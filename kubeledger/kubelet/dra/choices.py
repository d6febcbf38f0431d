"""What the kubelet leaves to chance: the order in which it walks a map.

Go starts somewhere in the map. In one with few entries that is most often at the first that was
put in, so that is the first option of each choice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """One run's choices: the given ones first, then always the first option."""

    def __init__(self, given: Sequence[int] = ()) -> None:
        self._given = given
        self.taken: list[tuple[int, int]] = []
        """Of each choice: the option taken, and how many there were."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; there is at least one."""
        if len(options) == 1:
            return options[0]
        at = len(self.taken)
        option = self._given[at] if at < len(self._given) else 0
        self.taken.append((option, len(options)))
        return options[option]

    def any_order(self, items: Collection[str]) -> Iterator[str]:
        """All items, in an order of chance."""
        left = [*items]
        while left:
            item = self.pick(left)
            left.remove(item)
            yield item

    def until_failure(self, items: Collection[str], failing: Collection[str]) -> Iterator[str]:
        """Items in an order of chance, where the first that fails ends the walk.

        Only which come before that one matters, so those that do not fail keep their order.
        """
        left = [*items]
        while any(item in failing for item in left):
            item = self.pick(left)
            yield item
            at = left.index(item)
            left = [other for other in left[:at] if other in failing] + left[at + 1 :]
        yield from left


def every_run(run: Callable[[Choices], T]) -> Iterator[T]:
    """What each way to choose gives; first the one that takes first options."""
    given: list[int] = []
    while True:
        choices = Choices(given)
        yield run(choices)
        taken = choices.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        given = [option for option, _ in taken]
        given[-1] += 1
