"""The verifier of image GC: gathers the records of each collection, and judges it at its end."""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.images.records import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
)
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.profile.images import ImageFacts
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.images.collection import (
    RULE_REMOVAL,
    Collection,
    judge_removals,
    open_case,
)
from kubeledger.verify.images.disk import Disk
from kubeledger.verify.images.ends import judge_end
from kubeledger.verify.images.image_use import ImageUse
from kubeledger.verify.images.knowledge import DetectPass, Passes
from kubeledger.verify.images.pressure import readings_of
from kubeledger.verify.images.sizes import ImageSizes
from kubeledger.verify.images.starts import RULE_COLLECTION, judge_start
from kubeledger.verify.images.texts import read_ending
from kubeledger.verify.images.unused import Sweep, judge_sweep
from kubeledger.verify.verifier import Foresee, See, Verifier

__all__ = ["ImagesVerifier"]

_OWN_PASS_NS = 30 * NS_PER_S
"""A collection's own detect pass comes no longer than this before what it leads to."""

_LONGEST_NS = 600 * NS_PER_S
"""A collection about which nothing was said for so long has ended unheard."""


class ImagesVerifier(Verifier):
    """Verifies what the image GC manager decided."""

    decides = (GarbageCollectionStarted, ImageDeleted, GarbageCollected)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._disk = Disk(bench.capacities)
        self._sizes = ImageSizes(bench)
        self._passes = Passes()
        self._collection: Collection | None = None
        self._sweep: Sweep | None = None
        self._started_ns: int | None = None
        self._process_ns: int | None = None
        self._previous_end: Record | None = None
        self._passes_at_end = 0
        self._use = ImageUse()

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Sizes of the disk, which the log of a collection does not hold; uses of images."""
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
        self._close_all()
        self._sizes.settle()

    # -- what is read ----------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._close_all()
        self._passes = Passes()
        self._disk.last = None
        self._started_ns = record.ts_ns
        self._process_ns = record.ts_ns if body.from_start else None
        self._previous_end, self._passes_at_end = None, 0

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._previous_end, self._passes_at_end = None, 0
        self._process_ns = None

    def _disk_seen(self, record: Record, body: Body, state: NodeState) -> None:
        if isinstance(body, EvictionSignalObserved) and self._sweep is not None:
            self._close_sweep()
        self._expire(record.ts_ns)
        self._disk.see(record)

    def _detected(self, record: Record, body: ImagesDetected, state: NodeState) -> None:
        self._expire(record.ts_ns)
        self._sizes.take(record, body)
        facts = self._facts
        self._passes.take(
            record,
            body,
            zero_time=facts is not None and facts.first_detect_time_zero,
            of_loop=self._collection is None and self._sweep is None,
        )

    # -- what is decided -------------------------------------------------------------------

    def _started(self, record: Record, body: GarbageCollectionStarted, state: NodeState) -> None:
        collection = self._collection
        if collection is None or collection.start is not None:
            self._close()
            collection = self._open(record)
        collection.start, collection.last_ns = record, record.ts_ns
        collection.passes_at_start = self._passes.count
        facts = self._facts
        if facts is not None and facts.detects_before_disk_check and collection.options is None:
            collection.options = self._passes_before(record)

    def _deleted(self, record: Record, body: ImageDeleted, state: NodeState) -> None:
        collection = self._collection
        start = collection.start if collection is not None else None
        if body.pass_ == "all" and (start is None or record.cause != start.seq):
            self._swept(record, state)
        else:
            collection = collection or self._open(record)
            self._freeze(collection, record)
            collection.removals.append(record)
            collection.last_ns = record.ts_ns
        self._passes.deleted(body.image_id)
        self._sizes.removed(body.image_id, body.size_bytes)

    def _swept(self, record: Record, state: NodeState) -> None:
        if self._sweep is None:
            options = self._passes_before(record)
            signals = readings_of(state.images.signals)
            listed = frozenset(self._passes.seen)
            self._sweep = Sweep(
                options=options,
                signals=signals,
                profile=self.bench.profile,
                listed_before=listed,
            )
        self._sweep.removals.append(record)

    def _collected(self, record: Record, body: GarbageCollected, state: NodeState) -> None:
        collection = self._collection
        ending = read_ending(body.error)
        unheard = (
            collection is not None
            and collection.start is not None
            and (ending.kind in {"capacity", "before_space"} or body.outcome == "below_threshold")
            and record.cause != collection.start.seq
        )
        if unheard:
            self._close()
            collection = None
        collection = collection or self._open(record)
        self._freeze(collection, record)
        collection.end = record
        self._close()
        self._previous_end, self._passes_at_end = record, self._passes.count

    # -- collections -----------------------------------------------------------------------

    @property
    def _facts(self) -> ImageFacts | None:
        profile = self.bench.profile
        return None if profile is None else profile.images

    def _open(self, record: Record) -> Collection:
        self._collection = Collection(
            facts=self._facts,
            passes_seen=self._passes.fresh is not None,
            listed_before=frozenset(self._passes.seen),
            previous=self._previous_end,
            process_ns=self._process_ns,
            began_ns=self._started_ns if self._passes.fresh else None,
            last_ns=record.ts_ns,
        )
        return self._collection

    def _freeze(self, collection: Collection, record: Record) -> None:
        """Its own detect pass lies behind it now."""
        if collection.options is not None:
            return
        facts, start = self._facts, collection.start
        if facts is None:
            collection.options = ()
        elif start is None or facts.detects_before_disk_check:
            collection.options = self._passes_before(record)
        else:
            recent = self._passes.recent
            collection.options = tuple(p for p in recent if p.number > collection.passes_at_start)

    def _passes_before(self, record: Record) -> tuple[DetectPass, ...]:
        horizon_ns = record.ts_ns - _OWN_PASS_NS
        since = self._passes_at_end
        return tuple(
            p for p in self._passes.recent if p.record.ts_ns >= horizon_ns and p.number > since
        )

    def _expire(self, now_ns: int) -> None:
        """Time went on: a collection that nothing is heard of is over."""
        collection = self._collection
        if collection is not None and now_ns - collection.last_ns > _LONGEST_NS:
            self._close()

    def _close_all(self) -> None:
        self._close()
        self._close_sweep()

    def _close_sweep(self) -> None:
        sweep, self._sweep = self._sweep, None
        if sweep is None:
            return
        if sweep.profile is None:
            self._without_rules(sweep.removals, RULE_REMOVAL)
        else:
            judge_sweep(self.bench, sweep.profile, sweep, self._use)

    def _close(self) -> None:
        collection, self._collection = self._collection, None
        if collection is None:
            return
        facts = collection.facts
        if facts is None:
            ends = [r for r in (collection.start, collection.end) if r is not None]
            self._without_rules(ends, RULE_COLLECTION)
            self._without_rules(collection.removals, RULE_REMOVAL)
            return
        case = open_case(self.bench, facts, self._disk, collection)
        judge_start(self.bench, self._disk, case)
        judge_removals(self.bench, case, self._use)
        judge_end(self.bench, self._disk, case)

    def _without_rules(self, records: list[Record], rule: str) -> None:
        for record in records:
            subject = "node"
            if isinstance(record.body, ImageDeleted):
                subject = f"image/{record.body.image_id}"
            missing = [self.bench.missing_profile]
            self.bench.unverifiable(record, subject=subject, missing=missing, rule=rule)
