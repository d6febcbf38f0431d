"""Numbers of records that a later import superseded, as spans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Span = tuple[int, int]
"""First and last of consecutive record numbers."""


def spans_of(seqs: Iterable[int]) -> list[Span]:
    """Numbers as the fewest spans, sorted."""
    return merged_spans((seq, seq) for seq in seqs)


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """The same numbers as the fewest spans, sorted."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def is_superseded(seq: int, spans: Sequence[Span]) -> bool:
    """Whether a record is in one of the spans.

    Args:
        seq: its number.
        spans: sorted, without overlaps.
    """
    if not spans:
        return False
    at = bisect_right(spans, seq, key=lambda span: span[0]) - 1
    return at >= 0 and seq <= spans[at][1]
