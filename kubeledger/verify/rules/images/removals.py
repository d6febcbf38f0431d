"""Removals of one collection, each held against what the decider removes in each course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.record import Record
from kubeledger.model.units import format_go_duration, format_ts
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.courses import Course, Step, tells_other_size
from kubeledger.verify.rules.images.runs import Run, body_of, short

__all__ = ["NO_PASS", "judge_removals"]

NO_PASS: Final = "the detect pass before the removal (logged from verbosity 5)"
_USE_BEFORE: Final = "the use of the image before the first record"
_DOUBLED: Final = "whether the line of the removal is there twice"
_UNLISTED: Final = "the lines about the image in the collection's detect pass"


def judge_removals(run: Run, worlds: Sequence[Course]) -> tuple[list[Judgement], Course]:
    """Judge each removal by the courses in which those before it were right.

    Args:
        run: a collection.
        worlds: (n,) n >= 1, its courses, the likeliest first.

    Returns:
        one judgement a removal, and the likeliest course that is left.
    """
    left = list(worlds)
    judgements: list[Judgement] = []
    for at, record in enumerate(run.removals):
        rulings = [_rulings(run, course, record, course.steps[at]) for course in left]
        judgements.append(judge([ruling for of_course in rulings for ruling in of_course]))
        still = [
            each
            for each, of_course in zip(left, rulings, strict=True)
            if any(ruling.allowed for ruling in of_course)
        ]
        left = still or left
    return judgements, left[0]


def _rulings(run: Run, course: Course, record: Record, step: Step) -> list[Ruling]:
    """What a course says of a removal; two rulings where it leaves that open."""
    body, assumes, known = body_of(record), course.assumes, course.known
    image_id = body.image_id
    expected = _expected(run, course, image_id, body)
    image, why, certain = short(image_id), "", False
    if not step.due or step.before:
        why = _why_not(run, course, image_id, step)
        expected = _expected(run, course, step.before[0], None) if step.before else {}
    elif tells_other_size(known, record):
        size, certain = expected["size_bytes"], True
        why = f"image {image} was detected with {size} bytes, and removed as one of "
        why += f"{body.size_bytes} bytes"
    elif expected.get("pass", body.pass_) != body.pass_:
        why = f"image {image} had to go in the {expected['pass']} pass, not in the {body.pass_} one"
    if why:
        denied = Ruling(
            allowed=False, why=why, expected=expected or None, assumes=assumes, certain=certain
        )
        perhaps = ""
        if [(r.ts_ns, r.body) for r in run.removals].count((record.ts_ns, body)) > 1:
            perhaps = _DOUBLED
        elif image_id in run.listed and image_id not in known:
            perhaps = _UNLISTED
        if run.loose or not perhaps or step.due:
            return [denied]
        return [denied, Ruling(allowed=True, why="", assumes=(*assumes, perhaps))]
    tied = course.tied(image_id)
    allowed = Ruling(
        allowed=True,
        chosen=_is_plain(course, image_id),
        why=_why_right(run, course, image_id, tied),
        expected=expected,
        assumes=assumes,
    )
    doubt = "" if run.options else NO_PASS
    if not doubt and tied and any(known[other].before for other in (*tied, image_id)):
        doubt = _USE_BEFORE
    if not doubt:
        return [allowed]
    why = f"image {image} may not have been the next"
    return [allowed, Ruling(allowed=False, why=why, assumes=(*assumes, doubt))]


def _is_plain(course: Course, image_id: str) -> bool:
    at = course.done.removed.index(image_id)
    return course.plain[at : at + 1] == (image_id,)


def _expected(run: Run, course: Course, image_id: str, told: ImageDeleted | None) -> Fields:
    known = course.known.get(image_id)
    size = known.size_bytes if known is not None else None
    if size is None and told is not None:
        size = told.size_bytes
    fields: Fields = {"image_id": image_id, "size_bytes": size}
    # Where only other settings lead to a space pass, the source could not tell of which it was.
    if told is None or (told.pass_ is not None and not run.begins):
        of_space = "all" if run.sweep else "space"
        fields["pass"] = "age" if image_id in course.aged else of_space
    return fields


def _why_right(run: Run, course: Course, image_id: str, tied: Sequence[str]) -> str:
    known, policy = course.known[image_id], run.policy
    facts = ["was not in use"]
    if known.used_seq is not None:
        facts.append(f"was last seen in use at {format_ts(known.last_used_ns)}")
    elif not known.before:
        facts.append("was never seen in use by this kubelet")
    if known.first_seq is not None and known.first_hi_ns > 0:
        facts.append(f"was first detected at {format_ts(known.first_hi_ns)}")
    elif known.first_seq is not None:
        facts.append("was there when the kubelet began")
    if image_id in course.aged:
        limit = f"unused for more than {format_go_duration(policy.max_age_ns or 0)}"
    else:
        limit = f"older than {format_go_duration(policy.min_age_ns or 0)}"
    order = course.done.removed.index(image_id) + 1
    why = (
        f"image {short(image_id)} {', '.join(facts)}, is {limit}, and its turn came as "
        f"number {order} of {len(course.done.eviction_keys)} candidates"
    )
    if _is_plain(course, image_id):
        return why
    others = ", ".join(map(short, tied)) or "others"
    return f"{why}; the kubelet leaves its order among {others} open, as their times are the same"


def _why_not(run: Run, course: Course, image_id: str, step: Step) -> str:
    image, done = short(image_id), course.done
    cannot = f"image {image} cannot have been removed"
    if step.due:
        why = f"image {image} was removed out of its turn"
    elif image_id in done.removed:
        why = f"{cannot} twice in one collection"
    elif image_id not in course.known:
        why = f"{cannot}: the runtime did not list it"
    elif image_id in course.kept:
        why = f"{cannot}: it {course.kept[image_id]}"
    elif done.bytes_to_free is None:
        why = f"{cannot}: there was no space to be freed"
        if run.policy.max_age_ns:
            limit = format_go_duration(run.policy.max_age_ns)
            why += f", nor had it been unused for more than {limit} in a kubelet that ran so long"
    else:
        freed = f"{done.freed_bytes} of {done.bytes_to_free} bytes had been freed"
        why = f"{cannot}: {freed} before its turn"
    if step.before:
        first = step.before[0]
        longer = course.known[first].used_seq is not None
        told = ", used longer ago," if longer else ", which had to go,"
        why += f"; image {short(first)}{told} {'went later' if step.passed else 'was left'}"
    return why
