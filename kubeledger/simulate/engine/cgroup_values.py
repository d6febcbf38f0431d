"""What the files of a cgroup hold, as the kernel shows them after a write."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.kubelet.cgroups.conversions import QUOTA_PERIOD_US, weight_of_shares

MOST_PIDS = 32_768
"""Process IDs of every simulated machine."""

_PAGE_BYTES = 4096
_NO_LIMIT_V1 = (2**63 - 1) // _PAGE_BYTES * _PAGE_BYTES
_NONE = -1


class CgroupValues(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of ``CgroupUpdated`` that are values."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit_bytes: int | None = None
    hugetlb_limit_bytes: dict[str, int] = {}
    unified: dict[str, str] = {}
    other: dict[str, str] = {}


def values_of(
    *,
    version: int,
    shares: int,
    quota_us: int | None = None,
    period_us: int | None = None,
    memory: int | None = None,
    pids: int | None = None,
    files: Mapping[str, str] | None = None,
) -> CgroupValues:
    """What is shown where all this was asked for.

    Args:
        version: of the cgroups, 1 or 2.
        shares: CPU shares; version 2 has a weight in their place.
        quota_us: None, 0 and -1 are no quota.
        period_us: None and 0 are the kernel's 100 ms.
        memory: bytes; None and 0 are no limit. The kernel cuts it to whole pages.
        pids: most process IDs; None is no limit.
        files: further ones of version 2, name -> text.
    """
    quota = quota_us if quota_us and quota_us > 0 else _NONE
    period = period_us or QUOTA_PERIOD_US
    limit = memory // _PAGE_BYTES * _PAGE_BYTES if memory and memory > 0 else None
    pids_text = "max" if pids is None else str(pids)
    if version == 1:
        return CgroupValues(
            cpu_shares=shares,
            cpu_quota_us=quota,
            cpu_period_us=period,
            memory_limit_bytes=_NO_LIMIT_V1 if limit is None else min(limit, _NO_LIMIT_V1),
            other={"pids.max": pids_text},
        )
    unified = {
        "cpu.max": f"{'max' if quota == _NONE else quota} {period}",
        "cpu.weight": str(weight_of_shares(shares)),
        "memory.high": "max",
        "memory.low": "0",
        "memory.max": "max" if limit is None else str(limit),
        "memory.min": "0",
        "pids.max": pids_text,
        **(files or {}),
    }
    return CgroupValues(
        cpu_quota_us=quota,
        cpu_period_us=period,
        memory_limit_bytes=_NONE if limit is None else limit,
        unified=dict(sorted(unified.items())),
    )
