"""Which containers used an image when, as pod lists show.

Only uses that are certain count: a list shows a container that runs since a time. An image of
which no list tells may have been used all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubeledger.kubelet.images.gotime import ZERO_TIME_NS
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage
from kubeledger.verify.rules.images.runs import Run, body_of

__all__ = ["ImageUse"]

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
            name = f"{body.namespace}/{body.pod}/{status.get('name')}"
            uses = self._uses.setdefault(str(image_id), {})
            use = uses.setdefault(str(container_id), _Use(name, started_ns, 0, 0))
            if record.ts_ns > use.to_ns:
                use.to_ns, use.seq = record.ts_ns, record.seq

    def passes(self, run: Run) -> tuple[DetectPass, ...]:
        """The passes of which one is a run's own, with what lists show to be in use, too.

        Where none is logged, one that saw the images that went, of which nothing else is known.
        """
        if run.options or not run.removals:
            return tuple(map(self._with_lists, run.options or ()))
        record = run.removals[0]
        begun_ns = record.ts_ns if run.start is None else run.start.ts_ns
        bodies = {body_of(each).image_id: body_of(each) for each in reversed(run.removals)}
        known: dict[str, KnownImage] = {}
        for image_id, body in bodies.items():
            used_ns, seq = self._detected(image_id, record.ts_ns)
            known[image_id] = KnownImage(
                first_lo_ns=ZERO_TIME_NS,
                first_hi_ns=ZERO_TIME_NS,
                order_ns=ZERO_TIME_NS,
                before=True,
                last_used_ns=used_ns if body.pass_ == "age" else begun_ns - 1,
                size_bytes=body.size_bytes,
                used_seq=seq,
            )
        return (self._with_lists(DetectPass(record, {}, known)),)

    def _with_lists(self, own: DetectPass) -> DetectPass:
        ts_ns, in_use, known = own.record.ts_ns, dict(own.in_use), dict(own.known)
        for image_id in known:
            for use in self._uses.get(image_id, {}).values():
                if use.from_ns + _AROUND_NS + LISTING_NS < ts_ns < use.to_ns - _AROUND_NS:
                    in_use.setdefault(image_id, f"is in use: container {use.name} ran on it")
                    known[image_id] = msgspec.structs.replace(known[image_id], used_seq=use.seq)
        return DetectPass(own.record, in_use, known)

    def _detected(self, image_id: str, ts_ns: int) -> tuple[int, int | None]:
        """When a pass surely saw an image in use last, not before which time, and the list."""
        return max(
            (
                (use.to_ns - _DETECTED_NS, use.seq)
                for use in self._uses.get(image_id, {}).values()
                if use.to_ns <= ts_ns and use.to_ns - use.from_ns > _DETECTED_NS
            ),
            default=(ZERO_TIME_NS, None),
        )


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
