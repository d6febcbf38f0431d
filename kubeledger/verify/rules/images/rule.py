"""The rule of image GC: gathers the records of each run, and judges it at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

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
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import RuleVerifier, all_of, compared, lacks, same
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.rules.images.passes import Disk, Passes
from kubeledger.verify.rules.images.removals import (
    NO_PASS,
    World,
    judge_removals,
    kept_of,
    worlds_of,
)
from kubeledger.verify.rules.images.runs import (
    POLICY_SETTINGS,
    ImageUse,
    Removal,
    Run,
    read_policy,
    short,
)
from kubeledger.verify.rules.images.starts_and_ends import (
    MissingStart,
    judge_end,
    judge_pressure,
    judge_start,
)

_LONGEST_NS: Final = 600 * NS_PER_S
"""A run about which nothing was said for so long has ended unheard."""
_RULE_REMOVAL: Final = "pkg/kubelet/images realImageGCManager.freeSpace"
_RULE_PRESSURE: Final = "pkg/kubelet/eviction managerImpl.reclaimNodeLevelResources"
_BEFORE_SPACE: Final = ("invalid capacity ", "failed to get image", "wanted to free images older")


class ImageVerifier(RuleVerifier):
    """Judges what the image GC manager decided: docs/internals/verification.md."""

    rule = "pkg/kubelet/images realImageGCManager.GarbageCollect"
    decides = (GarbageCollectionStarted, ImageDeleted, GarbageCollected)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._disk = Disk()
        self._use = ImageUse()
        self._passes = Passes()
        self._missing_start = MissingStart(context, self.rule)
        self._run: Run | None = None
        self._sweep: Run | None = None
        self._began_ns: int | None = None
        self._previous: Record | None = None

    def derive(self, state: NodeState) -> None:
        self._use.forget(self.context.asked_ns)

    def prescans(self) -> Mapping[type[Body], Prescan]:
        return {
            EvictionSignalObserved: self._disk.prescan,
            GarbageCollectionStarted: self._disk.prescan_start,
            ImageFsObserved: self._disk.prescan,
            PodListed: self._use.prescan,
        }

    def sees(self) -> Mapping[type[Body], See]:
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: lambda record, body, state: self._restart(None),
            ImageFsObserved: self._disk_seen,
            EvictionSignalObserved: self._disk_seen,
            ImagesDetected: self._detected,
            GarbageCollectionStarted: self._started,
            ImageDeleted: self._deleted,
            GarbageCollected: self._collected,
        }

    def settle(self, state: NodeState) -> None:
        self._close()
        self._close_sweep()

    # -- what is read ----------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.settle(state)
        self._passes = Passes()
        self._disk.forget()
        self._restart(record.ts_ns if body.from_start else None)

    def _restart(self, began_ns: int | None) -> None:
        """No time from before can be compared any more."""
        self._previous, self._began_ns = None, began_ns
        self._missing_start.restart()

    def _disk_seen(self, record: Record, body: Body, state: NodeState) -> None:
        self._expire(record.ts_ns)
        sample, profile = self._disk.see(record), self.context.profile
        if isinstance(body, EvictionSignalObserved):
            self._close_sweep()
            if sample is not None and profile is not None:
                policy = self.context.settings.once(read_policy, profile.images)
                self._missing_start.see(record, sample, policy)

    def _detected(self, record: Record, body: ImagesDetected, state: NodeState) -> None:
        self._expire(record.ts_ns)
        profile = self.context.profile
        zero_time = profile is not None and profile.images.first_detect_time_zero
        of_loop = self._run is None and self._sweep is None
        self._passes.take(record, body, zero_time=zero_time, of_loop=of_loop)

    # -- what is decided -------------------------------------------------------------------

    def _started(self, record: Record, body: GarbageCollectionStarted, state: NodeState) -> None:
        if self._run is None or self._run.start is not None:
            self._close()
        run = self._open(record, "node")
        if run is not None:
            run.start, run.start_body, run.last_ns = record, body, record.ts_ns
            run.seen = self._disk.right_before(record.ts_ns)
            if run.facts.detects_before_disk_check:
                self._freeze(run, record)

    def _deleted(self, record: Record, body: ImageDeleted, state: NodeState) -> None:
        start = self._run.start if self._run is not None else None
        subject = f"image/{body.image_id}"
        if body.pass_ == "all" and (start is None or record.cause != start.seq):
            run = self._sweep = self._sweep or self._new(record, subject)
            if run is not None and run.pressure is None:
                run.pressure = judge_pressure(self.context, state, record.ts_ns)
        else:
            run = self._open(record, subject)
        self._passes.deleted(body.image_id)
        if run is not None:
            self._freeze(run, record)
            run.removals.append(Removal(record, body))
            run.last_ns = record.ts_ns

    def _collected(self, record: Record, body: GarbageCollected, state: NodeState) -> None:
        start = self._run.start if self._run is not None else None
        other = body.error.startswith(_BEFORE_SPACE) or body.outcome == "below_threshold"
        if start is not None and other and record.cause != start.seq:
            self._close()
        run = self._open(record, "node")
        if run is not None:
            self._freeze(run, record)
            run.end, run.end_body = record, body
            self._close()
            self._previous = record

    # -- runs ------------------------------------------------------------------------------

    def _open(self, record: Record, subject: str) -> Run | None:
        """The run that a record belongs to; None where the kubelet's rules are not known."""
        if self._run is None:
            self._run = self._new(record, subject)
            self._missing_start.restart(heard=True)
        return self._run

    def _new(self, record: Record, subject: str) -> Run | None:
        variant, settings = self.context.variant, self.context.settings
        if self.context.profile is None:
            self.lacking(record, subject, [self.context.missing_profile])
            return None
        facts = self.context.profile.images
        return Run(
            facts=facts,
            policy=settings.once(read_policy, facts),
            loose=bool(POLICY_SETTINGS & variant.settings.keys() or variant.kubelet_version),
            previous=self._previous,
            began_ns=self._began_ns,
            last_ns=record.ts_ns,
            listed=frozenset(self._passes.seen),
            settings=() if settings.seq is None else (settings.seq,),
        )

    def _freeze(self, run: Run, record: Record) -> None:
        """Its own detect pass is after it now."""
        if run.passes is None:
            before = run.start is None or run.facts.detects_before_disk_check
            since = run.previous if before else run.start
            run.passes = self._passes.own(record.ts_ns, since, soon=before)

    def _expire(self, now_ns: int) -> None:
        """Time went on: a run without further records is over."""
        if self._run is not None and now_ns - self._run.last_ns > _LONGEST_NS:
            self._close()

    # -- what is said ----------------------------------------------------------------------

    def _close(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        self.context.settings.once(read_policy, run.facts)  # it is judged by them only now
        if run.start is not None and run.start_body is not None:
            run.disk = self._disk.implied(run.start.ts_ns, run.start_body)
            run.exact = run.disk is not None
        run.disk = run.disk or self._disk.near(min(record.ts_ns for record in run.records))
        if run.start is not None:
            judgement = judge_start(run, self._disk)
            run.start_denied = judgement.verdict == "impossible"
            self.conclude(run.start, "node", judgement, recorded=compared(run.start, judgement))
        worlds, doubtful = self._judge_removals(run)
        if run.end is not None:
            judgement = judge_end(run, self._disk, worlds, doubtful=doubtful)
            begun = run.start.evidence if run.start is not None else ()
            records = (record.seq for record in run.records if record is not run.end)
            self.conclude(
                run.end,
                "node",
                replace(judgement, inputs=(*run.inputs, *records)),
                recorded=compared(run.end, judgement),
                about={f"image/{image_id}": why for image_id, why in kept_of(run, worlds)},
                place=next((piece for piece in run.end.evidence if piece not in begun), None),
            )
        if worlds:
            self._owe(run, worlds[:1] if run.loose else worlds)

    def _close_sweep(self) -> None:
        sweep, self._sweep = self._sweep, None
        if sweep is not None:
            self._judge_removals(sweep)

    def _judge_removals(self, run: Run) -> tuple[list[World], bool]:
        """Judge a run's removals: the worlds left, and whether lines of others may be lost."""
        missing = [*run.policy.missing_ages[: 1 if run.sweep else 2]]
        judgements = [lacks(missing if run.passes else [*missing, NO_PASS])] * len(run.removals)
        worlds = worlds_of(run, self._use.passes(run))
        if worlds:
            judgements, worlds = judge_removals(run, worlds)
            run.denied = any(each.verdict == "impossible" for each in judgements) and not run.loose
        start = () if run.start is None else (run.start.seq,)
        for (record, body), judgement in zip(run.removals, judgements, strict=True):
            subject, rule = f"image/{body.image_id}", _RULE_REMOVAL
            known = worlds[0].known.get(body.image_id) if worlds else None
            seen = () if known is None else sorted({known.first_seq, known.used_seq})
            if run.policy.disabled and not run.sweep:
                judgement = same(False, f"image GC does not run: {run.policy.disabled!r}")
            elif run.pressure is not None and run.pressure.verdict == "impossible":
                judgement, rule = run.pressure, _RULE_PRESSURE
            elif run.pressure is not None:
                judgement = all_of([judgement, run.pressure])
            inputs = (*seen, *run.inputs, *start, *judgement.inputs)
            judgement, shown = replace(judgement, inputs=inputs), compared(record, judgement)
            self.conclude(record, subject, judgement, recorded=shown, rule=rule)
        worlds = worlds if run.passes else []
        return worlds, not worlds or "unverifiable" in {each.verdict for each in judgements}

    def _owe(self, run: Run, worlds: Sequence[World]) -> None:
        """What had to come in every world, and did not.

        As recorded only where the end counts the bytes of just those removals that have lines:
        then no line of a removal is lost.
        """
        end = run.end_body
        if run.end is None or end is None or not run.passes or not (run.start or run.begins):
            return
        observed = run.passes[-1].record
        debt = Debt(
            since=observed,
            due_ns=run.end.ts_ns,
            shown_by=ImagesDetected,
            kind=GarbageCollectionStarted.kind,
            subject="node",
            expected=run.due,
            why=f"the image filesystem was {run.due.get('usage_percent')} % used, at or above "
            f"the high threshold of {run.policy.high} %, so a space pass had to begin",
            rule=self.rule,
            inputs=(*run.inputs, *(r.seq for r in (run.start, run.end) if r is not None)),
        )
        owed = [debt] if run.begins else []
        known, gone = worlds[0].known, {body.image_id for _, body in run.removals}
        counted = sum(body.size_bytes or 0 for _, body in run.removals)
        surely = end.error and end.bytes_freed == counted and run.began_ns is not None
        named = all(body.image_id for _, body in run.removals)
        if run.refused or run.denied or not named or not (run.loose or surely):
            known = {}
        due = set.intersection(*({*world.done.removed} for world in worlds)) - gone
        for image_id in worlds[0].done.removed:
            image = known.get(image_id)
            # One that was there before may have been used before the first record.
            if image_id not in due or image is None or (image.before and not run.loose):
                continue
            fields = {"image_id": image_id, "size_bytes": image.size_bytes, "pass": "space"}
            why = f"image {short(image_id)} was not in use and old enough, and "
            why += f"{worlds[0].done.bytes_to_free} bytes were to be freed, but its removal is not "
            each = replace(debt, kind=ImageDeleted.kind, why=f"{why}recorded", rule=_RULE_REMOVAL)
            each.subject, each.expected = f"image/{image_id}", fields
            owed.append(each)
        for each in owed:
            (self.context.convict if run.loose else self.context.debts.call)(each)
