"""What a collection removes in each course of events that the records leave open.

A course is one world: the kubelet's image records just before the first removal, and the amount
to free. Times are known between bounds, and what is decided is monotone in each: so the two
extremes are asked, times as the recorded removals need them and as they do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.images.eviction_order import images_in_eviction_order
from kubeledger.images.free import FAILED, LEFT_OVER, free_old_images, free_space
from kubeledger.images.gotime import ZERO_TIME_NS, elapsed
from kubeledger.images.manager import ImageRecord, Observed, Pass, RealImageGCManager
from kubeledger.images.policy import ImageGCPolicy
from kubeledger.profile.images import ImageFacts
from kubeledger.units import NS_PER_S, format_go_duration, format_ts
from kubeledger.verify.rules.images.passes import LISTING_NS, DetectPass, KnownImage

__all__ = ["EVERYTHING", "Course", "Scene", "courses", "short"]

EVERYTHING: Final = 2**63 - 1
"""What the eviction manager asks to be freed."""
_BEGIN_NS: Final = 60 * NS_PER_S
"""The GC loop begins in less time than this after the process."""
_ROUNDS_MAX: Final = 8


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a collection before its first removal.

    Attributes:
        options: (n,) passes of which one is the collection's own, oldest first; not empty.
        now_ns: the collection's clock; None: that of its own pass.
        policy, facts: of the kubelet.
        began_ns: the kubelet process; None when that is not known.
        claims: image ID -> size told, of the removals recorded, in their order.
        aged: (n,) those of them recorded as removed for their age.
        amounts: bytes to free and what is assumed by it; None: there is no space pass.
        sweep: the eviction manager deletes all that is unused.
        refused: the runtime refused removals.
        loose: decided by other settings than the recorded ones: claims are no evidence.
        start_told: False where only other settings lead to a space pass, so that the source
            could not tell of which pass a removal was.
    """

    options: tuple[DetectPass, ...]
    now_ns: int | None
    policy: ImageGCPolicy
    facts: ImageFacts
    began_ns: int | None
    claims: Mapping[str, int | None]
    aged: frozenset[str]
    amounts: tuple[tuple[int | None, tuple[str, ...]], ...]
    sweep: bool = False
    refused: bool = False
    loose: bool = False
    start_told: bool = True


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What the decider does in one world.

    Attributes:
        done: the pass, ties as claimed.
        plain: what goes with ties by image ID.
        kept: image ID -> why it may not go; without those whose turn did not come.
        known: image ID -> what was known of it.
        lost: lines about images that had to go and did not may be lost.
        assumes: what must have been so for this course, and is told by no record.
    """

    done: Pass
    plain: tuple[str, ...]
    kept: Mapping[str, str]
    known: Mapping[str, KnownImage]
    lost: bool
    assumes: tuple[str, ...]

    @property
    def aged(self) -> Sequence[str]:
        """Images that go for their age."""
        return self.done.removed[: self.done.removed_for_age]

    def tied(self, image_id: str) -> list[str]:
        """Candidates of the same times as an image, itself among them."""
        keys = self.done.eviction_keys
        return [other for other, key in keys.items() if key == keys.get(image_id)]


class _Ground(msgspec.Struct):
    """The image records of one course."""

    now_ns: int
    began_ns: int | None
    records: dict[str, ImageRecord]
    held: dict[str, str]
    open: dict[str, None]


def courses(scene: Scene) -> list[Course]:
    """All courses, the likeliest first; at least one."""
    found: list[Course] = []
    for own in reversed(scene.options):
        assumes: tuple[str, ...] = ()
        if len(scene.options) > 1:
            at = format_ts(own.record.ts_ns)
            assumes = (f"that the detect pass at {at} was the collection's own",)
        ground = _ground(scene, own, claimed=not scene.loose)
        found += _of_ground(scene, own, ground, assumes)
        if ground.open and not scene.loose:
            adverse = _ground(scene, own, claimed=False)
            found += _of_ground(scene, own, adverse, (*assumes, *ground.open))
    return found


def _of_ground(
    scene: Scene, own: DetectPass, ground: _Ground, assumes: tuple[str, ...]
) -> Iterator[Course]:
    for amount, by_amount in scene.amounts:
        assumed = (*assumes, *by_amount)
        failed: frozenset[str] = frozenset()
        course = _course(scene, own, ground, amount, assumed)
        if scene.refused:
            failed = frozenset(_left(scene, course))
            course = _course(scene, own, ground, amount, assumed, failed)
        yield course
        left, passed = list(_left(scene, course)), _overtaken(scene, course)
        if not (left or passed) or scene.loose:
            continue
        names = ", ".join(short(image_id) for image_id in (*passed, *left))
        lost = f"all that became of {names}, of which a line may be lost"
        yield msgspec.structs.replace(course, lost=True, assumes=(*assumed, lost))
        if not left or scene.sweep:
            continue
        used = frozenset(left)
        for _ in range(_ROUNDS_MAX):
            other = _course(scene, own, ground, amount, (*assumed, lost), failed, used)
            more = frozenset(_left(scene, other))
            if more <= used:
                break
            used |= more
        yield msgspec.structs.replace(other, lost=True)


def _left(scene: Scene, course: Course) -> Iterator[str]:
    """Images that had to go before one that went, and did not."""
    claims = scene.claims
    due = course.done.removed
    last = max((at for at, image_id in enumerate(due) if image_id in claims), default=-1)
    more = any(image_id not in due for image_id in scene.claims)
    for at, image_id in enumerate(due):
        if image_id not in claims and (at < last or more):
            yield image_id


def _overtaken(scene: Scene, course: Course) -> list[str]:
    """Images that had to go before one that went before them."""
    place = {image_id: at for at, image_id in enumerate(course.done.removed)}
    later = [image_id for image_id in scene.claims if image_id in place]
    return [
        image_id
        for at, image_id in enumerate(later)
        if any(place[other] > place[image_id] for other in later[:at])
    ]


def _course(
    scene: Scene,
    own: DetectPass,
    ground: _Ground,
    amount: int | None,
    assumes: tuple[str, ...],
    failed: Collection[str] = (),
    used: Collection[str] = (),
) -> Course:
    ties = {image_id: place for place, image_id in enumerate(scene.claims)}
    done = _decide(scene, ground, amount, ties, failed, used)
    plain = _decide(scene, ground, amount, {}, failed, used)
    kept = {
        image_id: ground.held.get(image_id) or _reason(scene, ground, own.known[image_id], why)
        for image_id, why in done.kept.items()
        if image_id in own.known and why not in (LEFT_OVER, FAILED) and image_id not in used
    }
    return Course(
        done=done,
        plain=tuple(plain.removed),
        kept=kept,
        known=own.known,
        lost=False,
        assumes=assumes,
    )


def _decide(
    scene: Scene,
    ground: _Ground,
    amount: int | None,
    ties: Mapping[str, int],
    failed: Collection[str],
    used: Collection[str],
) -> Pass:
    """The kubelet's pass from the list of candidates on."""
    manager = RealImageGCManager(
        policy=scene.policy,
        facts=scene.facts,
        began_ns=ground.began_ns,
        records=dict(ground.records),
        initialized=True,
    )
    observed = Observed(
        now_ns=ground.now_ns,
        images=(),
        images_in_use=frozenset((*ground.held, *used)),
        image_fs=None,
        remove_errors=dict.fromkeys(failed, FAILED),
    )
    done = Pass()
    images = images_in_eviction_order(manager, observed.images_in_use, ties, done)
    if not scene.sweep:
        images = free_old_images(manager, observed, images, done)
    if amount is not None:
        free_space(manager, observed, amount, images, done)
    return done


def _ground(scene: Scene, own: DetectPass, *, claimed: bool) -> _Ground:
    """The image records, open times as the claims need them, or else as they do not."""
    now_ns = own.record.ts_ns if scene.now_ns is None else scene.now_ns
    ground = _Ground(now_ns, None, {}, {}, {})
    ground.began_ns = _began(scene, ground, claimed=claimed)
    unsure = any(image.before for image in own.known.values())
    for image_id, image in own.known.items():
        gone = image_id in scene.claims
        if image_id in own.in_use:
            ground.held[image_id] = "is in use"
        elif scene.facts.pinned_images_kept and image.pinned is None and not gone:
            ground.held[image_id] = "may be pinned"
        first_ns = _first(scene, ground, image_id, image, as_old=gone == claimed)
        last_ns = _last_used(scene, ground, image_id, image, claimed=claimed)
        old = elapsed(now_ns, first_ns) >= scene.policy.min_age_ns
        if unsure and last_ns == ZERO_TIME_NS and old:
            # Some were used before the first record, or not: these may stand in any order.
            first_ns = ZERO_TIME_NS
        ground.records[image_id] = ImageRecord(
            first_detected_ns=first_ns,
            last_used_ns=last_ns,
            size_bytes=image.size_bytes or scene.claims.get(image_id) or 0,
            pinned=bool(image.pinned),
        )
    return ground


def _first(scene: Scene, ground: _Ground, image_id: str, image: KnownImage, *, as_old: bool) -> int:
    """When it was first detected; near the minimum age it is old enough or not, as is asked."""
    least_ns, now_ns = scene.policy.min_age_ns, ground.now_ns
    youngest, oldest = elapsed(now_ns, image.first_hi_ns), elapsed(now_ns, image.first_lo_ns)
    if scene.facts.detects_before_disk_check:
        # The clock was read before the runtime was asked, and so before the pass was logged.
        youngest = max(0, youngest) - LISTING_NS
    if youngest >= least_ns:
        return image.order_ns
    if oldest >= least_ns:
        if scene.loose:
            as_old = max(0, elapsed(now_ns, image.order_ns)) >= least_ns
        ground.open[f"when image {short(image_id)} was first detected, to the second"] = None
        return now_ns - least_ns if as_old else now_ns
    return now_ns


def _last_used(
    scene: Scene, ground: _Ground, image_id: str, image: KnownImage, *, claimed: bool
) -> int:
    """When it was last used; near the maximum age it went for it or not, as is asked."""
    max_age_ns = scene.policy.max_age_ns
    unused_ns = elapsed(ground.now_ns, image.last_used_ns)
    if not max_age_ns or abs(unused_ns - max_age_ns) > LISTING_NS:
        return image.last_used_ns
    ground.open[f"when image {short(image_id)} was last used, to the second"] = None
    gone = (image_id in scene.aged) == claimed
    return ground.now_ns - max_age_ns - (1 if gone else 0)


def _began(scene: Scene, ground: _Ground, *, claimed: bool) -> int | None:
    """When the GC loop began; None: long enough ago for the age pass."""
    max_age_ns = scene.policy.max_age_ns
    if not max_age_ns or not scene.facts.age_pass_waits_for_max_age:
        return None
    if scene.began_ns is not None:
        run_ns = ground.now_ns - scene.began_ns
        if run_ns <= max_age_ns or run_ns - _BEGIN_NS > max_age_ns:
            return scene.began_ns
    ground.open["when the kubelet began"] = None
    return None if bool(scene.aged) == claimed else ground.now_ns


def _reason(scene: Scene, ground: _Ground, image: KnownImage, why: str) -> str:
    if "minimum age" not in why:
        return why
    age_ns = max(0, elapsed(ground.now_ns, image.first_hi_ns)) // NS_PER_S * NS_PER_S
    age = f"only {format_go_duration(age_ns)}" if age_ns else "less than 1s"
    least = format_go_duration(scene.policy.min_age_ns)
    return f"was detected {age} before (minimum age {least})"


def short(image_id: str) -> str:
    """An image ID for people: 12 digits of a digest, anything else as it is."""
    algorithm, _, digest = image_id.partition(":")
    return digest[:12] if algorithm == "sha256" and len(digest) > 12 else image_id
