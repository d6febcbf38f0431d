"""What denies a removal where no detect pass is logged: the containers of pod lists, and others.

Only uses that are certain count: a list shows a container that runs since a time. An image of
which no list tells may have been used all the same, so the lists deny removals and prove none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_go_duration, parse_ts
from kubeledger.verify.belief import Judgement, same
from kubeledger.verify.rules.images.passes import LISTING_NS
from kubeledger.verify.rules.images.runs import Run, body_of, short

__all__ = ["ImageUse", "denied_without_passes"]

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

    def detected_ns(self, ts_ns: int) -> int | None:
        """When a detect pass surely saw it last, the one at a time itself among them."""
        if self.from_ns + _AROUND_NS + LISTING_NS < ts_ns < self.to_ns - _AROUND_NS:
            return ts_ns
        if self.to_ns <= ts_ns and self.to_ns - self.from_ns > _DETECTED_NS:
            return self.to_ns - _DETECTED_NS
        return None


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
            name = f"{body.namespace}/{body.pod}/{status.get('name')}"
            uses = self._uses.setdefault(str(image_id), {})
            use = uses.setdefault(str(container_id), _Use(name, started_ns, 0, 0))
            if record.ts_ns > use.to_ns:
                use.to_ns, use.seq = record.ts_ns, record.seq

    def denies(self, run: Run, record: Record) -> Judgement | None:
        """Judge a removal by the containers that lists show; None where they allow it.

        Source: v1.30.1 pkg/kubelet/images/image_gc_manager.go imagesInEvictionOrder,
            freeOldImages
        """
        body, ts_ns = body_of(record), record.ts_ns
        max_age_ns = (run.policy.max_age_ns or 0) if _by_age(run, record) else 0
        for use in self._uses.get(body.image_id, {}).values():
            detected_ns = use.detected_ns(ts_ns)
            if detected_ns == ts_ns:
                why = f"images in use are kept, and container {use.name} ran on it"
                return _denied(record, f": {why}", use.seq)
            if detected_ns is not None and ts_ns - detected_ns <= max_age_ns:
                limit = format_go_duration(max_age_ns)
                return _denied(
                    record, f": container {use.name} had used it within {limit}", use.seq
                )
        return None


def denied_without_passes(run: Run, at: int) -> Judgement | None:
    """Judge a removal by the others of its run and by its kubelet's age; None if they allow it.

    Args:
        run: a collection of which no detect pass is known.
        at: place of the removal in it.

    Source: v1.30.1 pkg/kubelet/images/image_gc_manager.go freeOldImages, freeSpace
    """
    record, earlier = run.removals[at], run.removals[:at]
    body, wanted, max_age_ns = body_of(record), run.start_body, run.policy.max_age_ns
    if any(other.body == body and other.ts_ns != record.ts_ns for other in earlier):
        return _denied(record, " twice in one collection")
    if _by_age(run, record) and max_age_ns and run.began_ns is not None:
        ran_ns = record.ts_ns - run.began_ns
        if run.facts.age_pass_waits_for_max_age and ran_ns <= max_age_ns:
            ran, limit = (
                format_go_duration(ns // NS_PER_S * NS_PER_S) for ns in (ran_ns, max_age_ns)
            )
            return _denied(
                record, f": the kubelet had run for {ran}, and removes by age from {limit} on"
            )
    before = [other for other in earlier if other.cause]
    freed = sum(body_of(other).size_bytes or 0 for other in before)
    if body.pass_ == "space" and wanted is not None and before and freed >= wanted.bytes_to_free:
        why = f": {freed} of {wanted.bytes_to_free} bytes had been freed before its turn"
        return _denied(record, why, *(other.seq for other in before))
    return None


def _by_age(run: Run, record: Record) -> bool:
    """Whether it was surely the age pass: no start was lost that would tell of another."""
    return body_of(record).pass_ == "age" and (run.runs is False or run.start is not None)


def _denied(record: Record, why: str, *inputs: int) -> Judgement:
    image = short(body_of(record).image_id)
    return same(False, f"image {image} cannot have been removed{why}", inputs=inputs)


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
