"""What a collection removes in each world that the records leave open.

Worlds differ in which detect pass was the collection's own, and in times that are known between
bounds: what is decided is monotone in each, so all are as old as they may be, or as young.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.images.image_gc_manager import (
    EVERYTHING,
    ImageRecord,
    Kept,
    Observed,
    Pass,
    RealImageGCManager,
    elapsed,
    free_old_images,
    free_space,
    images_in_eviction_order,
)
from kubeledger.kubelet.images.policy import ImageGCPolicy
from kubeledger.kubelet.kube.instants import ZERO_TIME_NS
from kubeledger.model.units import NS_PER_S, format_go_duration, format_ts
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage
from kubeledger.verify.rules.images.runs import Run, body_of, short

_BEGIN_NS: Final = 60 * NS_PER_S
"""The GC loop begins in less time than this after the process."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What the decider does in one world.

    Attributes:
        order: all that may go, in order, ties as they went; and why others may not.
        plain: the same with ties by image ID.
        done: what goes until enough is freed.
        known: image ID -> what is known of it.
        kept: image ID -> why it may not go.
        assumes: what must have been so, and is in no record.
    """

    order: Pass
    plain: tuple[str, ...]
    done: Pass
    known: Mapping[str, KnownImage]
    kept: Mapping[str, str]
    assumes: tuple[str, ...]

    @property
    def aged(self) -> list[str]:
        """Images that go for their age."""
        return self.order.removed[: self.order.removed_for_age]

    def tied(self, image_id: str) -> list[str]:
        """Other candidates of the same times as an image."""
        keys = self.order.eviction_keys
        return [o for o, key in keys.items() if key == keys.get(image_id) and o != image_id]


class _Times(msgspec.Struct):
    """The times of a collection, each as long past as it may be, or as short.

    Attributes:
        policy, now_ns: of the collection.
        long: as long as it may be.
        open: what hangs on that.
    """

    policy: ImageGCPolicy
    now_ns: int
    long: bool
    open: dict[str, None] = {}

    def first_ns(self, run: Run, image_id: str, image: KnownImage) -> int:
        """When an image was first detected: long enough ago for the minimum age, or now."""
        least_ns, now_ns = self.policy.min_age_ns, self.now_ns
        youngest, oldest = elapsed(now_ns, image.first_hi_ns), elapsed(now_ns, image.first_lo_ns)
        if run.facts.detects_before_disk_check:
            # The clock was read before the runtime was asked, and so before the pass was logged.
            youngest = max(0, youngest) - LISTING_NS
        if youngest >= least_ns:
            return image.order_ns
        if oldest < least_ns:
            return now_ns
        self.open[f"when image {short(image_id)} was first detected, to the second"] = None
        return now_ns - least_ns if self.long else now_ns

    def used_ns(self, image_id: str, image: KnownImage) -> int:
        """When an image was last used: longer ago than the maximum age, or not."""
        max_age_ns = self.policy.max_age_ns
        unused_ns = elapsed(self.now_ns, image.last_used_ns)
        if not max_age_ns or abs(unused_ns - max_age_ns) > LISTING_NS:
            return image.last_used_ns
        self.open[f"when image {short(image_id)} was last used, to the second"] = None
        return self.now_ns - max_age_ns - (1 if self.long else 0)

    def began_ns(self, run: Run) -> int | None:
        """When the GC loop began; None: long enough ago for the age pass."""
        max_age_ns = self.policy.max_age_ns
        if not max_age_ns or not run.facts.age_pass_waits_for_max_age:
            return None
        if run.began_ns is not None:
            run_ns = self.now_ns - run.began_ns
            if run_ns <= max_age_ns or run_ns - _BEGIN_NS > max_age_ns:
                return run.began_ns
        self.open["when the kubelet began"] = None
        return None if self.long else self.now_ns


def worlds_of(run: Run, passes: Sequence[DetectPass]) -> list[World]:
    """All worlds, the most likely first; none where nothing is known of images, or of their ages.

    Args:
        run: a collection.
        passes: of which one is its own, oldest first.
    """
    min_age_ns, max_age_ns = run.policy.min_age_ns, 0 if run.sweep else run.policy.max_age_ns
    if min_age_ns is None or max_age_ns is None:
        return []
    policy = ImageGCPolicy(
        high_threshold_percent=100,
        low_threshold_percent=100,
        min_age_ns=min_age_ns,
        max_age_ns=max_age_ns,
    )
    found: list[World] = []
    for own in reversed(passes):
        assumes: tuple[str, ...] = ()
        if len(passes) > 1:
            at = format_ts(own.record.ts_ns)
            assumes = (f"that the detect pass at {at} was the collection's own",)
        times = _Times(policy, run.now_ns(own), long=True)
        found.append(_world(run, own, times, assumes))
        if times.open:
            short_times = _Times(policy, times.now_ns, long=False)
            found.append(_world(run, own, short_times, (*assumes, *times.open)))
    return found


def _world(run: Run, own: DetectPass, times: _Times, assumes: tuple[str, ...]) -> World:
    records, held = dict[str, ImageRecord](), dict(own.in_use)
    gone = {body_of(record).image_id: body_of(record).size_bytes for record in run.removals}
    unsure = any(image.before for image in own.known.values())
    for image_id, image in own.known.items():
        if run.facts.pinned_images_kept and image.pinned is None and image_id not in gone:
            held.setdefault(image_id, "may be pinned")
        first_ns = times.first_ns(run, image_id, image)
        used_ns = times.used_ns(image_id, image)
        is_old = elapsed(times.now_ns, first_ns) >= times.policy.min_age_ns
        if unsure and used_ns == ZERO_TIME_NS and is_old:
            # Some were used before the first record, or not: their order is open.
            first_ns = ZERO_TIME_NS
        records[image_id] = ImageRecord(
            first_detected_ns=first_ns,
            last_used_ns=used_ns,
            size_bytes=image.size_bytes or gone.get(image_id) or 0,
            pinned=bool(image.pinned),
        )
    manager = RealImageGCManager(
        policy=times.policy, facts=run.facts, began_ns=times.began_ns(run), records=records
    )
    ties = {image_id: place for place, image_id in enumerate(gone)}
    wanted = EVERYTHING if run.sweep else run.begun.get("bytes_to_free")

    def decide(amount: int | None, ties: Mapping[str, int]) -> Pass:
        """The kubelet's pass from the list of candidates on."""
        mine = msgspec.structs.replace(manager, records=dict(records))
        in_use = frozenset(held)
        observed = Observed(
            now_ns=times.now_ns, images=(), images_in_use=in_use, image_fs=None, ties=ties
        )
        done = Pass()
        images = images_in_eviction_order(mine, observed, in_use, done)
        if not run.sweep:
            images = free_old_images(mine, observed, images, done)
        if amount is not None:
            free_space(mine, observed, amount, images, done)
        return done

    order = decide(EVERYTHING, ties)
    return World(
        order=order,
        plain=tuple(decide(EVERYTHING, {}).removed),
        done=decide(wanted, ties),
        known=own.known,
        kept={
            image_id: held.get(image_id) or _reason(times, own.known[image_id], why)
            for image_id, why in order.kept.items()
        },
        assumes=assumes,
    )


def _reason(times: _Times, image: KnownImage, why: Kept) -> str:
    if why is not Kept.YOUNG:
        return str(why)
    age_ns = max(0, elapsed(times.now_ns, image.first_hi_ns)) // NS_PER_S * NS_PER_S
    age = f"only {format_go_duration(age_ns)}" if age_ns else "less than 1s"
    least = format_go_duration(times.policy.min_age_ns)
    return f"was detected {age} before (minimum age {least})"
