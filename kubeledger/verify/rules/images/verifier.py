"""The rule of image GC: gathers the records of each run, and judges it at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeledger.images.records import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
)
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Body, Evidence, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.profile.images import ImageFacts
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier, all_of, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.images.courses import EVERYTHING, Course, Scene, courses, short
from kubeledger.verify.rules.images.disk import Disk
from kubeledger.verify.rules.images.ends import judge_end, kept_of
from kubeledger.verify.rules.images.owed import Owed
from kubeledger.verify.rules.images.passes import Passes
from kubeledger.verify.rules.images.policy import HIGH, LOW, POLICY_SETTINGS, read_policy
from kubeledger.verify.rules.images.removals import body_of, claims_of, judge_removals
from kubeledger.verify.rules.images.runs import Run, judge_start, lacking
from kubeledger.verify.rules.images.sweeps import judge_pressure
from kubeledger.verify.rules.images.uses import ImageUse, why_denied
from kubeledger.verify.verifier import Foresee, See

__all__ = ["ImagesVerifier"]

_LONGEST_NS: Final = 600 * NS_PER_S
"""A run about which nothing was said for so long has ended unheard."""
_NO_PASS: Final = "the detect pass before the removal (logged from verbosity 5)"
_NO_START: Final = "the start of this collection"
_RULE_REMOVAL: Final = "pkg/kubelet/images realImageGCManager.freeSpace"
_RULE_PRESSURE: Final = "pkg/kubelet/eviction managerImpl.reclaimNodeLevelResources"
_REFUSED: Final = "with errors in image deletion"
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
        self._sweep: tuple[Run, Judgement] | None = None
        self._began_ns: int | None = None
        self._previous: Record | None = None
        self._passes_at_end = 0

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
        self._close()
        self._close_sweep()
        self._passes = Passes()
        self._disk.last = None
        self._began_ns = record.ts_ns if body.from_start else None
        self._previous, self._passes_at_end = None, 0
        self._owed.restart()

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._previous, self._passes_at_end = None, 0
        self._began_ns = None
        self._owed.restart()

    def _disk_seen(self, record: Record, body: Body, state: NodeState) -> None:
        if isinstance(body, EvictionSignalObserved):
            self._close_sweep()
        self._expire(record.ts_ns)
        self._disk.see(record)
        if isinstance(body, EvictionSignalObserved) and self._facts is not None:
            policy = read_policy(self.bench.settings, self._facts)
            self._owed.see(record, self._disk.last, policy)

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
        run = self._run
        if run is None or run.start is not None:
            self._close()
            run = self._open(record)
        if run is None:
            self.lacking(record, "node", [self.bench.missing_profile])
            return
        run.start, run.last_ns = record, record.ts_ns
        run.passes_at_start = self._passes.count
        if run.facts.detects_before_disk_check:
            self._freeze(run, record)

    def _deleted(self, record: Record, body: ImageDeleted, state: NodeState) -> None:
        start = self._run.start if self._run is not None else None
        if body.pass_ == "all" and (start is None or record.cause != start.seq):
            self._sweep = self._sweep or self._new_sweep(record, state)
            run = self._sweep[0] if self._sweep is not None else None
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
        run = self._run
        other = body.error.startswith(_BEFORE_SPACE) or body.outcome == "below_threshold"
        if run is not None and run.start is not None and other and record.cause != run.start.seq:
            self._close()
            run = None
        run = run or self._open(record)
        if run is None:
            self.lacking(record, "node", [self.bench.missing_profile])
            return
        self._freeze(run, record)
        run.end = record
        self._close()
        self._previous, self._passes_at_end = record, self._passes.count

    # -- runs ------------------------------------------------------------------------------

    def _new(self, record: Record) -> Run | None:
        """A run that begins with a record; None where the kubelet's rules are not known."""
        facts, variant, settings = self._facts, self.bench.variant, self.bench.settings
        if facts is None:
            return None
        return Run(
            facts=facts,
            policy=read_policy(settings, facts),
            loose=bool(POLICY_SETTINGS & variant.settings.keys() or variant.kubelet_version),
            previous=self._previous,
            began_ns=self._began_ns if self._passes.begun is not False else None,
            last_ns=record.ts_ns,
            listed=frozenset(self._passes.seen),
            settings=() if settings.seq is None else (settings.seq,),
        )

    def _new_sweep(self, record: Record, state: NodeState) -> tuple[Run, Judgement] | None:
        run, profile = self._new(record), self.bench.profile
        if run is None or profile is None:
            return None
        signals = state.images.signals
        return run, judge_pressure(self.bench.settings, profile, signals, record.ts_ns)

    def _open(self, record: Record) -> Run | None:
        self._run = self._new(record)
        self._owed.heard()
        return self._run

    def _freeze(self, run: Run, record: Record) -> None:
        """Its own detect pass lies behind it now."""
        if run.options is not None:
            return
        before = run.start is None or run.facts.detects_before_disk_check
        since = self._passes_at_end if before else run.passes_at_start
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
            self._contradictions(run)
            self._say(run.start, judge_start(run, self._disk))
        course = self._judge_removals(run)
        if run.end is not None:
            judgement = judge_end(run, self._disk, course)
            inputs = (*run.inputs, *(r.seq for r in (run.start, *run.removals) if r is not None))
            about = {f"image/{image_id}": why for image_id, why in kept_of(run, course)}
            begun = run.start.evidence if run.start is not None else ()
            place = next((piece for piece in run.end.evidence if piece not in begun), None)
            judgement = msgspec.structs.replace(judgement, inputs=inputs)
            self._say(run.end, judgement, about=about, place=place)
        if run.loose and course is not None:
            self._absent(run, course)

    def _close_sweep(self) -> None:
        sweep, self._sweep = self._sweep, None
        if sweep is not None:
            self._judge_removals(*sweep)

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
        self.bench.find(
            record,
            judgement.verdict,
            subject=f"image/{body.image_id}" if isinstance(body, ImageDeleted) else "node",
            why=judgement.why,
            expected=expected,
            recorded={name: recorded[name] for name in expected} if expected else recorded,
            missing=judgement.missing,
            rule=rule or self.rule,
            inputs=[seq for seq in judgement.inputs if seq],
            certain=judgement.certain,
            about=about,
            place=place,
        )

    # -- removals --------------------------------------------------------------------------

    def _judge_removals(self, run: Run, pressure: Judgement | None = None) -> Course | None:
        """Give the removals of a run their findings; the likeliest course, if any is known.

        Args:
            run: the run, or the deletion of all unused images.
            pressure: of the disk, for the latter.
        """
        scene = _scene(run, sweep=pressure is not None)
        missing = [m for m in run.policy.missing if pressure is None or "Minimum" in m]
        judgements = [lacking(missing if run.options else [*missing, _NO_PASS])]
        judgements *= len(run.removals)
        course = None
        if scene is not None:
            judgements, course = judge_removals(scene, courses(scene), run.removals, run.listed)
        start = () if run.start is None else (run.start.seq,)
        for record, judgement in zip(run.removals, judgements, strict=True):
            known = course.known.get(body_of(record).image_id) if course is not None else None
            seen = () if known is None else (known.first_seq, known.used_seq)
            passes = sorted({seq for seq in seen if seq is not None})
            inputs = (*passes, *run.inputs, *start)
            denied = why_denied(self._use, run, record, decided=course is not None)
            if run.policy.disabled and pressure is None:
                judgement = same(False, f"image GC does not run: {run.policy.disabled!r}")
            elif pressure is not None and pressure.verdict == "impossible":
                judgement = pressure
            elif denied is not None and judgement.verdict != "impossible":
                judgement, inputs = same(False, denied[0]), (*inputs, *denied[1])
            elif pressure is not None:
                judgement = all_of([judgement, pressure])
            own = msgspec.structs.replace(judgement, inputs=inputs)
            rule = _RULE_PRESSURE if judgement is pressure else _RULE_REMOVAL
            self._say(record, own, rule=rule)
        return course

    def _absent(self, run: Run, course: Course) -> None:
        """What would have come under other settings.

        Under the recorded ones this is not said: of an image that went the line may be lost,
        and of one that stayed the line that it was used.
        """
        expected, body = run.due_start(), run.end_body
        if body is None or not run.options or not (run.start or run.begins):
            return
        anchor, seqs = (
            run.options[-1].record,
            (*run.inputs, *(r.seq for r in (run.start, run.end) if r is not None)),
        )
        if run.begins and expected is not None and run.usage is not None:
            why = (
                f"the image filesystem was {run.usage.percent} % used, which is not under the "
                f"high threshold of {run.policy.high} %, so a space pass had to begin"
            )
            self.bench.absent(
                anchor,
                GarbageCollectionStarted.kind,
                subject="node",
                expected=expected,
                why=why,
                rule=self.rule,
                inputs=seqs,
            )
        gone = {body_of(record).image_id for record in run.removals}
        for image_id in course.done.removed if _REFUSED not in body.error else ():
            if image_id in gone:
                continue
            size = course.known[image_id].size_bytes
            self.bench.absent(
                anchor,
                ImageDeleted.kind,
                subject=f"image/{image_id}",
                expected={"image_id": image_id, "size_bytes": size, "pass": "space"},
                why=(
                    f"image {short(image_id)} was not in use and old enough, and "
                    f"{course.done.bytes_to_free} bytes were to be freed, but its removal is not "
                    "recorded"
                ),
                rule=_RULE_REMOVAL,
                inputs=seqs,
            )

    def _contradictions(self, run: Run) -> None:
        """The settings and the start of a space pass tell other thresholds."""
        body, seq = run.start_body, self.bench.settings.seq
        assert run.start is not None
        assert body is not None
        for name, value, told in (
            (HIGH, run.policy.high, body.high_threshold_percent),
            (LOW, run.policy.low, body.low_threshold_percent),
        ):
            if seq is None or value in (None, told) or name in self.bench.variant.settings:
                continue
            self.bench.contradict(
                run.start.ts_ns,
                "node",
                f"{name} is {value} by the settings, and {told} when a collection began",
                (seq, f"{name} = {value}"),
                (run.start.seq, f"threshold {told} %"),
            )


def _scene(run: Run, *, sweep: bool) -> Scene | None:
    """What is known of a run; None without the policy, or without a detect pass."""
    known = {"high_threshold_percent": 100, "low_threshold_percent": 100, "max_age_ns": 0}
    policy = run.policy.whole(**known) if sweep else run.policy.whole()
    if policy is None or not run.options or (run.policy.disabled and not sweep):
        return None
    amounts: tuple[tuple[int | None, tuple[str, ...]], ...] = ((run.wanted, ()),)
    bodies = [body_of(record) for record in run.removals]
    if sweep:
        amounts = ((EVERYTHING, ()),)
    elif run.start is None and not run.loose and any(body.pass_ != "age" for body in bodies):
        amounts = ((None, ()), (EVERYTHING, (_NO_START,)))
    own_clock = run.facts.detects_before_disk_check or run.start is None
    end = run.end_body
    return Scene(
        options=run.options,
        now_ns=None if own_clock or run.start is None else run.start.ts_ns,
        policy=policy,
        facts=run.facts,
        began_ns=run.began_ns,
        claims=claims_of(run.options[-1].known, run.removals),
        aged=frozenset(body.image_id for body in bodies if body.pass_ == "age"),
        amounts=amounts,
        sweep=sweep,
        refused=end is not None and _REFUSED in end.error,
        loose=run.loose,
        start_told=not run.begins,
    )
