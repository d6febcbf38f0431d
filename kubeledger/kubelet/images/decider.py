"""What a pass of image GC decides, and whether a claimed pass could have been.

Chance has one place in image GC: the order of images with the same two times. A claimed
pass is therefore judged by doing it again with that order taken *from the claim*: among
tied images first those whose removal it says failed, in its order, then those it says were
removed, in its order, then the rest. If any order gives the claim, this one does: within a
tie only the order of the failures, the order of the removals, and who came before the end
of the pass can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kubeledger.kubelet.images.gc import run_pass
from kubeledger.kubelet.images.manager import (
    Observed,
    Operation,
    Pass,
    RealImageGCManager,
)
from kubeledger.kubelet.images.refute import wrong_removal


def decide(manager: RealImageGCManager, operation: Operation, observed: Observed) -> Pass:
    """Do one pass, ties by image ID; the manager's records change in place."""
    return run_pass(manager, operation, observed, {})


def admissible(
    manager: RealImageGCManager,
    operation: Operation,
    observed: Observed,
    claimed: Pass,
) -> str:
    """Why the kubelet could not have done the claimed pass; empty when it could.

    Only ``removed``, ``error`` and ``events`` of the claim are looked at. The manager's
    records change as by the pass, so the next one can be judged on top of it.
    """
    ties = _ties_of(claimed, observed.remove_errors)
    done = run_pass(manager, operation, observed, ties)
    if done.removed != claimed.removed:
        return wrong_removal(operation, manager, observed, done, claimed.removed)
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
