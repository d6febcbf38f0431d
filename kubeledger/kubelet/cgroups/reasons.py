"""Sums of the kubelet in words: which amount gives shares or a quota, and what clamps them."""

from __future__ import annotations

from kubeledger.kubelet.cgroups.conversions import (
    MAX_SHARES,
    MILLI_PER_CPU,
    MIN_QUOTA_US,
    MIN_SHARES,
    SHARES_PER_CPU,
)

Path = tuple[str, ...]
"""Keys from the outcome down to a value."""


def shares_reason(milli_cpu: int, shares: int) -> str:
    """``and 1350 * 1024 / 1000 = 1382``, or which end of the range stands in."""
    exact = milli_cpu * SHARES_PER_CPU // MILLI_PER_CPU
    if shares == exact:
        return f"and {milli_cpu} * {SHARES_PER_CPU} / {MILLI_PER_CPU} = {shares}"
    if shares == MIN_SHARES:
        return f"and {MIN_SHARES} shares are the least"
    if shares == MAX_SHARES:
        return f"and {MAX_SHARES} shares are the most"
    return "which 64 bits cannot hold in shares"


def quota_reason(milli_cpu: int, period_us: int, quota_us: int) -> str:
    """``and 500 * 100000 / 1000 = 50000``, or that the least stands in."""
    exact = milli_cpu * period_us // MILLI_PER_CPU
    if quota_us == exact:
        return f"and {milli_cpu} * {period_us} / {MILLI_PER_CPU} = {quota_us}"
    if quota_us == MIN_QUOTA_US:
        return f"and a quota of {MIN_QUOTA_US} is the least"
    return "which 64 bits cannot hold as a quota"
