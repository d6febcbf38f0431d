"""Hypothesis strategies of simulations; needs Hypothesis, which a user's tests bring along."""

from __future__ import annotations

from hypothesis import strategies as st

from kubeledger.simulate.engine.plan import Plan
from kubeledger.testing.scenarios import random_plan

__all__ = ["plans", "seeds"]


def seeds() -> st.SearchStrategy[int]:
    """Numbers of random scenarios; a smaller one is no smaller scenario."""
    return st.integers(0, 2**32 - 1)


def plans() -> st.SearchStrategy[Plan]:
    """Plans of random scenarios, see :func:`kubeledger.testing.scenarios.random_plan`."""
    return seeds().map(random_plan)
