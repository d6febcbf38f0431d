"""How much an answer may take: it ends where what the client asked for is full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from pydantic import BaseModel

TOKENS: Final = 2000
"""Of an answer, unless the client asks for more."""
TOKENS_MAX: Final = 50_000
_CHARACTERS_PER_TOKEN: Final = 3
"""Of JSON with names, times and numbers, which models cut finer than prose."""

M = TypeVar("M", bound=BaseModel)


class Room:
    """What is left of an answer, in characters of JSON."""

    def __init__(self, tokens: int) -> None:
        """All of it is left.

        Args:
            tokens: about how many the answer may take.
        """
        self._left = tokens * _CHARACTERS_PER_TOKEN

    def share(self, parts: int) -> Room:
        """A room of its own: one of ``parts`` equal parts of what is left."""
        part = Room(0)
        part._left = self._left // max(parts, 1)
        return part

    def holds(self, value: object) -> bool:
        """Whether a value still fits; then it is taken off."""
        size = len(msgspec.json.encode(value, enc_hook=str))
        if size > self._left:
            return False
        self._left -= size
        return True

    def fill(self, items: Iterable[M]) -> tuple[list[M], int]:
        """The first items that fit, and how many do not."""
        taken: list[M] = []
        left_out = 0
        for item in items:
            if not left_out and self.holds(item.model_dump()):
                taken.append(item)
            else:
                left_out += 1
        return taken, left_out

    def part(self, value: Any) -> tuple[Any, int]:  # noqa: ANN401 # any JSON
        """A document's entries that fit, and how many do not."""
        if isinstance(value, dict):
            kept = {key: inner for key, inner in value.items() if self.holds([key, inner])}
            return kept, len(value) - len(kept)
        if isinstance(value, list):
            fitting = [inner for inner in value if self.holds(inner)]
            return fitting, len(value) - len(fitting)
        return (value, 0) if self.holds(value) else (None, 1)
