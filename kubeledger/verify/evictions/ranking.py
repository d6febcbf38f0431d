"""Whether pods can have been ranked as recorded, for any usage within given bounds.

A pod comes before another if it exceeds its request and the other does not, then by lower
priority, then by more usage above its request. For bounds on each pod's usage that order is
possible if it can be cut in two, the pods before the cut above their requests and those after it
not, with priorities that never fall in each part, and usage that can fall within each priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

__all__ = ["Ranked", "order_is_possible"]

_NANOS = 10**9


class Ranked(msgspec.Struct, frozen=True):
    """A pod in a ranking.

    Attributes:
        least, most: bounds of what it used; ``most`` None for none.
        request_nanos, deducted_nanos: as in ``kubeledger.eviction.ranking.Candidate``.
        known: False where it may have had no statistics, so that it may stand anywhere.
    """

    priority: int
    least: int
    most: int | None
    request_nanos: int = 0
    deducted_nanos: int = 0
    known: bool = True

    @property
    def may_exceed(self) -> bool:
        """Some usage is above its request."""
        return self.most is None or self.most * _NANOS > self.request_nanos

    @property
    def may_be_under(self) -> bool:
        """Some usage is not."""
        return self.least * _NANOS <= self.request_nanos

    def above(self, *, exceeds: bool) -> tuple[int, int | None]:
        """Bounds of usage above what is deducted, when it does or does not exceed its request."""
        least, most = self.least * _NANOS, None if self.most is None else self.most * _NANOS
        if exceeds:
            least = max(least, self.request_nanos + 1)
        else:
            most = self.request_nanos if most is None else min(most, self.request_nanos)
        return least - self.deducted_nanos, None if most is None else most - self.deducted_nanos


def order_is_possible(pods: Sequence[Ranked], *, by_processes: bool = False) -> bool:
    """Whether the recorded order can have come out."""
    known = [pod for pod in pods if pod.known]
    if by_processes:
        return _falls(known, exceeds=None)
    return any(
        all(pod.may_exceed for pod in known[:cut])
        and all(pod.may_be_under for pod in known[cut:])
        and _falls(known[:cut], exceeds=True)
        and _falls(known[cut:], exceeds=False)
        for cut in range(len(known) + 1)
    )


def _falls(pods: Sequence[Ranked], *, exceeds: bool | None) -> bool:
    """Priorities never fall, and in each the usage above the request can."""
    priorities = [pod.priority for pod in pods]
    if priorities != sorted(priorities):
        return False
    return all(_usage_falls(list(group), exceeds) for _, group in groupby(pods, _priority))


def _usage_falls(pods: list[Ranked], exceeds: bool | None) -> bool:
    highest: int | None = None
    for pod in pods:
        if exceeds is None:
            least, most = pod.least, pod.most
        else:
            least, most = pod.above(exceeds=exceeds)
        if most is not None and (highest is None or most < highest):
            highest = most
        if highest is not None and least > highest:
            return False
    return True


def _priority(pod: Ranked) -> int:
    return pod.priority
