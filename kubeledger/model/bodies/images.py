"""Observations and decisions of the image GC manager (pkg/kubelet/images) and its triggers."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = [
    "EvictionSignalObserved",
    "GarbageCollected",
    "GarbageCollectionStarted",
    "ImageDeleted",
    "ImageFsObserved",
    "ImagesDetected",
    "ListedImage",
]


class ListedImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One image of the runtime's list, as one detect pass saw it.

    Attributes:
        size_bytes: None when the log does not hold it.
        pinned: None for versions that do not know pinned images.
        in_use: a container used it, so its last-used time was set.
        new: this pass saw the image for the first time.
        last_used_ts_ns: time written as last used in this pass; None when not in use.
    """

    image_id: str
    size_bytes: int | None = None
    pinned: bool | None = None
    in_use: bool = False
    new: bool = False
    last_used_ts_ns: int | None = None


class ImagesDetected(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One detect pass: the images that the runtime listed, in its order."""

    kind: ClassVar[str] = "images.ImagesDetected"
    images: tuple[ListedImage, ...]


class ImageFsObserved(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Size of the image filesystem (``/stats/summary``), recorded when it changed.

    Attributes:
        source: where it was read: ``stats-summary`` or ``log``.
    """

    kind: ClassVar[str] = "images.ImageFsObserved"
    capacity_bytes: int | None
    available_bytes: int | None
    used_bytes: int | None = None
    source: str = "stats-summary"


class EvictionSignalObserved(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An eviction signal as the eviction manager read it.

    Attributes:
        signal: e.g. ``nodefs.available``.
        available, capacity: bytes, or inodes, or processes, by the signal.
    """

    kind: ClassVar[str] = "images.EvictionSignalObserved"
    signal: str
    available: int
    capacity: int


class GarbageCollectionStarted(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The image filesystem is over the high threshold: a space pass begins.

    Attributes:
        usage_percent, high_threshold_percent, low_threshold_percent: whole percent.
        bytes_to_free: what the pass is to free.
    """

    kind: ClassVar[str] = "images.GarbageCollectionStarted"
    usage_percent: int
    high_threshold_percent: int
    low_threshold_percent: int
    bytes_to_free: int


class ImageDeleted(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The image manager removed an image; ``cause`` is the run's start where there is one.

    Attributes:
        pass_: ``space``, ``age`` or ``all`` (delete unused images); None when not known.
        reclaimed: resource that the eviction manager reclaimed, in the ``all`` pass; None
            elsewhere, or when no line says.
        signals: its signals that were under their thresholds just then, sorted.
    """

    kind: ClassVar[str] = "images.ImageDeleted"
    image_id: str
    size_bytes: int | None
    pass_: Literal["space", "age", "all"] | None = msgspec.field(name="pass", default=None)
    reclaimed: str | None = None
    signals: tuple[str, ...] = ()


class GarbageCollected(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of one image GC run; ``cause`` is its ``GarbageCollectionStarted``, if any.

    Attributes:
        outcome: ``below_threshold`` (nothing to do), ``freed`` (enough was freed) or
            ``failed``.
        images_removed: deletions that the source shows for this run.
        error: the kubelet's error text; empty without one.
    """

    kind: ClassVar[str] = "images.GarbageCollected"
    usage_percent: int | None = None
    high_threshold_percent: int | None = None
    low_threshold_percent: int | None = None
    bytes_to_free: int | None = None
    bytes_freed: int | None = None
    images_removed: int = 0
    outcome: Literal["below_threshold", "freed", "failed"]
    error: str = ""
