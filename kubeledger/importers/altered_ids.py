"""IDs of containers that a line tells wrongly: all but some digits are those of another one.

A runtime draws 64 hexadecimal digits at random, so no two IDs share a quarter of them.
Where two do, one of them was altered, however many lines are missing; the one that pod
lists hold, or that more lines tell, is taken for the real one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["TELLING", "altered_ids", "is_alike", "told_ids"]

TELLING = (
    b"ContainerStarted",
    b"ContainerDied",
    b"Killing container ",
    b"Created PodSandbox",
    b"Added container",
    b"container finished",
    b'"}) of pod ',
)
"""What the lines hold that tell of a container's start or end."""

_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_QUARTER = 16
_MIXED = 4
"""Fewer kinds of digits in a quarter are drawn by nobody: such IDs are made up."""


def told_ids(body: bytes) -> Iterator[str]:
    """The IDs in a log line, each once."""
    for found in dict.fromkeys(_ID.findall(body)):
        yield found.decode()


def is_alike(one: str, other: str) -> bool:
    """Whether more than half of the digits of two IDs are the same."""
    return sum(map(str.__eq__, one, other)) * 2 > len(one)


def altered_ids(told: Mapping[str, int], listed: Iterable[str]) -> dict[str, str]:
    """Altered ID -> the real one.

    Args:
        told: ID -> how many lines of the logs tell it, in the order they were first told.
        listed: IDs that pod lists hold.
    """
    known = set(listed)
    ranked = sorted(
        dict.fromkeys((*told, *sorted(known))),
        key=lambda each: (each not in known, -told.get(each, 0)),
    )
    real: dict[tuple[int, str], str] = {}
    altered: dict[str, str] = {}
    for each in ranked:
        if len(each) != 4 * _QUARTER:
            continue
        quarters = [
            (n, quarter)
            for n in range(0, len(each), _QUARTER)
            if len(set(quarter := each[n : n + _QUARTER])) >= _MIXED
        ]
        twin = next((real[quarter] for quarter in quarters if quarter in real), None)
        if twin is not None and each not in known:
            altered[each] = twin
        else:
            real |= dict.fromkeys(quarters, each)
    return altered
