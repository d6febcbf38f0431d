"""Choices of random scenarios, drawn from streams that have a name each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kubeledger.simulate.engine.schedule import Draws

T = TypeVar("T")


class Chance:
    """Choices that are drawn."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def of(self, name: str) -> Chance:
        """Choices of their own: more of them change no others."""
        return Chance(self._draws.stream(name))

    def number(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return low + self._draws.below(high - low + 1)

    def one(self, *choices: T) -> T:
        return choices[self._draws.below(len(choices))]

    def some(self, choices: Sequence[T]) -> list[T]:
        """Any part of them but none, in their order."""
        taken = [each for each in choices if self.happens(50)]
        return taken or [self.one(*choices)]

    def happens(self, percent: int) -> bool:
        """Whether something comes true that does so this often."""
        return self._draws.below(100) < percent
