"""One run of image GC as the records tell of it, and what follows for its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeledger.images.loop import GC_PERIOD_S
from kubeledger.images.records import GarbageCollected, GarbageCollectionStarted
from kubeledger.images.usage import DiskUsage, bytes_to_free
from kubeledger.machine import Record
from kubeledger.profile.images import ImageFacts
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, open_to, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.disk import Disk
from kubeledger.verify.rules.images.passes import DetectPass
from kubeledger.verify.rules.images.policy import Policy

__all__ = ["Run", "judge_start", "lacking"]

_SLACK_NS: Final = 2 * NS_PER_S
"""A clock that is being set right loses no more of a period."""
_SIZE: Final = "the size of the image filesystem"


class Run(msgspec.Struct, kw_only=True):
    """Records of one run of the GC loop, or of one deletion of all unused images.

    Attributes:
        facts, policy: of the kubelet that ran.
        loose: under other settings or another version than the recorded ones.
        start: None when it had no space pass, or none is recorded.
        passes_at_start: detect passes of the process before the start.
        removals: in their order.
        options: passes of which one is its own; None until its first removal or its end.
        end: None while it runs, and when no end is recorded.
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
    start: Record | None = None
    passes_at_start: int = 0
    removals: list[Record] = []
    options: tuple[DetectPass, ...] | None = None
    end: Record | None = None
    previous: Record | None = None
    began_ns: int | None = None
    last_ns: int = 0
    listed: frozenset[str] = frozenset()
    usage: DiskUsage | None = None
    usage_seqs: tuple[int, ...] = ()
    exact: bool = False
    settings: tuple[int, ...] = ()

    @property
    def start_body(self) -> GarbageCollectionStarted | None:
        """What its start says."""
        body = self.start.body if self.start is not None else None
        return body if isinstance(body, GarbageCollectionStarted) else None

    @property
    def end_body(self) -> GarbageCollected | None:
        """What its end says."""
        body = self.end.body if self.end is not None else None
        return body if isinstance(body, GarbageCollected) else None

    @property
    def inputs(self) -> tuple[int, ...]:
        """Records that its decisions rest on."""
        passes = [option.record.seq for option in self.options or ()]
        return (*self.settings, *self.usage_seqs, *passes)

    @property
    def first(self) -> Record | None:
        """Its first record."""
        told = (self.start, *self.removals, self.end)
        return min(
            (record for record in told if record is not None),
            key=lambda record: (record.ts_ns, record.seq),
            default=None,
        )

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
        """What its space pass is to free; None when there is none, or it cannot be told.

        Where the disk cannot have given what the start tells, it is what the end repeats.
        """
        body, end = self.start_body, self.end_body
        if self.loose and self.usage is not None:
            return self.amount() if self.runs and (body is not None or self.begins) else None
        if body is None:
            return None
        repeated = end.bytes_to_free if end is not None else None
        return body.bytes_to_free if self.exact or repeated is None else repeated

    def amount(self) -> int | None:
        """Bytes to free by the disk and the settings; None when either is not known."""
        policy = None
        if None not in (self.policy.high, self.policy.low):
            policy = self.policy.whole(min_age_ns=0, max_age_ns=0)
        return None if policy is None or self.usage is None else bytes_to_free(self.usage, policy)

    def read_disk(self, disk: Disk) -> None:
        """Take in what it read of the disk: what its start tells, or else a sample near it."""
        first, body = self.first, self.start_body
        if first is None:
            return
        if self.start is not None and body is not None:
            told, at_ns = [body.bytes_to_free], self.start.ts_ns
            lows, percents = [body.low_threshold_percent], [body.usage_percent]
            found = disk.implied(at_ns, told, lows, percents)
            self.exact = found is not None
            if found is None:
                # One number of the start is wrong: the end repeats it, or the settings tell it.
                end = self.end_body
                told += [] if end is None or end.bytes_to_free is None else [end.bytes_to_free]
                percents += [] if end is None or end.usage_percent is None else [end.usage_percent]
                lows += [] if self.policy.low is None else [self.policy.low]
                found = disk.implied(at_ns, told, lows, percents)
            if found is not None:
                self.usage, self.usage_seqs = found[0], (found[1],)
                return
        sample = disk.near(first.ts_ns)
        if sample is not None:
            self.usage, self.usage_seqs = sample.usage, (sample.seq,)

    def due_start(self) -> Fields | None:
        """What is known of the start that had to be; None when there had to be none."""
        if self.policy.disabled or self.runs is False:
            return None
        fields: Fields = {
            "usage_percent": None if self.usage is None else self.usage.percent,
            "high_threshold_percent": self.policy.high,
            "low_threshold_percent": self.policy.low,
            "bytes_to_free": self.amount(),
        }
        return {name: value for name, value in fields.items() if value is not None}

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


def judge_start(run: Run, disk: Disk) -> Judgement:
    """Whether a space pass begins, and with what is told.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go GarbageCollect
    """
    start, body = run.start, run.start_body
    assert start is not None
    assert body is not None
    inputs, expected = (*run.settings, *run.usage_seqs), run.due_start()
    if wrong := _against_settings(run, body):
        own = body.usage_percent < body.high_threshold_percent
        certain = own or run.policy.high != body.high_threshold_percent
        certain = certain or run.policy.low not in (None, body.low_threshold_percent)
        return same(False, wrong, expected=expected, inputs=inputs, certain=certain)
    if wrong := run.too_early():
        return same(False, wrong, expected=expected, inputs=inputs)
    if missing := run.policy.missing_thresholds:
        return lacking(missing)
    if run.usage is None or not run.exact:
        capacities = [capacity for capacity, _ in disk.capacities(start.ts_ns)]
        why = (
            f"no state of a filesystem of {capacities or 'unknown'} bytes in blocks of "
            f"{disk.block_bytes} that is {body.usage_percent} % used gives {body.bytes_to_free} "
            "bytes to free"
        )
        if capacities and disk.is_steady(start.ts_ns):
            return same(False, why, expected=expected, inputs=inputs)
        return open_to(_SIZE, denied=why, inputs=inputs)
    usage = run.usage
    why = (
        f"the image filesystem was {usage.percent} % used ({usage.available_bytes} of "
        f"{usage.capacity_bytes} bytes available), which is not under the high threshold of "
        f"{run.policy.high} %, so {body.bytes_to_free} bytes are to be freed to come down to "
        f"{run.policy.low} %"
    )
    if jump := disk.jump(start.ts_ns, usage):
        return open_to(jump, denied=f"{why}; shortly before it was less full", inputs=inputs)
    return same(True, why, expected=expected, inputs=inputs)


def lacking(missing: Sequence[str]) -> Judgement:
    """The judgement of what cannot be decided without these inputs."""
    why = f"cannot be decided again without {' and '.join(missing)}"
    return Judgement(verdict="unverifiable", why=why, missing=tuple(missing))


def _against_settings(run: Run, body: GarbageCollectionStarted) -> str:
    """Why the settings, or a disk under the threshold, allow no such start; empty if they do."""
    policy = run.policy
    if policy.disabled:
        return f"no collection runs at all: {policy.disabled}"
    if run.runs is False and (run.exact or run.loose):
        return run.why_under()
    for name, value, told in (
        ("high", policy.high, body.high_threshold_percent),
        ("low", policy.low, body.low_threshold_percent),
    ):
        if value not in (None, told):
            return f"the {name} threshold is {value} % by the settings, not {told} %"
    if policy.high is not None and body.usage_percent < policy.high:
        return (
            f"{body.usage_percent} % is under the high threshold of {policy.high} %, so no space "
            "pass begins"
        )
    return ""
