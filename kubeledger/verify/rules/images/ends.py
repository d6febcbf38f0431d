"""The end of a run: what was freed, whether it was enough, and the error's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from kubeledger.images.records import GarbageCollected
from kubeledger.images.texts import INVALID_CAPACITY, shortfall, space_removal_error
from kubeledger.images.usage import DiskUsage
from kubeledger.verify.belief import Judgement, Ruling, judge, open_to, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.courses import Course, short
from kubeledger.verify.rules.images.disk import Disk
from kubeledger.verify.rules.images.removals import body_of
from kubeledger.verify.rules.images.runs import Run, lacking

__all__ = ["judge_end", "kept_of"]

_KEPT_MAX: Final = 8
_SUMS_MAX: Final = 4096
_SIZE: Final = re.compile(r"(?<=% of )[0-9.]+ \w+(?= used)")
_REFUSED: Final = " bytes space with errors in image deletion: "
_START: Final = "the start of this collection"
_REMOVALS: Final = "the removals of this collection that are not recorded"
_START_FIELDS: Final = (
    "usage_percent",
    "high_threshold_percent",
    "low_threshold_percent",
    "bytes_to_free",
)


def judge_end(run: Run, disk: Disk, course: Course | None) -> Judgement:
    """Whether a run can end so.

    Args:
        run: of which the end is recorded.
        disk: as it is known.
        course: what the decider removes; None without a detect pass or the policy.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go GarbageCollect
    """
    body = run.end_body
    assert body is not None
    if run.policy.disabled:
        return same(False, f"no collection runs at all: {run.policy.disabled}")
    if run.start is None and (wrong := run.too_early()):
        return same(False, wrong)
    if run.start is not None or run.begins:
        return _judge_space(run, disk, body, course)
    if body.error == INVALID_CAPACITY or body.error.startswith("invalid capacity "):
        return _judge_no_capacity(run, disk, body)
    if body.error:
        if body.outcome != "failed":
            why = f"a collection that ended with the error {body.error!r} has failed"
            return same(False, why, expected={"outcome": "failed"})
        if body.bytes_freed is not None or body.usage_percent is not None:
            return lacking([_START])
        return lacking(["what the container runtime answered to this collection"])
    return _judge_without_space(run, disk, body)


def kept_of(run: Run, course: Course | None) -> list[tuple[str, str]]:
    """Images that a run left, and why, sorted by ID."""
    gone = {body_of(record).image_id for record in run.removals}
    kept = course.kept.items() if course is not None else ()
    return [(image, why) for image, why in sorted(kept) if image not in gone]


def _held_against(body: GarbageCollected, expected: Fields, why: str) -> Ruling:
    recorded = msgspec.to_builtins(body)
    wrong = [name for name, value in expected.items() if recorded[name] != value]
    if not wrong:
        return Ruling(allowed=True, why=why, expected=expected)
    name = wrong[0]
    said = f"its {name} had to be {expected[name]!r}, not {recorded[name]!r}"
    return Ruling(allowed=False, why=f"{said}: {why}", expected=expected)


def _judge_no_capacity(run: Run, disk: Disk, body: GarbageCollected) -> Judgement:
    why = (
        "the kubelet had no size of the image filesystem yet, so it counted as 0, and the "
        "collection failed before it looked for space to free"
    )
    expected: Fields = {
        **dict.fromkeys(_START_FIELDS),
        "bytes_freed": None,
        "images_removed": len(run.removals),
        "outcome": "failed",
        "error": INVALID_CAPACITY,
    }
    ruling = _held_against(body, expected, why)
    assert run.end is not None
    if ruling.allowed and disk.near(run.end.ts_ns) is not None:
        unknown = "the capacity of the image filesystem as this collection read it"
        return open_to(unknown, denied="the size of the image filesystem was known")
    return judge([ruling])


def _judge_without_space(run: Run, disk: Disk, body: GarbageCollected) -> Judgement:
    """No space pass is recorded: the disk was under the threshold."""
    assert run.end is not None
    count, high = len(run.removals), run.policy.high
    expected: Fields = {
        "outcome": "freed" if count else "below_threshold",
        "images_removed": count,
        "error": "",
    }
    if body.outcome == "failed":
        why = "a collection fails with an error, and it has none"
        return same(False, why, expected=expected)
    ruling = _held_against(body, expected, f"{count} removals are recorded")
    if not ruling.allowed and body.outcome == "freed" and _tells_of_more(run, body):
        return lacking([_REMOVALS])
    if not ruling.allowed:
        return judge([ruling])
    sample = disk.near(run.end.ts_ns)
    if sample is None or high is None:
        unknown = () if sample is not None else ("the usage of the image filesystem at this time",)
        return lacking((*run.policy.missing_thresholds, *unknown))
    percent = sample.usage.percent
    seen = f"the image filesystem was {percent} % used, last read "
    seen += f"{abs(run.end.ts_ns - sample.ts_ns) / 1e9:.1f} s before"
    if percent < high - 1:
        why = f"{seen}, which is under the high threshold of {high} %, so no space was to be freed"
        return same(True, why, expected=expected)
    lowest = disk.lowest_percent
    over = lowest is not None and lowest > high
    unknown_now = "the usage of the image filesystem at this very moment"
    return lacking([_START if over else unknown_now])


def _judge_space(run: Run, disk: Disk, body: GarbageCollected, course: Course | None) -> Judgement:
    why = _why_space(run, course)
    capacities = _capacities(run, disk)
    rulings = [
        _held_against(body, _space_end(run, body, fields, usage, count, freed), why)
        for fields in _starts(run)
        for count, freed in _freed(run, course)
        for usage in capacities or [DiskUsage(0, 0, 0)]
    ]
    if run.loose and run.runs is False:
        under: Fields = {"outcome": "below_threshold", "images_removed": 0, "error": ""}
        rulings = [_held_against(body, under, run.why_under())]
    # The start and the removals are judged for themselves: the end may rest on what they say
    # as well as on what was decided, so that one wrong number does not condemn them all.
    fitting = [ruling for ruling in rulings if ruling.allowed][:1]
    if fitting:
        if not capacities and _SIZE.search(body.error):
            return open_to("the size of the image filesystem", denied="it is named")
        return judge(fitting)
    if not run.loose and _is_lost(run, disk, body, course):
        return lacking([_REMOVALS])
    asked = run.facts.detects_before_disk_check or run.options or run.removals
    if not asked and body.outcome == "failed" and body.bytes_freed is None and body.error:
        return lacking(["what the container runtime answered to this collection"])
    if not rulings:
        return lacking(run.policy.missing or ["the sizes of the removed images"])
    return judge(rulings[:1])


def _capacities(run: Run, disk: Disk) -> list[DiskUsage]:
    """The disk, by each size that it may have had."""
    assert run.end is not None
    if run.usage is not None and (run.exact or run.loose):
        return [run.usage]
    told = disk.capacities(run.end.ts_ns)
    return [DiskUsage(capacity, 0, 0) for capacity, _ in told]


def _starts(run: Run) -> Iterator[Fields]:
    """With what it can have begun: as decided, as told."""
    due = run.due_start() or {}
    is_whole = len(due) == len(_START_FIELDS)
    if is_whole:
        yield due
    start = run.start_body
    if start is not None and not (run.loose and is_whole):
        yield {name: getattr(start, name) for name in _START_FIELDS}


def _freed(run: Run, course: Course | None) -> Iterator[tuple[int, int]]:
    """Images removed and bytes freed by the space pass: as decided, as detected, as told."""
    counts: list[int] = []
    sums: list[int] = []
    if course is not None and course.done.bytes_to_free is not None:
        counts.append(len(course.done.removed))
        sums.append(course.done.freed_bytes)
    if course is None or not run.loose:
        counts.append(len(run.removals))
        sums.extend(total for total in _sums(run, course) if total is not None)
    for freed in dict.fromkeys(sums):
        for count in dict.fromkeys(counts):
            yield count, freed


def _sums(run: Run, course: Course | None) -> Iterator[int | None]:
    """Sizes of the removals for space, as detected and as told; None when one is not known.

    What stands before the start was not removed by it, whatever it was removed for.
    """
    bodies = [
        body_of(record)
        for record in run.removals
        if record.cause is not None
        or (body_of(record).pass_ != "age" and (body_of(record).pass_ or not run.start))
    ]
    known = course.known if course is not None else {}
    for in_pass in (True, False):
        sizes = [
            known[body.image_id].size_bytes
            if in_pass and body.image_id in known
            else body.size_bytes
            for body in bodies
        ]
        yield None if None in sizes else sum(size for size in sizes if size is not None)


def _space_end(
    run: Run, body: GarbageCollected, start: Fields, disk: DiskUsage, count: int, freed: int
) -> Fields:
    """The end of a space pass that freed so much."""
    wanted, error = start["bytes_to_free"], ""
    if _REFUSED in body.error:
        begin = space_removal_error(wanted, freed, ["\0"]).partition("\0")[0]
        error = begin + body.error.partition(_REFUSED)[2]
    elif freed < wanted:
        usage = DiskUsage(disk.capacity_bytes, 0, start["usage_percent"])
        error = shortfall(run.facts, usage, wanted, freed)
        if not disk.capacity_bytes and (told := _SIZE.search(body.error)):
            error = _SIZE.sub(lambda _: told[0], error)
    aged = [body_of(r) for r in run.removals if r.cause is None]
    by_age = sum(each.size_bytes or 0 for each in aged if each.pass_ == "age")
    fields: Fields = {
        **start,
        # A collection that succeeds tells no number: the source adds up all its removals.
        "bytes_freed": freed if error else freed + by_age,
        "images_removed": count,
        "outcome": "failed" if error else "freed",
        "error": error,
    }
    assert run.end is not None
    if run.start is None or run.end.cause != run.start.seq:
        # The source does not join them; then the end does not repeat the start.
        for name in (*_START_FIELDS, "images_removed"):
            del fields[name]
    return fields


def _is_lost(run: Run, disk: Disk, body: GarbageCollected, course: Course | None) -> bool:
    """Whether the end is right if lines of removals were lost, of images that may have gone."""
    start, totals = run.start_body, [total for total in _sums(run, course) if total is not None]
    if start is None or body.images_removed < len(run.removals):
        return False
    gone = {body_of(record).image_id for record in run.removals}
    others = None
    if course is not None:
        known = course.known.items()
        others = [k.size_bytes for i, k in known if i not in gone and k.size_bytes]
    if body.outcome == "freed" and not body.error:
        return _tells_of_more(run, body) or all(
            total < start.bytes_to_free
            and (others is None or total + sum(others) >= start.bytes_to_free)
            for total in totals
        )
    aged = any(body_of(record).pass_ == "age" for record in run.removals)
    if aged and body.images_removed > len(run.removals):
        return True
    freed = body.bytes_freed
    if freed is None or any(total >= freed for total in totals):
        return False
    fields: Fields = {name: getattr(start, name) for name in _START_FIELDS}
    capacities = _capacities(run, disk) or [DiskUsage(0, 0, 0)]
    told = [_space_end(run, body, fields, each, body.images_removed, freed) for each in capacities]
    return any(_held_against(body, each, "").allowed for each in told) and (
        others is None or any(_is_sum(freed - total, others) for total in totals)
    )


def _tells_of_more(run: Run, body: GarbageCollected) -> bool:
    """Whether an end tells of removals that are not recorded, by count and by bytes."""
    bodies, freed = [body_of(record) for record in run.removals], body.bytes_freed or 0
    return body.images_removed > len(bodies) and freed > sum(b.size_bytes or 0 for b in bodies)


def _is_sum(total: int, sizes: list[int]) -> bool:
    """Whether some of the sizes add up to a total; yes where there are too many to tell."""
    sums = {0}
    for size in sizes:
        sums |= {found + size for found in sums if found + size <= total}
        if len(sums) > _SUMS_MAX:
            return True
    return total in sums


def _why_space(run: Run, course: Course | None) -> str:
    body = run.start_body
    wanted = run.amount() if body is None or run.loose else body.bytes_to_free
    removed = len(run.removals)
    sentence = (
        f"{removed} image{'' if removed == 1 else 's'} had been removed when {wanted} bytes were "
        "to be freed"
    )
    if course is None:
        return f"{sentence}; what more could go is not known without a detect pass"
    kept = [f"image {short(image_id)} {why}" for image_id, why in kept_of(run, course)]
    more = f" and {len(kept) - _KEPT_MAX} more" if len(kept) > _KEPT_MAX else ""
    return f"{sentence}; kept: {', '.join(kept[:_KEPT_MAX])}{more}" if kept else sentence
