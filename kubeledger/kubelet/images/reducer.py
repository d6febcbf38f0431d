"""What the image GC manager holds, and what it last read and did: records to state.

The kubelet keeps its image records in memory only: a restart begins again
(:func:`forget_all`). In a detect pass an image that is not listed loses its record; one that
is deleted loses it at once.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers, as_told
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
)


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


def forget_all(state: ImagesState) -> None:
    """A new kubelet process has no image records, has read no signal and runs no pass."""
    state.images.clear()
    state.signals.clear()
    state.detected_ts_ns = None
    if state.last_run is not None and state.last_run.finished_ts_ns is None:
        state.last_run = None


def _images_detected(state: ImagesState, ts_ns: int, body: ImagesDetected) -> None:
    before = state.images
    after: dict[str, ImageState] = {}
    for listed in body.images:
        image = before.get(listed.image_id)
        if image is None or listed.new:
            # An image that is not new to the kubelet, but to us, was detected before the
            # first record: when is not known.
            image = ImageState(
                size_bytes=None,
                pinned=None,
                in_use=False,
                first_detected_ts_ns=ts_ns if listed.new else None,
                last_used_ts_ns=None,
            )
        image.in_use = listed.in_use
        if listed.size_bytes is not None:
            image.size_bytes = listed.size_bytes
        if listed.pinned is not None:
            image.pinned = listed.pinned
        if listed.last_used_ts_ns is not None:
            image.last_used_ts_ns = listed.last_used_ts_ns
        elif listed.in_use:
            image.last_used_ts_ns = ts_ns
        after[listed.image_id] = image
    state.images = after
    state.detected_ts_ns = ts_ns


def _image_deleted(state: ImagesState, ts_ns: int, body: ImageDeleted) -> None:
    image = state.images.pop(body.image_id, None)
    size_bytes = body.size_bytes
    if size_bytes is None:
        size_bytes = image.size_bytes if image is not None else None
    freed = size_bytes or 0
    state.images_removed += 1
    state.bytes_freed += freed
    run = state.last_run
    if run is not None and run.finished_ts_ns is None:
        run.images_removed += 1
        run.bytes_freed += freed


def _image_fs_observed(state: ImagesState, ts_ns: int, body: ImageFsObserved) -> None:
    state.image_fs = as_told(ImageFsState, body, read_ts_ns=ts_ns)


def _eviction_signal_observed(state: ImagesState, ts_ns: int, body: EvictionSignalObserved) -> None:
    state.signals[body.signal] = SignalState(
        read_ts_ns=ts_ns, available=body.available, capacity=body.capacity
    )


def _garbage_collection_started(
    state: ImagesState, ts_ns: int, body: GarbageCollectionStarted
) -> None:
    state.last_run = as_told(GCRunState, body, started_ts_ns=ts_ns)


def _garbage_collected(state: ImagesState, ts_ns: int, body: GarbageCollected) -> None:
    state.runs[body.outcome] = state.runs.get(body.outcome, 0) + 1
    run = state.last_run
    if run is None or run.finished_ts_ns is not None:
        run = state.last_run = GCRunState(started_ts_ns=None)
    run.finished_ts_ns = ts_ns
    run.outcome = body.outcome
    run.error = body.error
    run.images_removed = max(run.images_removed, body.images_removed)
    for name in (
        "usage_percent",
        "high_threshold_percent",
        "low_threshold_percent",
        "bytes_to_free",
        "bytes_freed",
    ):
        value = getattr(body, name)
        if value is not None:
            setattr(run, name, value)


HANDLERS: Handlers[ImagesState] = {
    EvictionSignalObserved: _eviction_signal_observed,
    GarbageCollected: _garbage_collected,
    GarbageCollectionStarted: _garbage_collection_started,
    ImageDeleted: _image_deleted,
    ImageFsObserved: _image_fs_observed,
    ImagesDetected: _images_detected,
}
"""Body type -> what it does to the state."""
