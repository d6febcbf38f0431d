"""One run of image GC as the records tell of it."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.images.loop import GC_PERIOD_S
from kubeledger.kubelet.images.usage import DiskUsage, bytes_to_free
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.belief import Judgement
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.disk import Disk
from kubeledger.verify.rules.images.passes import DetectPass
from kubeledger.verify.rules.images.policy import Policy

__all__ = ["EVERYTHING", "REFUSED", "START_FIELDS", "Run", "body_of", "short"]

EVERYTHING: Final = 2**63 - 1
"""What the eviction manager asks to be freed."""
REFUSED: Final = " bytes space with errors in image deletion: "
"""What the error of a space pass says of which the runtime refused removals."""
START_FIELDS: Final = (
    "usage_percent",
    "high_threshold_percent",
    "low_threshold_percent",
    "bytes_to_free",
)
"""What a start tells, and the end repeats."""
_SLACK_NS: Final = 2 * NS_PER_S
"""A clock that is being set right loses no more of a period."""
_NO_START: Final = "the start of this collection"


class Run(msgspec.Struct, kw_only=True):
    """Records of one run of the GC loop, or of one deletion of all unused images.

    Attributes:
        facts, policy: of the kubelet that ran.
        loose: under other settings or another version than the recorded ones: removals are no
            evidence of what was known.
        pressure: of a deletion for the eviction manager, whether it had to be; None for a run.
        start, start_body: None when it had no space pass, or none is recorded.
        start_denied: there can have been none such: the end tells better what was to be freed.
        removals: in their order.
        options: detect passes of which one is its own; None until its first removal or its end.
        end, end_body: None while it runs, and when no end is recorded.
        previous: end of the one before it in the same process.
        began_ns: start of the kubelet process; None when it is not known.
        last_ns: time of its newest record.
        listed: images that a pass of the process listed, and that were not removed.
        usage: the disk as it read it; None when nothing tells.
        usage_seqs: records that tell it.
        exact: its start tells it; else it is a sample near in time.
        settings: (0 or 1,) record of the settings.
    """

    facts: ImageFacts
    policy: Policy
    loose: bool
    pressure: Judgement | None = None
    start: Record | None = None
    start_body: GarbageCollectionStarted | None = None
    start_denied: bool = False
    removals: list[Record] = []
    options: tuple[DetectPass, ...] | None = None
    end: Record | None = None
    end_body: GarbageCollected | None = None
    previous: Record | None = None
    began_ns: int | None = None
    last_ns: int = 0
    listed: frozenset[str] = frozenset()
    usage: DiskUsage | None = None
    usage_seqs: tuple[int, ...] = ()
    exact: bool = False
    settings: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """Records that its decisions rest on."""
        passes = [option.record.seq for option in self.options or ()]
        return (*self.settings, *self.usage_seqs, *passes)

    @property
    def told(self) -> list[Record]:
        """Records of what it did."""
        return [r for r in (self.start, *self.removals, self.end) if r is not None]

    @property
    def sweep(self) -> bool:
        """The eviction manager deletes all that is unused."""
        return self.pressure is not None

    @property
    def refused(self) -> bool:
        """The runtime refused removals."""
        return self.end_body is not None and REFUSED in self.end_body.error

    @property
    def runs(self) -> bool | None:
        """Whether there is a space pass by the disk; None when that cannot be told."""
        if self.policy.high is None or self.usage is None:
            return None
        return not self.policy.disabled and self.usage.percent >= self.policy.high

    @property
    def begins(self) -> bool:
        """Under other settings a space pass begins where none is recorded."""
        end = self.end_body
        succeeds = end is not None and end.outcome != "failed"
        return self.loose and self.start is None and self.runs is True and succeeds

    @property
    def wanted(self) -> int | None:
        """What its space pass is to free; None when there is none, or it cannot be told."""
        body, end = self.start_body, self.end_body
        if self.loose and self.usage is not None:
            return self.amount() if self.runs and (body is not None or self.begins) else None
        if body is None:
            return None
        repeated = end.bytes_to_free if end is not None and self.start_denied else None
        return body.bytes_to_free if repeated is None else repeated

    @property
    def amounts(self) -> tuple[tuple[int | None, tuple[str, ...]], ...]:
        """Bytes to free (None: there is no space pass), and what is assumed by it."""
        if self.sweep:
            return ((EVERYTHING, ()),)
        for_space = any(body_of(record).pass_ != "age" for record in self.removals)
        if self.start is None and not self.loose and for_space:
            return ((None, ()), (EVERYTHING, (_NO_START,)))
        return ((self.wanted, ()),)

    def amount(self) -> int | None:
        """Bytes to free by the disk and the settings; None when either is not known."""
        policy = None
        if None not in (self.policy.high, self.policy.low):
            policy = self.policy.whole(min_age_ns=0, max_age_ns=0)
        return None if policy is None or self.usage is None else bytes_to_free(self.usage, policy)

    def now_ns(self, own: DetectPass) -> int:
        """Its clock, if a pass is its own."""
        if self.start is None or self.facts.detects_before_disk_check:
            return own.record.ts_ns
        return self.start.ts_ns

    def read_disk(self, disk: Disk) -> None:
        """Take in what it read of the disk: what its start tells, or else a sample near it."""
        if self.start is not None and self.start_body is not None:
            found = disk.implied(self.start.ts_ns, self.start_body)
            if found is not None:
                self.usage, self.usage_seqs, self.exact = found[0], (found[1],), True
                return
        sample = disk.near(min(record.ts_ns for record in self.told))
        if sample is not None:
            self.usage, self.usage_seqs = sample.usage, (sample.seq,)

    def due_start(self) -> Fields | None:
        """What is known of the start that had to be; None when there had to be none."""
        if self.policy.disabled or self.runs is False:
            return None
        usage = None if self.usage is None else self.usage.percent
        values = (usage, self.policy.high, self.policy.low, self.amount())
        fields = zip(START_FIELDS, values, strict=True)
        return {name: value for name, value in fields if value is not None}

    def why_under(self) -> str:
        """Why no space pass begins, by the disk."""
        assert self.usage is not None
        return (
            f"the image filesystem was {self.usage.percent} % used, which is under the high "
            f"threshold of {self.policy.high} %, so no space pass begins"
        )

    def too_early(self) -> str:
        """Why it cannot have begun yet, as the loop waits for its period; empty if it can."""
        first = self.start or self.end
        if first is None or self.previous is None:
            return ""
        if (first.ts_ns, first.body) == (self.previous.ts_ns, self.previous.body):
            return ""  # a record that is there twice
        waited_ns = first.ts_ns - self.previous.ts_ns
        # What was read at the beginning may be logged first; a detect pass comes with it.
        if waited_ns >= GC_PERIOD_S * NS_PER_S - _SLACK_NS:
            return ""
        return (
            f"it began {waited_ns // NS_PER_S} s after the end of the collection before, but the "
            f"loop waits {GC_PERIOD_S} s"
        )


def body_of(record: Record) -> ImageDeleted:
    """What a removal tells."""
    assert isinstance(record.body, ImageDeleted)
    return record.body


def short(image_id: str) -> str:
    """An image ID for people: 12 digits of a digest, anything else as it is."""
    algorithm, _, digest = image_id.partition(":")
    return digest[:12] if algorithm == "sha256" and len(digest) > 12 else image_id
