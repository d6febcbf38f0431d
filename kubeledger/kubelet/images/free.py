"""Removing images: the age pass and the space pass over the candidates."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.kubelet.images.eviction_order import Candidate
from kubeledger.kubelet.images.gotime import elapsed
from kubeledger.kubelet.images.manager import Observed, Pass, RealImageGCManager
from kubeledger.kubelet.images.texts import age_removal_error, space_removal_error
from kubeledger.kubelet.images.usage import int64

LEFT_OVER = "is left, because enough was freed before its turn"
"""Why an image stays whose turn did not come."""
FAILED = "is one whose removal fails"
"""Why an image stays that the runtime refuses to remove."""


def free_old_images(
    manager: RealImageGCManager, observed: Observed, images: list[Candidate], done: Pass
) -> list[Candidate]:
    """The age pass: remove what was not used for longer than the maximum age.

    An image that was never seen in use counts as unused for ever, and goes whenever the pass is
    armed; the minimum age does not protect it. What goes here is not credited to the space
    pass. A removal that fails makes the whole collection fail (``done.error``).

    Returns:
        What is left of the candidates, in their order.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:426 freeOldImages
    Differs: nothing.
    """
    max_age_ns, now_ns = manager.policy.max_age_ns, observed.now_ns
    if not manager.facts.age_pass or max_age_ns == 0:
        return images
    if (
        manager.facts.age_pass_waits_for_max_age
        and manager.began_ns is not None
        and elapsed(now_ns, manager.began_ns) <= max_age_ns
    ):
        return images
    errors: list[str] = []
    remaining: list[Candidate] = []
    for candidate in images:
        if elapsed(now_ns, candidate[1].last_used_ns) <= max_age_ns:
            remaining.append(candidate)
        elif error := _free_image(manager, observed, candidate[0], done):
            errors.append(error)
    done.removed_for_age = len(done.removed)
    if errors:
        done.error = age_removal_error(max_age_ns, errors)
    return remaining


def free_space(
    manager: RealImageGCManager,
    observed: Observed,
    bytes_to_free: int,
    images: Sequence[Candidate],
    done: Pass,
) -> None:
    """The space pass: remove one image after the other until enough is freed.

    The test comes after a removal, so even with nothing to free the first that can go
    goes. A removal that fails is passed over, and makes the pass fail in the end, even
    if it freed enough (``done.error``). The disk is not measured again.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:332 freeSpace
    Differs: nothing.
    """
    errors: list[str] = []
    done.bytes_to_free = bytes_to_free
    enough = False
    for image_id, record in images:
        if enough:
            done.kept[image_id] = LEFT_OVER
        elif record.last_used_ns >= observed.now_ns:
            done.kept[image_id] = "was in use when the pass began, or later"
        elif elapsed(observed.now_ns, record.first_detected_ns) < manager.policy.min_age_ns:
            done.kept[image_id] = "was detected more recently than the minimum age"
        elif error := _free_image(manager, observed, image_id, done):
            errors.append(error)
        else:
            done.freed_bytes = int64(done.freed_bytes + record.size_bytes)
            enough = done.freed_bytes >= bytes_to_free
    if errors:
        done.error = space_removal_error(bytes_to_free, done.freed_bytes, errors)


def _free_image(manager: RealImageGCManager, observed: Observed, image_id: str, done: Pass) -> str:
    """Remove one image and its record; the error's text when the runtime refuses.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go:524 freeImage
    Differs: nothing.
    """
    error = observed.remove_errors.get(image_id, "")
    if error:
        done.kept[image_id] = FAILED
        return error
    del manager.records[image_id]
    done.removed.append(image_id)
    return ""
