"""Which containers used an image when, as pod lists show.

Only uses that are certain count: a list shows a container that runs since a time. An image of
which no list shows may have been used all the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from kubeledger.kubelet.kube.instants import ZERO_TIME_NS
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage
from kubeledger.verify.rules.images.runs import Run, body_of

_AROUND_NS: Final = 2 * NS_PER_S
"""Starts are known to the second, and a list is named by one."""
_DETECTED_NS: Final = 330 * NS_PER_S
"""Within it a detect pass has seen what is in use: one comes every five minutes."""


class _Use(msgspec.Struct):
    """One container that ran on an image; ``seq`` is the list that showed it last."""

    name: str
    from_ns: int
    to_ns: int = 0
    seq: int = 0


class ImageUse:
    """From a first reading of all lists; grows with the containers of a node."""

    def __init__(self) -> None:
        self._uses: dict[str, dict[str, _Use]] = {}

    def prescan(self, record: Record, body: PodListed) -> None:
        """Take in one pod of a list."""
        for group in ("containerStatuses", "initContainerStatuses"):
            for status in (body.status or {}).get(group) or ():
                with suppress(KeyError, TypeError, ValueError):  # parts that show nothing
                    began_ns = parse_ts(status["state"]["running"]["startedAt"])
                    name = f"{body.namespace}/{body.pod}/{status['name']}"
                    uses = self._uses.setdefault(str(status["imageID"]), {})
                    use = uses.setdefault(str(status["containerID"]), _Use(name, began_ns))
                    if record.ts_ns > use.to_ns:
                        use.to_ns, use.seq = record.ts_ns, record.seq

    def passes(self, run: Run) -> tuple[DetectPass, ...]:
        """The passes of which one is a run's own, with what lists show to be in use, too.

        Where none is logged, one that saw the images that went, of which nothing else is known.
        """
        passes = run.passes or ()
        if run.removals and not passes:
            known = {}
            for body in map(body_of, reversed(run.removals)):
                used_ns, seq = run.records[0].ts_ns - 1, 0
                if body.pass_ == "age":
                    used_ns, seq = self._detected(body.image_id, run.removals[0].ts_ns)
                known[body.image_id] = KnownImage(
                    before=True, size_bytes=body.size_bytes, last_used_ns=used_ns, used_seq=seq
                )
            passes = (DetectPass(run.removals[0], {}, known),)
        return tuple(map(self._with_lists, passes))

    def _with_lists(self, own: DetectPass) -> DetectPass:
        ts_ns, in_use, known = own.record.ts_ns, dict(own.in_use), dict(own.known)
        for image_id in known:
            for use in self._uses.get(image_id, {}).values():
                if use.from_ns + _AROUND_NS + LISTING_NS < ts_ns < use.to_ns - _AROUND_NS:
                    in_use.setdefault(image_id, f"is in use: container {use.name} ran on it")
                    known[image_id] = msgspec.structs.replace(known[image_id], used_seq=use.seq)
        return DetectPass(own.record, in_use, known)

    def _detected(self, image_id: str, ts_ns: int) -> tuple[int, int]:
        """When a pass surely saw an image in use last, not before which time, and the list."""
        return max(
            (
                (use.to_ns - _DETECTED_NS, use.seq)
                for use in self._uses.get(image_id, {}).values()
                if use.to_ns <= ts_ns and use.to_ns - use.from_ns > _DETECTED_NS
            ),
            default=(ZERO_TIME_NS, 0),
        )
