"""The removal of the image of all sandboxes, after the failures to make one.

The kubelet counts images of containers as used, and the sandbox's only where the runtime pins it.
So a collection may remove it, and then no pod starts until somebody pulls it. The failure
names the image, the removal its ID: the node object shows the size that both have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.images import ImageDeleted

__all__ = ["removed_sandbox_image"]

_REASON = "FailedCreatePodSandBox"
_IMAGE = re.compile(
    r"(?:failed to get sandbox image|failed pulling image|unable to pull image) "
    r"\\?\"(?P<image>[^\"\\]+)"
    r"|initializing source docker://(?P<source>[^\s:]+:[^\s:]+)"
)


def removed_sandbox_image(
    context: BundleContext, removed: Sequence[Fact], reason: str, message: str, ts_ns: int
) -> Fact | None:
    """The removal that a failed sandbox goes back to; None where there is no such one.

    Args:
        context: knows the sizes of images by name.
        removed: the removals so far.
        reason: of the event.
        message: of the event, which names the image that the runtime has not.
        ts_ns: of the event.
    """
    found = _IMAGE.search(message) if reason == _REASON else None
    if found is None:
        return None
    size = context.image_sizes.get(found["image"] or found["source"])
    if size is None or list(context.image_sizes.values()).count(size) > 1:
        return None
    for fact in reversed(removed):
        body = fact.body
        if fact.ts_ns <= ts_ns and isinstance(body, ImageDeleted) and body.size_bytes == size:
            return fact
    return None
