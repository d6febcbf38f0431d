"""What the error at the end of a collection tells."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

__all__ = ["Ending", "read_ending"]

_FREED = re.compile(
    r"but freed (\d+) bytes|\(freed (\d+) bytes\)|but only found (\d+) bytes eligible"
)
_USAGE = re.compile(r"image filesystem \((\d+)% of ")
_WANTED = re.compile(r"[Ww]anted to free (\d+) bytes|Attempted to free (\d+) bytes")
_CAPACITY = "invalid capacity "
_BEFORE_SPACE = ("failed to get image", "wanted to free images older than")

EndingKind = Literal["none", "capacity", "before_space", "shortfall", "removals", "other"]


class Ending(msgspec.Struct, frozen=True):
    """What an error tells.

    Attributes:
        kind: ``none`` (no error), ``capacity`` (the disk has none), ``before_space`` (other
            failures before the space pass), ``shortfall``, ``removals`` (the runtime
            refused some) or ``other``.
        wanted, freed: bytes; None when the text does not hold them.
        percent: usage, likewise.
    """

    kind: EndingKind
    wanted: int | None = None
    freed: int | None = None
    percent: int | None = None

    @property
    def failed(self) -> bool:
        """There was an error."""
        return self.kind != "none"


def read_ending(error: str) -> Ending:
    """Read an error text."""
    if not error:
        return Ending("none")
    if error.startswith(_CAPACITY):
        return Ending("capacity")
    if error.startswith(_BEFORE_SPACE):
        return Ending("before_space")
    wanted, freed, percent = (_number(p, error) for p in (_WANTED, _FREED, _USAGE))
    if "with errors in image deletion" in error:
        return Ending("removals", wanted, freed, percent)
    kind: EndingKind = "other" if freed is None else "shortfall"
    return Ending(kind, wanted, freed, percent)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else int(next(group for group in match.groups() if group))
