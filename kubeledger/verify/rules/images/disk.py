"""The image filesystem as a collection read it, that no line shows.

The log holds the percent and the amount to free. With a capacity, which some record of the
ledger shows and which hardly ever changes, the amount says what was available: whole blocks of
the filesystem, of the reported percentage.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeledger.kubelet.images.policy import ImageGCPolicy
from kubeledger.kubelet.images.usage import DiskUsage, ImageFsStats, bytes_to_free, read_usage
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollectionStarted,
    ImageFsObserved,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S

_NEAR_NS: Final = 60 * NS_PER_S
"""A sample this near in time shows the disk as it was."""
_ROUND_NS: Final = 12 * NS_PER_S
_BLOCK_MAX: Final = 512
"""No filesystem has smaller blocks; some show amounts that are no multiple of it."""
_AROUND_NS: Final = 3600 * NS_PER_S
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

    def prescan(self, record: Record, body: object) -> None:
        """First reading: learn the capacities and the block size."""
        sample = _sample_of(record)
        if sample is None:
            return
        capacity, ts_ns = sample.usage.capacity_bytes, record.ts_ns
        self._bits |= capacity | sample.usage.available_bytes
        if capacity in self._sizes or len(self._sizes) < _CAPACITIES_MAX:
            seq, first_ns, last_ns = self._sizes.get(capacity, (record.seq, ts_ns, ts_ns))
            self._sizes[capacity] = _Size(seq, min(first_ns, ts_ns), max(last_ns, ts_ns))

    def forget(self) -> None:
        """Another process has read nothing yet."""
        self._last = None

    def see(self, record: Record) -> Sample | None:
        """Second reading: this is how the disk is now; None where the record does not say."""
        sample, last = _sample_of(record), self._last
        if sample is not None and last is not None:
            step = abs(sample.usage.available_bytes - last.usage.available_bytes)
            self._step = max(self._step, step)
        self._last = sample or last
        return sample

    def is_far(self, sample: Sample, usage: DiskUsage) -> bool:
        """Whether the disk changed more within seconds than it does between any two samples."""
        step = abs(sample.usage.available_bytes - usage.available_bytes)
        return step > max(2 * self._step, usage.capacity_bytes // 100)

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
        near = any(size.away_ns(ts_ns) <= _AROUND_NS for size in self._sizes.values())
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
            if usage is None or usage.available_bytes % self.block_bytes:
                continue
            if usage.percent == start.usage_percent:
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
