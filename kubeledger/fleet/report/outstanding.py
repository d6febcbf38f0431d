"""What stands out on a node against the others of its pool: robust statistics of counts.

A count is compared by what it is a count of: problems by hours of records, lines that were not
understood by lines, verdicts by decisions. Of the pool's rates the median and the MAD (median of
the absolute deviations from it, times 1.4826, which is the standard deviation of normal values)
are taken, for which up to half of the nodes may be as odd as they like. A node's expected count is
the median rate times its own exposure. Its spread is the MAD times the exposure, but at least the
square root of the expected count (that of rare events that come by chance), and at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import msgspec

POOL_MIN = 5
"""Of fewer nodes nothing is said: half of four is two."""
SCORE_MIN = 4.0
"""Spreads above what is expected."""
EXCESS_MIN = 3
"""Events above what is expected: one or two are an accident."""

_SIGMA_OF_MAD = 1.4826


class Outstanding(msgspec.Struct, frozen=True):
    """A count that is far above what the pool lets expect.

    Attributes:
        expected: count, by the pool's median rate.
        score: spreads above it.
    """

    expected: float
    score: float


def outstanding(counts: Sequence[int], exposures: Sequence[float]) -> list[Outstanding | None]:
    """Compare the nodes of one pool.

    Args:
        counts: (n,) of one thing on each node.
        exposures: (n,) in what it is counted: hours, lines, decisions; a node with 0 is left out.

    Returns:
        (n,) of each node, None where it does not stand out, or nothing can be said.
    """
    rates = [count / size for count, size in zip(counts, exposures, strict=True) if size > 0]
    if len(rates) < POOL_MIN:
        return [None] * len(counts)
    usual = median(rates)
    spread = _SIGMA_OF_MAD * median(abs(rate - usual) for rate in rates)
    return [_one(*each, usual, spread) for each in zip(counts, exposures, strict=True)]


def _one(count: int, exposure: float, usual: float, spread: float) -> Outstanding | None:
    expected = usual * exposure
    score = (count - expected) / max(spread * exposure, math.sqrt(expected), 1.0)
    if exposure <= 0 or score < SCORE_MIN or count - expected < EXCESS_MIN:
        return None
    return Outstanding(expected, score)
