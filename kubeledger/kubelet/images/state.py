"""What the image GC manager holds: its image records; and what it last read and did."""

from __future__ import annotations

import msgspec


class ImageState(msgspec.Struct, kw_only=True):
    """One of the kubelet's ``imageRecord``.

    Attributes:
        size_bytes: None when no source holds it.
        pinned: None for versions that do not know pinned images.
        in_use: a container used it in the last detect pass.
        first_detected_ts_ns: the pass that saw it first since the kubelet process began;
            None when that was before the first record.
        last_used_ts_ns: the last pass that saw it in use; None when none did.
    """

    size_bytes: int | None
    pinned: bool | None
    in_use: bool
    first_detected_ts_ns: int | None
    last_used_ts_ns: int | None


class GCRunState(msgspec.Struct, kw_only=True):
    """The last image GC run in the records.

    Attributes:
        started_ts_ns: start of its space pass; None when it had none.
        finished_ts_ns: None while it runs.
        outcome: ``below_threshold``, ``freed`` or ``failed``; None while it runs.
        images_removed, bytes_freed: so far, counted from the deletions of this run.
    """

    started_ts_ns: int | None
    finished_ts_ns: int | None = None
    outcome: str | None = None
    error: str = ""
    usage_percent: int | None = None
    high_threshold_percent: int | None = None
    low_threshold_percent: int | None = None
    bytes_to_free: int | None = None
    bytes_freed: int = 0
    images_removed: int = 0


class ImageFsState(msgspec.Struct, kw_only=True):
    """The image filesystem as it was last read."""

    read_ts_ns: int
    capacity_bytes: int | None
    available_bytes: int | None
    used_bytes: int | None


class SignalState(msgspec.Struct, kw_only=True):
    """An eviction signal as it was last read (bytes, inodes or processes)."""

    read_ts_ns: int
    available: int
    capacity: int


class ImagesState(msgspec.Struct, kw_only=True):
    """The image GC manager's memory.

    Attributes:
        images: image ID -> record.
        detected_ts_ns: last detect pass; None before the first.
        runs: outcome -> number of runs.
        images_removed, bytes_freed: by all runs.
    """

    images: dict[str, ImageState] = {}
    detected_ts_ns: int | None = None
    image_fs: ImageFsState | None = None
    signals: dict[str, SignalState] = {}
    last_run: GCRunState | None = None
    runs: dict[str, int] = {}
    images_removed: int = 0
    bytes_freed: int = 0
