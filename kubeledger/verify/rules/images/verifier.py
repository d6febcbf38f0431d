"""The rule of image GC: gathers the records of each run, and judges it at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
)
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, all_of, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.courses import Course, courses
from kubeledger.verify.rules.images.disk import Disk
from kubeledger.verify.rules.images.ends import judge_end, kept_of
from kubeledger.verify.rules.images.passes import Passes
from kubeledger.verify.rules.images.policy import POLICY_SETTINGS, read_policy
from kubeledger.verify.rules.images.removals import NO_PASS, judge_removals
from kubeledger.verify.rules.images.runs import Run, body_of, short
from kubeledger.verify.rules.images.starts import Owed, judge_start
from kubeledger.verify.rules.images.sweeps import judge_pressure
from kubeledger.verify.rules.images.uses import ImageUse
from kubeledger.verify.verifier import Foresee, See

__all__ = ["ImagesVerifier"]

_LONGEST_NS: Final = 600 * NS_PER_S
"""A run about which nothing was said for so long has ended unheard."""
_RULE_REMOVAL: Final = "pkg/kubelet/images realImageGCManager.freeSpace"
_RULE_PRESSURE: Final = "pkg/kubelet/eviction managerImpl.reclaimNodeLevelResources"
_BEFORE_SPACE: Final = ("invalid capacity ", "failed to get image", "wanted to free images older")


class ImagesVerifier(RuleVerifier):
    """Judges what the image GC manager decided; see docs/verify.md for what it rests on."""

    rule = "pkg/kubelet/images realImageGCManager.GarbageCollect"
    decides = (GarbageCollectionStarted, ImageDeleted, GarbageCollected)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._disk = Disk()
        self._use = ImageUse()
        self._passes = Passes()
        self._owed = Owed(bench, self.rule)
        self._run: Run | None = None
        self._sweep: Run | None = None
        self._began_ns: int | None = None
        self._previous: Record | None = None

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Sizes of the disk, which the log of a run does not hold; uses of images."""
        return {
            EvictionSignalObserved: self._disk.foresee,
            ImageFsObserved: self._disk.foresee,
            PodListed: self._use.foresee,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """All that image GC reads and decides."""
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: self._clock_stepped,
            ImageFsObserved: self._disk_seen,
            EvictionSignalObserved: self._disk_seen,
            ImagesDetected: self._detected,
            GarbageCollectionStarted: self._started,
            ImageDeleted: self._deleted,
            GarbageCollected: self._collected,
        }

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self._close()
        self._close_sweep()

    # -- what is read ----------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.settle(state)
        self._passes = Passes()
        self._disk.last = None
        self._restart(record.ts_ns if body.from_start else None)

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._restart(None)

    def _restart(self, began_ns: int | None) -> None:
        """No time from before can be compared any more."""
        self._previous, self._began_ns = None, began_ns
        self._owed.restart()

    def _disk_seen(self, record: Record, body: Body, state: NodeState) -> None:
        self._expire(record.ts_ns)
        sample, facts = self._disk.see(record), self._facts
        if isinstance(body, EvictionSignalObserved):
            self._close_sweep()
            if sample is not None and facts is not None:
                self._owed.see(record, sample, self.bench.settings.once(read_policy, facts))

    def _detected(self, record: Record, body: ImagesDetected, state: NodeState) -> None:
        self._expire(record.ts_ns)
        zero_time = self._facts is not None and self._facts.first_detect_time_zero
        of_loop = self._run is None and self._sweep is None
        self._passes.take(record, body, zero_time=zero_time, of_loop=of_loop)

    @property
    def _facts(self) -> ImageFacts | None:
        profile = self.bench.profile
        return None if profile is None else profile.images

    # -- what is decided -------------------------------------------------------------------

    def _started(self, record: Record, body: GarbageCollectionStarted, state: NodeState) -> None:
        if self._run is None or self._run.start is not None:
            self._close()
            self._open(record)
        run = self._run
        if run is None:
            self.lacking(record, "node", [self.bench.missing_profile])
            return
        run.start, run.start_body, run.last_ns = record, body, record.ts_ns
        if run.facts.detects_before_disk_check:
            self._freeze(run, record)

    def _deleted(self, record: Record, body: ImageDeleted, state: NodeState) -> None:
        start = self._run.start if self._run is not None else None
        if body.pass_ == "all" and (start is None or record.cause != start.seq):
            run = self._sweep = self._sweep or self._new(record, state)
        else:
            run = self._run or self._open(record)
        self._passes.deleted(body.image_id)
        if run is None:
            self.lacking(record, f"image/{body.image_id}", [self.bench.missing_profile])
            return
        self._freeze(run, record)
        run.removals.append(record)
        run.last_ns = record.ts_ns

    def _collected(self, record: Record, body: GarbageCollected, state: NodeState) -> None:
        start = self._run.start if self._run is not None else None
        other = body.error.startswith(_BEFORE_SPACE) or body.outcome == "below_threshold"
        if start is not None and other and record.cause != start.seq:
            self._close()
        run = self._run or self._open(record)
        if run is None:
            self.lacking(record, "node", [self.bench.missing_profile])
            return
        self._freeze(run, record)
        run.end, run.end_body = record, body
        self._close()
        self._previous = record

    # -- runs ------------------------------------------------------------------------------

    def _new(self, record: Record, sweeps: NodeState | None = None) -> Run | None:
        """A run that begins with a record; None where the kubelet's rules are not known."""
        facts, variant, settings = self._facts, self.bench.variant, self.bench.settings
        profile, pressure = self.bench.profile, None
        if facts is None or profile is None:
            return None
        if sweeps is not None:
            pressure = judge_pressure(settings, profile, sweeps.images.signals, record.ts_ns)
        return Run(
            facts=facts,
            policy=settings.once(read_policy, facts),
            loose=bool(POLICY_SETTINGS & variant.settings.keys() or variant.kubelet_version),
            pressure=pressure,
            previous=self._previous,
            began_ns=self._began_ns,
            last_ns=record.ts_ns,
            listed=frozenset(self._passes.seen),
            settings=() if settings.seq is None else (settings.seq,),
        )

    def _open(self, record: Record) -> Run | None:
        self._run = self._new(record)
        self._owed.heard()
        return self._run

    def _freeze(self, run: Run, record: Record) -> None:
        """Its own detect pass lies behind it now."""
        if run.options is None:
            before = run.start is None or run.facts.detects_before_disk_check
            since = run.previous if before else run.start
            run.options = self._passes.own(record.ts_ns, since, soon=before)

    def _expire(self, now_ns: int) -> None:
        """Time went on: a run that nothing is heard of is over."""
        if self._run is not None and now_ns - self._run.last_ns > _LONGEST_NS:
            self._close()

    def _close(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.read_disk(self._disk)
        if run.start is not None:
            judgement = judge_start(run, self._disk)
            run.start_denied = judgement.verdict == "impossible"
            self._say(run.start, judgement)
        worlds = courses(run, self._use.passes(run))
        left = self._judge_removals(run, worlds)
        if not run.options:
            worlds, left = [], None
        if run.end is not None:
            self._judge_end(run, run.end, worlds, left)
        if run.loose and left is not None:
            self._absent(run, left)

    def _close_sweep(self) -> None:
        sweep, self._sweep = self._sweep, None
        if sweep is not None:
            self._judge_removals(sweep, courses(sweep, self._use.passes(sweep)))

    def _say(
        self,
        record: Record,
        judgement: Judgement,
        *,
        rule: str | None = None,
        about: Mapping[str, str] | None = None,
        place: Evidence | None = None,
    ) -> None:
        body, expected = record.body, judgement.expected
        recorded = msgspec.to_builtins(body)
        self.conclude(
            record,
            f"image/{body.image_id}" if isinstance(body, ImageDeleted) else "node",
            judgement,
            recorded={name: recorded[name] for name in expected} if expected else recorded,
            about=about,
            rule=rule,
            place=place,
        )

    # -- what is said ----------------------------------------------------------------------

    def _judge_removals(self, run: Run, worlds: Sequence[Course]) -> Course | None:
        """Give the removals of a run their findings; the likeliest course, if any is known."""
        missing = [m for m in run.policy.missing if not run.sweep or "Minimum" in m]
        judgements = [lacks(missing if run.options else [*missing, NO_PASS])] * len(run.removals)
        left = None
        if worlds:
            judgements, left = judge_removals(run, worlds)
        start = () if run.start is None else (run.start.seq,)
        for record, judgement in zip(run.removals, judgements, strict=True):
            rule = _RULE_REMOVAL
            if run.policy.disabled and not run.sweep:
                judgement = same(False, f"image GC does not run: {run.policy.disabled!r}")
            elif run.pressure is not None and run.pressure.verdict == "impossible":
                judgement, rule = run.pressure, _RULE_PRESSURE
            elif run.pressure is not None:
                judgement = all_of([judgement, run.pressure])
            known = left.known.get(body_of(record).image_id) if left is not None else None
            seen = () if known is None else (known.first_seq, known.used_seq)
            passes = sorted({seq for seq in seen if seq is not None})
            inputs = (*passes, *run.inputs, *start, *judgement.inputs)
            self._say(record, msgspec.structs.replace(judgement, inputs=inputs), rule=rule)
        return left

    def _judge_end(
        self, run: Run, end: Record, worlds: Sequence[Course], left: Course | None
    ) -> None:
        judgement = judge_end(run, self._disk, worlds, left)
        begun = run.start.evidence if run.start is not None else ()
        told = [record.seq for record in run.told if record is not end]
        self._say(
            end,
            msgspec.structs.replace(judgement, inputs=(*run.inputs, *told)),
            about={f"image/{image_id}": why for image_id, why in kept_of(run, left)},
            place=next((piece for piece in end.evidence if piece not in begun), None),
        )

    def _absent(self, run: Run, course: Course) -> None:
        """What would have come under other settings.

        Under the recorded ones this is not said: of an image that went the line may be lost,
        and of one that stayed the line that it was used.
        """
        expected, body, done = run.due_start(), run.end_body, course.done
        if body is None or not run.options or not (run.start or run.begins):
            return
        owed: list[tuple[str, str, Fields, str, str]] = []
        if run.begins and expected is not None and run.usage is not None:
            why = (
                f"the image filesystem was {run.usage.percent} % used, which is not under the "
                f"high threshold of {run.policy.high} %, so a space pass had to begin"
            )
            owed.append((GarbageCollectionStarted.kind, "node", expected, why, self.rule))
        gone = {body_of(record).image_id for record in run.removals}
        for image_id in () if run.refused else done.removed:
            if image_id in gone:
                continue
            size = course.known[image_id].size_bytes
            fields: Fields = {"image_id": image_id, "size_bytes": size, "pass": "space"}
            why = (
                f"image {short(image_id)} was not in use and old enough, and "
                f"{done.bytes_to_free} bytes were to be freed, but its removal is not recorded"
            )
            owed.append((ImageDeleted.kind, f"image/{image_id}", fields, why, _RULE_REMOVAL))
        inputs = (*run.inputs, *(r.seq for r in (run.start, run.end) if r is not None))
        for kind, subject, fields, why, rule in owed:
            self.bench.absent(
                run.options[-1].record,
                kind,
                subject=subject,
                expected=fields,
                why=why,
                rule=rule,
                inputs=inputs,
            )
