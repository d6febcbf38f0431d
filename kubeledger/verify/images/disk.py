"""The image filesystem as the records show it around a collection.

A collection reads the disk for itself, and the log tells of it only the percent and the
amount to free. With the capacity, which hardly ever changes, that amount says exactly how
much was available: it must be whole blocks of the filesystem, and give the percent told.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubeledger.images.manager import ImageFsStats
from kubeledger.images.policy import ImageGCPolicy
from kubeledger.images.records import EvictionSignalObserved, ImageFsObserved
from kubeledger.images.usage import DiskUsage, bytes_to_free, read_usage
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.capacities import Capacities

__all__ = ["Disk", "Reading", "Sample", "Told", "sample_of"]

NEAR_NS = 60 * NS_PER_S
"""A sample this near in time tells of the disk as it was."""

_BLOCK_MAX = 4096
_BLOCK_MIN = 512
_ENOUGH_SAMPLES = 8
"""So many samples do not by chance all end in more zeros than the block size has."""
_CAPACITIES_MAX = 16


class Sample(msgspec.Struct, frozen=True):
    """The filesystem as one record shows it."""

    seq: int
    ts_ns: int
    usage: DiskUsage


class Told(msgspec.Struct, frozen=True):
    """What the log says of a disk that was over the threshold.

    Attributes:
        amounts: bytes to free, of each source that tells them.
        percents: usage, of each source that tells it.
        lows: low thresholds that the amount may have been computed with.
    """

    amounts: tuple[int, ...]
    percents: tuple[int, ...]
    lows: tuple[int, ...]


class Reading(msgspec.Struct, frozen=True):
    """The filesystem as a collection read it.

    Attributes:
        usage: what it read.
        exact: False for a sample near in time.
        seqs: records it rests on.
    """

    usage: DiskUsage
    exact: bool
    seqs: tuple[int, ...]


class _Span(msgspec.Struct):
    """A capacity: when it was seen, and what its samples have in common."""

    seq: int
    first_ns: int
    last_ns: int
    bits: int
    lowest_percent: int
    count: int = 0


class Disk:
    """Samples of the image filesystem: the last one, and what all have in common.

    Attributes:
        last: newest sample of the second reading; None before one.
    """

    def __init__(self, capacities: Capacities) -> None:
        self.last: Sample | None = None
        self._told = capacities
        self._all: dict[int, _Span] = {}

    def foresee(self, record: Record) -> None:
        """First reading: learn the capacities, the block size and the extremes."""
        sample = sample_of(record)
        if sample is None:
            return
        usage, ts_ns = sample.usage, record.ts_ns
        span = self._all.get(usage.capacity_bytes)
        if span is None:
            if len(self._all) >= _CAPACITIES_MAX:
                return
            span = _Span(record.seq, ts_ns, ts_ns, usage.capacity_bytes, usage.percent)
            self._all[usage.capacity_bytes] = span
        span.first_ns, span.last_ns = min(span.first_ns, ts_ns), max(span.last_ns, ts_ns)
        span.bits |= usage.available_bytes
        span.count += 1
        span.lowest_percent = min(span.lowest_percent, usage.percent)

    def see(self, record: Record) -> None:
        """Second reading: this is how the disk is now."""
        if record.seq not in self._told.odd:
            self.last = sample_of(record) or self.last

    def near(self, ts_ns: int) -> Sample | None:
        """The last sample, if it is near enough."""
        last = self.last
        return last if last is not None and abs(ts_ns - last.ts_ns) <= NEAR_NS else None

    def read(self, ts_ns: int, told: Told) -> Reading | None:
        """How a collection at ``ts_ns`` read the disk; None without a capacity or a sample."""
        sample = self.near(ts_ns)
        for capacity, seq in self._capacities(ts_ns):
            implied = list(self._implied(capacity, told))
            # Of amounts that differ, the one that gives what was read just before is right.
            seen = [usage for usage in implied if sample and usage == sample.usage]
            for usage in (*seen, *implied):
                return Reading(usage, exact=True, seqs=(seq,))
        return None if sample is None else Reading(sample.usage, exact=False, seqs=(sample.seq,))

    @property
    def _spans(self) -> dict[int, _Span]:
        """Capacities that are believed."""
        odd = self._told.is_odd
        return {c: span for c, span in self._all.items() if not odd("imagefs.available", c)}

    @property
    def lowest_percent(self) -> int | None:
        """Least usage of all samples of the ledger; None without any."""
        return min((span.lowest_percent for span in self._spans.values()), default=None)

    @property
    def capacities(self) -> tuple[int, ...]:
        """All capacities that any sample of the ledger shows."""
        return tuple(sorted(self._spans))

    @property
    def block_bytes(self) -> int:
        """Every amount of the filesystem is a multiple of it."""
        bits, count = 0, 0
        for span in self._spans.values():
            bits, count = bits | span.bits, count + span.count
        lowest = bits & -bits or 1
        return min(lowest, _BLOCK_MAX if count >= _ENOUGH_SAMPLES else _BLOCK_MIN)

    def _capacities(self, ts_ns: int) -> list[tuple[int, int]]:
        """Capacity and the record that shows it, the nearest in time first."""
        sample = self.near(ts_ns)
        if sample is not None:
            return [(sample.usage.capacity_bytes, sample.seq)]

        def distance(span: _Span) -> int:
            return max(span.first_ns - ts_ns, ts_ns - span.last_ns, 0)

        spans = sorted(self._spans.items(), key=lambda item: (distance(item[1]), item[1].seq))
        return [(capacity, span.seq) for capacity, span in spans]

    def _implied(self, capacity: int, told: Told) -> Iterable[DiskUsage]:
        """Usages that give what was told, and that a filesystem can have."""
        for amount in told.amounts:
            for low in told.lows:
                empty = ImageFsStats(capacity, 0)
                whole = read_usage(empty)
                if whole is None:
                    continue
                policy = ImageGCPolicy(
                    high_threshold_percent=100, low_threshold_percent=low, min_age_ns=0
                )
                available = bytes_to_free(whole, policy) - amount
                usage = read_usage(ImageFsStats(capacity, available))
                if (
                    usage is not None
                    and 0 <= available <= capacity
                    and available % self.block_bytes == 0
                    and usage.percent in told.percents
                ):
                    yield usage


def sample_of(record: Record) -> Sample | None:
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
