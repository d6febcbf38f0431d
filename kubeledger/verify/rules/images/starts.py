"""The start of a space pass: whether one begins, with what, and one that had to come.

And whether a disk was short, so that the eviction manager has all unused images deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from kubeledger.kubelet.eviction.reclaim import ReclaimFunction, reclaim_functions
from kubeledger.kubelet.eviction.signals import DiskLayout
from kubeledger.kubelet.eviction.thresholds import is_short
from kubeledger.kubelet.images.policy import GC_PERIOD_S
from kubeledger.kubelet.images.reducer import SignalState
from kubeledger.model.bodies.images import EvictionSignalObserved, GarbageCollectionStarted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.debts import Debt, Key
from kubeledger.verify.rules.evictions.thresholds import Reading, configured, threshold_says
from kubeledger.verify.rules.images.disk import Disk, Sample
from kubeledger.verify.rules.images.runs import Policy, Run

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
        why = (
            f"no state of a filesystem of {disk.capacities(ts_ns) or 'unknown'} bytes in blocks "
            f"of {disk.block_bytes} that is {body.usage_percent} % used gives "
            f"{body.bytes_to_free} bytes to free"
        )
        if disk.is_steady(ts_ns):
            return same(False, why, expected=expected, inputs=inputs)
        return open_to("the size of the image filesystem", denied=why, inputs=inputs)
    usage = run.disk.usage
    if run.seen is not None and disk.is_far(run.seen, usage):
        seen = run.seen.usage.available_bytes
        why = (
            f"{body.bytes_to_free} bytes to free mean {usage.available_bytes} available bytes, and "
        )
        why += f"{abs(ts_ns - run.seen.ts_ns) / NS_PER_S:.0f} s before {seen} were available"
        return same(False, why, inputs=(*inputs, run.seen.seq))
    why = (
        f"the image filesystem was {usage.percent} % used ({usage.available_bytes} of "
        f"{usage.capacity_bytes} bytes available), at or above the high threshold of "
        f"{policy.high} %, so {body.bytes_to_free} bytes are to be freed to come down to "
        f"{policy.low} %"
    )
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

    def restart(self) -> None:
        """Another process, or another clock."""
        self._heard = False
        self._debts.void(*_OWED)

    def note_start(self) -> None:
        """The log shows a run."""
        self._heard = True
        self._debts.void(*_OWED)

    def see(self, record: Record, sample: Sample, policy: Policy) -> None:
        """A signal of the disk: is it over the threshold?"""
        high, percent = policy.high, sample.usage.percent
        if high is None or policy.disabled or not self._heard or percent <= high:
            self._debts.void(*_OWED)
            return
        why = (
            f"the image filesystem was more than {high} % used for {_TWO_RUNS_NS // NS_PER_S} s, "
            f"first {percent} %, and the loop collects every {GC_PERIOD_S} s, but nothing is "
            "recorded of a space pass"
        )
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


def judge_pressure(
    context: VerifyContext, signals: Mapping[str, SignalState], ts_ns: int
) -> Judgement:
    """Whether a threshold was met for which images are deleted.

    A threshold that was met counts until the least amount to be reclaimed is there on top.

    Args:
        context: with profile and settings of the kubelet.
        signals: as last read; what is long past does not count.
        ts_ns: when the first image went.
    """
    profile = context.profile
    assert profile is not None
    thresholds, missing = configured(context.settings, profile, None)
    rulings = [Ruling(allowed=True, why="", assumes=(phrase,)) for phrase in missing]
    clear: list[str] = []
    for threshold in thresholds:
        functions = (
            reclaim_functions(threshold.signal, layout, profile.eviction) for layout in _LAYOUTS
        )
        if not any(ReclaimFunction.IMAGES in each for each in functions):
            continue
        signal = signals.get(threshold.signal)
        if signal is None or ts_ns - signal.read_ts_ns > _FRESH_NS:
            phrase = (
                f"the eviction signal {threshold.signal} at this time (logged from verbosity 3)"
            )
            rulings.append(Ruling(allowed=True, why="", assumes=(phrase,)))
            continue
        text_of = threshold_says(threshold, Reading(signal.available, signal.capacity, 0, 0))
        if is_short(threshold, signal.available, signal.capacity, minimum=True):
            return same(True, f"all unused images were to go, as {text_of}")
        clear.append(text_of)
    text = "; ".join(dict.fromkeys(clear)) or "no threshold is set"
    why = f"no disk was short, so unused images are kept: {text}"
    return judge([Ruling(allowed=False, why=why), *rulings])
