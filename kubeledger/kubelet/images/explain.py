"""Whether a claimed pass could have been, and why not.

A claim is judged by doing the pass again with the order of ties taken *from the claim*: among
tied images first those whose removal it says failed, in its order, then those it says were
removed, in its order, then the rest. If any order gives the claim, this one does: within a
tie only the order of the failures, the order of the removals, and who came before the end
of the pass can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from kubeledger.kubelet.images.image_gc_manager import (
    EVERYTHING,
    Kept,
    Observed,
    Operation,
    Pass,
    RealImageGCManager,
    decide,
)
from kubeledger.kubelet.images.policy import int64, read_usage
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS


def admissible(
    manager: RealImageGCManager, operation: Operation, observed: Observed, claimed: Pass
) -> str:
    """Why the kubelet could not have done the claimed pass; empty when it could.

    Only ``removed``, ``error`` and ``events`` of the claim are looked at. The manager's
    records change as by the pass, so the next one can be judged on top of it.
    """
    ties = _ties_of(claimed, observed.remove_errors)
    done = decide(manager, operation, msgspec.structs.replace(observed, ties=ties))
    if done.removed != claimed.removed:
        return _wrong_removal(operation, manager, observed, done, claimed.removed)
    if done.error != claimed.error:
        return (
            f"the pass ends with {_error_text(done.error)}, not with {_error_text(claimed.error)}"
        )
    if done.events != claimed.events:
        return f"the pass sends {_listed(done.events)}, not {_listed(claimed.events)}"
    return ""


def _ties_of(claimed: Pass, remove_errors: Mapping[str, str]) -> dict[str, int]:
    """Image ID -> place among tied images that the claim speaks of."""
    dated: list[tuple[int, str]] = []
    for image_id, error in remove_errors.items():
        # An ID may be the beginning of another one.
        if found := re.search(re.escape(error) + r"(?=, |\]|\Z)", claimed.error):
            dated.append((found.start(), image_id))
    order = [image_id for _, image_id in sorted(dated)] + claimed.removed
    return {image_id: place for place, image_id in reversed(list(enumerate(order)))}


def _error_text(error: str) -> str:
    return f"the error {error!r}" if error else "no error"


def _listed(events: Sequence[str]) -> str:
    return ", ".join(repr(event) for event in events) or "no event"


def _wrong_removal(
    operation: Operation,
    manager: RealImageGCManager,
    observed: Observed,
    done: Pass,
    claimed: Sequence[str],
) -> str:
    """One sentence on the first removal in which the claim and the kubelet differ."""
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
    if due and (wrong in done.removed or done.kept.get(wrong) is Kept.NOT_ITS_TURN):
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
    if done.bytes_to_free == EVERYTHING:
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
    kept = done.kept.get(wrong)
    if kept is Kept.FAILED:
        return f"its removal fails with {observed.remove_errors[wrong]!r}"
    if kept is Kept.NOT_ITS_TURN:
        return (
            f"the pass ends before its turn, with {done.freed_bytes} bytes freed "
            f"where {done.bytes_to_free} were to be freed"
        )
    if kept is not None:
        return f"it {kept}"
    if done.error:
        return f"the pass ended before with the error {done.error!r}"
    high = manager.policy.high_threshold_percent
    usage = None if observed.image_fs is None else read_usage(observed.image_fs)
    used = f"used to {usage.percent} %, " if usage is not None else ""
    return f"no space was to be freed, the disk being {used}below the high threshold of {high} %"
