"""Image garbage collection, pass by pass: the kubelet's image_gc_manager.go.

The manager's whole memory is one record an image: since when it is known, when it was last seen
in use, how large it is. Everything else is read again in each pass::

    detect              the records follow the runtime's list
    garbageCollect      until 1.28: disk check -> detect, candidates -> space pass
                        since 1.29: detect, candidates -> age pass -> disk check -> space pass
    deleteUnusedImages  detect, candidates -> space pass without an end

Chance has one place: the order of images with the same two times, which is that of a Go map and
of an unstable sort. ``Observed.ties`` gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Literal

import msgspec

from kubeledger.kubelet.images.policy import (
    INVALID_CAPACITY,
    DiskUsage,
    ImageFsStats,
    ImageGCPolicy,
    bytes_to_free,
    read_usage,
    shortfall,
    space_removal_error,
)
from kubeledger.kubelet.kube.gotexts import DURATION_MAX_NS, ZERO_TIME_NS, aggregate
from kubeledger.kubelet.kube.int64amount import wrapped
from kubeledger.kubelet.kube.pod import Bytes
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.units import format_go_duration

Operation = Literal["detect", "garbageCollect", "deleteUnusedImages"]
"""A pass of the detect loop, one of the GC loop, one for the eviction manager."""

EVERYTHING: Final = 2**63 - 1
"""What a pass without an end is to free."""
_LAST: Final = 1 << 62


class ImageRecord(msgspec.Struct, kw_only=True):
    """What the manager knows of one image.

    Attributes:
        first_detected_ns: time given to the detect pass that saw it first; may be the zero
            time.
        last_used_ns: when a detect pass last saw it in use; the zero time when none did.
        size_bytes: as listed last; layers shared with other images count in each.
    """

    first_detected_ns: int
    last_used_ns: int = ZERO_TIME_NS
    size_bytes: int = 0
    pinned: bool = False

    @property
    def eviction_key(self) -> tuple[int, int]:
        """What the kubelet compares; records of equal keys are tied."""
        return self.last_used_ns, self.first_detected_ns


class RuntimeImage(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An image as the runtime lists it; ``pinned`` is False for runtimes that do not say."""

    image_id: str = msgspec.field(name="id")
    size_bytes: Bytes = msgspec.field(name="size")
    pinned: bool = False


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass reads from the world.

    Attributes:
        now_ns: the clock, in nanoseconds since the epoch; it stands still during a pass.
        images: in the runtime's order.
        images_in_use: image IDs of all containers, in whatever state they are.
        image_fs: None when the stats cannot be had.
        remove_errors: image ID -> what its removal fails with.
        ties: image ID -> place among images with the same two times; those without one come
            last, by ID.
    """

    now_ns: int
    images: tuple[RuntimeImage, ...]
    images_in_use: frozenset[str]
    image_fs: ImageFsStats | None
    image_fs_error: str = "failed to get image stats"
    remove_errors: Mapping[str, str] = {}
    ties: Mapping[str, int] = {}


class Kept(StrEnum):
    """Why a pass leaves an image: what can be said of it."""

    IN_USE = "is in use"
    PINNED = "is pinned"
    USED_SINCE = "was in use when the pass began, or later"
    YOUNG = "was detected more recently than the minimum age"
    FAILED = "is one whose removal fails"
    NOT_ITS_TURN = "is left, because enough was freed before its turn"


class Pass(msgspec.Struct, kw_only=True):
    """What one pass did, and why it left what it left.

    Attributes:
        removed: image IDs in the order they were removed.
        error: the kubelet's text; empty without one.
        events: ``<type> <reason> <message>`` each.
        kept: image ID -> why it was left.
        eviction_keys: image ID -> last used and first detected of a candidate, in the order
            they are to go.
        removed_for_age: how many of the removed ones the age pass removed; they come first.
        freed_bytes: by the space pass.
        bytes_to_free: what the space pass was to free; None when there was none.
    """

    removed: list[str] = []
    error: str = ""
    events: list[str] = []
    kept: dict[str, Kept] = {}
    eviction_keys: dict[str, tuple[int, int]] = {}
    removed_for_age: int = 0
    freed_bytes: int = 0
    bytes_to_free: int | None = None


class RealImageGCManager(msgspec.Struct, kw_only=True):
    """The manager of one kubelet process (Go ``realImageGCManager``).

    Attributes:
        sandbox_image: ID of the kubelet's configured sandbox image; empty when the runtime
            does not have it.
        began_ns: start of the GC loop, from which the age pass waits; None: long ago.
        records: image ID -> record. With the gate RuntimeClassInImageCriAPI (alpha, off) the
            kubelet adds the runtime handler to the key.
        initialized: a pass of the detect loop has succeeded.
    """

    policy: ImageGCPolicy
    facts: ImageFacts
    sandbox_image: str = ""
    began_ns: int | None = None
    records: dict[str, ImageRecord] = {}
    initialized: bool = False


Candidates = list[tuple[str, ImageRecord]]


def decide(manager: RealImageGCManager, operation: Operation, observed: Observed) -> Pass:
    """Do one pass; the manager's records change in place.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:273 GarbageCollect; v1.36.2 :349,
        DeleteUnusedImages
    Differs: one clock reading for the whole pass, as newer kubelets do; older ones read it
        again when the space pass begins.
    """
    done = Pass()
    match operation:
        case "detect":
            monitor_images(manager, observed)
        case "garbageCollect":
            _garbage_collect(manager, observed, done)
        case "deleteUnusedImages":
            free_space(manager, observed, EVERYTHING, _candidates(manager, observed, done), done)
    return done


def _garbage_collect(manager: RealImageGCManager, observed: Observed, done: Pass) -> None:
    images: Candidates | None = None
    if manager.facts.detects_before_disk_check:
        images = _candidates(manager, observed, done)
        images = free_old_images(manager, observed, images, done)
        if done.error:
            return
    usage = _disk_check(observed, done)
    if usage is None or usage.percent < manager.policy.high_threshold_percent:
        return
    if images is None:
        images = _candidates(manager, observed, done)
    target = bytes_to_free(usage, manager.policy)
    free_space(manager, observed, target, images, done)
    if not done.error and done.freed_bytes < target:
        done.error = shortfall(manager.facts, usage, target, done.freed_bytes)
        done.events.append(f"Warning FreeDiskSpaceFailed {done.error}")


def _candidates(manager: RealImageGCManager, observed: Observed, done: Pass) -> Candidates:
    in_use = detect_images(manager, observed, observed.now_ns)
    return images_in_eviction_order(manager, observed, in_use, done)


def _disk_check(observed: Observed, done: Pass) -> DiskUsage | None:
    """The disk's usage; None, and ``done.error``, when it is not known."""
    if observed.image_fs is None:
        done.error = observed.image_fs_error
        return None
    usage = read_usage(observed.image_fs)
    if usage is None:
        done.error = INVALID_CAPACITY
        done.events.append(f"Warning InvalidDiskCapacity {INVALID_CAPACITY}")
    return usage


# -- detecting images ---------------------------------------------------------------------------


def monitor_images(manager: RealImageGCManager, observed: Observed) -> None:
    """One pass of the detect loop, which runs every five minutes.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:177 Start
    Differs: a runtime that does not answer leaves everything as it was; that pass is not
        given to this function.
    """
    unknown_past = manager.facts.first_detect_time_zero and not manager.initialized
    detect_images(manager, observed, ZERO_TIME_NS if unknown_past else observed.now_ns)
    manager.initialized = True


def detect_images(
    manager: RealImageGCManager, observed: Observed, detect_time_ns: int
) -> frozenset[str]:
    """Bring the records up to date with the runtime's list.

    Args:
        manager: its records change in place.
        detect_time_ns: written as first detected for images without a record.

    Returns:
        IDs of the images in use, listed or not.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:209 detectImages
    Differs: list and containers are read at one instant; the kubelet reads them one after
        the other.
    """
    in_use = observed.images_in_use
    if manager.facts.sandbox_image_in_use and manager.sandbox_image:
        in_use |= {manager.sandbox_image}
    records, listed = manager.records, dict[str, ImageRecord]()
    for image in observed.images:
        record = records.get(image.image_id)
        if record is None:
            record = records[image.image_id] = ImageRecord(first_detected_ns=detect_time_ns)
        if image.image_id in in_use:
            record.last_used_ns = observed.now_ns
        record.size_bytes = image.size_bytes
        record.pinned = image.pinned
        listed[image.image_id] = record
    manager.records = listed
    return in_use


def images_in_use(
    container_images: Iterable[str], volume_images: Iterable[str], facts: ImageFacts
) -> frozenset[str]:
    """Image IDs that the containers of a node hold.

    Args:
        container_images: image reference of every container that the runtime lists, running
            or not, of any pod; a pod that waits to use an image does not protect it.
        volume_images: images that they mount as volumes.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:244 detectImages, :326
        handleImageVolumes
    """
    in_use = frozenset(container_images)
    return in_use.union(volume_images) if facts.image_volumes_in_use else in_use


# -- removing images ----------------------------------------------------------------------------


def images_in_eviction_order(
    manager: RealImageGCManager, observed: Observed, in_use: frozenset[str], done: Pass
) -> Candidates:
    """The candidates of a pass: least recently used first, then first detected first.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:549 imagesInEvictionOrder; until
        1.28 it was the beginning of freeSpace
    Differs: ties are broken by ``ties``, not by chance.
    """
    candidates: Candidates = []
    for image_id, record in manager.records.items():
        if image_id in in_use:
            done.kept[image_id] = Kept.IN_USE
        elif record.pinned and manager.facts.pinned_images_kept:
            done.kept[image_id] = Kept.PINNED
        else:
            candidates.append((image_id, record))
    ties = observed.ties
    candidates.sort(key=lambda c: (*c[1].eviction_key, ties.get(c[0], _LAST), c[0]))
    done.eviction_keys = {image_id: record.eviction_key for image_id, record in candidates}
    return candidates


def free_old_images(
    manager: RealImageGCManager, observed: Observed, images: Candidates, done: Pass
) -> Candidates:
    """The age pass: remove what was not used for longer than the maximum age.

    An image that was never seen in use counts as unused for ever, and goes whenever the pass is
    armed; the minimum age does not protect it. What goes here is not credited to the space
    pass. A removal that fails makes the whole collection fail (``done.error``).

    Returns:
        What is left of the candidates, in their order.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:426 freeOldImages
    """
    facts, max_age_ns, now_ns = manager.facts, manager.policy.max_age_ns, observed.now_ns
    began_ns = manager.began_ns if facts.age_pass_waits_for_max_age else None
    if not facts.age_pass or max_age_ns == 0:
        return images
    if began_ns is not None and elapsed(now_ns, began_ns) <= max_age_ns:
        return images
    errors: list[str] = []
    remaining: Candidates = []
    for candidate in images:
        if elapsed(now_ns, candidate[1].last_used_ns) <= max_age_ns:
            remaining.append(candidate)
        elif error := _free_image(manager, observed, candidate[0], done):
            errors.append(error)
    done.removed_for_age = len(done.removed)
    if errors:
        done.error = (
            f"wanted to free images older than {format_go_duration(max_age_ns)}, encountered "
            f"errors in image deletion: {aggregate(errors)}"
        )
    return remaining


def free_space(
    manager: RealImageGCManager, observed: Observed, target: int, images: Candidates, done: Pass
) -> None:
    """The space pass: remove one image after the other until enough is freed.

    The test comes after a removal, so even with nothing to free the first that can go
    goes. A removal that fails is passed over, and makes the pass fail in the end, even
    if it freed enough (``done.error``). The disk is not measured again.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:332 freeSpace
    """
    errors: list[str] = []
    done.bytes_to_free = target
    enough = False
    for image_id, record in images:
        if enough:
            done.kept[image_id] = Kept.NOT_ITS_TURN
        elif record.last_used_ns >= observed.now_ns:
            done.kept[image_id] = Kept.USED_SINCE
        elif elapsed(observed.now_ns, record.first_detected_ns) < manager.policy.min_age_ns:
            done.kept[image_id] = Kept.YOUNG
        elif error := _free_image(manager, observed, image_id, done):
            errors.append(error)
        else:
            done.freed_bytes = wrapped(done.freed_bytes + record.size_bytes)
            enough = done.freed_bytes >= target
    if errors:
        done.error = space_removal_error(target, done.freed_bytes, errors)


def _free_image(manager: RealImageGCManager, observed: Observed, image_id: str, done: Pass) -> str:
    """Remove one image and its record; the error's text when the runtime refuses."""
    error = observed.remove_errors.get(image_id, "")
    if error:
        done.kept[image_id] = Kept.FAILED
        return error
    del manager.records[image_id]
    done.removed.append(image_id)
    return ""


def elapsed(later_ns: int, earlier_ns: int) -> int:
    """Nanoseconds between two times, held within 64 bits, 292 years (Go ``Time.Sub``)."""
    return max(-DURATION_MAX_NS - 1, min(DURATION_MAX_NS, later_ns - earlier_ns))
