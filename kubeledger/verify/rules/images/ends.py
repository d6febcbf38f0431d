"""The end of a run: what was freed, whether it was enough, and the error's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.images.usage import (
    INVALID_CAPACITY,
    DiskUsage,
    shortfall,
    space_removal_error,
)
from kubeledger.model.bodies.images import GarbageCollected, ImageDeleted
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.images.disk import Disk
from kubeledger.verify.rules.images.removals import kept_of
from kubeledger.verify.rules.images.runs import REFUSED, START_FIELDS, Run, body_of, short
from kubeledger.verify.rules.images.worlds import World

_KEPT_MAX: Final = 8
_START: Final = "the start of this collection"
_ANSWER: Final = "what the container runtime answered to this collection"
_REMOVALS: Final = "the removals of this collection that are not recorded"


def judge_end(run: Run, disk: Disk, worlds: Sequence[World], *, doubtful: bool) -> Judgement:
    """Whether a run can end so.

    Args:
        run: of which the end is recorded.
        disk: as it is known.
        worlds: that the removals leave; none without a detect pass or the policy.
        doubtful: lines of other removals may be lost.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go GarbageCollect
    """
    body = run.end_body
    assert body is not None
    if (run.start is None or run.policy.disabled) and (wrong := run.why_not()):
        return same(False, wrong)
    if run.start is not None or run.begins:
        return _judge_space(run, disk, body, worlds, doubtful=doubtful)
    return _judge_without_space(run, disk, body)


def _held_against(body: GarbageCollected, expected: Fields, why: str) -> Ruling:
    recorded = msgspec.to_builtins(body)
    wrong = next((name for name, value in expected.items() if recorded[name] != value), None)
    if wrong is not None:
        why = f"its {wrong} had to be {expected[wrong]!r}, not {recorded[wrong]!r}: {why}"
    return Ruling(allowed=wrong is None, why=why, expected=expected)


def _judge_without_space(run: Run, disk: Disk, body: GarbageCollected) -> Judgement:
    """No space pass is recorded: the disk was under the threshold, or something failed before."""
    assert run.end is not None
    count, high, error = len(run.removals), run.policy.high, body.error
    expected: Fields = {
        "outcome": "failed" if error else "freed" if count else "below_threshold",
        "images_removed": count if error in ("", INVALID_CAPACITY) else body.images_removed,
        "error": error,
    }
    sizes = [body_of(record).size_bytes for record in run.removals]
    if body.bytes_freed is not None and not error and None not in sizes:
        expected["bytes_freed"] = sum(size or 0 for size in sizes)
    ruling = _held_against(
        body, expected, f"{count} removals are recorded, and {error or 'no error'}"
    )
    if not ruling.allowed:
        lost = body.images_removed > count and _tells_of_more(run, body)
        return lacks([_REMOVALS]) if lost else judge([ruling])
    sample = disk.near(run.end.ts_ns)
    if error == INVALID_CAPACITY and sample is None:
        why = "the kubelet had no size of the image filesystem yet, so it counted as 0"
        return same(True, why, expected=expected)
    if error == INVALID_CAPACITY:
        unknown = "the capacity of the image filesystem as this collection read it"
        return open_to(unknown, denied="the size of the image filesystem was known")
    if error:
        begins_a_process = body.bytes_freed is not None or body.usage_percent is not None
        return lacks([_START if begins_a_process else _ANSWER])
    if sample is None or high is None:
        unknown_usage = [] if sample else ["the usage of the image filesystem at this time"]
        return lacks([*run.policy.missing_thresholds, *unknown_usage])
    if sample.usage.percent >= high - 1:
        return lacks(["the usage of the image filesystem at this very moment, or a start"])
    ago_s = abs(run.end.ts_ns - sample.ts_ns) / 1e9
    why = (
        f"the image filesystem was {sample.usage.percent} % used, last read {ago_s:.1f} s before, "
        f"below the high threshold of {high} %, so no space was to be freed"
    )
    return same(True, why, expected=expected)


def _judge_space(
    run: Run,
    disk: Disk,
    body: GarbageCollected,
    worlds: Sequence[World],
    *,
    doubtful: bool,
) -> Judgement:
    start = run.begun
    if run.loose and (why := run.why_under()):
        under: Fields = {"outcome": "below_threshold", "images_removed": 0, "error": ""}
        return judge([_held_against(body, under, why)])
    if not start:
        return lacks(run.policy.missing_thresholds or [_START])
    assert run.end is not None
    why = _why_space(run, worlds)
    capacities: Sequence[int | None] = disk.capacities(run.end.ts_ns) or [None]
    if run.disk is not None and (run.exact or run.loose):
        capacities = [run.disk.usage.capacity_bytes]
    rulings = [
        _held_against(body, _space_end(run, body, start, capacity, count, freed), why)
        for count, freed in _freed(run, worlds)
        for capacity in capacities
    ]
    # Removals are judged for themselves: the end may rest on what they show as well as on what
    # was decided.
    fitting = [ruling for ruling in rulings if ruling.allowed][:1]
    if fitting:
        return judge(fitting)
    succeeded = body.outcome == "freed" and not body.error
    if not run.loose and doubtful and (succeeded or _tells_of_more(run, body)):
        return lacks([_REMOVALS])
    asked = run.facts.detects_before_disk_check or run.passes or run.removals
    if not asked and body.outcome == "failed" and body.bytes_freed is None and body.error:
        return lacks([_ANSWER])
    if not rulings:
        return lacks(run.policy.missing_ages or ["the sizes of the removed images"])
    return judge(rulings[:1])


def _freed(run: Run, worlds: Sequence[World]) -> Iterator[tuple[int, int]]:
    """Images removed and bytes freed by the space pass: as decided, and as removals show."""
    for done in (world.done for world in worlds):
        if done.bytes_to_free is not None:
            yield len(done.removed), done.freed_bytes
            if not run.loose:
                # Of the last to go the line may be lost; the count is that of the lines.
                yield len(run.removals), done.freed_bytes
    if run.loose and worlds:
        return
    known = worlds[0].known if worlds else {}
    sizes = [
        known[body.image_id].size_bytes if body.image_id in known else body.size_bytes
        for body in _for_space(run)
    ]
    if None not in sizes:
        yield len(run.removals), sum(size or 0 for size in sizes)


def _space_end(
    run: Run, body: GarbageCollected, start: Fields, capacity: int | None, count: int, freed: int
) -> Fields:
    """The end of a space pass that freed so much."""
    wanted, error = start["bytes_to_free"], ""
    if run.refused:
        begin = space_removal_error(wanted, freed, ["\0"]).partition("\0")[0]
        error = begin + body.error.partition(REFUSED)[2]
    elif freed < wanted:
        usage = DiskUsage(capacity or 0, 0, start["usage_percent"])
        error = shortfall(run.facts, usage, wanted, freed)
    aged = [body_of(r) for r in run.removals if r.cause is None]
    by_age = sum(each.size_bytes or 0 for each in aged if each.pass_ == "age")
    fields: Fields = {
        **start,
        # A collection that succeeds shows no number: the source adds up all its removals.
        "bytes_freed": freed if error else freed + by_age,
        "images_removed": count,
        "outcome": "failed" if error else "freed",
        "error": error,
    }
    if capacity is None and run.facts.shortfall_names_disk_usage:
        del fields["error"]
    assert run.end is not None
    if run.start is None or run.end.cause != run.start.seq:
        # The source does not join them; then the end does not repeat the start.
        for name in (*START_FIELDS, "images_removed"):
            del fields[name]
    return fields


def _for_space(run: Run) -> list[ImageDeleted]:
    """What the space pass removed: not what stands before its start, whatever that was for."""
    return [
        body_of(record)
        for record in run.removals
        if record.cause is not None
        or (body_of(record).pass_ != "age" and (body_of(record).pass_ or not run.start))
    ]


def _tells_of_more(run: Run, body: GarbageCollected) -> bool:
    """Whether an end shows more bytes than the removals that are recorded."""
    freed = sum(each.size_bytes or 0 for each in _for_space(run))
    return body.images_removed >= len(run.removals) and (body.bytes_freed or 0) > freed


def _why_space(run: Run, worlds: Sequence[World]) -> str:
    removed, wanted = len(run.removals), run.begun.get("bytes_to_free")
    sentence = (
        f"{removed} image{'' if removed == 1 else 's'} had been removed when {wanted} bytes were "
        "to be freed"
    )
    if not worlds:
        return f"{sentence}; what more could go is not known without a detect pass"
    kept = [f"image {short(image_id)} {why}" for image_id, why in kept_of(run, worlds)]
    more = f" and {len(kept) - _KEPT_MAX} more" if len(kept) > _KEPT_MAX else ""
    return f"{sentence}; kept: {', '.join(kept[:_KEPT_MAX])}{more}" if kept else sentence
