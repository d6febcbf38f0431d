"""Whether a disk was short, so that the eviction manager has all unused images deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from kubeledger.kubelet.eviction.reclaim import ReclaimFunction, reclaim_functions
from kubeledger.kubelet.eviction.signals import DiskLayout
from kubeledger.kubelet.eviction.thresholds import is_short
from kubeledger.kubelet.images.state import SignalState
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.belief import Judgement, Ruling, judge, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.rules.evictions.config import configured
from kubeledger.verify.rules.evictions.thresholds import Reading, threshold_says

__all__ = ["judge_pressure"]

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
