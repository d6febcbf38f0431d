"""What an importer tells of a decision when lines beside its own are lost.

Some decisions have no line of their own, or tell what was counted from others: a restart is the
start of a container behind another one, a probe's change is told by the ticks before it, a
collection counts the removals that the log shows. Where those lines are lost, no importer could
tell the same. Nothing here knows what verification asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodListed,
)
from kubeledger.model.record import Body, Record
from tests.verify.properties.probes_reimported import probes_reimported


def reimported(whole: Sequence[Record], left: Iterable[Record]) -> list[Record]:
    """The records that are left, as an importer would tell them without the others."""
    kept = {record.seq for record in left}
    if len(kept) == len(whole):
        return list(whole)
    return [
        reported
        for record in probes_reimported(whole, kept)
        if (reported := _reported(record, kept, whole)) is not None
    ]


def numbered(records: Sequence[Record]) -> list[Record]:
    """Seqs from 1 without a gap; a cause that is gone is none."""
    seqs: dict[int, int] = {}
    done = []
    for seq, record in enumerate(records, 1):
        if record.seq:
            seqs[record.seq] = seq
        cause = seqs.get(record.cause) if record.cause is not None else None
        done.append(msgspec.structs.replace(record, seq=seq, cause=cause))
    return done


def _reported(record: Record, kept: set[int], whole: Sequence[Record]) -> Record | None:
    rule = _RULES.get(type(record.body))
    body = rule(record, kept, whole) if rule is not None else record.body
    if body is None or body is record.body:
        return record if body is not None else None
    return msgspec.structs.replace(record, body=body)


def _restart(record: Record, kept: set[int], whole: Sequence[Record]) -> Body | None:
    """Told by the start; the instance before is the last one of which the log tells."""
    body: Any = record.body
    before: str | None = None
    is_reported = is_counted = False
    for other in whole:
        seen = other.body
        if other.seq not in kept:
            continue
        if isinstance(seen, PodListed):
            is_counted = is_counted or _shows(seen, body.container_id)
        if not isinstance(seen, ContainerStarted | ContainerDied):
            continue
        if seen.container_id == body.container_id:
            is_reported = is_reported or isinstance(seen, ContainerStarted)
        elif other.seq < record.seq and _of(seen) == _of(body):
            before = seen.container_id
    if not is_reported or before is None:
        return None
    changes: dict[str, Any] = {"previous_container_id": before}
    if record.cause not in kept:
        changes["reason"] = None
    if not is_counted:
        changes["restart_count"] = None
    changed: Body = msgspec.structs.replace(body, **changes)
    return changed


def _kill(record: Record, kept: set[int], whole: Sequence[Record]) -> Body | None:
    """That a pod was preempted or evicted is told by a line of its own."""
    body: Any = record.body
    if body.reason not in ("preempted", "evicted") or record.cause in (None, *kept):
        return record.body
    changed: Body = msgspec.structs.replace(body, reason=None)
    return changed


def _shows(body: PodListed, container_id: str | None) -> bool:
    """Whether a list tells of an instance, and so how often its container was started."""
    statuses = (body.status or {}).get("containerStatuses") or ()
    inits = (body.status or {}).get("initContainerStatuses") or ()
    ids = [str(status.get("containerID")) for status in (*statuses, *inits)]
    return container_id is not None and any(each.endswith(container_id) for each in ids)


def _of(body: Any) -> tuple[object, ...]:  # noqa: ANN401 - a body about a container
    return body.pod_uid, body.namespace, body.pod, body.container


def _removal(record: Record, kept: set[int], whole: Sequence[Record]) -> Body | None:
    """Which pass it is of is told by the start of the run."""
    body: Any = record.body
    cause = record.cause
    if body.pass_ == "space" and cause is not None and cause not in kept:
        changed: Body = msgspec.structs.replace(body, pass_=None)
        return changed
    return record.body


def _collection(record: Record, kept: set[int], whole: Sequence[Record]) -> Body | None:
    """Its removals are counted, and added up where it failed to say what it freed."""
    body: Any = record.body
    start = next((r for r in whole if r.seq == record.cause), None)
    begin = (
        start if start is not None and isinstance(start.body, GarbageCollectionStarted) else None
    )
    ended = (r.seq for r in whole if isinstance(r.body, GarbageCollected) and r.seq < record.seq)
    first = begin.seq if begin is not None else max(ended, default=0)
    removed = [
        other
        for other in whole
        if isinstance(other.body, ImageDeleted)
        and first < other.seq < record.seq
        and other.body.pass_ != "all"
        and (begin is None or other.cause == begin.seq)
    ]
    lost = [other for other in removed if other.seq not in kept]
    changes: dict[str, Any] = {}
    if lost and body.images_removed:
        changes["images_removed"] = max(0, body.images_removed - len(lost))
        if body.outcome == "freed" and body.bytes_freed is not None:
            sizes = [getattr(other.body, "size_bytes", 0) or 0 for other in lost]
            changes["bytes_freed"] = body.bytes_freed - sum(sizes)
    if begin is not None and begin.seq not in kept:
        changes |= dict.fromkeys(
            ("usage_percent", "high_threshold_percent", "low_threshold_percent", "bytes_to_free")
        )
    return msgspec.structs.replace(body, **changes) if changes else record.body


_Rule = Callable[[Record, set[int], Sequence[Record]], Body | None]
_RULES: dict[type[Body], _Rule] = {
    ContainerKilled: _kill,
    ContainerRestarted: _restart,
    GarbageCollected: _collection,
    ImageDeleted: _removal,
}
