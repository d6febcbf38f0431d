"""The rulings of the eviction manager's rule: was the threshold met, whose turn was it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kubeledger.eviction.explain import observed_text
from kubeledger.eviction.observations import SignalObservation
from kubeledger.eviction.records import ReclaimAttempted
from kubeledger.eviction.signals import ALLOCATABLE_MEMORY, RESOURCE_OF, format_of
from kubeledger.eviction.thresholds import Threshold, limit_nanos, threshold_quantity
from kubeledger.kube.quantity import Quantity
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.units import NS_PER_S, format_go_duration, format_ts
from kubeledger.verify.belief import Belief, Ruling
from kubeledger.verify.evictions.pods import Place
from kubeledger.verify.evictions.ranking import order_is_possible
from kubeledger.verify.evictions.rounds import Met, Reading

__all__ = [
    "Claim",
    "first_rulings",
    "met_rulings",
    "names_of",
    "order_rulings",
    "ranking_of",
    "threshold_says",
]

_NANOS: Final = 10**9
_TOLERANCE_NS: Final = NS_PER_S
"""A threshold counts from the round's time, which stands in no line."""


class Claim(msgspec.Struct, frozen=True):
    """What a record says of the threshold that was met."""

    resource: str | None
    signal: str | None
    threshold: int | None
    kind: str | None
    since_ts_ns: int | None
    observed: int | None

    @classmethod
    def of(cls, body: ReclaimAttempted | PodEvicted) -> Claim:
        """From a decision."""
        return cls(
            body.resource,
            body.signal,
            body.threshold,
            body.threshold_kind,
            body.since_ts_ns,
            body.observed,
        )

    def names(self, threshold: Threshold) -> bool:
        """Whether signal and kind are this threshold's, where they are told."""
        kind = "hard" if threshold.is_hard else "soft"
        if threshold.signal == ALLOCATABLE_MEMORY:
            kind = "allocatable"
        return self.signal in (None, threshold.signal) and self.kind in (None, kind)

    def fits(self, threshold: Threshold, reading: Reading | None) -> bool:
        """Whether this threshold can be meant."""
        if not self.names(threshold):
            return False
        if self.observed is not None and reading is not None and reading.available != self.observed:
            return False
        if self.threshold is None:
            return True
        if isinstance(threshold.value, float) and reading is None:
            return True
        capacity = reading.capacity if reading is not None else 0
        return threshold_quantity(threshold.value, capacity).value() == self.threshold


def met_rulings(
    threshold: Threshold,
    belief: Belief[Met | None],
    reading: Reading | None,
    claim: Claim,
    *,
    is_read: bool,
) -> Iterator[Ruling]:
    """Whether a threshold drives evictions, in each world.

    ``is_read``: the log tells the round, with or without this signal.
    """
    inputs = () if reading is None else (reading.seq,)
    if reading is None and is_read:
        for world in belief.worlds:
            satisfied = world.state is not None and world.state.satisfied
            why = f"{threshold.signal} was not observed"
            yield Ruling(allowed=satisfied, why=why, assumes=world.assumes)
        return
    if reading is None:
        yield from _told_rulings(threshold, claim)
        return
    why = threshold_says(threshold, reading)
    # Whether the last milliseconds of a grace period are over is no question of the records.
    over = {world.state for world in belief.worlds if world.state and world.state.satisfied}
    for world in belief.worlds:
        met = world.state
        if met is not None and met._replace(satisfied=True) in over and not met.satisfied:
            continue
        if met is None:
            why = threshold_says(threshold, reading)
            yield Ruling(allowed=False, why=why, assumes=world.assumes, inputs=inputs)
        elif not met.satisfied:
            since = format_ts(met.since_from_ns) if met.since_from_ns else "a time before"
            grace = format_go_duration(threshold.grace_ns)
            late = f"{why}, but only since {since}: its grace period of {grace} was not over"
            yield Ruling(allowed=False, why=late, assumes=world.assumes, inputs=inputs)
        else:
            since_ns = claim.since_ts_ns
            wrong = since_ns is not None and not (
                met.since_from_ns - _TOLERANCE_NS <= since_ns <= met.since_to_ns + _TOLERANCE_NS
            )
            told = why
            grace = format_go_duration(threshold.grace_ns)
            if reading.available * _NANOS >= limit_nanos(
                threshold, reading.capacity, minimum=False
            ):
                told += ", which is not reclaimed yet"
            if met.since_from_ns:
                told += f", since {format_ts(met.since_from_ns)}"
                told += "" if threshold.is_hard else f", longer than its grace period of {grace}"
            if wrong:
                told += f"; first met at {format_ts(met.since_from_ns)}, not when it is said"
            yield Ruling(allowed=not wrong, why=told, assumes=world.assumes, inputs=inputs)


def _told_rulings(threshold: Threshold, claim: Claim) -> Iterator[Ruling]:
    """The same where the log does not tell the signals: by what the message does."""
    phrase = f"the eviction signal {threshold.signal} at this time (logged from verbosity 3)"
    if claim.observed is None or isinstance(threshold.value, float):
        yield Ruling(allowed=False, why=f"{threshold.signal} may not have been short")
        yield Ruling(allowed=True, why="", assumes=(phrase,))
        return
    reading = Reading(claim.observed, 0, 0, 0)
    available = claim.observed * _NANOS
    if available >= limit_nanos(threshold, 0, minimum=True):
        yield Ruling(allowed=False, why=threshold_says(threshold, reading))
        return
    below = available < limit_nanos(threshold, 0, minimum=False)
    if not below or not threshold.is_hard:
        yield Ruling(allowed=False, why=f"{threshold.signal} may have been short for too little")
        yield Ruling(allowed=True, why="", assumes=(phrase,))
        return
    yield Ruling(allowed=True, why=threshold_says(threshold, reading))


def order_rulings(places: Sequence[Place], signal: str, ts_ns: int) -> list[Ruling]:
    """Whether an order can have come out, by usage that is likely and that is possible."""
    by_processes = RESOURCE_OF[signal] == "pids"
    inputs = _readings_of(places)
    likely = [place.likely for place in places]
    if order_is_possible(likely, by_processes=by_processes):
        return [Ruling(allowed=True, why="pods are ranked by what they used", inputs=inputs)]
    possible = [place.possible for place in places]
    out = _out_of_place(places, by_processes)
    denied = Ruling(
        allowed=False,
        why=f"by the samples around, pod {out.name} does not stand there"
        if out
        else "the ranking is not what the samples tell",
        inputs=inputs,
    )
    if not order_is_possible(possible, by_processes=by_processes):
        why = f"pod {out.name} cannot stand there, whatever pods used" if out else denied.why
        return [msgspec.structs.replace(denied, why=why)]
    who = f"pod {out.name}" if out and _alone_explains(places, out, by_processes) else "the pods"
    phrase = f"what {who} used of {RESOURCE_OF[signal]} at {format_ts(ts_ns)}"
    return [denied, Ruling(allowed=True, why="", assumes=(phrase,), inputs=inputs)]


def _readings_of(places: Sequence[Place]) -> tuple[int, ...]:
    """The records of usage around, once each."""
    return tuple(dict.fromkeys(seq for place in places for seq in place.inputs[1:]))


def _out_of_place(places: Sequence[Place], by_processes: bool) -> Place | None:
    """The first pod with which a ranking is not what is likely."""
    for count in range(1, len(places) + 1):
        if not order_is_possible([p.likely for p in places[:count]], by_processes=by_processes):
            return places[count - 1]
    return None


def _alone_explains(places: Sequence[Place], out: Place, by_processes: bool) -> bool:
    mixed = [place.possible if place is out else place.likely for place in places]
    return order_is_possible(mixed, by_processes=by_processes)


def ranking_of(places: Sequence[Place], spared: Sequence[Place], signal: str) -> dict[str, str]:
    """Pod -> what the kubelet ranked it by, the first to go first; ``pod/NS/NAME`` as key."""
    passed = {each.name for each in spared}
    return {
        f"pod/{each.name}": _usage(each, signal)
        + ("; critical, so it was spared" if each.name in passed else "")
        for each in places
    }


def first_rulings(places: Sequence[Place], signal: str, ts_ns: int) -> list[Ruling]:
    """Whether the first of these pods can have come before each of the others."""
    first, *others = places
    by_processes = RESOURCE_OF[signal] == "pids"
    # Of the others only the readings that tell what all used.
    inputs = first.inputs
    unlikely = [
        other
        for other in others
        if not order_is_possible([first.likely, other.likely], by_processes=by_processes)
    ]
    if not unlikely:
        return [Ruling(allowed=True, why=_stands_first(places, signal), inputs=inputs)]
    other = unlikely[0]
    why = f"pod {other.name} had to go before it, by what both used: {_facts(other, signal)}"
    why += f"; {_facts(first, signal)}"
    denied = Ruling(
        allowed=False,
        why=why,
        inputs=inputs,
        expected={"pod": other.name},
    )
    if any(
        not order_is_possible([first.possible, each.possible], by_processes=by_processes)
        for each in unlikely
    ):
        return [denied]
    resource = RESOURCE_OF[signal]
    phrase = f"what pods {first.name} and {other.name} used of {resource} at {format_ts(ts_ns)}"
    return [denied, Ruling(allowed=True, why="", assumes=(phrase,), inputs=inputs)]


def threshold_says(threshold: Threshold, reading: Reading) -> str:
    """What a threshold's signal said, against the threshold and its minimum to be reclaimed."""
    return observed_text(threshold, SignalObservation(reading.available, reading.capacity))


def _stands_first(places: Sequence[Place], signal: str) -> str:
    first, *others = places
    if not others:
        return f"pod {first.name} was the only one to go"
    after = next((each for each in others if each.used is not None), others[0])
    return f"{_facts(first, signal)}; next came pod {after.name}, which {_usage(after, signal)}"


def _facts(place: Place, signal: str) -> str:
    return f"pod {place.name} {_usage(place, signal)}"


def _usage(place: Place, signal: str) -> str:
    """A pod's usage against its request, and its priority."""
    form = format_of(RESOURCE_OF[signal])
    if place.pod is None:
        return "is in no list, so its request is not known"
    priority = f"priority {place.likely.priority}"
    if not place.likely.known:
        return f"may have had no statistics, and such pods go first ({priority})"
    assert place.used is not None
    least, most = (
        str(Quantity.of(n, form)) for n in (place.used.likely_least, place.used.likely_most)
    )
    used = least if least == most else f"{least} to {most}"
    request = Quantity.of(-(-place.likely.request_nanos // _NANOS), form)
    return f"used {used} of a request of {request} ({priority})"


def names_of(conditions: frozenset[str]) -> str:
    """Conditions in words."""
    return " and ".join(sorted(conditions)) or "no pressure"
