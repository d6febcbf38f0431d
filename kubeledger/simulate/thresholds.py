"""Eviction thresholds: from the settings, and which of them are met.

A threshold stays met until the minimum to be reclaimed is there on top of it; a soft one must
be met for its grace period before anything follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kubeledger.cgroups.node_config import eviction_threshold
from kubeledger.kube.quantity import Quantity, int64_of_float
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.simulate.config import table
from kubeledger.units import parse_go_duration

__all__ = [
    "ALLOCATABLE_MEMORY",
    "CONDITION_OF",
    "MEMORY",
    "RESOURCE_OF",
    "Reading",
    "Threshold",
    "amount_of",
    "met",
    "thresholds_of",
]

MEMORY: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"

RESOURCE_OF: Final[dict[str, str]] = {
    MEMORY: "memory",
    ALLOCATABLE_MEMORY: "memory",
    "imagefs.available": "ephemeral-storage",
    "imagefs.inodesFree": "inodes",
    "containerfs.available": "ephemeral-storage",
    "containerfs.inodesFree": "inodes",
    "nodefs.available": "ephemeral-storage",
    "nodefs.inodesFree": "inodes",
    "pid.available": "pids",
}
"""Signal -> what is short."""

CONDITION_OF: Final[dict[str, str]] = {
    signal: {"memory": "MemoryPressure", "pids": "PIDPressure"}.get(resource, "DiskPressure")
    for signal, resource in RESOURCE_OF.items()
}
"""Signal -> condition of the node."""


class Reading(NamedTuple):
    """A signal as it was read: bytes, inodes or processes."""

    available: int
    capacity: int


class Threshold(NamedTuple):
    """One threshold; ``value`` and ``minimum`` are a quantity or a share of the capacity.

    Attributes:
        minimum: to be reclaimed on top of it; None for none.
        grace_ns: how long it must be met; 0 for a hard one.
    """

    signal: str
    value: Quantity | float
    minimum: Quantity | float | None = None
    grace_ns: int = 0


def amount_of(value: Quantity | float, capacity: int) -> int:
    """Threshold as an amount.

    Source: v1.36.2 pkg/kubelet/eviction/api/types.go GetThresholdQuantity
    """
    if isinstance(value, float):
        return int64_of_float(float(capacity) * value)
    return value.value()


def thresholds_of(
    settings: Mapping[str, Any], profile: KubeletProfile, *, dedicated: bool
) -> tuple[Threshold, ...]:
    """All thresholds, hard ones first, in the order of their signals' names.

    Args:
        settings: effective ones.
        profile: of the kubelet.
        dedicated: images and containers have a file system of their own.

    Raises:
        EvictionThresholdError: one is refused.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go ParseThresholdConfig,
        addAllocatableThresholds, UpdateContainerFsThresholds
    Differs: the order, which there is that of a Go map.
    """
    facts = profile.cgroups
    minimums = {
        signal: _minimum(signal, text, profile)
        for signal, text in table(settings, "evictionMinimumReclaim").items()
    }
    graces = table(settings, "evictionSoftGracePeriod")
    found: list[Threshold] = []
    for name in ("evictionHard", "evictionSoft"):
        for signal, text in sorted(table(settings, name).items()):
            value = eviction_threshold(signal, text, facts)
            if value is None:
                continue
            grace_ns = parse_go_duration(graces[signal]) if name == "evictionSoft" else 0
            found.append(Threshold(signal, value, minimums.get(signal), grace_ns))
    if profile.eviction.split_disk_known:
        found = _with_container_fs(found, "imagefs" if dedicated else "nodefs")
    enforced = settings.get("enforceNodeAllocatable")
    if enforced is None or "pods" in enforced:
        found += [
            threshold._replace(signal=ALLOCATABLE_MEMORY)
            for threshold in found
            if threshold.signal == MEMORY and not threshold.grace_ns
        ]
    return tuple(found)


def _with_container_fs(thresholds: list[Threshold], disk: str) -> list[Threshold]:
    """The disk of containers has the thresholds of the disk that it is part of."""
    kept = [t for t in thresholds if not t.signal.startswith("containerfs.")]
    same = [t for t in kept if t.signal.startswith(f"{disk}.")]
    return kept + [t._replace(signal=t.signal.replace(disk, "containerfs")) for t in same]


def _minimum(signal: str, text: str, profile: KubeletProfile) -> Quantity | float | None:
    if text.endswith("%"):
        return eviction_threshold(signal, text, profile.cgroups)
    quantity = Quantity.from_api(text)
    return None if quantity.is_zero else quantity


def met(
    thresholds: Iterable[Threshold], readings: Mapping[str, Reading], *, minimum: bool
) -> list[Threshold]:
    """Those under which a signal is; with ``minimum``, or under their minimum above them.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go thresholdsMet
    """
    found: list[Threshold] = []
    for threshold in thresholds:
        reading = readings.get(threshold.signal)
        if reading is None:
            continue
        limit = amount_of(threshold.value, reading.capacity)
        if minimum and threshold.minimum is not None:
            limit += amount_of(threshold.minimum, reading.capacity)
        if limit > reading.available:
            found.append(threshold)
    return found
