"""What a pod may have used at a time, from samples before and after it.

The kubelet ranks by its cached statistics: cAdvisor looks at a cgroup every ``--housekeeping-
interval`` (10 s) and up to twice as long. So between two samples that are less than two intervals
apart there was no other, and what the kubelet saw is known; else it may have seen anything that
the pod can use. What lies between the samples around is what is likely.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kubeledger.units import NS_PER_S

__all__ = ["Sample", "Span", "usage_at"]

_INTERVAL_NS = 10 * NS_PER_S
_STAMP_NS = NS_PER_S
"""Samples are stamped in whole seconds."""


class Sample(NamedTuple):
    """A value at a time."""

    ts_ns: int
    value: int


class Span(NamedTuple):
    """What a pod may have used: bounds that are likely, and those that are possible.

    Attributes:
        most: None for no bound.
        told: samples stand on both sides, or it follows exactly from the last.
    """

    likely_least: int
    likely_most: int
    least: int
    most: int | None
    told: bool


def usage_at(
    samples: list[Sample],
    ts_ns: int,
    most: int | None,
    *,
    sampled: bool,
    others: Iterable[int] = (),
) -> Span | None:
    """What a pod may have used at a time, as the kubelet saw it.

    Args:
        samples: (n,) in the order of their time, each once.
        ts_ns: that time.
        most: it cannot use more; None for no bound.
        others: values around that time from another measurement, which make more likely.
        sampled: the values are taken at cAdvisor's interval (memory); else at any time.

    Returns:
        None without any sample.
    """
    if not samples:
        return None
    place = bisect_right(samples, ts_ns, key=lambda sample: sample.ts_ns)
    before = samples[place - 1] if place else None
    after = samples[place] if place < len(samples) else None
    around = [sample.value for sample in (before, after) if sample is not None]
    if before is not None and ts_ns - before.ts_ns <= _STAMP_NS and place > 1:
        around.append(samples[place - 2].value)
    exact = (
        sampled
        and before is not None
        and (
            ts_ns - before.ts_ns < _INTERVAL_NS
            if after is None
            else after.ts_ns - before.ts_ns < 2 * _INTERVAL_NS - _STAMP_NS
        )
        and ts_ns - before.ts_ns > _STAMP_NS
    )
    if exact:
        assert before is not None
        return Span(before.value, before.value, before.value, before.value, told=True)
    around.extend(others)
    both = before is not None and after is not None
    return Span(min(around), max(around), 0, most, told=both)
