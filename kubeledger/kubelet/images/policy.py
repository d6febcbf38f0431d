"""The image GC policy and its loop, and how full the image filesystem is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.kube.gotexts import aggregate
from kubeledger.kubelet.kube.int64amount import quotient, wrapped
from kubeledger.kubelet.kube.pod import NotNegative
from kubeledger.kubelet.profile.images import ImageFacts

GC_PERIOD_S: Final = 300
DETECT_PERIOD_S: Final = 300


class ImageGCPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When images are removed, and which (pkg/kubelet/images ImageGCPolicy).

    Attributes:
        high_threshold_percent: a disk used by so much, or more, triggers a space pass.
        low_threshold_percent: down to which the space pass frees.
        min_age_ns: images detected more recently are left alone by the space pass.
        max_age_ns: images unused for longer go in the age pass; 0: no age pass.
    """

    high_threshold_percent: int
    low_threshold_percent: int
    min_age_ns: int
    max_age_ns: int = 0


def policy_error(policy: ImageGCPolicy) -> str:
    """Why the manager refuses the policy; empty when it takes it.

    Equal thresholds pass here; the validation of the kubelet's configuration, which
    comes before, refuses those.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:152 NewImageGCManager
    """
    high, low = policy.high_threshold_percent, policy.low_threshold_percent
    if not 0 <= high <= 100:
        return f"invalid HighThresholdPercent {high}, must be in range [0-100]"
    if not 0 <= low <= 100:
        return f"invalid LowThresholdPercent {low}, must be in range [0-100]"
    if low > high:
        return f"LowThresholdPercent {low} can not be higher than HighThresholdPercent {high}"
    return ""


def effective_max_age_ns(configured_ns: int, facts: ImageFacts) -> int:
    """The maximum age that a kubelet's manager is given for ``imageMaximumGCAge``.

    Source: v1.30.1 pkg/kubelet/kubelet.go:433 NewMainKubelet
    Differs: the note that the setting is ignored is not logged.
    """
    return configured_ns if facts.maximum_age_gate_on else 0


def loop_disabled(
    high_threshold_percent: int, configured_max_age_ns: int, facts: ImageFacts
) -> str:
    """What the kubelet logs when it does not start the loop; empty when it does.

    The detect loop runs in any case, and the eviction manager removes images
    whatever the thresholds are.

    Source: v1.20.2 pkg/kubelet/kubelet.go:1261; v1.30.1 :1451 StartGarbageCollection
    """
    if high_threshold_percent != 100:
        return ""
    if not facts.loop_runs_for_maximum_age:
        return "ImageGCHighThresholdPercent is set 100, Disable image GC"
    if effective_max_age_ns(configured_max_age_ns, facts):
        return ""
    return "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC"


# How full the image filesystem is, in the kubelet's 64-bit integers; errors word for word.

INVALID_CAPACITY: Final = "invalid capacity 0 on image filesystem"
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


class ImageFsStats(
    msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True
):
    """The image filesystem; None stands for a number that the provider does not know."""

    capacity_bytes: NotNegative | None
    available_bytes: NotNegative | None


class DiskUsage(msgspec.Struct, frozen=True):
    """The image filesystem as a GC pass sees it.

    Attributes:
        capacity_bytes, available_bytes: signed 64 bits; available at most the capacity.
        percent: used share, rounded up.
    """

    capacity_bytes: int
    available_bytes: int
    percent: int


def read_usage(stats: ImageFsStats) -> DiskUsage | None:
    """The usage, or None for a filesystem without capacity.

    Numbers that are not known count as 0. The share is 100 less the truncated share of
    what is available, so it is rounded up: 84.1 % counts as 85.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:280 GarbageCollect
    Differs: the warning that more is available than there is capacity is not logged.
    """
    capacity = wrapped(stats.capacity_bytes or 0)
    available = min(wrapped(stats.available_bytes or 0), capacity)
    if capacity == 0:
        return None
    return DiskUsage(capacity, available, 100 - quotient(available * 100, capacity))


def bytes_to_free(usage: DiskUsage, policy: ImageGCPolicy) -> int:
    """What is to be freed to come down to the low threshold; may be 0 or less.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:303 GarbageCollect
    """
    share = wrapped(usage.capacity_bytes * (100 - policy.low_threshold_percent))
    return wrapped(quotient(share, 100) - usage.available_bytes)


def format_size(size_bytes: int) -> str:
    """A size for people: ``26.4 GiB``, ``512 B``.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:596 formatSize
    """
    size = float(size_bytes)
    if size < 1024:
        return f"{int(size)} B"
    for unit in _UNITS[:-1]:
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} {_UNITS[-1]}"


def space_removal_error(wanted_bytes: int, freed_bytes: int, errors: Sequence[str]) -> str:
    """A space pass in which removals failed, whether or not it freed enough."""
    return (
        f"wanted to free {wanted_bytes} bytes, but freed {freed_bytes} bytes space with errors "
        f"in image deletion: {aggregate(errors)}"
    )


def shortfall(facts: ImageFacts, usage: DiskUsage, wanted_bytes: int, freed_bytes: int) -> str:
    """A space pass that freed too little, in the words of the version."""
    if facts.shortfall_names_disk_usage:
        return (
            f"Insufficient free disk space on the node's image filesystem ({usage.percent}% of "
            f"{format_size(usage.capacity_bytes)} used). Failed to free sufficient space by "
            f"deleting unused images (freed {freed_bytes} bytes). Investigate disk usage, as it "
            "could be used by active images, logs, volumes, or other data."
        )
    if facts.shortfall_names_found_bytes:
        return (
            "Failed to garbage collect required amount of images. Attempted to free "
            f"{wanted_bytes} bytes, but only found {freed_bytes} bytes eligible to free."
        )
    return (
        "failed to garbage collect required amount of images. Wanted to free "
        f"{wanted_bytes} bytes, but freed {freed_bytes} bytes"
    )
