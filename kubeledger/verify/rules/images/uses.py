"""Which containers used an image when, as pod lists show: no detect pass is needed for that.

Only uses that are certain count: a list shows a container that runs since a time. An image of
which no list tells may have been used all the same, so the lists deny removals and prove none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

import msgspec

from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_go_duration, parse_ts
from kubeledger.verify.rules.images.courses import short
from kubeledger.verify.rules.images.passes import LISTING_NS
from kubeledger.verify.rules.images.removals import body_of
from kubeledger.verify.rules.images.runs import Run

__all__ = ["ImageUse", "why_denied"]

_AROUND_NS: Final = 2 * NS_PER_S
"""Starts are told to the second, and a list is named by one."""
_DETECTED_NS: Final = 330 * NS_PER_S
"""Within it a detect pass has seen what is in use: one comes every five minutes."""


class _Use(msgspec.Struct):
    """One container that ran on an image; ``seq`` is the list that showed it last."""

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
        """A container that surely ran on the image when a pass detected it, and its list."""
        for use in self._uses.get(image_id, {}).values():
            if use.from_ns + _AROUND_NS + LISTING_NS < ts_ns < use.to_ns - _AROUND_NS:
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


def why_denied(
    use: ImageUse, run: Run, record: Record, *, decided: bool
) -> tuple[str, tuple[int, ...]] | None:
    """Why a removal cannot have been, without any detect pass; None where nothing denies it.

    Args:
        use: of images by containers.
        run: that it belongs to.
        record: the removal.
        decided: detect passes told what had to go, so only the lists can add something.

    Returns:
        A sentence, and the records that it rests on.

    Source: v1.30.1 pkg/kubelet/images/image_gc_manager.go imagesInEvictionOrder, freeOldImages,
        freeSpace
    """
    body = body_of(record)
    denied = f"image {short(body.image_id)} cannot have been removed"
    if found := use.at(body.image_id, record.ts_ns):
        return f"{denied}: images in use are kept, and container {found[0]} ran on it", (found[1],)
    if decided:
        return None
    earlier = tuple(takewhile(lambda other: other is not record, run.removals))
    if any(other.body == body and other.ts_ns != record.ts_ns for other in earlier):
        return f"{denied} twice in one collection", ()
    if body.pass_ == "age" and run.policy.max_age_ns and (run.runs is False or run.start):
        young = _why_not_aged(use, run, record, run.policy.max_age_ns)
        return None if young is None else (f"{denied}: {young[0]}", young[1])
    wanted, sizes = run.start_body, [body_of(r).size_bytes for r in earlier if r.cause]
    if body.pass_ == "space" and wanted is not None and None not in sizes:
        freed = sum(size or 0 for size in sizes)
        if sizes and freed >= wanted.bytes_to_free:
            why = f"{freed} of {wanted.bytes_to_free} bytes had been freed before its turn"
            return f"{denied}: {why}", tuple(other.seq for other in earlier)
    return None


def _why_not_aged(
    use: ImageUse, run: Run, record: Record, max_age_ns: int
) -> tuple[str, tuple[int, ...]] | None:
    limit, ts_ns = format_go_duration(max_age_ns), record.ts_ns
    waits = run.facts.age_pass_waits_for_max_age and run.began_ns is not None
    if waits and run.began_ns is not None and ts_ns - run.began_ns <= max_age_ns:
        ran = format_go_duration((ts_ns - run.began_ns) // NS_PER_S * NS_PER_S)
        return f"the kubelet had run for {ran}, and removes by age from {limit} on", ()
    seen = use.detected_since(body_of(record).image_id, ts_ns)
    if seen is not None and ts_ns - seen[0] <= max_age_ns:
        return f"container {seen[1]} had used it within {limit}", (seen[2],)
    return None


def _statuses(status: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    for name in ("containerStatuses", "initContainerStatuses"):
        entries = (status or {}).get(name)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("state") or {}, dict):
                yield entry


def _time(text: object) -> int | None:
    try:
        return parse_ts(text) if isinstance(text, str) else None
    except ValueError:
        return None
