"""What the image GC manager remembers, what it reads in a pass, and what a pass does.

The manager's whole memory is one record an image: since when it is known, when it was last
seen in use, how large it is. Everything else is read again in each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from kubeledger.kubelet.images.gotime import ZERO_TIME_NS
from kubeledger.kubelet.images.policy import ImageGCPolicy
from kubeledger.kubelet.profile.images import ImageFacts

Operation = Literal["detect", "garbageCollect", "deleteUnusedImages"]
"""A pass of the detect loop, one of the GC loop, one for the eviction manager."""


class ImageRecord(msgspec.Struct, kw_only=True):
    """What the manager knows of one image.

    Attributes:
        first_detected_ns: time given to the detect pass that saw it first; may be the zero
            time.
        last_used_ns: when a detect pass last saw it in use; the zero time when none did.
        size_bytes: as listed last; layers shared with other images count in each.
        pinned: as listed last.
    """

    first_detected_ns: int
    last_used_ns: int = ZERO_TIME_NS
    size_bytes: int = 0
    pinned: bool = False


class RuntimeImage(msgspec.Struct, frozen=True, gc=False):
    """An image as the runtime lists it; ``pinned`` is False for runtimes that do not say."""

    image_id: str
    size_bytes: int
    pinned: bool = False


class ImageFsStats(msgspec.Struct, frozen=True, gc=False):
    """The image filesystem; None stands for a number that the provider does not know."""

    capacity_bytes: int | None
    available_bytes: int | None


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass reads from the world.

    Attributes:
        now_ns: the clock, in nanoseconds since the epoch; it stands still during a pass.
        images: in the runtime's order.
        images_in_use: image IDs of all containers, in whatever state they are.
        image_fs: None when the stats cannot be had.
        image_fs_error: why they cannot.
        remove_errors: image ID -> what its removal fails with.
    """

    now_ns: int
    images: tuple[RuntimeImage, ...]
    images_in_use: frozenset[str]
    image_fs: ImageFsStats | None
    image_fs_error: str = "failed to get image stats"
    remove_errors: Mapping[str, str] = {}


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
    kept: dict[str, str] = {}
    eviction_keys: dict[str, tuple[int, int]] = {}
    removed_for_age: int = 0
    freed_bytes: int = 0
    bytes_to_free: int | None = None


class RealImageGCManager(msgspec.Struct, kw_only=True):
    """The manager of one kubelet process (Go ``realImageGCManager``).

    Attributes:
        policy: valid.
        facts: of the kubelet's version.
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
