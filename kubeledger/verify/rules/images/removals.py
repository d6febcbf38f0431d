"""Removals of one collection, each held against what may go at its turn in each world."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

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
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.units import NS_PER_S, format_go_duration, format_ts
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage
from kubeledger.verify.rules.images.runs import Removal, Run, short

# What a collection removes in each world that the records leave open.
#
# Worlds differ in which detect pass was the collection's own, and in times that are known between
# bounds: what is decided is monotone in each, so all are as old as they may be, or as young.

_BEGIN_NS: Final = 60 * NS_PER_S
"""The GC loop begins in less time than this after the process."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What the decider does in one world.

    Attributes:
        order: all that may go, in order, ties as they went; and why others may not.
        plain: the same with ties by image ID.
        done: what goes until enough is freed.
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

    One of the ``passes``, oldest first, is the collection's own.
    """
    min_age_ns, max_age_ns = run.policy.min_age_ns, 0 if run.sweep else run.policy.max_age_ns
    if min_age_ns is None or max_age_ns is None:
        return []
    ages = {"min_age_ns": min_age_ns, "max_age_ns": max_age_ns}
    policy = ImageGCPolicy(high_threshold_percent=100, low_threshold_percent=100, **ages)
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
    gone = {body.image_id: body.size_bytes for _, body in run.removals}
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
        mine = replace(manager, records=dict(records))
        in_use, now_ns = frozenset(held), times.now_ns
        seen = Observed(now_ns=now_ns, images=(), images_in_use=in_use, image_fs=None, ties=ties)
        done = Pass()
        images = images_in_eviction_order(mine, seen, in_use, done)
        if not run.sweep:
            images = free_old_images(mine, seen, images, done)
        if amount is not None:
            free_space(mine, seen, amount, images, done)
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


NO_PASS: Final = "the detect pass before the removal (logged from verbosity 5)"
_USE_BEFORE: Final = "the use of the image before the first record"
_DOUBLED: Final = "whether the line of the removal is there twice"
_UNNAMED: Final = "which image a line names whose ID is empty"
_UNLISTED: Final = "the lines about the image in the collection's detect pass"
_NO_START: Final = "the start of this collection"


def judge_removals(run: Run, worlds: Sequence[World]) -> tuple[list[Judgement], list[World]]:
    """Judge each removal by the worlds in which those before it were right; and what is left."""
    left = [(world, list(_Walk(run, world).rulings())) for world in worlds]
    judgements: list[Judgement] = []
    for at in range(len(run.removals)):
        judgements.append(judge([ruling for _, rulings in left for ruling in rulings[at]]))
        still = [each for each in left if any(ruling.allowed for ruling in each[1][at])]
        left = still or left
    return judgements, [world for world, _ in left]


def kept_of(run: Run, worlds: Sequence[World]) -> list[tuple[str, str]]:
    """Images that a run left, and why, in the likeliest world; sorted by ID."""
    gone = {body.image_id for _, body in run.removals}
    kept = worlds[0].kept.items() if worlds else ()
    return [(image, why) for image, why in sorted(kept) if image not in gone]


class _Walk:
    """Goes through the removals of a run in one world.

    An image that was overtaken once may go at any time after that, and one that cannot have
    gone stands for the first that had to go and did not: one lie is one.
    """

    def __init__(self, run: Run, world: World) -> None:
        self._run, self._world = run, world
        self._wanted = EVERYTHING if run.sweep else run.begun.get("bytes_to_free")
        self._rest = list(world.order.removed)
        self._gone: set[str] = set()
        self._freed_bytes = 0

    def rulings(self) -> Iterator[list[Ruling]]:
        """What the world says of each removal; two rulings where it leaves that open."""
        for at, removal in enumerate(self._run.removals):
            later = {body.image_id for _, body in self._run.removals[at + 1 :]}
            yield list(self._rulings(removal, later))

    def _rulings(self, removal: Removal, later: Collection[str]) -> Iterator[Ruling]:
        run, body = self._run, removal.body
        image_id, image = body.image_id, short(body.image_id)
        why, perhaps = self._why_not(removal)
        if why:
            instead = self._instead(later)
            had_to = "".join(f"; image {short(other)} had to go" for other in instead)
            yield self._denied(f"image {image} cannot have been removed{why}{had_to}", instead)
            if perhaps:
                yield self._allowed(perhaps)
                self._went(body, [])
            if perhaps == _NO_START:  # of one world with it: the next go in that
                self._wanted = EVERYTHING
            return
        expected = self._expected(image_id, body)
        before = self._rest[: self._rest.index(image_id)] if image_id in self._rest else []
        if self._run.sweep:  # the eviction manager may leave any
            before = [other for other in before if other in later]
        size, of_pass = expected["size_bytes"], expected.get("pass", body.pass_)
        if body.size_bytes not in (None, size):
            why = f"image {image} was detected with {size} bytes, and removed as one of "
            yield self._denied(f"{why}{body.size_bytes} bytes", [image_id], certain=True)
        elif of_pass != body.pass_:
            why = f"image {image} had to go in the {of_pass} pass, not in the {body.pass_} one"
            yield self._denied(why, [image_id])
        elif before and not (run.loose or run.refused):
            why = ", ".join(map(short, before))
            yield self._denied(f"image {image} was removed out of turn, before {why}", before)
            if image_id not in later:
                yield self._allowed(f"all that became of {why}, as a line may be lost")
        else:
            yield from self._in_turn(body, expected)
        if why and image_id in later:  # of two removals of one image the other is believed
            self._instead(later)
        else:
            self._went(body, before)

    def _instead(self, later: Collection[str]) -> list[str]:
        """The image for which one stands that cannot have gone; it is missed no more."""
        instead = [other for other in self._rest if other not in later][: self._is_short]
        self._rest = [other for other in self._rest if other not in instead]
        return instead

    def _went(self, body: ImageDeleted, before: Sequence[str]) -> None:
        """An image went, and overtook others."""
        image_id = body.image_id
        self._rest = [other for other in self._rest if other not in (image_id, *before)]
        counts = image_id in self._world.known and image_id not in self._world.aged
        if counts and image_id not in self._gone:
            self._freed_bytes += self._size(image_id, body) or 0
        self._gone.add(image_id)

    def _in_turn(self, body: ImageDeleted, expected: Fields) -> Iterator[Ruling]:
        world, image_id = self._world, body.image_id
        tied, at = world.tied(image_id), world.order.removed.index(image_id)
        chosen = world.plain[at] == image_id
        why = _why_right(self._run, world, image_id)
        if not chosen:
            among = ", ".join(map(short, tied)) or "others"
            why += f"; the kubelet leaves its order among {among} open, as their times are the same"
        yield Ruling(allowed=True, chosen=chosen, why=why, expected=expected, assumes=world.assumes)
        doubt = "" if self._run.passes else NO_PASS
        if not doubt and tied and any(world.known[each].before for each in (*tied, image_id)):
            doubt = _USE_BEFORE
        if doubt:
            why = f"image {short(image_id)} may not have been the next"
            yield Ruling(allowed=False, why=why, assumes=(*world.assumes, doubt))

    def _why_not(self, removal: Removal) -> tuple[str, str]:
        """Why an image cannot have gone, and on what that hangs; both empty if it can."""
        run, world, (record, body) = self._run, self._world, removal
        image_id = body.image_id
        if not image_id:  # somebody took all IDs out of the log
            return ", which has no ID", _UNNAMED
        if image_id in self._gone:
            doubled = [(r.ts_ns, b) for r, b in run.removals].count((record.ts_ns, body)) > 1
            return " twice in one collection", _DOUBLED if doubled else ""
        if image_id not in world.known:
            listed = image_id in run.listed and not run.loose
            return ": the runtime did not list it", _UNLISTED if listed else ""
        if image_id in world.kept:
            return f": it {world.kept[image_id]}", ""
        if image_id in world.aged or run.sweep:
            return "", ""
        if self._wanted is None:
            why, limit = ": there was no space to be freed", run.policy.max_age_ns
            if limit:
                why += f", nor had it been unused for more than {format_go_duration(limit)} in a "
                why += "kubelet that ran so long"
            return why, "" if run.loose or body.pass_ == "age" else _NO_START
        freed_bytes = world.done.freed_bytes if run.loose else self._freed_bytes
        due = image_id in world.done.removed if run.loose else self._is_short
        if not due:
            return f": {freed_bytes} of {self._wanted} bytes had been freed before its turn", ""
        return "", ""

    @property
    def _is_short(self) -> bool:
        """Whether more has to go; that is asked after a removal, so one goes in any case."""
        wanted = self._wanted
        return wanted is not None and (not self._freed_bytes or self._freed_bytes < wanted)

    def _denied(self, why: str, instead: Sequence[str], *, certain: bool = False) -> Ruling:
        expected = self._expected(instead[0], None) if instead else None
        return Ruling(
            allowed=False, why=why, expected=expected, assumes=self._world.assumes, certain=certain
        )

    def _allowed(self, assumed: str) -> Ruling:
        return Ruling(allowed=True, why="", assumes=(*self._world.assumes, assumed))

    def _size(self, image_id: str, removal: ImageDeleted | None) -> int | None:
        """As listed; or else as the removal shows."""
        size = self._world.known[image_id].size_bytes
        return removal.size_bytes if size is None and removal is not None else size

    def _expected(self, image_id: str, removal: ImageDeleted | None) -> Fields:
        run, world = self._run, self._world
        fields: Fields = {"image_id": image_id, "size_bytes": self._size(image_id, removal)}
        # Where only other settings lead to a space pass, the source could not show which it was.
        if removal is None or (removal.pass_ is not None and not run.begins):
            of_space = "all" if run.sweep else "space"
            fields["pass"] = "age" if image_id in world.aged else of_space
        return fields


def _why_right(run: Run, world: World, image_id: str) -> str:
    known, policy, facts = world.known[image_id], run.policy, ["was not in use"]
    if known.used_seq:
        facts.append(f"was last seen in use at {format_ts(known.last_used_ns)}")
    elif not known.before:
        facts.append("was never seen in use by this kubelet")
    if known.first_seq:
        when = f"first detected at {format_ts(known.first_hi_ns)}"
        facts.append(f"was {when if known.first_hi_ns > 0 else 'there when the kubelet began'}")
    if image_id in world.aged:
        limit = f"unused for more than {format_go_duration(policy.max_age_ns or 0)}"
    else:
        limit = f"older than {format_go_duration(policy.min_age_ns or 0)}"
    order = world.order.removed.index(image_id) + 1
    return (
        f"image {short(image_id)} {', '.join(facts)}, is {limit}, and its turn came as "
        f"number {order} of {len(world.order.eviction_keys)} candidates"
    )
