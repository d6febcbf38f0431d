"""From CPU amounts to the kernel's knobs: shares, quota and weight, and back.

Shares say who gets how much when CPU is scarce, quota how much there is at most. With
cgroup v2 shares become a weight, by one of two formulas: the kubelet's is linear, runtimes
went over to a curve that maps the default 1024 to the default 100.
"""

from __future__ import annotations

import math
from typing import Final

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144
SHARES_PER_CPU: Final = 1024
MILLI_PER_CPU: Final = 1000
QUOTA_PERIOD_US: Final = 100_000
MIN_QUOTA_US: Final = 1000
MAX_WEIGHT: Final = 10_000


def shares_of_milli_cpu(milli_cpu: int, *, capped: bool = True) -> int:
    """CPU shares of a request in millicores: 1024 a core, 2 at least.

    Args:
        milli_cpu: millicores; 0 is no request.
        capped: whether 262144 is the most.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go MilliCPUToShares
    Differs: ``capped=False`` is kuberuntime's own milliCPUToShares up to v1.23.
    """
    shares = quotient(milli_cpu * SHARES_PER_CPU, MILLI_PER_CPU)
    if shares < MIN_SHARES:
        return MIN_SHARES
    return MAX_SHARES if capped and shares > MAX_SHARES else shares


def quota_of_milli_cpu(milli_cpu: int, period_us: int) -> int:
    """CFS quota in microseconds a period of a limit in millicores; 0 where there is none.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota
    Differs: the period is the one in force: 100 ms while the gate CPUCFSQuotaPeriod is off.
    """
    if milli_cpu == 0:
        return 0
    return max(quotient(milli_cpu * period_us, MILLI_PER_CPU), MIN_QUOTA_US)


def weight_of_shares(shares: int) -> int:
    """cpu.weight as the kubelet writes it to pod, QoS and node cgroups: linear.

    Source: v1.36.2 pkg/kubelet/cm/cgroup_manager_linux.go getCPUWeight
    Differs: below the least shares, which the kubelet never asks for, 1.
    """
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * 9999 // 262142


def weight_of_shares_curved(shares: int) -> int:
    """cpu.weight as newer runtimes (runc 1.3.2, crun 1.23) write it to containers.

    Source: opencontainers/cgroups v0.0.5 utils.go ConvertCPUSharesToCgroupV2Value
    """
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


_INT64_MIN: Final = -(2**63)


def quotient(dividend: int, divisor: int) -> int:
    """``dividend / divisor`` of int64, rounded towards zero; ``divisor`` is positive."""
    wrapped = dividend
    if not _INT64_MIN <= dividend < -_INT64_MIN:
        wrapped = (dividend - _INT64_MIN) % 2**64 + _INT64_MIN
    return wrapped // divisor if wrapped >= 0 else -(-wrapped // divisor)


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
