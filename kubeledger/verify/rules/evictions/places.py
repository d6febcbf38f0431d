"""Whether pods can have been ranked as recorded, for any usage within given bounds.

A pod comes before another if it exceeds its request and the other does not, then by lower
priority, then by more usage above its request. For bounds on each pod's usage that order is
possible if it can be cut in two, the pods before the cut above their requests and those after it
not, with priorities that never fall in each part, and usage that can fall within each priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeledger.eviction.signals import format_of
from kubeledger.kube.pod import Pod
from kubeledger.kube.quantity import Quantity
from kubeledger.units import format_ts
from kubeledger.verify.belief import Judgement, open_to, same
from kubeledger.verify.rules.evictions.usage import Bounds

__all__ = ["Place", "judge_first", "judge_order", "order_is_possible", "standing"]

_NANOS: Final = 10**9


class Place(msgspec.Struct, frozen=True):
    """A pod's place in a recorded ranking, as far as it can be judged.

    Attributes:
        name: ``namespace/name``.
        pod: its spec; None when no list shows it.
        inputs: seqs of records: its spec (0 where none tells it), then its usage around.
        request_nanos, deducted_nanos: as in ``kubeledger.eviction.ranking.Candidate``; a request
            of -1 for process IDs, of which every usage is above what is requested.
        likely, possible: bounds of its usage; None without a sample.
        known: False where it may have had no statistics, so that it may stand anywhere.
        may_be_known: it may as well have had some: one of its containers had just started.
    """

    name: str
    pod: Pod | None
    inputs: tuple[int, ...]
    priority: int = 0
    request_nanos: int = 0
    deducted_nanos: int = 0
    likely: Bounds | None = None
    possible: Bounds | None = None
    known: bool = False
    may_be_known: bool = False

    def anywhere(self, *, ran: bool) -> Place:
        """It goes first without statistics; where something ``ran``, else where they put it."""
        may_be_known = ran and self.known
        return msgspec.structs.replace(self, known=False, may_be_known=may_be_known)

    def at_most(self) -> Place:
        """The same pod, with the usage that is possible taken for likely."""
        return msgspec.structs.replace(self, likely=self.possible)

    def above(self, *, exceeds: bool) -> tuple[int, int | None]:
        """Bounds of usage above what is deducted, when it does or does not exceed its request.

        No usage is between them where it cannot.
        """
        assert self.likely is not None
        least = self.likely.least * _NANOS
        most = None if self.likely.most is None else self.likely.most * _NANOS
        if exceeds:
            least = max(least, self.request_nanos + 1)
        else:
            most = self.request_nanos if most is None else min(most, self.request_nanos)
        return least - self.deducted_nanos, None if most is None else most - self.deducted_nanos

    def says(self, resource: str) -> str:
        """The pod's usage against its request, and its priority."""
        if self.pod is None:
            return "is in no list, so its request is not known"
        priority = f"priority {self.priority}"
        if not self.known or self.likely is None:
            return f"may have had no statistics, and such pods go first ({priority})"
        form = format_of(resource)
        least, most = (str(Quantity.of(n or 0, form)) for n in self.likely)
        used = least if least == most else f"{least} to {most}"
        request = Quantity.of(-(-self.request_nanos // _NANOS), form)
        return f"used {used} of a request of {request} ({priority})"


def order_is_possible(places: Sequence[Place]) -> bool:
    """Whether the recorded order can have come out, with usages that are likely."""
    known = [place for place in places if place.known]
    return any(
        _falls(known[:cut], exceeds=True) and _falls(known[cut:], exceeds=False)
        for cut in range(len(known) + 1)
    )


def _falls(places: Sequence[Place], *, exceeds: bool) -> bool:
    """Priorities never fall, and in each the usage above the request can."""
    priority: int | None = None
    highest: int | None = None
    for place in places:
        if place.priority != priority:
            if priority is not None and place.priority < priority:
                return False
            priority, highest = place.priority, None
        least, most = place.above(exceeds=exceeds)
        if most is not None and (highest is None or most < highest):
            highest = most
        if highest is not None and least > highest:
            return False
    return True


def judge_order(places: Sequence[Place], resource: str, ts_ns: int) -> Judgement:
    """Whether an order can have come out, by usage that is likely and that is possible."""
    # Readings of usage tell of many pods.
    inputs = tuple(dict.fromkeys(seq for place in places for seq in place.inputs[1:]))
    if order_is_possible(places):
        return same(True, "pods are ranked by what they used", inputs=inputs)
    out = next(
        place for count, place in enumerate(places, 1) if not order_is_possible(places[:count])
    )
    if not order_is_possible([place.at_most() for place in places]):
        why = f"pod {out.name} cannot stand there, whatever pods used"
        return same(False, why, inputs=inputs)
    alone = order_is_possible([p.at_most() if p is out else p for p in places])
    used = _what_used(f"pod {out.name}" if alone else "the pods", resource, ts_ns)
    denied = f"by the samples around, pod {out.name} does not stand there"
    return open_to(used, denied=denied, inputs=inputs)


def judge_first(places: Sequence[Place], resource: str, ts_ns: int) -> Judgement:
    """Whether the first of these pods can have come before each of the others."""
    first, *others = places
    if first.may_be_known:
        sampled = msgspec.structs.replace(first, known=True, may_be_known=False)
        judgement = judge_first([sampled, *others], resource, ts_ns)
        if judgement.verdict == "match":
            return judgement
        had_none = f"whether the kubelet had statistics of pod {first.name}"
        return open_to(had_none, denied=judgement.why, inputs=first.inputs)
    mine = f"pod {first.name} {first.says(resource)}"
    unlikely = [other for other in others if not order_is_possible([first, other])]
    if not unlikely:
        after = next((each for each in others if each.likely is not None), next(iter(others), None))
        why = f"pod {first.name} was the only one to go"
        if after is not None:
            why = f"{mine}; next came pod {after.name}, which {after.says(resource)}"
        return same(True, why, inputs=first.inputs)
    other = unlikely[0]
    denied = (
        f"pod {other.name} had to go before it, by what both used: "
        f"pod {other.name} {other.says(resource)}; {mine}"
    )
    if all(order_is_possible([first.at_most(), each.at_most()]) for each in unlikely):
        used = _what_used(f"pods {first.name} and {other.name}", resource, ts_ns)
        return open_to(used, denied=denied, inputs=first.inputs)
    return same(False, denied, inputs=first.inputs, expected={"pod": other.name})


def _what_used(who: str, resource: str, ts_ns: int) -> str:
    return f"what {who} used of {resource} at {format_ts(ts_ns)}"


def standing(places: Sequence[Place], spared: Sequence[bool], resource: str) -> dict[str, str]:
    """Pod -> what the kubelet ranked it by, the first to go first; ``pod/NS/NAME`` as key."""
    return {
        f"pod/{place.name}": place.says(resource) + ("; critical, so it was spared" * passed)
        for place, passed in zip(places, spared, strict=True)
    }
