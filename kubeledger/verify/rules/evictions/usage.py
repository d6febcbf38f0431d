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

__all__ = ["Bounds", "Sample", "usage_at"]

_INTERVAL_NS = 10 * NS_PER_S
_STAMP_NS = NS_PER_S
"""Samples are stamped in whole seconds."""


class Sample(NamedTuple):
    """A value at a time."""

    ts_ns: int
    value: int


class Bounds(NamedTuple):
    """Between what a usage lies, both included; ``most`` None for no bound."""

    least: int
    most: int | None


def usage_at(
    samples: list[Sample],
    ts_ns: int,
    most: int | None,
    *,
    sampled: bool,
    others: Iterable[int] = (),
) -> tuple[Bounds, Bounds]:
    """What a pod is likely to have used at a time, as the kubelet saw it, and what is possible.

    Args:
        samples: (n,) in the order of their time, each once, n >= 1.
        ts_ns: that time.
        most: it cannot use more; None for no bound.
        others: values around that time from another measurement, which make more likely.
        sampled: the values are taken at cAdvisor's interval (memory); else at any time.
    """
    place = bisect_right(samples, ts_ns, key=lambda sample: sample.ts_ns)
    around = [sample.value for sample in samples[max(place - 1, 0) : place + 1]]
    if place:
        age_ns = ts_ns - samples[place - 1].ts_ns
        if age_ns <= _STAMP_NS:
            around += [sample.value for sample in samples[max(place - 2, 0) : place - 1]]
        elif sampled:
            last = samples[place - 1]
            if place < len(samples):
                exact = samples[place].ts_ns - last.ts_ns < 2 * _INTERVAL_NS - _STAMP_NS
            else:
                exact = age_ns < _INTERVAL_NS
            if exact:
                known = Bounds(last.value, last.value)
                return known, known
    around.extend(others)
    return Bounds(min(around), max(around)), Bounds(0, most)
