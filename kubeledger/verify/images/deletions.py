"""Removals of one collection, each compared with what the decider removes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import msgspec

from kubeledger.images.records import ImageDeleted
from kubeledger.machine import Record
from kubeledger.units import format_go_duration, format_ts
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.images.knowledge import KnownImage
from kubeledger.verify.images.question import Answer, Question

__all__ = ["Judged", "claims_of", "compare", "short"]

USE_BEFORE = "the use of the image before the first record"
NO_START = "the start of this collection"
UNLISTED = "the lines about the image in the collection's detect pass"
USES = "all that told when images were used last"


class Judged(msgspec.Struct, kw_only=True):
    """What is found about one removal.

    Attributes:
        record: the removal.
        verdict, why, expected, missing: as in a finding.
        spoilt: the removal itself is wrong, not only its size or its pass.
        certain: no line that the log lost can change it.
    """

    record: Record
    verdict: Verdict
    why: str
    expected: Fields | None = None
    missing: tuple[str, ...] = ()
    spoilt: bool = False
    certain: bool = False


def short(image_id: str) -> str:
    """An image ID for people: 12 digits of a digest, anything else as it is."""
    algorithm, _, digest = image_id.partition(":")
    return digest[:12] if algorithm == "sha256" and len(digest) > 12 else image_id


def compare(
    question: Question, answer: Answer, removals: Sequence[Record], *, passes_told: bool = True
) -> tuple[list[Judged], list[str]]:
    """Judge each removal.

    Args:
        question: what is known.
        answer: of the decider.
        removals: as recorded.
        passes_told: the source knew of which pass a removal is.

    Returns:
        one judgement a removal, in their order, and the images that had to go, did not, and
        for which no other went.
    """
    due = answer.done.removed
    right = _right(answer, removals)
    went = {_body(removals[at]).image_id for at in right}
    left = [image_id for image_id in due if image_id not in went]
    judged: list[Judged] = []
    for at, record in enumerate(removals):
        if at in right:
            judged.append(_judge_right(question, answer, record, at, passes_told=passes_told))
        else:
            instead = left.pop(0) if left else None
            judged.append(_judge_wrong(question, answer, record, instead, went))
    return judged, left


def claims_of(known: Mapping[str, KnownImage], removals: Sequence[Record]) -> dict[str, int | None]:
    """Image ID -> size told, of the removals recorded, in their order."""
    bodies = [_body(removals[at]) for at in own_removals(known, removals)]
    return {body.image_id: body.size_bytes for body in bodies}


def _body(record: Record) -> ImageDeleted:
    assert isinstance(record.body, ImageDeleted)
    return record.body


def _right(answer: Answer, removals: Sequence[Record]) -> set[int]:
    """Indices of the most removals that are due and stand in their order."""
    place = {image_id: at for at, image_id in enumerate(answer.done.removed)}
    chosen = [
        at for at in own_removals(answer.known, removals) if _body(removals[at]).image_id in place
    ]
    return _longest_rise(chosen, [place[_body(removals[at]).image_id] for at in chosen])


def own_removals(known: Mapping[str, KnownImage], removals: Sequence[Record]) -> list[int]:
    """Indices of one removal an image: of two, the one that tells the image's own size."""
    by_image: dict[str, list[int]] = {}
    for at, record in enumerate(removals):
        by_image.setdefault(_body(record).image_id, []).append(at)
    return sorted(
        min(ats, key=lambda at: (_lies_about_size(known, removals[at]), at))
        for ats in by_image.values()
    )


def _longest_rise(items: Sequence[int], places: Sequence[int]) -> set[int]:
    """The items of a longest rising run of places."""
    ends: list[int] = []
    holders: list[int] = []
    before: list[int | None] = []
    for index, place in enumerate(places):
        at = bisect_right(ends, place)
        before.append(holders[at - 1] if at else None)
        if at == len(ends):
            ends.append(place)
            holders.append(index)
        else:
            ends[at], holders[at] = place, index
    rise: set[int] = set()
    index_or_none = holders[-1] if holders else None
    while index_or_none is not None:
        rise.add(items[index_or_none])
        index_or_none = before[index_or_none]
    return rise


def _lies_about_size(known: Mapping[str, KnownImage], record: Record) -> bool:
    body = _body(record)
    image = known.get(body.image_id)
    size = image.size_bytes if image is not None else None
    return size is not None and body.size_bytes is not None and size != body.size_bytes


def _expected(answer: Answer, image_id: str, told: ImageDeleted | None) -> Fields:
    known = answer.known.get(image_id)
    size = known.size_bytes if known is not None else None
    if size is None and told is not None:
        size = told.size_bytes
    fields: Fields = {"image_id": image_id, "size_bytes": size}
    if told is None or told.pass_ is not None:
        of_space = "all" if answer.operation == "deleteUnusedImages" else "space"
        fields["pass"] = "age" if image_id in answer.by_age else of_space
    return fields


def _judge_right(
    question: Question, answer: Answer, record: Record, at: int, *, passes_told: bool
) -> Judged:
    body = _body(record)
    expected = _expected(answer, body.image_id, body)
    if not passes_told:
        expected.pop("pass", None)
    image = short(body.image_id)
    if _lies_about_size(answer.known, record):
        why = (
            f"image {image} was detected with {expected['size_bytes']} bytes, and removed as one "
            f"of {body.size_bytes} bytes"
        )
        return Judged(record=record, verdict="impossible", why=why, expected=expected, certain=True)
    if expected.get("pass", body.pass_) != body.pass_:
        why = f"image {image} had to go in the {expected['pass']} pass, not in the {body.pass_} one"
        return Judged(record=record, verdict="impossible", why=why, expected=expected)
    rank = answer.ranks[body.image_id]
    tied = [i for i, other in answer.ranks.items() if other == rank]
    if len(tied) > 1 and any(image_id in answer.unsure for image_id in tied):
        why = f"cannot be decided again without {USE_BEFORE}"
        return Judged(record=record, verdict="unverifiable", why=why, missing=(USE_BEFORE,))
    verdict: Verdict = "match"
    why = _why_right(question, answer, body)
    if at >= len(answer.plain) or answer.plain[at] != body.image_id:
        verdict = "admissible"
        others = ", ".join(short(i) for i in tied if i != body.image_id) or "others"
        why += f"; the kubelet leaves its order among {others} open, as their times are the same"
    return Judged(record=record, verdict=verdict, why=why, expected=expected)


def _why_right(question: Question, answer: Answer, body: ImageDeleted) -> str:
    known = answer.known[body.image_id]
    facts = ["was not in use"]
    if known.used_seq is not None:
        facts.append(f"was last seen in use at {format_ts(known.last_used_ns)}")
    elif not known.before:
        facts.append("was never seen in use by this kubelet")
    if known.first_seq is not None and known.first_hi_ns > 0:
        facts.append(f"was first detected at {format_ts(known.first_hi_ns)}")
    elif known.first_seq is not None:
        facts.append("was there when the kubelet began")
    if body.image_id in answer.by_age:
        limit = f"unused for more than {format_go_duration(question.policy.max_age_ns)}"
    else:
        limit = f"older than {format_go_duration(question.policy.min_age_ns)}"
    order = answer.done.removed.index(body.image_id) + 1
    return (
        f"image {short(body.image_id)} {', '.join(facts)}, is {limit}, and its turn came as "
        f"number {order} of {len(answer.ranks)} candidates"
    )


def _judge_wrong(
    question: Question, answer: Answer, record: Record, instead: str | None, went: set[str]
) -> Judged:
    missing = _perhaps_lost(question, answer, record, went, left=instead is not None)
    if missing is not None and question.open_as_claimed:
        why = f"cannot be decided again without {missing}"
        return Judged(record=record, verdict="unverifiable", why=why, missing=(missing,))
    body = _body(record)
    image = short(body.image_id)
    if body.image_id in went:
        why = f"image {image} cannot have been removed twice in one collection"
    elif body.image_id not in answer.known:
        why = f"image {image} cannot have been removed: the runtime did not list it"
    elif body.image_id in answer.kept:
        why = f"image {image} cannot have been removed: it {answer.kept[body.image_id]}"
    elif body.image_id in answer.done.removed:
        why = f"image {image} was removed out of its turn"
    elif answer.done.bytes_to_free is None:
        why = f"image {image} cannot have been removed: there was no space to be freed"
    else:
        why = (
            f"image {image} cannot have been removed: {answer.done.freed_bytes} of "
            f"{answer.done.bytes_to_free} bytes had been freed before its turn"
        )
    if instead is not None:
        last = answer.known[instead].used_seq is not None
        told = ", used longer ago," if last else ", which had to go,"
        why += f"; image {short(instead)}{told} was left"
    expected = None if instead is None else _expected(answer, instead, None)
    return Judged(record=record, verdict="impossible", why=why, expected=expected, spoilt=True)


def _perhaps_lost(
    question: Question, answer: Answer, record: Record, went: set[str], *, left: bool
) -> str | None:
    """What a line that was lost may have told, so that the removal was right; None: nothing.

    An image of another size than its own is none that the collection removed. Where one was
    ``left`` that had to go before, that one may have been used later than is known.
    """
    body = _body(record)
    if body.image_id in went or _lies_about_size(answer.known, record):
        return None
    if body.image_id not in answer.known:
        return UNLISTED if body.image_id in question.listed_before else None
    if body.image_id in answer.kept:
        return None
    if answer.done.bytes_to_free is None and answer.operation == "garbageCollect":
        return None if body.pass_ == "age" else NO_START
    return USES if left or body.image_id in answer.done.removed else None
