"""Small histories of image GC."""

from typing import Any

import msgspec

from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.record import Body, Record
from kubeledger.verify.rules.evictions.rule import EvictionVerifier
from kubeledger.verify.rules.images.rule import ImageVerifier
from tests.verify.histories import nothing_but, scene, settings_told

CAPACITY = 1_024_000_000
"""Of the image filesystem; 1 % is 2,500 blocks of 4096 bytes."""

POLICY = {
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 70,
    "imageMinimumGCAge": "2m0s",
    "imageMaximumGCAge": "0s",
    "evictionHard": {"imagefs.available": "5%", "memory.available": "100Mi"},
    "evictionSoft": {},
    "evictionMinimumReclaim": {},
}


alone = nothing_but(ImageVerifier, EvictionVerifier)


def settings(**changes: Any) -> SettingsObserved:  # noqa: ANN401 # any JSON value
    """The settings of ``POLICY``, with changes; None takes one away."""
    return settings_told({k: v for k, v in {**POLICY, **changes}.items() if v is not None})


def disk(available_percent: int) -> ImageFsObserved:
    return ImageFsObserved(
        capacity_bytes=CAPACITY, available_bytes=CAPACITY * available_percent // 100
    )


def signal(available_percent: int, name: str = "imagefs.available") -> EvictionSignalObserved:
    """The eviction manager reads a signal."""
    return EvictionSignalObserved(
        signal=name, available=CAPACITY * available_percent // 100, capacity=CAPACITY
    )


def detected(
    names: str, *, used: str = "", new: str = "", pinned: str = "", size: int | None = 1_000_000
) -> ImagesDetected:
    """A detect pass over images of one letter each."""
    return ImagesDetected(
        images=tuple(
            ListedImage(
                image_id=name,
                size_bytes=size,
                in_use=name in used,
                new=name in new,
                pinned=name in pinned,
            )
            for name in names
        )
    )


def started(usage: int = 85, amount: int | None = None) -> GarbageCollectionStarted:
    """A space pass begins at ``usage`` percent."""
    due = CAPACITY * (usage - 70) // 100
    return GarbageCollectionStarted(
        usage_percent=usage,
        high_threshold_percent=80,
        low_threshold_percent=70,
        bytes_to_free=due if amount is None else amount,
    )


def deleted(name: str, pass_: Any = "space", size: int = 1_000_000) -> ImageDeleted:  # noqa: ANN401 # one of three words
    return ImageDeleted(image_id=name, size_bytes=size, pass_=pass_)


def collected(
    removed: int = 0, freed: int | None = None, *, usage: int | None = 85, error: str | None = None
) -> GarbageCollected:
    """The end of a collection that freed too little, by the words of 1.36, or of another."""
    freed = removed * 1_000_000 if freed is None else freed
    text = (
        f"Insufficient free disk space on the node's image filesystem ({usage}% of 976.6 MiB "
        f"used). Failed to free sufficient space by deleting unused images (freed {freed} "
        "bytes). Investigate disk usage, as it could be used by active images, logs, volumes, "
        "or other data."
    )
    return GarbageCollected(
        usage_percent=usage,
        high_threshold_percent=80,
        low_threshold_percent=70,
        bytes_to_free=CAPACITY * ((usage or 0) - 70) // 100,
        bytes_freed=freed,
        images_removed=removed,
        outcome="failed" if error != "" else "freed",
        error=text if error is None else error,
    )


def history(*steps: tuple[float, Body]) -> list[Record]:
    """Records of bodies, joined as the importer joins those of one collection."""
    joined: list[Record] = []
    start: int | None = None
    for record in scene(*steps):
        cause = None
        match record.body:
            case KubeletStarted():
                start = None
            case GarbageCollectionStarted():
                start = record.seq
            case ImageDeleted(pass_="space"):
                cause = start
            case GarbageCollected():
                cause, start = start, None
        joined.append(msgspec.structs.replace(record, cause=cause))
    return joined
