"""The kubelet's image records as detect passes show them, times between bounds.

A detect pass is logged when it goes through its list. The time it gives to what it sees for
the first time was read before it asked the runtime, so that time is known between bounds.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.kube.instants import ZERO_TIME_NS
from kubeledger.model.bodies.images import ImagesDetected, ListedImage
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S

LISTING_NS: Final = 5 * NS_PER_S
"""The runtime lists images and containers in less time than this."""
_OWN_NS: Final = 30 * NS_PER_S
"""A collection's own pass comes no longer than this before what it leads to."""
_RECENT_MAX: Final = 8


class KnownImage(msgspec.Struct, frozen=True, kw_only=True):
    """One of the kubelet's image records, as far as it is known.

    Attributes:
        first_lo_ns, first_hi_ns: bounds of its first detection.
        order_ns: stands for it in the order; the same for passes that ran side by side, as
            either may have read the clock first.
        before: the kubelet knew it before the first record: it may have been used since.
        last_used_ns: the zero time when no pass saw it in use.
        size_bytes, pinned: as listed last; None when no source says.
        first_seq, used_seq: passes that say so; 0 for none.
    """

    first_lo_ns: int = ZERO_TIME_NS
    first_hi_ns: int = ZERO_TIME_NS
    order_ns: int = ZERO_TIME_NS
    before: bool = False
    last_used_ns: int = ZERO_TIME_NS
    size_bytes: int | None = None
    pinned: bool | None = None
    first_seq: int = 0
    used_seq: int = 0


class DetectPass(msgspec.Struct, frozen=True):
    """One detect pass.

    Attributes:
        record: its record.
        in_use: image ID -> why it is kept, of those in use.
        known: image ID -> what is known after it.
    """

    record: Record
    in_use: dict[str, str]
    known: dict[str, KnownImage]


class Passes:
    """The detect passes of one kubelet process.

    Attributes:
        seen: images that any pass listed, and that were not removed.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._recent: list[DetectPass] = []
        self._known: dict[str, KnownImage] = {}
        self._loop_began = False
        self._order_ns = ZERO_TIME_NS

    def take(self, record: Record, body: ImagesDetected, *, zero_time: bool, of_loop: bool) -> None:
        """Take in a pass.

        Args:
            record: the pass.
            body: its body.
            zero_time: the kubelet gives the zero time to what the first pass of its detect loop
                sees.
            of_loop: it can only be a pass of the detect loop.
        """
        infinite, ts_ns = zero_time and not self._loop_began, record.ts_ns
        self._loop_began = self._loop_began or of_loop
        hi_ns = ZERO_TIME_NS if infinite and of_loop else ts_ns
        if not self._recent or ts_ns - self._recent[-1].record.ts_ns > LISTING_NS:
            self._order_ns = ts_ns
        new = KnownImage(
            first_lo_ns=ZERO_TIME_NS if infinite else ts_ns - LISTING_NS,
            first_hi_ns=hi_ns,
            order_ns=min(hi_ns, self._order_ns),
            first_seq=record.seq,
        )
        before = KnownImage(first_hi_ns=ts_ns, before=True)
        self._known = {
            image.image_id: _listed(
                new if image.new else self._known.get(image.image_id, before), image, record
            )
            for image in body.images
        }
        self.seen.update(self._known)
        in_use = {image.image_id: "is in use" for image in body.images if image.in_use}
        self._recent = [*self._recent[1 - _RECENT_MAX :], DetectPass(record, in_use, self._known)]

    def deleted(self, image_id: str) -> None:
        """The image manager removed an image, and its record with it."""
        self.seen.discard(image_id)
        self._known = {k: known for k, known in self._known.items() if k != image_id}

    def own(self, ts_ns: int, since: Record | None, *, soon: bool) -> tuple[DetectPass, ...]:
        """Passes after ``since`` of which one is a collection's own, oldest first.

        With ``soon`` only those shortly before ``ts_ns``.
        """
        return tuple(
            each
            for each in self._recent
            if (since is None or (each.record.ts_ns, each.record.seq) > (since.ts_ns, since.seq))
            and (not soon or each.record.ts_ns >= ts_ns - _OWN_NS)
        )


def _listed(old: KnownImage, image: ListedImage, record: Record) -> KnownImage:
    fields: dict[str, object] = {"size_bytes": image.size_bytes, "pinned": image.pinned}
    if image.in_use:
        used_ns = image.last_used_ts_ns
        fields["last_used_ns"] = record.ts_ns if used_ns is None else used_ns
        fields |= {"used_seq": record.seq, "before": False}
    changes = {name: value for name, value in fields.items() if value is not None}
    return msgspec.structs.replace(old, **changes)
