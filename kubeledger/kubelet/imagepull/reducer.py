"""Image manager: pulls that fail, and records of pulls, from records to state.

Back-offs are in the memory of one process; its files of pulls stay. That a file was removed no
record shows: an intent goes with the end of its pull.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers
from kubeledger.model.bodies.images import PullDecided, PullEnded, PullRecordRead, PullUsers


class FailingPull(msgspec.Struct, kw_only=True):
    """An image of a pod whose last pull failed.

    Attributes:
        failures: how many are recorded.
        failed_ts_ns: when the last one did, as recorded; None where only back-offs are.
        held_back_ts_ns: when the kubelet last did not try it for that; None as long as it did.
    """

    failures: int = 0
    failed_ts_ns: int | None = None
    reason: str | None = None
    error: str = ""
    held_back_ts_ns: int | None = None


class RecordOfPull(msgspec.Struct, kw_only=True):
    """A file of ``image_manager/pulled/``, as last read."""

    read_ts_ns: int
    updated_ts_ns: int | None
    users: dict[str, PullUsers]


class ImagePullState(msgspec.Struct, kw_only=True):
    """What is known of pulls.

    Attributes:
        failing: pod key -> image (empty where no source names it) -> its pull.
        pulled: the runtime's ID of an image -> its record.
        pulling: image -> when its file was read.
    """

    failing: dict[str, dict[str, FailingPull]] = {}
    pulled: dict[str, RecordOfPull] = {}
    pulling: dict[str, int] = {}


def decided(state: ImagePullState, key: str, ts_ns: int, body: PullDecided | PullEnded) -> None:
    """A decision about a pod that is on the node."""
    image, pulls = body.image or "", state.failing.get(key, {})
    if isinstance(body, PullDecided):
        if body.decision == "back_off":
            pull = state.failing.setdefault(key, pulls).setdefault(image, FailingPull())
            pull.held_back_ts_ns = ts_ns
        return
    state.pulling.pop(image, None)
    if body.outcome != "pulled":
        pull = state.failing.setdefault(key, pulls).setdefault(image, FailingPull())
        pull.failures += 1
        pull.failed_ts_ns, pull.reason, pull.error = ts_ns, body.reason, body.error
    elif pulls.pop(image, None) is not None and not pulls:
        del state.failing[key]


def _file_read(state: ImagePullState, ts_ns: int, body: PullRecordRead) -> None:
    if body.image_ref is not None:
        state.pulled[body.image_ref] = RecordOfPull(
            read_ts_ns=ts_ns, updated_ts_ns=body.updated_ts_ns, users=dict(body.users)
        )
    elif body.image is not None:
        state.pulling[body.image] = ts_ns


HANDLERS: Handlers[ImagePullState] = {PullRecordRead: _file_read}
"""Body type -> what it does to the state; decisions go by way of the pod that they are about."""
