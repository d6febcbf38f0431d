"""The image manager's records as detect passes show them, and the disk that no line shows.

A detect pass is logged when it goes through its list. The time it gives to what it sees for
the first time was read before it asked the runtime, so that time is known between bounds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.images.policy import (
    DiskUsage,
    ImageFsStats,
    ImageGCPolicy,
    bytes_to_free,
    read_usage,
)
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollectionStarted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
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
        """Take in a pass; ``of_loop``: it can only be one of the detect loop.

        ``zero_time``: the kubelet gives the zero time to what the first pass of that loop sees.
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
        self.seen.discard(image_id)
        self._known = {k: known for k, known in self._known.items() if k != image_id}

    def own(self, ts_ns: int, since: Record | None, *, soon: bool) -> tuple[DetectPass, ...]:
        """Passes after ``since`` of which one is a collection's own, oldest first.

        With ``soon`` only those shortly before ``ts_ns``.
        """
        since_at = (0, 0) if since is None else (since.ts_ns, since.seq)
        from_ns = ts_ns - _OWN_NS if soon else 0
        recent = [each for each in self._recent if each.record.ts_ns >= from_ns]
        return tuple(own for own in recent if (own.record.ts_ns, own.record.seq) > since_at)


def _listed(old: KnownImage, image: ListedImage, record: Record) -> KnownImage:
    size = old.size_bytes if image.size_bytes is None else image.size_bytes
    pinned = old.pinned if image.pinned is None else image.pinned
    if not image.in_use:
        return replace(old, size_bytes=size, pinned=pinned)
    used_ns = record.ts_ns if image.last_used_ts_ns is None else image.last_used_ts_ns
    used = replace(old, last_used_ns=used_ns, used_seq=record.seq, before=False)
    return replace(used, size_bytes=size, pinned=pinned)


# The image filesystem as a collection read it, that no line shows.
#
# The log holds the percent and the amount to free. With a capacity, which some record of the
# ledger shows and which hardly ever changes, the amount says what was available: whole blocks of
# the filesystem, of the reported percentage.

_NEAR_NS: Final = 60 * NS_PER_S
"""A sample this near in time shows the disk as it was."""
_ROUND_NS: Final = 12 * NS_PER_S
_BLOCK_MAX: Final = 512
"""No filesystem has smaller blocks; some show amounts that are no multiple of it."""
_DISK_AROUND_NS: Final = 3600 * NS_PER_S
_CAPACITIES_MAX: Final = 16
_STEADY_MAX: Final = 2
"""A disk of more sizes than that has others between them, too."""


class Sample(NamedTuple):
    """The filesystem as one record shows it, or a start implies."""

    seq: int
    ts_ns: int
    usage: DiskUsage


class _Size(NamedTuple):
    """A capacity: the record that showed it first, and when it was seen first and last."""

    seq: int
    first_ns: int
    last_ns: int

    def away_ns(self, ts_ns: int) -> int:
        """How far from a time it was seen."""
        return max(self.first_ns - ts_ns, ts_ns - self.last_ns, 0)


class Disk:
    """The newest sample of the second reading, and what all samples of the ledger say."""

    def __init__(self) -> None:
        self._last: Sample | None = None
        self._sizes: dict[int, _Size] = {}
        self._bits = 0
        self._step = 0
        self._after: dict[int, Sample] = {}
        self._started: Record | None = None

    def prescan_start(self, record: Record, body: object) -> None:
        """First reading: the sample that follows shows what the run read, less what it freed."""
        self._started = record

    def prescan(self, record: Record, body: object) -> None:
        """First reading: learn the capacities and the block size."""
        sample = _sample_of(record)
        if sample is None:
            return
        capacity, ts_ns, start = sample.usage.capacity_bytes, record.ts_ns, self._started
        if start is not None and 0 <= ts_ns - start.ts_ns <= _NEAR_NS:
            self._after[start.seq], self._started = sample, None
        self._bits |= capacity | sample.usage.available_bytes
        if capacity in self._sizes or len(self._sizes) < _CAPACITIES_MAX:
            seq, first_ns, last_ns = self._sizes.get(capacity, (record.seq, ts_ns, ts_ns))
            self._sizes[capacity] = _Size(seq, min(first_ns, ts_ns), max(last_ns, ts_ns))

    def forget(self) -> None:
        self._last = None

    def see(self, record: Record) -> Sample | None:
        """Second reading: this is how the disk is now; None where the record does not say."""
        sample, last = _sample_of(record), self._last
        if sample is not None and last is not None:
            step = abs(sample.usage.available_bytes - last.usage.available_bytes)
            self._step = max(self._step, step)
        self._last = sample or last
        return sample

    def is_far(self, sample: Sample, usage: DiskUsage, start_seq: int, freed_bytes: int) -> bool:
        """Whether the disk changed more within seconds than it does between any two samples.

        The one before a start, and the one after it: a disk may fill in seconds, and stays so.
        """
        after = self._after.get(start_seq)
        steps = [sample.usage.available_bytes - usage.available_bytes]
        if after is not None:
            more = after.usage.available_bytes - usage.available_bytes
            steps += (more, more - freed_bytes)
        return min(map(abs, steps)) > max(2 * self._step, usage.capacity_bytes // 100)

    def near(self, ts_ns: int) -> Sample | None:
        """The last sample, if it is near enough."""
        last = self._last
        return last if last is not None and abs(ts_ns - last.ts_ns) <= _NEAR_NS else None

    def right_before(self, ts_ns: int) -> Sample | None:
        """The last sample, if the next round of the eviction manager had not come yet."""
        last = self._last
        return last if last is not None and 0 <= ts_ns - last.ts_ns <= _ROUND_NS else None

    def is_steady(self, ts_ns: int) -> bool:
        """Whether the disk had no size then but those that are shown of times around it."""
        near = any(size.away_ns(ts_ns) <= _DISK_AROUND_NS for size in self._sizes.values())
        return near and len(self._sizes) <= _STEADY_MAX

    @property
    def block_bytes(self) -> int:
        """Every amount of the filesystem is a multiple of it."""
        return min(self._bits & -self._bits or 1, _BLOCK_MAX)

    def capacities(self, ts_ns: int) -> list[int]:
        """Capacities, the nearest in time first."""
        return sorted(self._sizes, key=lambda capacity: self._sizes[capacity].away_ns(ts_ns))

    def implied(self, ts_ns: int, start: GarbageCollectionStarted) -> Sample | None:
        """The disk that a start at some time shows; with the record of its capacity."""
        for capacity in self.capacities(ts_ns):
            usage = _implied(capacity, start.bytes_to_free, start.low_threshold_percent)
            whole = usage is not None and not usage.available_bytes % self.block_bytes
            if usage is not None and whole and usage.percent == start.usage_percent:
                return Sample(self._sizes[capacity].seq, ts_ns, usage)
        return None


def _implied(capacity_bytes: int, amount_bytes: int, low_percent: int) -> DiskUsage | None:
    """The state of a disk in which so much is to be freed; None when there is none."""
    policy = ImageGCPolicy(
        high_threshold_percent=100, low_threshold_percent=low_percent, min_age_ns=0
    )
    available = bytes_to_free(DiskUsage(capacity_bytes, 0, 100), policy) - amount_bytes
    if not 0 <= available <= capacity_bytes:
        return None
    return read_usage(ImageFsStats(capacity_bytes, available))


def _sample_of(record: Record) -> Sample | None:
    """What a record shows of the image filesystem; None when it shows nothing of use."""
    body = record.body
    if isinstance(body, ImageFsObserved):
        capacity, available = body.capacity_bytes, body.available_bytes
    elif isinstance(body, EvictionSignalObserved) and body.signal == "imagefs.available":
        capacity, available = body.capacity, body.available
    else:
        return None
    if capacity is None or available is None or capacity <= 0 or not 0 <= available <= capacity:
        return None
    usage = read_usage(ImageFsStats(capacity, available))
    return None if usage is None else Sample(record.seq, record.ts_ns, usage)
