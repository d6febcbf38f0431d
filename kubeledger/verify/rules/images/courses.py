"""What a collection removes in each course of events that the records leave open.

A course is one world: the kubelet's image records just before the first removal, and the amount
to free. Times are known between bounds, and what is decided is monotone in each: so the two
extremes are asked, times as the recorded removals need them and as they do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.images.eviction_order import images_in_eviction_order
from kubeledger.kubelet.images.free import FAILED, LEFT_OVER, free_old_images, free_space
from kubeledger.kubelet.images.gotime import ZERO_TIME_NS, elapsed
from kubeledger.kubelet.images.manager import ImageRecord, Observed, Pass, RealImageGCManager
from kubeledger.kubelet.images.policy import ImageGCPolicy
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_go_duration, format_ts
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage
from kubeledger.verify.rules.images.runs import EVERYTHING, Run, body_of, short

__all__ = ["Course", "Step", "courses", "tells_other_size"]

_BEGIN_NS: Final = 60 * NS_PER_S
"""The GC loop begins in less time than this after the process."""


class Step(msgspec.Struct, frozen=True):
    """How a removal stands to what is due.

    Attributes:
        due: it had to go.
        before: images that had to go before it, and did not.
        passed: some of them went later.
    """

    due: bool
    before: tuple[str, ...]
    passed: bool = False


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What the decider does in one world.

    Attributes:
        done: the pass, ties as claimed.
        plain: what goes with ties by image ID.
        kept: image ID -> why it may not go; without those whose turn did not come.
        known: image ID -> what was known of it.
        steps: one for each removal that is recorded.
        lost: lines about images that had to go and did not may be lost: then all that may go
            can go, in any order.
        assumes: what must have been so for this course, and is told by no record.
    """

    done: Pass
    plain: tuple[str, ...]
    kept: Mapping[str, str]
    known: Mapping[str, KnownImage]
    steps: list[Step]
    lost: bool
    assumes: tuple[str, ...]

    @property
    def doubtful(self) -> list[str]:
        """Images that had to go before one that went before them, or instead of them."""
        return list(dict.fromkeys(image_id for step in self.steps for image_id in step.before))

    @property
    def aged(self) -> list[str]:
        """Images that go for their age."""
        return self.done.removed[: self.done.removed_for_age]

    def tied(self, image_id: str) -> list[str]:
        """Other candidates of the same times as an image."""
        keys = self.done.eviction_keys
        return [o for o, key in keys.items() if key == keys.get(image_id) and o != image_id]


class _Ground(msgspec.Struct):
    """The image records of one course; times near a limit are as the claims need them, or not.

    Attributes:
        policy, now_ns: of the collection.
        own: its detect pass.
        claims: image ID -> what its removal tells, in their order.
        claimed: the claims are right.
        open: what hangs on that.
    """

    policy: ImageGCPolicy
    now_ns: int
    own: DetectPass
    claims: dict[str, ImageDeleted]
    claimed: bool
    began_ns: int | None = None
    records: dict[str, ImageRecord] = {}
    held: dict[str, str] = {}
    open: dict[str, None] = {}


def courses(run: Run, passes: Sequence[DetectPass]) -> list[Course]:
    """All courses, the likeliest first; none without the policy.

    Args:
        run: a collection.
        passes: of which one is its own, oldest first.
    """
    known = {"high_threshold_percent": 100, "low_threshold_percent": 100, "max_age_ns": 0}
    policy = run.policy.whole(**known) if run.sweep else run.policy.whole()
    if policy is None or (run.policy.disabled and not run.sweep):
        return []
    found: list[Course] = []
    for own in reversed(passes):
        assumes: tuple[str, ...] = ()
        if len(passes) > 1:
            at = format_ts(own.record.ts_ns)
            assumes = (f"that the detect pass at {at} was the collection's own",)
        ground = _ground(run, policy, own, claimed=True)
        found += _of_ground(run, ground, assumes)
        if ground.open:
            adverse = _ground(run, policy, own, claimed=False)
            found += _of_ground(run, adverse, (*assumes, *ground.open))
    return found


def tells_other_size(known: Mapping[str, KnownImage], record: Record) -> bool:
    """Whether a removal tells another size of its image than the runtime listed."""
    body = body_of(record)
    image = known.get(body.image_id)
    size = image.size_bytes if image is not None else None
    return size is not None and body.size_bytes is not None and size != body.size_bytes


def _claims(run: Run, known: Mapping[str, KnownImage]) -> dict[str, ImageDeleted]:
    """The first removal of each image, or the first that tells its size."""
    claims: dict[str, ImageDeleted] = {}
    for record in sorted(run.removals, key=lambda record: tells_other_size(known, record)):
        claims.setdefault(body_of(record).image_id, body_of(record))
    order = [body_of(record) for record in run.removals]
    return dict(sorted(claims.items(), key=lambda claim: order.index(claim[1])))


def _of_ground(run: Run, ground: _Ground, assumes: tuple[str, ...]) -> Iterator[Course]:
    for amount, by_amount in run.amounts:
        assumed = (*assumes, *by_amount)
        course = _course(run, ground, amount, assumed)
        if run.refused:
            failed = [image_id for image_id in course.doubtful if image_id not in ground.claims]
            course = _course(run, ground, amount, assumed, failed=failed)
        yield course
        doubtful = course.doubtful
        if doubtful and not run.loose:
            names = ", ".join(map(short, doubtful))
            lost = f"all that became of {names}, of which a line may be lost"
            most = None if amount is None else EVERYTHING
            yield _course(run, ground, most, (*assumed, lost), lost=True)


def _course(
    run: Run,
    ground: _Ground,
    amount: int | None,
    assumes: tuple[str, ...],
    *,
    failed: Collection[str] = (),
    lost: bool = False,
) -> Course:
    ties = {image_id: place for place, image_id in enumerate(ground.claims)}
    done = _decide(run, ground, amount, ties, failed)
    known = ground.own.known
    kept = {
        image_id: ground.held.get(image_id) or _reason(ground, known[image_id], why)
        for image_id, why in done.kept.items()
        if image_id in known and why not in (LEFT_OVER, FAILED)
    }
    return Course(
        done=done,
        plain=tuple(_decide(run, ground, amount, {}, failed).removed),
        kept=kept,
        known=known,
        steps=_steps(run, known, done, lost=lost),
        lost=lost,
        assumes=assumes,
    )


def _own(run: Run, known: Mapping[str, KnownImage], done: Pass) -> list[int]:
    """Places of one removal an image: of several, the one that tells its size, at its turn."""
    due, keys = done.removed, done.eviction_keys
    best: dict[str, tuple[bool, bool, int]] = {}
    for place, record in enumerate(run.removals):
        image_id = body_of(record).image_id
        at_turn = place < len(due) and keys[due[place]] == keys.get(image_id)
        rank = (tells_other_size(known, record), not at_turn, place)
        best[image_id] = min(best.get(image_id, rank), rank)
    return sorted(place for _, _, place in best.values())


def _steps(run: Run, known: Mapping[str, KnownImage], done: Pass, *, lost: bool) -> list[Step]:
    """Walk through what is due and what went, side by side.

    An image that was overtaken once may go at any time behind that, and one that cannot have
    gone stands for the first that had to go and did not: one lie is one.
    """
    rest, excused = list(done.removed), set[str]()
    own = _own(run, known, done)
    later = [body_of(run.removals[place]).image_id for place in own]
    steps: list[Step] = []
    for place, record in enumerate(run.removals):
        image_id = body_of(record).image_id
        if place in own:
            later.remove(image_id)
        if place not in own or image_id not in rest:
            instead = [other for other in rest if other not in later][:1]
            rest = [other for other in rest if other not in instead]
            steps.append(Step(False, tuple(instead)))
            continue
        front = [other for other in rest[: rest.index(image_id)] if other not in excused]
        passed = [other for other in front if other in later]
        missed = [other for other in front if other not in later]
        excused.update(passed)
        rest = [other for other in rest if other not in (image_id, *missed)]
        if lost:
            passed = missed = []
        elif run.sweep or run.loose:
            missed = []
        steps.append(Step(True, (*passed, *missed), bool(passed)))
    return steps


def _decide(
    run: Run,
    ground: _Ground,
    amount: int | None,
    ties: Mapping[str, int],
    failed: Collection[str],
) -> Pass:
    """The kubelet's pass from the list of candidates on."""
    manager = RealImageGCManager(
        policy=ground.policy,
        facts=run.facts,
        began_ns=ground.began_ns,
        records=dict(ground.records),
        initialized=True,
    )
    observed = Observed(
        now_ns=ground.now_ns,
        images=(),
        images_in_use=frozenset(ground.held),
        image_fs=None,
        remove_errors=dict.fromkeys(failed, FAILED),
    )
    done = Pass()
    images = images_in_eviction_order(manager, observed.images_in_use, ties, done)
    if not run.sweep:
        images = free_old_images(manager, observed, images, done)
    if amount is not None:
        free_space(manager, observed, amount, images, done)
    return done


def _ground(run: Run, policy: ImageGCPolicy, own: DetectPass, *, claimed: bool) -> _Ground:
    ground = _Ground(policy, run.now_ns(own), own, _claims(run, own.known), claimed)
    ground.began_ns = _began(run, ground)
    unsure = any(image.before for image in own.known.values())
    for image_id, image in own.known.items():
        claim = ground.claims.get(image_id)
        if image_id in own.in_use:
            ground.held[image_id] = own.in_use[image_id]
        elif run.facts.pinned_images_kept and image.pinned is None and claim is None:
            ground.held[image_id] = "may be pinned"
        first_ns = _first(run, ground, image_id, image)
        last_ns = _last_used(ground, image_id, image)
        is_old = elapsed(ground.now_ns, first_ns) >= policy.min_age_ns
        if unsure and last_ns == ZERO_TIME_NS and is_old:
            # Some were used before the first record, or not: these may stand in any order.
            first_ns = ZERO_TIME_NS
        told = None if claim is None else claim.size_bytes
        ground.records[image_id] = ImageRecord(
            first_detected_ns=first_ns,
            last_used_ns=last_ns,
            size_bytes=image.size_bytes or told or 0,
            pinned=bool(image.pinned),
        )
    return ground


def _first(run: Run, ground: _Ground, image_id: str, image: KnownImage) -> int:
    """When it was first detected; near the minimum age it is old enough or not, as is asked."""
    least_ns, now_ns = ground.policy.min_age_ns, ground.now_ns
    youngest, oldest = elapsed(now_ns, image.first_hi_ns), elapsed(now_ns, image.first_lo_ns)
    if run.facts.detects_before_disk_check:
        # The clock was read before the runtime was asked, and so before the pass was logged.
        youngest = max(0, youngest) - LISTING_NS
    if youngest >= least_ns:
        return image.order_ns
    if oldest < least_ns:
        return now_ns
    ground.open[f"when image {short(image_id)} was first detected, to the second"] = None
    return now_ns - least_ns if (image_id in ground.claims) == ground.claimed else now_ns


def _last_used(ground: _Ground, image_id: str, image: KnownImage) -> int:
    """When it was last used; near the maximum age it went for it or not, as is asked."""
    max_age_ns = ground.policy.max_age_ns
    unused_ns = elapsed(ground.now_ns, image.last_used_ns)
    if not max_age_ns or abs(unused_ns - max_age_ns) > LISTING_NS:
        return image.last_used_ns
    ground.open[f"when image {short(image_id)} was last used, to the second"] = None
    claim = ground.claims.get(image_id)
    gone = (claim is not None and claim.pass_ == "age") == ground.claimed
    return ground.now_ns - max_age_ns - (1 if gone else 0)


def _began(run: Run, ground: _Ground) -> int | None:
    """When the GC loop began; None: long enough ago for the age pass."""
    max_age_ns = ground.policy.max_age_ns
    if not max_age_ns or not run.facts.age_pass_waits_for_max_age:
        return None
    if run.began_ns is not None:
        run_ns = ground.now_ns - run.began_ns
        if run_ns <= max_age_ns or run_ns - _BEGIN_NS > max_age_ns:
            return run.began_ns
    aged = any(claim.pass_ == "age" for claim in ground.claims.values())
    ground.open["when the kubelet began"] = None
    return None if aged == ground.claimed else ground.now_ns


def _reason(ground: _Ground, image: KnownImage, why: str) -> str:
    if "minimum age" not in why:
        return why
    age_ns = max(0, elapsed(ground.now_ns, image.first_hi_ns)) // NS_PER_S * NS_PER_S
    age = f"only {format_go_duration(age_ns)}" if age_ns else "less than 1s"
    least = format_go_duration(ground.policy.min_age_ns)
    return f"was detected {age} before (minimum age {least})"
