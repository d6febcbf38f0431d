"""A collection as a question to the decider: the kubelet's image records just before it.

Where the records leave room (a time between bounds, two passes of which either can be the
collection's own), the claim fills it: an image that was removed could be, one that stayed
had to stay. So no removal is called impossible that some course of events gives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from kubeledger.images.eviction_order import eviction_key
from kubeledger.images.gc import run_pass
from kubeledger.images.gotime import ZERO_TIME_NS, elapsed
from kubeledger.images.manager import (
    ImageFsStats,
    ImageRecord,
    Observed,
    Operation,
    Pass,
    RealImageGCManager,
    RuntimeImage,
)
from kubeledger.images.policy import ImageGCPolicy
from kubeledger.profile.images import ImageFacts
from kubeledger.units import NS_PER_S, format_go_duration
from kubeledger.verify.images.knowledge import LISTING_NS, DetectPass, KnownImage

__all__ = ["Answer", "Question"]

_BEGIN_NS = 60 * NS_PER_S
"""The GC loop begins in less time than this after the process."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a collection before its first removal.

    Attributes:
        options: (n,) passes of which one is the collection's own, oldest first; not empty.
        now_ns: the collection's clock.
        policy: by the settings.
        facts: of the version.
        began_ns: the kubelet process; None when the records may begin later.
        claimed: image ID -> size told, of the removals recorded.
        claimed_by_age: an image is recorded as removed for its age.
        open_as_claimed: what is open was as the claim needs it; else as is likeliest.
        listed_before: images that any pass of the process listed, and that were not removed.
    """

    options: tuple[DetectPass, ...]
    now_ns: int
    policy: ImageGCPolicy
    facts: ImageFacts
    began_ns: int | None
    claimed: Mapping[str, int | None]
    claimed_by_age: bool
    open_as_claimed: bool = True
    listed_before: Collection[str] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the decider says.

    Attributes:
        operation: who called.
        done: the pass, ties as claimed.
        plain: what goes with ties by image ID.
        by_age: images that go in the age pass.
        kept: image ID -> why it may not go; without those whose turn did not come.
        ranks: image ID -> place in the order, the same for images whose order is open.
        unsure: images whose place rests on times before the first record.
        known: image ID -> what was known of it.
    """

    operation: Operation
    done: Pass
    plain: tuple[str, ...]
    by_age: frozenset[str]
    kept: Mapping[str, str]
    ranks: Mapping[str, int]
    unsure: frozenset[str]
    known: Mapping[str, KnownImage]


class _Built(msgspec.Struct):
    """A manager and what it reads, made from a question."""

    records: dict[str, ImageRecord]
    images: tuple[RuntimeImage, ...]
    held: dict[str, str]
    known: dict[str, KnownImage]
    unsure: set[str]


def ask(
    question: Question,
    operation: Operation,
    image_fs: ImageFsStats | None,
    failed: Collection[str] = (),
) -> Answer:
    """Decide the collection again.

    Args:
        question: what is known.
        operation: who called.
        image_fs: the disk; not read by the deletion of unused images.
        failed: images whose removal the runtime refused.
    """
    built = _build(question)
    order = {image_id: place for place, image_id in enumerate(question.claimed)}
    done = _run(question, built, operation, image_fs, order, failed)
    plain = _run(question, built, operation, image_fs, {}, failed)
    candidates = [key for key in built.records if key not in built.held]
    keys = sorted({eviction_key(built.records[key]) for key in candidates})
    places = {key: place for place, key in enumerate(keys)}
    kept = {
        image_id: built.held.get(image_id) or _reason(question, built.known[image_id], why)
        for image_id, why in done.kept.items()
        if image_id in built.records and "turn" not in why
    }
    return Answer(
        operation=operation,
        done=done,
        plain=tuple(plain.removed),
        by_age=_by_age(question, built, done),
        kept=kept,
        ranks={key: places[eviction_key(built.records[key])] for key in candidates},
        unsure=frozenset(built.unsure),
        known=built.known,
    )


def _run(
    question: Question,
    built: _Built,
    operation: Operation,
    image_fs: ImageFsStats | None,
    ties: Mapping[str, int],
    failed: Collection[str],
) -> Pass:
    manager = RealImageGCManager(
        policy=question.policy,
        facts=question.facts,
        began_ns=_began(question),
        records={key: msgspec.structs.replace(record) for key, record in built.records.items()},
        initialized=True,
    )
    observed = Observed(
        now_ns=question.now_ns,
        images=built.images,
        images_in_use=frozenset(built.held),
        image_fs=image_fs,
        remove_errors=dict.fromkeys(failed, "not removed"),
    )
    return run_pass(manager, operation, observed, ties)


def _build(question: Question) -> _Built:
    newest = question.options[-1]
    known = dict(newest.known)
    for option in question.options[:-1]:
        for image_id, image in option.known.items():
            known.setdefault(image_id, image)
    built = _Built({}, (), {}, known, set())
    has_unknown_use = any(image.before for image in known.values())
    for image_id, image in known.items():
        if why := _held(question, image_id, image):
            built.held[image_id] = why
        record = _record(question, image_id, image)
        if has_unknown_use and record.last_used_ns == ZERO_TIME_NS and _is_old(question, record):
            # Some were used before the first record, or not: these may stand in any order.
            record.first_detected_ns = ZERO_TIME_NS
        if image.first_seq is None:
            built.unsure.add(image_id)
        built.records[image_id] = record
    built.images = tuple(
        RuntimeImage(key, record.size_bytes, record.pinned) for key, record in built.records.items()
    )
    return built


def _is_old(question: Question, record: ImageRecord) -> bool:
    return elapsed(question.now_ns, record.first_detected_ns) >= question.policy.min_age_ns


def _held(question: Question, image_id: str, image: KnownImage) -> str:
    """Why the image can be no candidate; empty when it is, or may be and was claimed."""
    users = [option for option in question.options if image_id in option.in_use]
    if users and (len(users) == len(question.options) or image_id not in question.claimed):
        return "is in use"
    if not question.facts.detects_before_disk_check and image.last_used_ns >= question.now_ns:
        return "is in use"
    if image_id in question.claimed:
        return "is pinned" if image.pinned and question.facts.pinned_images_kept else ""
    if question.facts.pinned_images_kept and image.pinned is not False:
        return "is pinned" if image.pinned else "may be pinned"
    if not question.open_as_claimed:
        return ""
    missed = any(image_id not in option.known for option in question.options)
    if missed:
        return "may not have been listed"
    return "may be too young" if _age_open(question, image) else ""


def _ages(question: Question, image: KnownImage) -> tuple[int, int]:
    """Least and greatest age."""
    youngest = elapsed(question.now_ns, image.first_hi_ns)
    if question.facts.detects_before_disk_check:
        # The clock was read before the runtime was asked, and so before the pass was logged.
        youngest = max(0, youngest) - LISTING_NS
    return youngest, elapsed(question.now_ns, image.first_lo_ns)


def _age_open(question: Question, image: KnownImage) -> bool:
    youngest, oldest = _ages(question, image)
    return youngest < question.policy.min_age_ns <= oldest


def _record(question: Question, image_id: str, image: KnownImage) -> ImageRecord:
    """The kubelet's record, open times as the claim needs them."""
    size = image.size_bytes
    if size is None:
        size = question.claimed.get(image_id) or 0
    first_ns = image.order_ns
    youngest, oldest = _ages(question, image)
    if youngest < question.policy.min_age_ns:
        # An open age counts as old enough; an image that stayed is held for that.
        old = oldest >= question.policy.min_age_ns
        if not question.open_as_claimed:
            old = max(0, elapsed(question.now_ns, image.order_ns)) >= question.policy.min_age_ns
        first_ns = question.now_ns - question.policy.min_age_ns if old else question.now_ns
    return ImageRecord(
        first_detected_ns=first_ns,
        last_used_ns=_last_used(question, image_id, image),
        size_bytes=size,
        pinned=bool(image.pinned),
    )


def _last_used(question: Question, image_id: str, image: KnownImage) -> int:
    """When it was last used; near the maximum age as the claim needs it."""
    max_age_ns = question.policy.max_age_ns
    unused_ns = elapsed(question.now_ns, image.last_used_ns)
    if not max_age_ns or abs(unused_ns - max_age_ns) > LISTING_NS:
        return image.last_used_ns
    gone = question.claimed_by_age and image_id in question.claimed
    return question.now_ns - max_age_ns - (1 if gone else 0)


def _began(question: Question) -> int | None:
    """When the GC loop began; so that the age pass is armed or not, as far as that is open."""
    max_age_ns, began_ns = question.policy.max_age_ns, question.began_ns
    if began_ns is not None:
        run_ns = question.now_ns - began_ns
        if run_ns <= max_age_ns or run_ns - _BEGIN_NS > max_age_ns:
            return began_ns
    return None if question.claimed_by_age else question.now_ns


def _by_age(question: Question, built: _Built, done: Pass) -> frozenset[str]:
    max_age_ns, facts = question.policy.max_age_ns, question.facts
    if not facts.age_pass or not max_age_ns:
        return frozenset()
    began_ns = _began(question)
    waits = facts.age_pass_waits_for_max_age and began_ns is not None
    if waits and began_ns is not None and elapsed(question.now_ns, began_ns) <= max_age_ns:
        return frozenset()
    return frozenset(
        image_id
        for image_id in done.removed
        if elapsed(question.now_ns, built.records[image_id].last_used_ns) > max_age_ns
    )


def _reason(question: Question, image: KnownImage, why: str) -> str:
    if "minimum age" not in why:
        return why
    age_ns = max(0, elapsed(question.now_ns, image.first_hi_ns)) // NS_PER_S * NS_PER_S
    age = f"only {format_go_duration(age_ns)}" if age_ns else "less than 1s"
    least = format_go_duration(question.policy.min_age_ns)
    return f"was detected {age} before (minimum age {least})"
