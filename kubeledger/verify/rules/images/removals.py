"""Removals of one collection, each held against what the decider removes in each course."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.images.records import ImageDeleted
from kubeledger.machine import Record
from kubeledger.units import format_go_duration, format_ts
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.courses import Course, Scene, short
from kubeledger.verify.rules.images.passes import KnownImage

__all__ = ["body_of", "claims_of", "judge_removals"]

_USE_BEFORE: Final = "the use of the image before the first record"
_DOUBLED: Final = "whether the line of the removal is there twice"
_UNLISTED: Final = "the lines about the image in the collection's detect pass"


class _Step(msgspec.Struct, frozen=True):
    """How a removal stands to what is due.

    Attributes:
        due: it had to go.
        before: images that had to go before it, and did not.
        passed: some of them went later.
        doubled: the record is another one twice.
    """

    due: bool
    before: tuple[str, ...]
    passed: bool = False
    doubled: bool = False


def body_of(record: Record) -> ImageDeleted:
    """What a removal tells."""
    assert isinstance(record.body, ImageDeleted)
    return record.body


def own_removals(known: Mapping[str, KnownImage], removals: Sequence[Record]) -> list[int]:
    """Indices of one removal an image: of two, the one that tells the image's own size."""
    by_image: dict[str, int] = {}
    for at, record in enumerate(removals):
        other = by_image.setdefault(body_of(record).image_id, at)
        if _lies_about_size(known, removals[other]) and not _lies_about_size(known, record):
            by_image[body_of(record).image_id] = at
    return sorted(by_image.values())


def claims_of(known: Mapping[str, KnownImage], removals: Sequence[Record]) -> dict[str, int | None]:
    """Image ID -> size told, of the removals recorded, in their order."""
    bodies = [body_of(removals[at]) for at in own_removals(known, removals)]
    return {body.image_id: body.size_bytes for body in bodies}


def judge_removals(
    scene: Scene, worlds: Sequence[Course], removals: Sequence[Record], listed: frozenset[str]
) -> tuple[list[Judgement], Course]:
    """Judge each removal by the courses in which those before it were right.

    Args:
        scene: what is known.
        worlds: (n,) n >= 1, the likeliest first.
        removals: as recorded.
        listed: images that any pass of the process listed, and that were not removed.

    Returns:
        one judgement a removal, and the likeliest course that is left.
    """
    left = [(course, _steps(course, scene, removals)) for course in worlds]
    judgements: list[Judgement] = []
    for at, record in enumerate(removals):
        rulings: list[Ruling] = []
        still: list[tuple[Course, list[_Step]]] = []
        for course, steps in left:
            of_course = list(_rulings(scene, course, record, at, steps[at], listed))
            rulings += of_course
            if any(ruling.allowed for ruling in of_course):
                still.append((course, steps))
        judgements.append(judge(rulings))
        left = still or left
    return judgements, left[0][0]


def _steps(course: Course, scene: Scene, removals: Sequence[Record]) -> list[_Step]:
    """Walk through what is due and what went, side by side.

    An image that was overtaken once may go at any time behind that: one lie is one.
    """
    rest, excused = list(course.done.removed), set[str]()
    own = own_removals(course.known, removals)
    later = [body_of(removals[at]).image_id for at in own]
    steps: list[_Step] = []
    for at, record in enumerate(removals):
        image_id = body_of(record).image_id
        if at in own:
            later.remove(image_id)
        if at in own and image_id in rest:
            front = [other for other in rest[: rest.index(image_id)] if other not in excused]
            passed = [other for other in front if other in later]
            missed = [other for other in front if other not in later]
            excused.update(passed)
            gone = {image_id, *missed}
            rest = [other for other in rest if other not in gone]
            if scene.sweep or scene.refused or scene.loose or course.lost:
                missed = []
            passed = [] if course.lost else passed
            steps.append(_Step(True, (*passed, *missed), bool(passed)))
            continue
        instead = next((other for other in rest if other not in later), None)
        if at not in own:
            instead = instead if _lies_about_size(course.known, record) else None
        if instead is not None:
            rest.remove(instead)
        doubled = any(
            (other.ts_ns, other.body) == (record.ts_ns, record.body)
            for other in removals
            if other is not record
        )
        steps.append(_Step(False, () if instead is None else (instead,), doubled=doubled))
    return steps


def _rulings(
    scene: Scene,
    course: Course,
    record: Record,
    at: int,
    step: _Step,
    listed: frozenset[str],
) -> list[Ruling]:
    """What a course says of a removal; two rulings where it leaves that open."""
    body, assumes = body_of(record), course.assumes
    expected = _expected(scene, course, body.image_id, body)
    image, why = short(body.image_id), ""
    certain = False
    if not step.due or step.before:
        why = _why_not(scene, course, body, step)
        expected = {} if not step.before else _expected(scene, course, step.before[0], None)
    elif _lies_about_size(course.known, record):
        why = (
            f"image {image} was detected with {expected['size_bytes']} bytes, and removed as one "
            f"of {body.size_bytes} bytes"
        )
        certain = True
    elif expected.get("pass", body.pass_) != body.pass_:
        why = f"image {image} had to go in the {expected['pass']} pass, not in the {body.pass_} one"
    if why:
        fields = expected or None
        denied = Ruling(allowed=False, why=why, expected=fields, assumes=assumes, certain=certain)
        perhaps = _DOUBLED if step.doubled else _UNLISTED
        listed_before = body.image_id in listed and body.image_id not in course.known
        if scene.loose or not (step.doubled or listed_before):
            return [denied]
        return [denied, Ruling(allowed=True, why="", assumes=(*assumes, perhaps))]
    tied = [other for other in course.tied(body.image_id) if other != body.image_id]
    allowed = Ruling(
        allowed=True,
        chosen=_is_plain(course, body.image_id),
        why=_why_right(scene, course, body, tied),
        expected=expected,
        assumes=assumes,
    )
    if any(course.known[other].before for other in (*tied, body.image_id) if tied):
        why = f"image {image} may not have been the next"
        return [allowed, Ruling(allowed=False, why=why, assumes=(*assumes, _USE_BEFORE))]
    return [allowed]


def _is_plain(course: Course, image_id: str) -> bool:
    at = course.done.removed.index(image_id)
    return at < len(course.plain) and course.plain[at] == image_id


def _lies_about_size(known: Mapping[str, KnownImage], record: Record) -> bool:
    body = body_of(record)
    image = known.get(body.image_id)
    size = image.size_bytes if image is not None else None
    return size is not None and body.size_bytes is not None and size != body.size_bytes


def _expected(scene: Scene, course: Course, image_id: str, told: ImageDeleted | None) -> Fields:
    known = course.known.get(image_id)
    size = known.size_bytes if known is not None else None
    if size is None and told is not None:
        size = told.size_bytes
    fields: Fields = {"image_id": image_id, "size_bytes": size}
    if told is None or (told.pass_ is not None and scene.start_told):
        of_space = "all" if scene.sweep else "space"
        fields["pass"] = "age" if image_id in course.aged else of_space
    return fields


def _why_right(scene: Scene, course: Course, body: ImageDeleted, tied: Sequence[str]) -> str:
    known = course.known[body.image_id]
    facts = ["was not in use"]
    if known.used_seq is not None:
        facts.append(f"was last seen in use at {format_ts(known.last_used_ns)}")
    elif not known.before:
        facts.append("was never seen in use by this kubelet")
    if known.first_seq is not None and known.first_hi_ns > 0:
        facts.append(f"was first detected at {format_ts(known.first_hi_ns)}")
    elif known.first_seq is not None:
        facts.append("was there when the kubelet began")
    if body.image_id in course.aged:
        limit = f"unused for more than {format_go_duration(scene.policy.max_age_ns)}"
    else:
        limit = f"older than {format_go_duration(scene.policy.min_age_ns)}"
    order = course.done.removed.index(body.image_id) + 1
    why = (
        f"image {short(body.image_id)} {', '.join(facts)}, is {limit}, and its turn came as "
        f"number {order} of {len(course.done.eviction_keys)} candidates"
    )
    if _is_plain(course, body.image_id):
        return why
    others = ", ".join(short(other) for other in tied) or "others"
    return f"{why}; the kubelet leaves its order among {others} open, as their times are the same"


def _why_not(scene: Scene, course: Course, body: ImageDeleted, step: _Step) -> str:
    image_id, done = body.image_id, course.done
    image = short(image_id)
    if step.due:
        why = f"image {image} was removed out of its turn"
    elif image_id in done.removed:
        why = f"image {image} cannot have been removed twice in one collection"
    elif image_id not in course.known:
        why = f"image {image} cannot have been removed: the runtime did not list it"
    elif image_id in course.kept:
        why = f"image {image} cannot have been removed: it {course.kept[image_id]}"
    elif done.bytes_to_free is None:
        why = f"image {image} cannot have been removed: there was no space to be freed"
    else:
        why = (
            f"image {image} cannot have been removed: {done.freed_bytes} of "
            f"{done.bytes_to_free} bytes had been freed before its turn"
        )
    if step.before:
        first = step.before[0]
        longer = course.known[first].used_seq is not None
        told = ", used longer ago," if longer else ", which had to go,"
        why += f"; image {short(first)}{told} {'went later' if step.passed else 'was left'}"
    return why
