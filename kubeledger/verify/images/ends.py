"""The end of a collection: what was freed, whether it was enough, and the error's words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from kubeledger.images.records import GarbageCollected, ImageDeleted
from kubeledger.images.texts import INVALID_CAPACITY, shortfall, space_removal_error
from kubeledger.images.usage import DiskUsage
from kubeledger.machine import Evidence, Record
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields
from kubeledger.verify.images.collection import Case, amount_of
from kubeledger.verify.images.deletions import short
from kubeledger.verify.images.disk import Disk
from kubeledger.verify.images.repeats import wrong_words
from kubeledger.verify.images.starts import RULE_COLLECTION, why_under

__all__ = ["judge_end"]

_KEPT_MAX = 8
_SUMS_MAX = 4096
_SIZE = re.compile(r"(?<=% of )[0-9.]+ \w+(?= used)")
_START_FIELDS = (
    "usage_percent",
    "high_threshold_percent",
    "low_threshold_percent",
    "bytes_to_free",
)
_REMOVALS_BEGIN = " bytes space with errors in image deletion: "


def judge_end(bench: Bench, disk: Disk, case: Case) -> None:
    """Give the end of a collection its finding."""
    end, body = case.of.end, case.end_body
    if end is None or body is None:
        return
    if wrong := wrong_words(end, case.of.previous, case.of.process_ns):
        _impossible(bench, case, end, None, wrong)
    elif case.policy.disabled:
        _impossible(bench, case, end, None, f"no collection runs at all: {case.policy.disabled}")
    elif case.ending.kind == "capacity" and case.of.start is None:
        _judge_no_capacity(bench, disk, case, end, body)
    elif case.ending.kind in {"before_space", "other"}:
        _judge_unknown_error(bench, case, end, body)
    elif case.of.start is not None or case.start_missing:
        _judge_space(bench, case, end, body)
    elif case.ending.kind in {"shortfall", "removals"} or body.usage_percent is not None:
        missing = ["the start of this collection"]
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
    else:
        _judge_without_space(bench, disk, case, end, body)


def _impossible(bench: Bench, case: Case, end: Record, expected: Fields | None, why: str) -> None:
    _find(bench, case, end, expected, why, possible=False)


def _find(
    bench: Bench, case: Case, end: Record, expected: Fields | None, why: str, *, possible: bool
) -> None:
    start = () if case.of.start is None else (case.of.start.seq,)
    recorded = msgspec.to_builtins(end.body)
    bench.find(
        end,
        "match" if possible else "impossible",
        subject="node",
        expected=expected,
        recorded=recorded if expected is None else {name: recorded[name] for name in expected},
        why=why,
        rule=RULE_COLLECTION,
        inputs=[*case.inputs, *start, *(record.seq for record in case.of.removals)],
        about={f"image/{image_id}": why for image_id, why in _kept(case)},
        place=_last_line(case, end),
    )


def _last_line(case: Case, end: Record) -> Evidence | None:
    """What tells of the end itself: its record holds the line of the start as well."""
    begun = case.of.start.evidence if case.of.start is not None else ()
    return next((piece for piece in end.evidence if piece not in begun), None)


def _compare(bench: Bench, case: Case, end: Record, options: list[Fields], why: str) -> None:
    """Match when the record is one of the options; the first is what is expected."""
    recorded = msgspec.to_builtins(end.body)
    for option in options:
        if _same(recorded, option):
            _find(bench, case, end, option, why, possible=True)
            return
    first = options[0]
    name = next(name for name, value in first.items() if recorded[name] != value)
    told, due = recorded[name], first[name]
    wrong = f"its {name} had to be {due!r}, not {told!r}"
    _impossible(bench, case, end, first, f"{wrong}: {why}")


def _same(recorded: Fields, option: Fields) -> bool:
    return all(recorded[name] == value for name, value in option.items())


def _judge_no_capacity(
    bench: Bench, disk: Disk, case: Case, end: Record, body: GarbageCollected
) -> None:
    if disk.last is not None and disk.near(end.ts_ns) is not None:
        missing = ["the capacity of the image filesystem as this collection read it"]
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
        return
    why = (
        "the kubelet had no size of the image filesystem yet, so it counted as 0, and the "
        "collection failed before it looked for space to free"
    )
    expected: Fields = {
        **dict.fromkeys(_START_FIELDS),
        "bytes_freed": None,
        "images_removed": _counted(case),
        "outcome": "failed",
        "error": INVALID_CAPACITY,
    }
    _compare(bench, case, end, [expected], why)


def _judge_unknown_error(bench: Bench, case: Case, end: Record, body: GarbageCollected) -> None:
    """What the runtime answers is nowhere but in the error; after a removal it is not asked."""
    space = case.ending.kind == "other" and case.of.start is not None
    told = case.facts.detects_before_disk_check or bool(case.of.options) or case.of.removals
    if body.outcome != "failed":
        why = f"a collection that ended with the error {body.error!r} has failed"
        _impossible(bench, case, end, {"outcome": "failed"}, why)
    elif space and told:
        options = list(_space_options(case, body))
        why = f"a space pass cannot end with the error {body.error!r}"
        _impossible(bench, case, end, options[0] if options else None, why)
    else:
        missing = ["what the container runtime answered to this collection"]
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)


def _judge_space(bench: Bench, case: Case, end: Record, body: GarbageCollected) -> None:
    options = list(_space_options(case, body))
    recorded = msgspec.to_builtins(end.body)
    fits = any(_same(recorded, option) for option in options)
    if not fits and _lost(case):
        missing = ["the removals of this collection that are not recorded"]
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
        return
    if not options:
        missing = list(case.policy.missing)
        if case.reading is None and case.start_body is None:
            missing.append("the usage of the image filesystem at this time")
        missing = missing or ["the sizes of the removed images"]
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
        return
    if fits and not case.capacities and _SIZE.search(body.error):
        missing = ["the size of the image filesystem"]
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
        return
    _compare(bench, case, end, options, _why_space(case))


def _lost(case: Case) -> bool:
    """More was freed than the removals recorded give, by the size of images that may have gone.

    Then the lines of their removals were lost. What no images give is a lie.
    """
    told = case.ending.freed
    if case.strict:
        return False
    if told is None:
        # A success tells no amount; without a pass nothing tells that no more could go.
        end, start = case.of.end, case.start_body
        wanted = amount_of(case) if start is None else start.bytes_to_free
        succeeded = end is not None and getattr(end.body, "outcome", "") == "freed"
        short_of = wanted is not None and all(
            total is None or total < wanted for total in _sums(case)
        )
        return succeeded and case.answer is None and short_of
    if case.answer is None:
        passes = case.of.passes_seen
        return passes and all(total is None or total < told for total in _sums(case))
    gone = {getattr(record.body, "image_id", "") for record in case.of.removals}
    sizes = [
        image.size_bytes
        for image_id, image in sorted(case.answer.known.items())
        if image_id not in gone and image.size_bytes
    ]
    totals = [total for total in _sums(case) if total is not None]
    return all(total < told for total in totals) and any(
        _is_sum(told - total, sizes) for total in totals
    )


def _is_sum(total: int, sizes: list[int]) -> bool:
    """Whether some of the sizes add up to a total; yes where there are too many to tell."""
    sums = {0}
    for size in sizes:
        sums |= {found + size for found in sums if found + size <= total}
        if len(sums) > _SUMS_MAX:
            return True
    return total in sums


def _why_space(case: Case) -> str:
    if case.strict and case.runs is False:
        return why_under(case)
    body, answer = case.start_body, case.answer
    wanted = amount_of(case) if body is None or case.strict else body.bytes_to_free
    removed = len(case.of.removals)
    sentence = (
        f"{removed} image{'' if removed == 1 else 's'} had been removed when {wanted} bytes were "
        "to be freed"
    )
    if answer is None:
        return f"{sentence}; what more could go is not known without a detect pass"
    kept = [f"image {short(image_id)} {why}" for image_id, why in _kept(case)]
    more = f" and {len(kept) - _KEPT_MAX} more" if len(kept) > _KEPT_MAX else ""
    return f"{sentence}; kept: {', '.join(kept[:_KEPT_MAX])}{more}" if kept else sentence


def _kept(case: Case) -> list[tuple[str, str]]:
    """Images that the collection left, and why, sorted by ID."""
    if case.answer is None:
        return []
    gone = {getattr(record.body, "image_id", "") for record in case.of.removals}
    return [(image, why) for image, why in sorted(case.answer.kept.items()) if image not in gone]


def _space_options(case: Case, body: GarbageCollected) -> Iterator[Fields]:
    """How the collection can have ended, the likeliest first.

    Its removals and its start are judged for themselves; so that one wrong number does not
    condemn them all, the end may rest on what they say as well as on what was decided.
    """
    policy = case.policy
    start, reading = case.start_body, case.reading
    decided = amount_of(case)
    if case.strict and case.runs is False:
        yield {"outcome": "below_threshold", "images_removed": 0, "error": ""}
        return
    due: Fields = {
        "usage_percent": reading.usage.percent if reading is not None else None,
        "high_threshold_percent": policy.high,
        "low_threshold_percent": policy.low,
        "bytes_to_free": decided,
    }
    starts = [] if None in due.values() else [due]
    if start is not None and not (case.strict and starts):
        starts.append({name: getattr(start, name) for name in _START_FIELDS})
    for fields in starts:
        for count, freed in _freed(case):
            for capacity in case.capacities or (0,):
                usage = DiskUsage(capacity, 0, fields["usage_percent"])
                yield _space_end(case, body, fields, usage, (count, freed))


def _freed(case: Case) -> Iterator[tuple[int, int]]:
    """Images removed and bytes freed: as decided, as detected, as told."""
    answer, removals = case.answer, case.of.removals
    counts, sums = [], []
    if answer is not None:
        counts.append(len(answer.done.removed))
        sums.append(answer.done.freed_bytes)
    if answer is None or not case.strict:
        counts.append(len(removals))
        sums.extend(total for total in _sums(case) if total is not None)
    for freed in dict.fromkeys(sums):
        for count in dict.fromkeys(counts):
            yield count, freed


def _sums(case: Case) -> Iterator[int | None]:
    """Sizes of the removals for space, as detected and as told; None when one is not known.

    What stands before the start was not removed by it, whatever it was removed for.
    """
    known = case.answer.known if case.answer is not None else {}
    detected: list[int | None] = []
    told: list[int | None] = []
    for record in case.of.removals:
        body = record.body
        assert isinstance(body, ImageDeleted)
        before = body.pass_ is None and case.of.start is not None
        by_age = body.pass_ == "age" and not case.start_missing
        if record.cause is None and (before or by_age):
            continue
        image = known.get(body.image_id)
        told.append(body.size_bytes)
        detected.append(body.size_bytes if image is None else image.size_bytes)
    for sizes in (detected, told):
        yield None if None in sizes else sum(size for size in sizes if size is not None)


def _space_end(
    case: Case, body: GarbageCollected, start: Fields, usage: DiskUsage, done: tuple[int, int]
) -> Fields:
    """The end of a space pass that freed so much."""
    wanted = start["bytes_to_free"]
    count, freed = done
    error = ""
    if case.ending.kind == "removals":
        begin = space_removal_error(wanted, freed, ["\0"]).partition("\0")[0]
        _, _, rest = body.error.partition(_REMOVALS_BEGIN)
        error = begin + rest
    elif freed < wanted:
        error = shortfall(case.facts, usage, wanted, freed)
        if not case.capacities and (told := _SIZE.search(body.error)):
            error = _SIZE.sub(lambda _: told[0], error)
    # A collection that succeeds tells no number: the source adds up all its removals.
    total = freed if error else freed + _freed_by_age(case)
    fields: Fields = {
        **start,
        "bytes_freed": total,
        "images_removed": count,
        "outcome": "failed" if error else "freed",
        "error": error,
    }
    assert case.of.end is not None
    if case.of.start is None or case.of.end.cause != case.of.start.seq:
        # The source does not join them; then the end does not repeat the start.
        for name in (*_START_FIELDS, "images_removed"):
            del fields[name]
    return fields


def _freed_by_age(case: Case) -> int:
    bodies = [record.body for record in case.of.removals if record.cause is None]
    return sum(
        b.size_bytes or 0 for b in bodies if isinstance(b, ImageDeleted) and b.pass_ == "age"
    )


def _counted(case: Case) -> int:
    return len(case.of.removals)


def _judge_without_space(
    bench: Bench, disk: Disk, case: Case, end: Record, body: GarbageCollected
) -> None:
    """No space pass is recorded: the disk was under the threshold."""
    high, sample, lowest = case.policy.high, disk.near(end.ts_ns), disk.lowest_percent
    outcome = "freed" if case.of.removals else "below_threshold"
    expected: Fields = {"outcome": outcome, "images_removed": _counted(case), "error": ""}
    if body.outcome == "failed":
        _impossible(bench, case, end, expected, "a collection fails with an error, and it has none")
        return
    if body.outcome != outcome or body.images_removed != _counted(case):
        _compare(bench, case, end, [expected], f"{_counted(case)} removals are recorded")
        return
    missing = [m for m in case.policy.missing if "Threshold" in m]
    if sample is None or high is None:
        if sample is None:
            missing.append("the usage of the image filesystem at this time")
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
        return
    usage = sample.usage
    seen = f"the image filesystem was {usage.percent} % used, last read {_ago(end, sample.ts_ns)}"
    if usage.percent < high - 1:
        why = f"{seen}, which is under the high threshold of {high} %, so no space was to be freed"
        _compare(bench, case, end, [expected], why)
    elif lowest is not None and lowest > high:
        missing.append("the start of this collection")
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)
    else:
        missing.append("the usage of the image filesystem at this very moment")
        bench.unverifiable(end, subject="node", missing=missing, rule=RULE_COLLECTION)


def _ago(end: Record, ts_ns: int) -> str:
    return f"{abs(end.ts_ns - ts_ns) / 1e9:.1f} s before"
