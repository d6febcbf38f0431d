"""Which containers used an image when, as pod lists show: no detect pass is needed for that.

Only uses that are certain count: a list shows a container that runs since a time. An image of
which no list tells may have been used all the same, so the lists deny removals and prove none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.images.records import GarbageCollectionStarted, ImageDeleted
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_go_duration, parse_ts

__all__ = ["ImageUse", "denial"]

_AROUND_NS = 2 * NS_PER_S
"""Starts are told to the second, and a list is named by one."""
_DETECTED_NS = 330 * NS_PER_S
"""Within it a detect pass has seen what is in use: one comes every five minutes."""
_LISTS = ("containerStatuses", "initContainerStatuses")


class _Use(msgspec.Struct):
    """One container that ran on an image.

    Attributes:
        seq: the list that showed it last.
    """

    name: str
    from_ns: int
    to_ns: int
    seq: int


class ImageUse:
    """From a first reading of all lists; grows with the containers of a node."""

    def __init__(self) -> None:
        self._uses: dict[str, dict[str, _Use]] = {}

    def foresee(self, record: Record) -> None:
        """Take in one pod of a list."""
        body = record.body
        assert isinstance(body, PodListed)
        for status in _statuses(body.status):
            running = (status.get("state") or {}).get("running") or {}
            image_id, container_id = status.get("imageID"), status.get("containerID")
            started_ns = _time(running.get("startedAt"))
            if not image_id or not container_id or started_ns is None:
                continue
            uses = self._uses.setdefault(str(image_id), {})
            use = uses.get(str(container_id))
            if use is None:
                name = f"{body.namespace}/{body.pod}/{status.get('name')}"
                uses[str(container_id)] = _Use(name, started_ns, record.ts_ns, record.seq)
            elif record.ts_ns > use.to_ns:
                use.to_ns, use.seq = record.ts_ns, record.seq

    def at(self, image_id: str, ts_ns: int) -> tuple[str, int] | None:
        """A container that surely ran on the image then, and the list that shows it."""
        for use in self._uses.get(image_id, {}).values():
            if use.from_ns + _AROUND_NS < ts_ns < use.to_ns - _AROUND_NS:
                return use.name, use.seq
        return None

    def detected_since(self, image_id: str, ts_ns: int) -> tuple[int, str, int] | None:
        """When a detect pass surely found the image in use last: not before which time, by whom."""
        found = [
            (use.to_ns - _DETECTED_NS, use.name, use.seq)
            for use in self._uses.get(image_id, {}).values()
            if use.to_ns <= ts_ns and use.to_ns - use.from_ns > _DETECTED_NS
        ]
        return max(found, default=None)


def denial(
    use: ImageUse,
    record: Record,
    *,
    start: Record | None = None,
    earlier: tuple[Record, ...] = (),
    max_age_ns: int | None = None,
    process_ns: int | None = None,
) -> tuple[str, tuple[int, ...]] | None:
    """Why a removal cannot have been, without any detect pass; None where nothing denies it.

    Args:
        use: of images by containers.
        record: the removal.
        start: of the space pass that it belongs to.
        earlier: removals before it in the same collection.
        max_age_ns: limit of the age pass, 0 for none; None where it is not known.
        process_ns: start of the kubelet process; None where it is not known.

    Returns:
        A sentence, and the records that it rests on.

    Source: v1.30.1 pkg/kubelet/images/image_gc_manager.go imagesInEvictionOrder, freeOldImages,
        freeSpace
    """
    body = record.body
    assert isinstance(body, ImageDeleted)
    if found := use.at(body.image_id, record.ts_ns):
        return f"images in use are kept, and container {found[0]} ran on it", (found[1],)
    if body.pass_ == "age" and max_age_ns is not None:
        return _not_aged(use, body, record.ts_ns, max_age_ns, process_ns)
    wanted = start.body if start is not None else None
    if body.pass_ == "space" and isinstance(wanted, GarbageCollectionStarted):
        sizes = [_size(other) for other in earlier if other.cause == record.cause]
        if None not in sizes and sum(size or 0 for size in sizes) >= wanted.bytes_to_free:
            freed = sum(size or 0 for size in sizes)
            why = f"{freed} of {wanted.bytes_to_free} bytes had been freed before its turn"
            return why, tuple(other.seq for other in earlier)
    return None


def _not_aged(
    use: ImageUse, body: ImageDeleted, ts_ns: int, max_age_ns: int, process_ns: int | None
) -> tuple[str, tuple[int, ...]] | None:
    if not max_age_ns:
        return None  # which pass it is follows from a start that is not told
    limit = format_go_duration(max_age_ns)
    if process_ns is not None and ts_ns - process_ns <= max_age_ns:
        ran = format_go_duration((ts_ns - process_ns) // NS_PER_S * NS_PER_S)
        return f"the kubelet had run for {ran}, and removes by age from {limit} on", ()
    seen = use.detected_since(body.image_id, ts_ns)
    if seen is not None and ts_ns - seen[0] <= max_age_ns:
        return f"container {seen[1]} had used it within {limit}", (seen[2],)
    return None


def _size(record: Record) -> int | None:
    body = record.body
    return body.size_bytes if isinstance(body, ImageDeleted) else None


def _statuses(status: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    for name in _LISTS:
        entries = (status or {}).get(name)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("state") or {}, dict):
                yield entry


def _time(text: object) -> int | None:
    try:
        return parse_ts(text) if isinstance(text, str) else None
    except ValueError:
        return None
