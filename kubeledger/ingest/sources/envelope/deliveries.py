"""Rows that a store delivered once more.

A row of a store that gives each an id is there twice where the id is, and a whole entry of klog
where its bytes are: klog writes microseconds. The lines that follow an entry, each a row of its
own, may be equal and not one (``}``): they are there twice only together with their entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

__all__ = ["ENTRY", "FOLLOWS", "WHOLE", "Rows", "read_once"]

FOLLOWS, ENTRY, WHOLE = range(3)
"""What a row is: a line after an entry, an entry's first line, or what needs no other row."""


class Rows(NamedTuple):
    """What is known of each row.

    Attributes:
        times: ns.
        keys: equal for rows that may be one; 0 for rows that are never another.
        parts: ``FOLLOWS``, ``ENTRY`` or ``WHOLE``.
        hosts: number of the host.
    """

    times: Sequence[int]
    keys: Sequence[int]
    parts: Sequence[int]
    hosts: Sequence[int]


def read_once(order: Iterable[int], rows: Rows) -> Iterator[int]:
    """The rows without those that are there once more.

    Args:
        order: rows by time.
        rows: what is known of them.
    """
    copies: dict[int, int] = {}  # host -> how often its last entry stands there
    for _, group in groupby(order, rows.times.__getitem__):
        yield from _once(list(group), rows, copies)


def _once(group: list[int], rows: Rows, copies: dict[int, int]) -> Iterator[int]:
    """The rows of one time.

    Lines at the time of their entry stand behind each of its copies; what the first copies
    lack is taken from a later one. Lines of later times stand there once for each of its copies.
    """
    if len(group) == 1:
        if rows.parts[group[0]] == ENTRY:
            copies[rows.hosts[group[0]]] = 1
        yield from group
        return
    there = Counter(rows.keys[row] for row in group)
    given: Counter[tuple[int, int]] = Counter()
    blocks: dict[int, tuple[int, Counter[int]]] = {}
    for row in group:
        key, part, host = rows.keys[row], rows.parts[row], rows.hosts[row]
        if part == ENTRY:
            copies[host] = there[key] if key else 1
            blocks[host] = key, Counter()
        if part != FOLLOWS:
            entry, is_new = 0, not given[0, key]
        elif host in blocks:
            entry, block = blocks[host]
            block[key] += 1
            is_new = block[key] > given[entry, key]
        else:
            entry, is_new = 0, given[0, key] * copies.get(host, 1) < there[key]
        if is_new or not key:
            given[entry, key] += 1
            yield row
