"""One run of image GC as the records show it, its policy, and which images were in use."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.images.policy import (
    GC_PERIOD_S,
    ImageGCPolicy,
    bytes_to_free,
    effective_max_age_ns,
    loop_disabled,
)
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, parse_go_duration, parse_ts
from kubeledger.verify.belief import Judgement
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage, Sample
from kubeledger.verify.variant import Settings

_HIGH: Final = "imageGCHighThresholdPercent"
_LOW: Final = "imageGCLowThresholdPercent"
_MIN_AGE: Final = "imageMinimumGCAge"
_MAX_AGE: Final = "imageMaximumGCAge"

POLICY_SETTINGS: Final = frozenset({_HIGH, _LOW, _MIN_AGE, _MAX_AGE})


class Policy(msgspec.Struct, frozen=True):
    """The policy; None stands for what no setting says.

    Attributes:
        high, low: whole percent.
        min_age_ns, max_age_ns: the maximum age is 0 for a version without one.
        disabled: why the loop does not run; empty when it does.
    """

    high: int | None
    low: int | None
    min_age_ns: int | None
    max_age_ns: int | None
    disabled: str

    @property
    def missing_thresholds(self) -> list[str]:
        """What a start rests on, and no setting shows."""
        return _unset({_HIGH: self.high, _LOW: self.low})

    @property
    def missing_ages(self) -> list[str]:
        """What a removal rests on, and no setting shows."""
        return _unset({_MIN_AGE: self.min_age_ns, _MAX_AGE: self.max_age_ns})


def _unset(values: dict[str, int | None]) -> list[str]:
    return [f"the setting {name}" for name, value in values.items() if value is None]


def read_policy(settings: Settings, facts: ImageFacts) -> Policy:
    """The policy of the settings as they are now."""
    high, low = _percent(settings, _HIGH), _percent(settings, _LOW)
    # What no kubelet of this version looks at is not missing.
    configured = _duration_ns(settings, _MAX_AGE) if facts.maximum_age_gate_on else 0
    max_age_ns = None if configured is None else effective_max_age_ns(configured, facts)
    disabled = ""
    if high is not None and configured is not None:
        disabled = loop_disabled(high, configured, facts)
    return Policy(high, low, _duration_ns(settings, _MIN_AGE), max_age_ns, disabled)


def _percent(settings: Settings, name: str) -> int | None:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _duration_ns(settings: Settings, name: str) -> int | None:
    value = settings.get(name)
    try:
        return parse_go_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None


REFUSED: Final = " bytes space with errors in image deletion: "
"""What the error of a space pass says of which the runtime refused removals."""
START_FIELDS: Final = (
    "usage_percent",
    "high_threshold_percent",
    "low_threshold_percent",
    "bytes_to_free",
)
"""What a start says, and the end repeats."""
_SLACK_NS: Final = 2 * NS_PER_S
"""A clock that is being set right loses no more of a period."""


class Removal(NamedTuple):
    """A recorded removal."""

    record: Record
    body: ImageDeleted


class Run(msgspec.Struct, kw_only=True):
    """Records of one run of the GC loop, or of one deletion of all unused images.

    Attributes:
        loose: under other settings or another version than the recorded ones: removals are no
            evidence of what was known.
        pressure: of a deletion for the eviction manager, whether it had to be; None for a run.
        start, start_body: None when it had no space pass, or none is recorded.
        start_denied: there can have been none such: the end shows better what was to be freed.
        passes: of which one is its own, oldest first; None until its first removal or its end.
        end, end_body: None while it runs, and when no end is recorded.
        previous: end of the one before it in the same process.
        began_ns: start of the kubelet process; None when it is not known.
        listed: images that a pass of the process listed, and that were not removed.
        disk: as it read it; None when nothing says.
        exact: its start shows it; else it is a sample near in time.
        seen: the sample right before its start.
        denied: a removal cannot have been, and stands for another that had to be.
        settings: (0 or 1,) record of the settings.
    """

    facts: ImageFacts
    policy: Policy
    loose: bool
    pressure: Judgement | None = None
    start: Record | None = None
    start_body: GarbageCollectionStarted | None = None
    start_denied: bool = False
    removals: list[Removal] = []
    passes: tuple[DetectPass, ...] | None = None
    end: Record | None = None
    end_body: GarbageCollected | None = None
    previous: Record | None = None
    began_ns: int | None = None
    last_ns: int = 0
    listed: frozenset[str] = frozenset()
    disk: Sample | None = None
    exact: bool = False
    seen: Sample | None = None
    denied: bool = False
    settings: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        disk = () if self.disk is None else (self.disk.seq,)
        return (*self.settings, *disk, *(each.record.seq for each in self.passes or ()))

    @property
    def records(self) -> list[Record]:
        removed = (record for record, _ in self.removals)
        return [record for record in (self.start, *removed, self.end) if record is not None]

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
        """Whether there is a space pass by the disk; None when that cannot be determined."""
        if self.policy.high is None or self.disk is None:
            return None
        return not self.policy.disabled and self.disk.usage.percent >= self.policy.high

    @property
    def begins(self) -> bool:
        """Under other settings a space pass begins where none is recorded."""
        end = self.end_body
        succeeds = end is not None and end.outcome != "failed"
        return self.loose and self.start is None and self.runs is True and succeeds

    @property
    def due(self) -> Fields:
        """What is known of the start that has to be; empty when none has to be."""
        if self.policy.disabled or self.runs is False:
            return {}
        usage, amount = None if self.disk is None else self.disk.usage, None
        if usage is not None and self.policy.low is not None:
            policy = ImageGCPolicy(
                high_threshold_percent=100, low_threshold_percent=self.policy.low, min_age_ns=0
            )
            amount = bytes_to_free(usage, policy)
        percent = None if usage is None else usage.percent
        values = (percent, self.policy.high, self.policy.low, amount)
        fields = zip(START_FIELDS, values, strict=True)
        return {name: value for name, value in fields if value is not None}

    @property
    def begun(self) -> Fields:
        """With what its space pass begins; empty when there is none, or nothing says."""
        if self.loose and (self.runs is False or len(self.due) == len(START_FIELDS)):
            return self.due if self.start is not None or self.begins else {}
        records, end = self.start_body, self.end_body
        if records is None:
            return {}
        repeated = end is not None and end.bytes_to_free is not None and self.start_denied
        return {name: getattr(end if repeated else records, name) for name in START_FIELDS}

    def now_ns(self, own: DetectPass) -> int:
        """Its clock, if a pass is its own."""
        if self.start is None or self.facts.detects_before_disk_check:
            return own.record.ts_ns
        return self.start.ts_ns

    def why_under(self) -> str:
        """Why no space pass begins, by the disk; empty if one does, or nothing says."""
        if self.disk is None or self.runs is not False:
            return ""
        return (
            f"the image filesystem was {self.disk.usage.percent} % used, below the high "
            f"threshold of {self.policy.high} %, so no space pass begins"
        )

    def why_not(self) -> str:
        """Why there can be no run at this time; empty if there can."""
        if self.policy.disabled:
            return f"no collection runs at all: {self.policy.disabled}"
        first = self.start or self.end
        if first is None or self.previous is None:
            return ""
        if (first.ts_ns, first.body) == (self.previous.ts_ns, self.previous.body):
            return ""  # a duplicate record
        waited_ns = first.ts_ns - self.previous.ts_ns
        # What was read at the beginning may be logged first; a detect pass comes with it.
        if waited_ns >= GC_PERIOD_S * NS_PER_S - _SLACK_NS:
            return ""
        return (
            f"it began {waited_ns // NS_PER_S} s after the end of the collection before, but the "
            f"loop waits {GC_PERIOD_S} s"
        )


def short(image_id: str) -> str:
    """An image ID for people: 12 digits of a digest, anything else as it is."""
    algorithm, _, digest = image_id.partition(":")
    return digest[:12] if algorithm == "sha256" and len(digest) > 12 else image_id


# Which containers used an image when, as pod lists show.
#
# Only uses that are certain count: a list shows a container that runs since a time. An image of
# which no list shows may have been used all the same.

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
        for group in ("containerStatuses", "initContainerStatuses"):
            for status in (body.status or {}).get(group) or ():
                with suppress(KeyError, TypeError, ValueError):  # parts that show nothing
                    began_ns = parse_ts(status["state"]["running"]["startedAt"])
                    name = f"{body.namespace}/{body.pod}/{status['name']}"
                    uses = self._uses.setdefault(str(status["imageID"]), {})
                    use = uses.setdefault(str(status["containerID"]), _Use(name, began_ns))
                    if record.ts_ns > use.to_ns:
                        use.to_ns, use.seq = record.ts_ns, record.seq

    def forget(self, before_ns: int) -> None:
        """Nobody asks for earlier times: of the uses that were over by then the last will do."""
        for image_id, uses in self._uses.items():
            over = [(use.to_ns, use.seq, of) for of, use in uses.items() if use.to_ns < before_ns]
            seen = [each for each in over if each[0] - uses[each[2]].from_ns > _DETECTED_NS]
            last = max(seen, default=(0, 0, ""))
            left = {of: use for of, use in uses.items() if use.to_ns >= before_ns or of == last[2]}
            self._uses[image_id] = left

    def passes(self, run: Run) -> tuple[DetectPass, ...]:
        """The passes of which one is a run's own, with what lists show to be in use, too.

        Where none is logged, one that saw the images that went, of which nothing else is known.
        """
        passes = run.passes or ()
        if run.removals and not passes:
            known = {}
            for _, body in reversed(run.removals):
                used_ns, seq = run.records[0].ts_ns - 1, 0
                if body.pass_ == "age":
                    used_ns, seq = self._detected(body.image_id, run.removals[0].record.ts_ns)
                known[body.image_id] = KnownImage(
                    before=True, size_bytes=body.size_bytes, last_used_ns=used_ns, used_seq=seq
                )
            passes = (DetectPass(run.removals[0].record, {}, known),)
        return tuple(map(self._with_lists, passes))

    def _with_lists(self, own: DetectPass) -> DetectPass:
        ts_ns, in_use, known = own.record.ts_ns, dict(own.in_use), dict(own.known)
        for image_id in known:
            for use in self._uses.get(image_id, {}).values():
                if use.from_ns + _AROUND_NS + LISTING_NS < ts_ns < use.to_ns - _AROUND_NS:
                    in_use.setdefault(image_id, f"is in use: container {use.name} ran on it")
                    known[image_id] = replace(known[image_id], used_seq=use.seq)
        return DetectPass(own.record, in_use, known)

    def _detected(self, image_id: str, ts_ns: int) -> tuple[int, int]:
        """When a pass surely saw an image in use last, not before which time, and the list."""
        uses = self._uses.get(image_id, {}).values()
        over = (use for use in uses if use.to_ns <= ts_ns)
        long = (use for use in over if use.to_ns - use.from_ns > _DETECTED_NS)
        found = [(use.to_ns - _DETECTED_NS, use.seq) for use in long]
        return max(found, default=(ZERO_TIME_NS, 0))
