"""Sandboxes that could not be made because their image had been removed."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.why.target import Target
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts

__all__ = ["Failures", "failures_about"]

_PODS_MAX = 5


class Failures(msgspec.Struct, frozen=True):
    """What the removal of the sandbox image led to.

    Attributes:
        clause: as an end of a sentence; empty where there is nothing to say.
        seqs: of the removal, and of the first failures.
    """

    clause: str = ""
    seqs: tuple[int, ...] = ()


def failures_about(
    history: History, target: Target, seqs: Collection[int], upto_ts_ns: int | None
) -> Failures:
    """Failures that go back to a removal of the target, or that are the target pod's.

    Args:
        history: of the node.
        target: an image or a pod; others get nothing.
        seqs: of the decisions about the target.
        upto_ts_ns: as of this time; None: as of the last record.
    """
    found: dict[int, list[Record]] = {}
    for record in history.read({KubernetesEvent.kind}):
        body = record.body
        if record.cause is None or not isinstance(body, KubernetesEvent):
            continue
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        of_pod = target.kind == "pod" and (body.namespace, body.pod) == target.parts
        if of_pod or (target.kind == "image" and record.cause in seqs):
            found.setdefault(record.cause, []).append(record)
    for seq, failures in reversed(found.items()):
        removal = history.record(seq)
        if removal is not None and isinstance(removal.body, ImageDeleted):
            return _failures_of(target, removal, removal.body, failures)
    return Failures()


def _failures_of(
    target: Target, removal: Record, body: ImageDeleted, failures: list[Record]
) -> Failures:
    times = f"{len(failures)} times" if len(failures) > 1 else "once"
    since = f"from {format_ts(failures[0].ts_ns)} on ({times})"
    if target.kind == "pod":
        clause = (
            f"its sandbox could not be made {since}, for the image of all sandboxes, "
            f"{body.image_id}, had been deleted at {format_ts(removal.ts_ns)}"
        )
    else:
        pods = list(dict.fromkeys(_pod(failure) for failure in failures))
        named = ", ".join(pods[:_PODS_MAX]) + (", ..." if len(pods) > _PODS_MAX else "")
        clause = (
            f"it is the image of all sandboxes: after its deletion at "
            f"{format_ts(removal.ts_ns)} none could be made {since}, which held up {named}"
        )
    return Failures(clause, (removal.seq, *(failure.seq for failure in failures[:_PODS_MAX])))


def _pod(failure: Record) -> str:
    body = failure.body
    assert isinstance(body, KubernetesEvent)
    return f"{body.namespace}/{body.pod}"
