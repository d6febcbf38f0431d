"""Whether pods can have been ranked as recorded, for any usage within given bounds.

A pod comes before another if it exceeds its request and the other does not, then by lower
priority, then by more usage above its request; a pod without statistics comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.eviction.signals import format_of
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.model.units import format_ts
from kubeledger.verify.belief import Judgement, open_to, same

_NANOS: Final = 10**9


class Bounds(NamedTuple):
    """Between what a usage lies, both included; ``most`` None for no bound."""

    least: int
    most: int | None


class Place(msgspec.Struct, frozen=True):
    """A pod's place in a recorded ranking, as far as it can be judged.

    Attributes:
        name: ``namespace/name``.
        pod: its spec; None when no list shows it.
        inputs: seqs of records: its spec (0 where none shows it), then its usage around.
        request_nanos, deducted_nanos: as in ``kubelet.eviction.ranking.Candidate``; a request
            of -1 for process IDs, of which every usage is above what is requested.
        likely, possible: bounds of its usage; None without a sample.
        has_statistics: None where it may have had none, so that it may stand anywhere, or some:
            one of its containers had just started; False where no sample shows any.
    """

    name: str
    pod: Pod | None
    inputs: tuple[int, ...]
    priority: int = 0
    request_nanos: int = 0
    deducted_nanos: int = 0
    likely: Bounds | None = None
    possible: Bounds | None = None
    has_statistics: bool | None = False

    def above(self, used: Bounds, *, exceeds: bool) -> Bounds | None:
        """Usage above what is deducted, when it does or does not exceed its request.

        None where it cannot.
        """
        least, most = used.least * _NANOS, None if used.most is None else used.most * _NANOS
        if exceeds:
            least = max(least, self.request_nanos + 1)
        else:
            most = self.request_nanos if most is None else min(most, self.request_nanos)
        if most is not None and least > most:
            return None
        deducted = self.deducted_nanos
        return Bounds(least - deducted, None if most is None else most - deducted)

    def text(self, resource: str) -> str:
        """The pod's usage against its request, and its priority."""
        if self.pod is None:
            return "is in no list, so its request is not known"
        priority = f"priority {self.priority}"
        if not self.has_statistics or self.likely is None:
            return f"may have had no statistics, and such pods go first ({priority})"
        form = format_of(resource)
        least, most = (str(Quantity.of(n or 0, form)) for n in self.likely)
        used = least if least == most else f"{least} to {most}"
        request = Quantity.of(-(-self.request_nanos // _NANOS), form)
        return f"used {used} of a request of {request} ({priority})"


def _may_precede(first: Place, other: Place, *, likely: bool) -> bool:
    """Whether a pod can come before another, with usages that are likely, or all possible ones."""
    one, two = (pod.likely if likely else pod.possible for pod in (first, other))
    if one is None or two is None or not (first.has_statistics and other.has_statistics):
        return True
    for exceeds, exceeds_too in ((True, True), (True, False), (False, False)):
        above = first.above(one, exceeds=exceeds)
        below = other.above(two, exceeds=exceeds_too)
        if above is None or below is None:
            continue
        if exceeds != exceeds_too or first.priority < other.priority:
            return True
        enough = above.most is None or above.most >= below.least
        if first.priority == other.priority and enough:
            return True
    return False


def judge_order(
    pairs: Iterable[tuple[Place, Place]], why: str, resource: str, ts_ns: int
) -> Judgement:
    """Whether the first pod of each pair can have come before the other; ``why`` it did.

    Usage that is likely makes it a match; what is only possible is open, and named.
    """
    unlikely = [pair for pair in pairs if not _may_precede(*pair, likely=True)]
    if not unlikely:
        return same(True, why)
    wrong = [pair for pair in unlikely if not _may_precede(*pair, likely=False)]
    first, other = (wrong or unlikely)[0]
    denied = (
        f"pod {other.name} had to go before it, by what both used: "
        f"pod {other.name} {other.text(resource)}; pod {first.name} {first.text(resource)}"
    )
    if wrong:
        return same(False, denied)
    used = f"what pods {first.name} and {other.name} used of {resource} at {format_ts(ts_ns)}"
    return open_to(used, denied=denied)


def judge_first(places: Sequence[Place], resource: str, ts_ns: int) -> Judgement:
    """Whether the first of these pods can have come before each of the others."""
    first, *others = places
    after = next((each for each in others if each.likely is not None), next(iter(others), None))
    why = f"pod {first.name} was the only one to go"
    if after is not None:
        why = f"pod {first.name} {first.text(resource)}"
        why += f"; next came pod {after.name}, which {after.text(resource)}"
    sampled = first
    if first.has_statistics is None:
        sampled = msgspec.structs.replace(first, has_statistics=True)
    found = judge_order([(sampled, each) for each in others], why, resource, ts_ns)
    if sampled is not first and found.verdict != "match":
        had_none = f"whether the kubelet had statistics of pod {first.name}"
        found = open_to(had_none, denied=found.why)
    return msgspec.structs.replace(found, inputs=first.inputs)


def places_text(places: Sequence[Place], spared: Sequence[bool], resource: str) -> dict[str, str]:
    """Pod -> what the kubelet ranked it by, the first to go first; ``pod/NS/NAME`` as key."""
    return {
        f"pod/{place.name}": place.text(resource) + ("; critical, so it was spared" * passed)
        for place, passed in zip(places, spared, strict=True)
    }
