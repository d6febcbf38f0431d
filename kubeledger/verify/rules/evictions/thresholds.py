"""Whether a threshold was met that fits what is said of a decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubeledger.eviction.explain import observed_text
from kubeledger.eviction.observations import SignalObservation
from kubeledger.eviction.records import ReclaimAttempted
from kubeledger.eviction.signals import ALLOCATABLE_MEMORY, RESOURCE_OF
from kubeledger.eviction.thresholds import Threshold, is_short, threshold_quantity
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.units import NS_PER_S, format_go_duration, format_ts
from kubeledger.verify.belief import WORST_FIRST, Belief, Judgement, Ruling, judge, same
from kubeledger.verify.rules.evictions.rounds import Met, Reading, Rounds

__all__ = ["Claim", "best_of", "judge_met", "threshold_says"]

_TOLERANCE_NS: Final = NS_PER_S
"""A threshold counts from the round's time, which stands in no line."""


class Claim(msgspec.Struct, frozen=True):
    """What a record says of the threshold that was met, under the names of its fields."""

    resource: str | None
    signal: str | None = None
    threshold: int | None = None
    threshold_kind: str | None = None
    since_ts_ns: int | None = None
    observed: int | None = None

    @classmethod
    def of(cls, body: ReclaimAttempted | PodEvicted) -> Claim:
        """From a decision."""
        return cls(*(getattr(body, name) for name in cls.__struct_fields__))

    def names(self, threshold: Threshold) -> bool:
        """Whether signal and kind are this threshold's, where they are told."""
        kind = "hard" if threshold.is_hard else "soft"
        if threshold.signal == ALLOCATABLE_MEMORY:
            kind = "allocatable"
        return self.signal in (None, threshold.signal) and self.threshold_kind in (None, kind)

    def fits(self, threshold: Threshold, reading: Reading | None) -> bool:
        """Whether this threshold can be meant."""
        if not self.names(threshold):
            return False
        if self.observed is not None and reading is not None and reading.available != self.observed:
            return False
        if self.threshold is None or (isinstance(threshold.value, float) and reading is None):
            return True
        capacity = reading.capacity if reading is not None else 0
        return threshold_quantity(threshold.value, capacity).value() == self.threshold


def judge_met(
    rounds: Rounds, ts_ns: int, claim: Claim, seqs: tuple[int, ...], *, loose: bool
) -> list[tuple[Judgement, Threshold | None]]:
    """The thresholds that fit what is claimed, and whether each was met.

    Which one was meant no line tells below verbosity 3. Without any that fits, what is
    claimed is none of the settings.

    Args:
        rounds: what was read, and what follows for each threshold.
        ts_ns: when the round began to act.
        claim: what is said of it.
        seqs: records of the settings.
        loose: what is said of it does not count, but the resource.
    """
    ordered = sorted(rounds.thresholds.items(), key=lambda item: not claim.names(item[0]))
    if loose:
        claim = Claim(claim.resource)
    found: list[tuple[Judgement, Threshold | None]] = []
    for threshold, belief in ordered:
        reading = rounds.latest(threshold.signal, ts_ns)
        about = claim.resource in (None, RESOURCE_OF[threshold.signal])
        if about and claim.fits(threshold, reading):
            if reading is not None:
                rulings = list(_read_rulings(threshold, belief, reading, claim.since_ts_ns))
            elif rounds.is_recent(ts_ns):
                rulings = list(_unread_rulings(threshold, belief))
            else:
                rulings = list(_told_rulings(threshold, claim.observed))
            found.append((judge(rulings), threshold))
    if found:
        # Under a variant all that it would have done follows from one.
        return [best_of(found)] if loose else found
    what = f"{claim.threshold_kind or ''} threshold of {claim.signal or claim.resource}".strip()
    value = "" if claim.threshold is None else f" of {claim.threshold}"
    why = f"no {what}{value} is set" + ("" if claim.observed is None else " that fits")
    # Of which kind it was, and in which round, follows from lines that may be lost.
    of_any_kind = msgspec.structs.replace(claim, threshold_kind=None, observed=None)
    certain = not any(
        of_any_kind.fits(each, rounds.latest(each.signal, ts_ns)) for each in rounds.thresholds
    )
    return [(same(False, why, inputs=seqs, certain=certain), None)]


def best_of(
    found: Iterable[tuple[Judgement, Threshold | None]],
) -> tuple[Judgement, Threshold | None]:
    """The first one that goes best with the record."""
    return max(found, key=lambda each: WORST_FIRST.index(each[0].verdict))


def _read_rulings(
    threshold: Threshold, belief: Belief[Met | None], reading: Reading, since_ns: int | None
) -> Iterator[Ruling]:
    """Whether a threshold drives evictions, in each world."""
    says, inputs = threshold_says(threshold, reading), (reading.seq,)
    grace = format_go_duration(threshold.grace_ns)
    # Whether the last milliseconds of a grace period are over is no question of the records.
    over = {world.state for world in belief.worlds if world.state and world.state.satisfied}
    for world in belief.worlds:
        met, why = world.state, says
        if met is not None and not met.satisfied:
            if met._replace(satisfied=True) in over:
                continue
            since = format_ts(met.since_from_ns) if met.since_from_ns else "a time before"
            why += f", but only since {since}: its grace period of {grace} was not over"
        allowed = met is not None and met.satisfied
        if met is not None and met.satisfied:
            if not is_short(threshold, reading.available, reading.capacity):
                why += ", which is not reclaimed yet"
            first, last = met.since_from_ns - _TOLERANCE_NS, met.since_to_ns + _TOLERANCE_NS
            is_then = since_ns is None or first <= since_ns <= last
            if met.since_from_ns:
                # The time that the record tells, where it can be: they differ by the way of a line.
                began_ns = since_ns if since_ns is not None and is_then else met.since_from_ns
                why += f", since {format_ts(began_ns)}"
                why += "" if threshold.is_hard else f", longer than its grace period of {grace}"
            if not is_then:
                why += f"; first met at {format_ts(met.since_from_ns)}, not when it is said"
                allowed = False
        yield Ruling(allowed=allowed, why=why, assumes=world.assumes, inputs=inputs)


def _unread_rulings(threshold: Threshold, belief: Belief[Met | None]) -> Iterator[Ruling]:
    """The same where the round was logged without this signal."""
    for world in belief.worlds:
        satisfied = world.state is not None and world.state.satisfied
        why = f"{threshold.signal} was not observed"
        yield Ruling(allowed=satisfied, why=why, assumes=world.assumes)


def _told_rulings(threshold: Threshold, observed: int | None) -> Iterator[Ruling]:
    """The same where the log does not tell the signals: by what the message does."""
    if observed is None or isinstance(threshold.value, float):
        why, allowed = f"{threshold.signal} may not have been short", None
    else:
        why, allowed = threshold_says(threshold, Reading(observed, 0, 0, 0)), True
        if not is_short(threshold, observed, 0, minimum=True):
            allowed = False
        elif not is_short(threshold, observed, 0) or not threshold.is_hard:
            why, allowed = f"{threshold.signal} may have been short for too little", None
    yield Ruling(allowed=bool(allowed), why=why)
    if allowed is None:
        phrase = f"the eviction signal {threshold.signal} at this time (logged from verbosity 3)"
        yield Ruling(allowed=True, why="", assumes=(phrase,))


def threshold_says(threshold: Threshold, reading: Reading) -> str:
    """What a threshold's signal said, against the threshold and its minimum to be reclaimed."""
    return observed_text(threshold, SignalObservation(reading.available, reading.capacity))
