"""The shortlist finds what measuring every pod finds, victim after victim."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.preemption.requirements import distances
from kubeledger.kubelet.preemption.shortlist import Shortlist


def agree(columns: list[list[int]], missing: list[int], chosen: random.Random) -> None:
    """Take random pods, as a victim is taken; compare the nearest before each."""
    shortlist = Shortlist(columns)
    left = [list(amounts) for amounts in columns]
    while missing and left[0]:
        remoteness = distances(missing, left)
        expected = [i for i, d in enumerate(remoteness) if d == min(remoteness)]
        assert list(shortlist.nearest(missing)) == expected
        index = chosen.choice(expected) if chosen.random() < 0.8 else chosen.randrange(len(left[0]))
        shortlist.take(index)
        for position, amounts in enumerate(left):
            missing[position] -= amounts[index]
            amounts[index] = amounts[-1]
            amounts.pop()
        for met in [i for i, amount in enumerate(missing) if amount <= 0][::-1]:
            del missing[met], left[met]
            shortlist.drop(met)


amounts = st.integers(0, 5) | st.integers(0, 1 << 34) | st.just(1)


@given(
    st.integers(1, 4).flatmap(
        lambda r: st.lists(st.tuples(*[amounts] * r), min_size=1, max_size=40)
    ),
    st.lists(st.integers(1, 1 << 38) | st.integers(1, 40), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_pods(rows: list[tuple[int, ...]], missing: list[int], chosen: random.Random) -> None:
    """Few or many equals, enough or nothing freed."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    agree(columns, missing[: len(columns)], chosen)


def test_hundreds_of_victims() -> None:
    """The order is made anew on the way, and a requirement is met before the others."""
    chosen = random.Random(7)
    columns = [
        [chosen.randrange(1, 3000) for _ in range(300)],
        [1] * 300,
        [chosen.randrange(1, 1 << 32) for _ in range(300)],
    ]
    agree(
        columns,
        [sum(c) * part // 100 for c, part in zip(columns, (90, 40, 97), strict=True)],
        chosen,
    )
