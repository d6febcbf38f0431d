"""The ranking against the kubelet's comparators, written pair by pair; why one goes first."""

from collections.abc import Callable
from functools import cmp_to_key, partial
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.eviction.decisions import outrank_text
from kubeledger.kubelet.eviction.ranking import Candidate, RankReason, rank, rank_reason

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


@pytest.mark.parametrize("signal", SIGNALS)
@given(found=pods(4))
def test_the_reason_is_the_first_comparator_that_tells_them_apart(
    signal: str, found: list[Candidate]
) -> None:
    flat = [pod for group in rank(found, signal) for pod in group]
    for first, second in pairwise(flat):
        reason = rank_reason(first, second, signal)
        assert (reason is RankReason.EQUAL) == (compare(signal, first, second) == 0)
        if reason is RankReason.PRIORITY:
            assert first.priority < second.priority
        elif reason is RankReason.NO_STATISTICS:
            assert (first.usage is None) != (second.usage is None)
        elif reason is RankReason.EXCEEDS_REQUEST:
            assert first.exceeds_request
            assert not second.exceeds_request
        elif reason is RankReason.USAGE:
            assert compare(signal, first, second) < 0
            assert first.priority == second.priority
            assert first.exceeds_request == second.exceeds_request or signal == "pid.available"
        assert first.uid in outrank_text(first, second, signal)


@pytest.mark.parametrize(
    ("first", "second", "signal", "text"),
    [
        (Candidate("a", 0, 900 << 20, (128 << 20) * NANOS, (128 << 20) * NANOS),
         Candidate("b", 0, 200 << 20, (1 << 30) * NANOS, (1 << 30) * NANOS), "memory.available",
         "pod a uses more memory than it requests (900Mi, requested 128Mi), and goes before pod b, "
         "which does not (200Mi, requested 1Gi)"),
        (Candidate("a", 0, 12), Candidate("b", 0, 5), "pid.available",
         "pod a has 12 processes, and goes before pod b, which has 5"),
        (Candidate("a", -5, 1), Candidate("b", 0, 1), "nodefs.available",
         "pod a of priority -5 goes before pod b of priority 0"),
    ],
)  # fmt: skip
def test_sentences(first: Candidate, second: Candidate, signal: str, text: str) -> None:
    assert outrank_text(first, second, signal) == text
