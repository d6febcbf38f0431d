"""Why a claimed list of removals cannot be what a pass of image GC removed."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.kubelet.images.free import FAILED, LEFT_OVER
from kubeledger.kubelet.images.gotime import ZERO_TIME_NS
from kubeledger.kubelet.images.manager import Observed, Operation, Pass, RealImageGCManager
from kubeledger.kubelet.images.usage import int64, read_usage

_EVERYTHING = 2**63 - 1


def wrong_removal(
    operation: Operation,
    manager: RealImageGCManager,
    observed: Observed,
    done: Pass,
    claimed: Sequence[str],
) -> str:
    """One sentence on the first removal in which the claim and the kubelet differ.

    Args:
        operation: who called.
        manager: after the pass.
        observed: what the pass read.
        done: the pass in the order of ties that the claim speaks of.
        claimed: (n,) image IDs, other than those the pass removed.
    """
    at = 0
    while at < min(len(done.removed), len(claimed)) and done.removed[at] == claimed[at]:
        at += 1
    due = done.removed[at] if at < len(done.removed) else ""
    if at == len(claimed):
        return f"{due} was left, although {_why_due(observed, done, at)}"
    wrong = claimed[at]
    if operation == "detect":
        return f"{wrong} cannot have been removed: a detect pass removes nothing"
    if wrong in claimed[:at]:
        return f"{wrong} was removed twice in one pass"
    if due and (wrong in done.removed or done.kept.get(wrong) == LEFT_OVER):
        return _out_of_turn(done, wrong, due, later=due in claimed[at:])
    return f"{wrong} cannot have been removed: {_why_kept(manager, observed, done, wrong)}"


def _why_due(observed: Observed, done: Pass, at: int) -> str:
    """Why the pass does not end before its removal number ``at``."""
    if at < done.removed_for_age:
        return "it was not used for longer than the maximum age"
    sizes = {image.image_id: image.size_bytes for image in observed.images}
    freed = 0
    for image_id in done.removed[done.removed_for_age : at]:
        freed = int64(freed + sizes[image_id])
    if done.bytes_to_free == _EVERYTHING:
        return "it was its turn: this pass removes all images that it can"
    if at == done.removed_for_age and (done.bytes_to_free or 0) <= 0:
        return "it was its turn: the first image that can go goes, even with nothing to free"
    return f"it was its turn, and only {freed} of {done.bytes_to_free} bytes were freed before"


def _out_of_turn(done: Pass, wrong: str, due: str, *, later: bool) -> str:
    """A removal before one that comes earlier in the order."""
    (due_used, _), (wrong_used, _) = done.eviction_keys[due], done.eviction_keys[wrong]
    if due_used == wrong_used:
        first = "was detected earlier"
    else:
        first = "was never used" if due_used == ZERO_TIME_NS else "was last used earlier"
    if later:
        return f"{wrong} was removed before {due}, which {first}"
    return f"{wrong} was removed while {due}, which {first}, was left"


def _why_kept(manager: RealImageGCManager, observed: Observed, done: Pass, wrong: str) -> str:
    """What kept an image from being removed at all."""
    if all(image.image_id != wrong for image in observed.images):
        return "the runtime does not list it"
    reason = done.kept.get(wrong)
    if reason == FAILED:
        return f"its removal fails with {observed.remove_errors[wrong]!r}"
    if reason == LEFT_OVER:
        return (
            f"the pass ends before its turn, with {done.freed_bytes} bytes freed "
            f"where {done.bytes_to_free} were to be freed"
        )
    if reason:
        return f"it {reason}"
    if done.error:
        return f"the pass ended before with the error {done.error!r}"
    high = manager.policy.high_threshold_percent
    usage = None if observed.image_fs is None else read_usage(observed.image_fs)
    used = f"used to {usage.percent} %, " if usage is not None else ""
    return f"no space was to be freed, the disk being {used}below the high threshold of {high} %"
