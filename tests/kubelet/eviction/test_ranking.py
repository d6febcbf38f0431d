"""The ranking against the kubelet's comparators, written pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.eviction.ranking import Candidate, rank

NANOS: Final = 10**9
SIGNALS: Final = ("memory.available", "nodefs.available", "imagefs.inodesFree", "pid.available")


def compare(signal: str, one: Candidate, other: Candidate) -> int:
    """orderedBy(...) of pkg/kubelet/eviction/helpers.go: below 0 where ``one`` goes first."""

    def by_bool(left: bool, right: bool) -> int:
        return 0 if left == right else (-1 if left else 1)

    priority = (one.priority > other.priority) - (one.priority < other.priority)
    if one.usage is None or other.usage is None:
        unknown = by_bool(one.usage is None, other.usage is None)
        return (priority or unknown) if signal == "pid.available" else (unknown or priority)
    if signal == "pid.available":
        return priority or other.usage - one.usage
    exceeds = by_bool(
        one.usage * NANOS > one.request_nanos, other.usage * NANOS > other.request_nanos
    )
    above = (other.usage * NANOS - other.deducted_nanos) - (one.usage * NANOS - one.deducted_nanos)
    return exceeds or priority or above


def pods(size: int) -> st.SearchStrategy[list[Candidate]]:
    """Few values, so that many pods are equal in something."""
    amounts = st.sampled_from([0, 1, NANOS, 2 * NANOS, 3 * NANOS])
    fields = st.tuples(st.integers(-1, 1), st.none() | st.integers(0, 3), amounts, amounts)
    return st.lists(fields, max_size=size).map(
        lambda rows: [Candidate(f"p{at}", *row) for at, row in enumerate(rows)]
    )


@pytest.mark.parametrize("signal", SIGNALS)
@given(found=pods(12))
def test_the_order_is_that_of_the_comparators(signal: str, found: list[Candidate]) -> None:
    """As a stable sort by them, and groups are what they call equal."""
    groups = rank(found, signal)
    comparator: Callable[[Candidate, Candidate], int] = partial(compare, signal)
    expected = sorted(found, key=cmp_to_key(comparator))
    assert [pod for group in groups for pod in group] == expected
    for at, group in enumerate(groups):
        assert all(compare(signal, group[0], pod) == 0 for pod in group)
        if at:
            assert compare(signal, groups[at - 1][0], group[0]) < 0
