"""One pass of image GC, from the loop's or the eviction manager's call to its end.

GarbageCollect      until 1.28: disk check -> detect, candidates -> space pass
                    since 1.29: detect, candidates -> age pass -> disk check -> space pass
DeleteUnusedImages  detect, candidates -> space pass without an end
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kubelet.images.detect import detect_images, monitor_images
from kubeledger.kubelet.images.eviction_order import Candidate, images_in_eviction_order
from kubeledger.kubelet.images.free import free_old_images, free_space
from kubeledger.kubelet.images.manager import Observed, Operation, Pass, RealImageGCManager
from kubeledger.kubelet.images.texts import (
    INVALID_CAPACITY,
    disk_space_failed,
    invalid_capacity,
    shortfall,
)
from kubeledger.kubelet.images.usage import DiskUsage, bytes_to_free, read_usage

_EVERYTHING = 2**63 - 1


def run_pass(
    manager: RealImageGCManager,
    operation: Operation,
    observed: Observed,
    ties: Mapping[str, int],
) -> Pass:
    """Do one pass; the manager's records change in place.

    Args:
        manager: of a kubelet process.
        operation: who called.
        observed: what the pass reads.
        ties: image ID -> place among images with the same two times.
    """
    done = Pass()
    match operation:
        case "detect":
            monitor_images(manager, observed)
        case "garbageCollect":
            _garbage_collect(manager, observed, ties, done)
        case "deleteUnusedImages":
            images = _candidates(manager, observed, ties, done)
            free_space(manager, observed, _EVERYTHING, images, done)
    return done


def _candidates(
    manager: RealImageGCManager, observed: Observed, ties: Mapping[str, int], done: Pass
) -> list[Candidate]:
    in_use = detect_images(manager, observed, observed.now_ns)
    return images_in_eviction_order(manager, in_use, ties, done)


def _garbage_collect(
    manager: RealImageGCManager, observed: Observed, ties: Mapping[str, int], done: Pass
) -> None:
    """Apply the policy.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:273 GarbageCollect; v1.36.2 :349
    Differs: one clock reading for the whole pass, as newer kubelets do; older ones read it
        again when the space pass begins.
    """
    images: list[Candidate] | None = None
    if manager.facts.detects_before_disk_check:
        images = _candidates(manager, observed, ties, done)
        images = free_old_images(manager, observed, images, done)
        if done.error:
            return
    usage = _disk_check(observed, done)
    if usage is None or usage.percent < manager.policy.high_threshold_percent:
        return
    if images is None:
        images = _candidates(manager, observed, ties, done)
    target = bytes_to_free(usage, manager.policy)
    free_space(manager, observed, target, images, done)
    if not done.error and done.freed_bytes < target:
        done.error = shortfall(manager.facts, usage, target, done.freed_bytes)
        done.events.append(disk_space_failed(done.error))


def _disk_check(observed: Observed, done: Pass) -> DiskUsage | None:
    """The disk's usage; None, and ``done.error``, when it is not known."""
    if observed.image_fs is None:
        done.error = observed.image_fs_error
        return None
    usage = read_usage(observed.image_fs)
    if usage is None:
        done.error = INVALID_CAPACITY
        done.events.append(invalid_capacity())
    return usage
