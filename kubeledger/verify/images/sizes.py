"""Sizes of images as one detect pass after the other lists them.

An image of one ID has one content; the size that a runtime tells of it changes at most when it
is pulled again. So a size that another pass at the same time does not tell, that passes before
and after do not, or that one pass alone tells at the begin or the end, was told wrongly.
"""

from __future__ import annotations

import msgspec

from kubeledger.images.records import ImagesDetected
from kubeledger.machine import Record
from kubeledger.units import format_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.images.knowledge import LISTING_NS

__all__ = ["ImageSizes"]

_ENOUGH = 2
"""Sources that tell one size: against them stands a single one."""


class _Told(msgspec.Struct):
    """A size that passes in a row told.

    Attributes:
        passes: how many.
        seq, ts_ns, place: of the last of them.
        before: what was told before; None where it is not known, or was the same.
        is_first: nothing is known of before.
        is_disputed: it may be the wrong one of two.
    """

    size_bytes: int
    seq: int
    ts_ns: int
    place: str
    passes: int = 1
    before: _Told | None = None
    is_first: bool = False
    is_disputed: bool = False


class ImageSizes:
    """Compares the passes of a ledger; knows the images of the last one only."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._told: dict[str, _Told] = {}

    def take(self, record: Record, body: ImagesDetected) -> None:
        """Compare a pass with those before."""
        listed: dict[str, _Told] = {}
        for image in body.images:
            old = self._told.get(image.image_id)
            if image.size_bytes is not None:
                place = _place(record, image.image_id)
                told = _Told(image.size_bytes, record.seq, record.ts_ns, place)
                old = told if old is None else self._compare(image.image_id, old, told)
            if old is not None:
                listed[image.image_id] = old
        self._told = listed

    def removed(self, image_id: str, size_bytes: int | None) -> None:
        """A removal told the size, too; a wrong one is found elsewhere."""
        told = self._told.get(image_id)
        if told is not None and told.size_bytes == size_bytes:
            told.passes += 1
            self._doubt_first(image_id, told)

    def settle(self) -> None:
        """Nothing follows: what the last pass alone told was no new size."""
        for image_id, told in self._told.items():
            if told.before is not None and told.before.passes >= _ENOUGH and told.passes == 1:
                self._contradict(image_id, told.before, told)

    def _compare(self, image_id: str, old: _Told, new: _Told) -> _Told:
        """What holds from now on."""
        if old.size_bytes == new.size_bytes:
            new.passes, new.before = old.passes + 1, old.before
            self._doubt_first(image_id, new)
            return new
        if old.is_disputed:
            return new  # that is said
        back = old.before is not None and old.before.size_bytes == new.size_bytes
        if not back and not 0 <= new.ts_ns - old.ts_ns <= LISTING_NS:
            # Pulled again, unless the next pass tells the old size.
            old.is_first, old.before, new.before = old.before is None, None, old
            return new
        self._contradict(image_id, old, new)
        if old.passes > 1 and not back:
            return old
        new.is_disputed = not back
        return new

    def _doubt_first(self, image_id: str, told: _Told) -> None:
        """What only the first pass told is no size that the image had before."""
        before = told.before
        alone = before is not None and before.is_first and before.passes == 1
        if before is not None and alone and told.passes == _ENOUGH:
            self._contradict(image_id, before, told)

    def _contradict(self, image_id: str, one: _Told, other: _Told) -> None:
        self._bench.contradict(
            other.ts_ns,
            f"image/{image_id}",
            "detect passes list the image with different sizes, and it is one image",
            (one.seq, _says(one)),
            (other.seq, _says(other)),
        )


def _says(told: _Told) -> str:
    return f"{told.place}{told.size_bytes} bytes at {format_ts(told.ts_ns)}"


def _place(record: Record, image_id: str) -> str:
    """The line that tells the size of an image, with a colon behind it; empty without one."""
    for piece in record.evidence:
        text = piece.text or ""
        if piece.line is not None and image_id in text and "has size" in text:
            return f"{piece.file}:{piece.line}: "
    return ""
