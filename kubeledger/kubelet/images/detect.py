"""Detecting images: which are there, since when, which are in use.

Only the *listing* decides what has a record, and only the containers what is in use; a pod that
waits to use an image does not protect it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.kubelet.images.gotime import ZERO_TIME_NS
from kubeledger.kubelet.images.manager import ImageRecord, Observed, RealImageGCManager
from kubeledger.kubelet.profile.images import ImageFacts


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
        observed: the list and the images in use.
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
            or not, of any pod.
        volume_images: images that they mount as volumes.
        facts: of the kubelet's version.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:244 detectImages, :326
        handleImageVolumes
    Differs: nothing.
    """
    in_use = frozenset(container_images)
    return in_use.union(volume_images) if facts.image_volumes_in_use else in_use
