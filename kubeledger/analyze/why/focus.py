"""What a record about many things says of the one that is asked about."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubeledger.analyze.sql.summaries import summary_of
from kubeledger.analyze.why.concern import is_image
from kubeledger.analyze.why.target import Target
from kubeledger.model.bodies.eviction import ReclaimAttempted
from kubeledger.model.bodies.images import ImagesDetected, ListedImage
from kubeledger.model.record import Evidence, Record
from kubeledger.model.units import format_ts

_TELLING = {
    "lifecycle.PodEvicted": ("Evicting pod", "evicted successfully", "failed to evict"),
    "oom.ProcessKilled": ("Killed process",),
}
"""Kind -> words of the line that says what happened, the best first."""


def line_about(target: Target, record: Record) -> Evidence | None:
    """The line of a record that names the target, of its use before others; else the best one.

    An eviction is shown by what was done to the pod, not by the list of all that might have gone;
    a kill of the kernel by the line that names the process.
    """
    if isinstance(record.body, ImagesDetected) and target.kind == "image":
        image = _listed(target, record.body)
        named = image.image_id if image is not None else None
        lines = [piece for piece in record.evidence if named and named in (piece.text or "")]
        used = [piece for piece in lines if "lastused" in (piece.text or "").lower()]
        for piece in (*used, *lines[-1:]):
            return piece
    for words in _TELLING.get(record.kind, ()):
        for piece in record.evidence:
            if words in (piece.text or ""):
                return piece
    return record.evidence[0] if record.evidence else None


def passes_about(target: Target, records: Iterable[Record], main: Record) -> list[Record]:
    """Detect passes up to a decision that found an image: when it was new, and the last one.

    Args:
        target: any; what is not an image has no pass.
        records: those of the node.
        main: the decision.
    """
    found: dict[str, Record] = {}
    for record in records:
        if target.kind != "image" or record.seq > main.seq:
            break
        image = _listed(target, record.body) if isinstance(record.body, ImagesDetected) else None
        if image is not None:
            found |= {"new": record, "last": record} if image.new else {"last": record}
    return list({record.seq: record for record in found.values()}.values())


def words_about(target: Target, record: Record) -> str | None:
    """What a detect pass found out about an image, whom a node ranked; else None."""
    if isinstance(body := record.body, ReclaimAttempted) and target.kind == "node" and body.ranked:
        ranked = ", ".join(f"{each.namespace}/{each.pod}" for each in body.ranked)
        return f"{summary_of(record.kind, msgspec.to_builtins(body))}; in rank: {ranked}"
    if not isinstance(record.body, ImagesDetected) or target.kind != "image":
        return None
    image = _listed(target, record.body)
    total = len(record.body.images)
    if image is None:
        return f"not among the {total} images listed"
    use = "in use" if image.in_use else "not in use"
    new = ", not there before" if image.new else ""
    last = image.last_used_ts_ns
    used = f", last used at {format_ts(last)}" if last and not image.in_use else ""
    return f"one of {total} images listed: {use}{used}{new}"


def _listed(target: Target, body: ImagesDetected) -> ListedImage | None:
    return next((image for image in body.images if is_image(target, image.image_id)), None)
