"""From CPU amounts to the kernel's knobs: shares, quota and weight, and back.

Shares say who gets how much when CPU is scarce, quota how much there is at most. With
cgroup v2 shares become a weight, by one of two formulas: the kubelet's is linear, runtimes
went over to a curve that maps the default 1024 to the default 100.
"""

from __future__ import annotations

import math
from typing import Final

from kubeledger.kubelet.cgroups.arithmetic import quotient

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


def milli_cpu_of_shares(shares: int) -> int:
    """Millicores that shares stand for, rounded up; 0 below the least.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go SharesToMilliCPU
    """
    if shares < MIN_SHARES:
        return 0
    return math.ceil(shares * MILLI_PER_CPU / SHARES_PER_CPU)


def milli_cpu_of_quota(quota_us: int, period_us: int) -> int:
    """Millicores that a quota allows; 0 where it is -1, no limit.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go QuotaToMilliCPU
    """
    return 0 if quota_us == -1 else quotient(quota_us * MILLI_PER_CPU, period_us)


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
