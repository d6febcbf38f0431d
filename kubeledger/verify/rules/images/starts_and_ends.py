"""The two ends of a run of image GC: whether one begins, what was freed, and the error's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, get_args

import msgspec

from kubeledger.kubelet.eviction.signals import DiskLayout, ReclaimFunction, reclaim_functions
from kubeledger.kubelet.eviction.thresholds import is_short
from kubeledger.kubelet.images.policy import (
    GC_PERIOD_S,
    INVALID_CAPACITY,
    DiskUsage,
    shortfall,
    space_removal_error,
)
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.debts import Debt, Key
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.evictions.thresholds import (
    SIGNAL_THEN,
    Reading,
    configured,
    threshold_says,
)
from kubeledger.verify.rules.images.passes import Disk, Sample
from kubeledger.verify.rules.images.removals import World, kept_of
from kubeledger.verify.rules.images.runs import REFUSED, START_FIELDS, Policy, Run, short

# The start of a space pass: whether one begins, with what, and one that had to come.
#
# And whether a disk was short, so that the eviction manager has all unused images deleted.

_TWO_RUNS_NS: Final = (2 * GC_PERIOD_S + 60) * NS_PER_S
"""Of one run both lines may be lost; not of two in a row."""
_OWED: Final[Key] = ("images", "start")


def judge_start(run: Run, disk: Disk) -> Judgement:
    """Whether a space pass begins, and with what is reported.

    Source: v1.36.2 pkg/kubelet/images/image_gc_manager.go GarbageCollect
    """
    body, policy = run.start_body, run.policy
    assert run.start is not None
    assert body is not None
    ts_ns, inputs, expected = run.start.ts_ns, run.inputs, run.due or None
    if run.loose and (wrong := run.why_not() or run.why_under()):
        return same(False, wrong, expected=expected, inputs=inputs)
    if wrong := _against_settings(run, body):
        return same(False, wrong, expected=expected, inputs=inputs, certain=True)
    if wrong := run.why_not() or (run.why_under() if run.exact else ""):
        return same(False, wrong, expected=expected, inputs=inputs)
    if policy.missing_thresholds:
        return lacks(policy.missing_thresholds)
    if run.disk is None or not run.exact:
        why = f"no state of a filesystem of {disk.capacities(ts_ns) or 'unknown'} bytes in blocks "
        why += f"of {disk.block_bytes} that is {body.usage_percent} % used gives "
        why += f"{body.bytes_to_free} bytes to free"
        if disk.is_steady(ts_ns):
            return same(False, why, expected=expected, inputs=inputs)
        return open_to("the size of the image filesystem", denied=why, inputs=inputs)
    usage, end = run.disk.usage, run.end_body
    freed = 0 if end is None else end.bytes_freed or 0
    if run.seen is not None and disk.is_far(run.seen, usage, run.start.seq, freed):
        seen = run.seen.usage.available_bytes
        why = f"{body.bytes_to_free} bytes to free mean {usage.available_bytes} available bytes"
        ago_s = f"{abs(ts_ns - run.seen.ts_ns) / NS_PER_S:.0f}"
        why = f"{why}, and {ago_s} s before {seen} were available"
        return same(False, why, inputs=(*inputs, run.seen.seq))
    why = f"the image filesystem was {usage.percent} % used ({usage.available_bytes} of "
    why += f"{usage.capacity_bytes} bytes available), at or above the high threshold of "
    why += f"{policy.high} %, so {body.bytes_to_free} bytes are to be freed to come down to "
    why += f"{policy.low} %"
    return same(True, why, expected=expected, inputs=inputs)


def _against_settings(run: Run, body: GarbageCollectionStarted) -> str:
    """Why a start does not go with the settings, or with itself; empty if it does."""
    high, low = body.high_threshold_percent, body.low_threshold_percent
    if run.policy.high not in (None, high):
        return f"the high threshold is {run.policy.high} % by the settings, not {high} %"
    if run.policy.low not in (None, low):
        return f"the low threshold is {run.policy.low} % by the settings, not {low} %"
    if body.usage_percent < high:
        return f"{body.usage_percent} % is below the high threshold of {high} %"
    return ""


class MissingStart:
    """Watches a disk over the high threshold, in a process whose runs the log has shown."""

    def __init__(self, context: VerifyContext, rule: str) -> None:
        self._debts = context.debts
        self._rule = rule
        self.restart()

    def restart(self, *, heard: bool = False) -> None:
        """Nothing is owed of what was before; ``heard``: a run was shown."""
        self._heard = heard
        self._debts.void(*_OWED)

    def see(self, record: Record, sample: Sample, policy: Policy) -> None:
        """A signal of the disk: is it over the threshold?"""
        high, percent = policy.high, sample.usage.percent
        if high is None or policy.disabled or not self._heard or percent <= high:
            self._debts.void(*_OWED)
            return
        why = f"the image filesystem was more than {high} % used for {_TWO_RUNS_NS // NS_PER_S} s, "
        why += f"first {percent} %, and the loop collects every {GC_PERIOD_S} s, but nothing is "
        why += "recorded of a space pass"
        debt = Debt(
            since=record,
            due_ns=record.ts_ns + _TWO_RUNS_NS,
            shown_by=EvictionSignalObserved,
            kind=GarbageCollectionStarted.kind,
            subject="node",
            expected={"high_threshold_percent": high},
            why=why,
            rule=self._rule,
            inputs=(record.seq,),
        )
        self._debts.owe(_OWED, debt)


_FRESH_NS: Final = 60 * NS_PER_S
_LAYOUTS: Final[tuple[DiskLayout, ...]] = get_args(DiskLayout)


def judge_pressure(context: VerifyContext, state: NodeState, ts_ns: int) -> Judgement:
    """Whether a threshold was met for which images are deleted, when the first one went.

    A threshold that was met counts until the least amount to be reclaimed is there on top.
    """
    profile = context.known_profile
    thresholds, missing = configured(context.settings, profile, None)
    unknown, clear = [*missing], list[str]()
    for threshold in thresholds:
        name = threshold.signal
        functions = (reclaim_functions(name, layout, profile.eviction) for layout in _LAYOUTS)
        if not any(ReclaimFunction.IMAGES in each for each in functions):
            continue
        signal = state.images.signals.get(name)
        if signal is None or ts_ns - signal.read_ts_ns > _FRESH_NS:
            unknown.append(SIGNAL_THEN.format(name))
            continue
        text_of = threshold_says(threshold, Reading(signal.available, signal.capacity, 0, 0))
        if is_short(threshold, signal.available, signal.capacity, minimum=True):
            return same(True, f"all unused images were to go, as {text_of}")
        clear.append(text_of)
    text = "; ".join(dict.fromkeys(clear)) or "no threshold is set"
    why = f"no disk was short, so unused images are kept: {text}"
    return judge([Ruling(allowed=False, why=why)], unknown=unknown)


# The end of a run: what was freed, whether it was enough, and the error's words.

_KEPT_MAX: Final = 8
_START: Final = "the start of this collection"
_ANSWER: Final = "what the container runtime answered to this collection"
_REMOVALS: Final = "the removals of this collection that are not recorded"


def judge_end(run: Run, disk: Disk, worlds: Sequence[World], *, doubtful: bool) -> Judgement:
    """Whether a run can end so, by the worlds that the removals leave.

    ``doubtful``: lines of other removals may be lost.

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
    wrong = [name for name, value in expected.items() if recorded[name] != value]
    for name in wrong[:1]:
        why = f"its {name} had to be {expected[name]!r}, not {recorded[name]!r}: {why}"
    return Ruling(allowed=not wrong, why=why, expected=expected)


def _judge_without_space(run: Run, disk: Disk, body: GarbageCollected) -> Judgement:
    """No space pass is recorded: the disk was under the threshold, or something failed before."""
    assert run.end is not None
    count, high, error = len(run.removals), run.policy.high, body.error
    expected: Fields = {
        "outcome": "failed" if error else "freed" if count else "below_threshold",
        "images_removed": count if error in ("", INVALID_CAPACITY) else body.images_removed,
        "error": error,
    }
    sizes = [each.size_bytes for _, each in run.removals]
    if body.bytes_freed is not None and not error and None not in sizes:
        expected["bytes_freed"] = sum(size or 0 for size in sizes)
    why = f"{count} removals are recorded, and {error or 'no error'}"
    ruling = _held_against(body, expected, why)
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
    run: Run, disk: Disk, body: GarbageCollected, worlds: Sequence[World], *, doubtful: bool
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
    if fitting := [ruling for ruling in rulings if ruling.allowed]:
        return judge(fitting[:1])
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
    aged = (b for r, b in run.removals if r.cause is None and b.pass_ == "age")
    by_age = sum(each.size_bytes or 0 for each in aged)
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
        body
        for record, body in run.removals
        if record.cause is not None or (body.pass_ != "age" and (body.pass_ or not run.start))
    ]


def _tells_of_more(run: Run, body: GarbageCollected) -> bool:
    """Whether an end shows more bytes than the removals that are recorded."""
    freed = sum(each.size_bytes or 0 for each in _for_space(run))
    return body.images_removed >= len(run.removals) and (body.bytes_freed or 0) > freed


def _why_space(run: Run, worlds: Sequence[World]) -> str:
    removed, wanted = len(run.removals), run.begun.get("bytes_to_free")
    images = f"{removed} image{'' if removed == 1 else 's'}"
    sentence = f"{images} had been removed when {wanted} bytes were to be freed"
    if not worlds:
        return f"{sentence}; what more could go is not known without a detect pass"
    kept = [f"image {short(image_id)} {why}" for image_id, why in kept_of(run, worlds)]
    more = f" and {len(kept) - _KEPT_MAX} more" if len(kept) > _KEPT_MAX else ""
    return f"{sentence}; kept: {', '.join(kept[:_KEPT_MAX])}{more}" if kept else sentence
