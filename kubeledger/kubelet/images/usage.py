"""How full the image filesystem is, in the kubelet's 64-bit integers."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.images.manager import ImageFsStats
from kubeledger.kubelet.images.policy import ImageGCPolicy

_UNITS = ("KiB", "MiB", "GiB", "TiB")


class DiskUsage(msgspec.Struct, frozen=True):
    """The image filesystem as a GC pass sees it.

    Attributes:
        capacity_bytes, available_bytes: signed 64 bits; available at most the capacity.
        percent: used share, rounded up.
    """

    capacity_bytes: int
    available_bytes: int
    percent: int


def int64(value: int) -> int:
    """The low 64 bits of an integer, signed, as Go's arithmetic leaves them."""
    return (value + 2**63) % 2**64 - 2**63


def read_usage(stats: ImageFsStats) -> DiskUsage | None:
    """The usage, or None for a filesystem without capacity.

    Numbers that are not known count as 0. The share is 100 less the truncated share of
    what is available, so it is rounded up: 84.1 % counts as 85.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:280 GarbageCollect
    Differs: the warning that more is available than there is capacity is not logged.
    """
    capacity = int64(stats.capacity_bytes or 0)
    available = min(int64(stats.available_bytes or 0), capacity)
    if capacity == 0:
        return None
    return DiskUsage(capacity, available, 100 - _quotient(int64(available * 100), capacity))


def bytes_to_free(usage: DiskUsage, policy: ImageGCPolicy) -> int:
    """What is to be freed to come down to the low threshold; may be 0 or less.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:303 GarbageCollect
    Differs: nothing.
    """
    share = int64(usage.capacity_bytes * (100 - policy.low_threshold_percent))
    return int64(_quotient(share, 100) - usage.available_bytes)


def _quotient(dividend: int, divisor: int) -> int:
    """Go's division: towards zero."""
    quotient = abs(dividend) // abs(divisor)
    return int64(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def format_size(size_bytes: int) -> str:
    """A size for people: ``26.4 GiB``, ``512 B``.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:596 formatSize
    Differs: nothing.
    """
    size = float(size_bytes)
    if size < 1024:
        return f"{int(size)} B"
    for unit in _UNITS[:-1]:
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} {_UNITS[-1]}"
