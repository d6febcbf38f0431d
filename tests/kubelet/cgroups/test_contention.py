"""Dividing CPU by shares: what always holds, and the cases that are easy to get wrong."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.cgroups.contention import CPUGroup, cpu_allocation

SHARES = st.integers(2, 262144)
CORES = st.fractions(0, 8, max_denominator=64)
LEAVES = st.builds(
    lambda shares, limit, demand: CPUGroup(shares=shares, limit=limit, demand=demand),
    SHARES,
    st.none() | CORES,
    st.none() | CORES,
)
GROUPS = st.recursive(
    LEAVES,
    lambda groups: st.builds(
        lambda shares, limit, children: CPUGroup(shares=shares, limit=limit, children=children),
        SHARES,
        st.none() | CORES,
        st.dictionaries(st.sampled_from("abc"), groups, min_size=1),
    ),
    max_leaves=8,
)


def wanted(group: CPUGroup, cores: int) -> Fraction:
    """What a group could use alone."""
    if group.children:
        total = sum((wanted(c, cores) for c in group.children.values()), Fraction(0))
    else:
        total = Fraction(cores) if group.demand is None else group.demand
    most = Fraction(cores) if group.limit is None else min(group.limit, Fraction(cores))
    return min(total, most)


@given(st.dictionaries(st.sampled_from("abcd"), GROUPS, min_size=1), st.integers(1, 8))
def test_nothing_is_lost_and_nobody_gets_too_much(
    children: dict[str, CPUGroup], cores: int
) -> None:
    """All is given out as long as somebody wants it, at each level."""
    root = CPUGroup(shares=1024, children=children)
    parts = cpu_allocation(root, cores)
    top = {name: parts[name] for name in children}
    assert sum(top.values()) == min(sum(wanted(c, cores) for c in children.values()), cores)
    for name, group in children.items():
        assert 0 <= top[name] <= wanted(group, cores)
        below = [parts[f"{name}/{child}"] for child in group.children]
        if below:
            assert sum(below) == top[name]


@given(st.dictionaries(st.sampled_from("abcd"), SHARES, min_size=1), st.integers(1, 8))
def test_greedy_groups_share_in_ratio(shares: dict[str, int], cores: int) -> None:
    """Where all want everything, shares are the ratio."""
    children = {name: CPUGroup(shares=number) for name, number in shares.items()}
    parts = cpu_allocation(CPUGroup(shares=2, children=children), cores)
    total = sum(shares.values())
    assert parts == {name: Fraction(cores * n, total) for name, n in shares.items()}


@pytest.mark.parametrize(
    ("name", "limits", "parts"),
    [
        ("what a limit leaves goes on", {"a": 1, "b": None}, {"a": 1, "b": 3}),
        ("both limited, some idle", {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ("nobody limited", {"a": None, "b": None}, {"a": 2, "b": 2}),
    ],
)
def test_limits(name: str, limits: dict[str, int | None], parts: dict[str, int]) -> None:
    """Two groups of equal shares on four cores."""
    children = {
        key: CPUGroup(shares=1024, limit=None if limit is None else Fraction(limit))
        for key, limit in limits.items()
    }
    assert cpu_allocation(CPUGroup(shares=2, children=children), 4) == parts, name
