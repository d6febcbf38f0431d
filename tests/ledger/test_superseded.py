"""Spans of record numbers are sets of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kubeledger.ledger.manifest import is_superseded, merged_spans, spans_of

SPANS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8)), max_size=12)


@given(SPANS)
def test_spans_are_sets_of_numbers(begins_and_lengths: list[tuple[int, int]]) -> None:
    """The fewest that hold the same numbers, sorted; and each number is in one or in none."""
    spans = [(begin, begin + length) for begin, length in begins_and_lengths]
    numbers = {seq for first, last in spans for seq in range(first, last + 1)}
    merged = merged_spans(spans)
    assert [seq for first, last in merged for seq in range(first, last + 1)] == sorted(numbers)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(merged))
    assert spans_of(numbers) == merged
    assert {seq for seq in range(80) if is_superseded(seq, merged)} == numbers
