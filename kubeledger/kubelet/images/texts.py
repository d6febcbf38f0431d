"""Errors and events of image GC, word for word."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.kubelet.images.usage import DiskUsage, format_size
from kubeledger.kubelet.kube.gotexts import aggregate
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.units import format_go_duration

INVALID_CAPACITY = "invalid capacity 0 on image filesystem"


def space_removal_error(wanted_bytes: int, freed_bytes: int, errors: Sequence[str]) -> str:
    """A space pass in which removals failed, whether or not it freed enough."""
    return (
        f"wanted to free {wanted_bytes} bytes, but freed {freed_bytes} bytes space with errors "
        f"in image deletion: {aggregate(errors)}"
    )


def age_removal_error(max_age_ns: int, errors: Sequence[str]) -> str:
    """An age pass in which removals failed."""
    return (
        f"wanted to free images older than {format_go_duration(max_age_ns)}, encountered errors "
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


def invalid_capacity() -> str:
    """The event of a filesystem without capacity."""
    return f"Warning InvalidDiskCapacity {INVALID_CAPACITY}"


def disk_space_failed(message: str) -> str:
    """The event of a pass that freed too little; its message is the error's text."""
    return f"Warning FreeDiskSpaceFailed {message}"
