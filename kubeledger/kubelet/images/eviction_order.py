"""In which order images go: least recently used first, then first detected first.

Further ties are decided by the order of a Go map and an unstable sort: any order of images with the
same two times can happen. A typical case is a kubelet that just started: all its images
have the same times.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kubelet.images.manager import ImageRecord, Pass, RealImageGCManager

Candidate = tuple[str, ImageRecord]

_LAST = 1 << 62


def eviction_key(record: ImageRecord) -> tuple[int, int]:
    """What the kubelet compares; records of equal keys are tied."""
    return record.last_used_ns, record.first_detected_ns


def images_in_eviction_order(
    manager: RealImageGCManager, in_use: frozenset[str], ties: Mapping[str, int], done: Pass
) -> list[Candidate]:
    """The candidates of a pass, the first to go first.

    Args:
        manager: its records, after a detect pass.
        in_use: what that pass returned.
        ties: image ID -> place among images of the same times; those without one come last,
            by ID.
        done: notes why images are no candidates, and the times of those that are.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:549 imagesInEvictionOrder; until
        1.28 it was the beginning of freeSpace
    Differs: ties are broken by ``ties``, not by chance.
    """
    candidates: list[Candidate] = []
    for image_id, record in manager.records.items():
        if image_id in in_use:
            done.kept[image_id] = "is in use"
        elif record.pinned and manager.facts.pinned_images_kept:
            done.kept[image_id] = "is pinned"
        else:
            candidates.append((image_id, record))
    candidates.sort(key=lambda c: (*eviction_key(c[1]), ties.get(c[0], _LAST), c[0]))
    done.eviction_keys = {image_id: eviction_key(record) for image_id, record in candidates}
    return candidates
