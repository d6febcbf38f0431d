"""Whether a threshold was met that fits what is said of a decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY, RESOURCE_OF
from kubeledger.kubelet.eviction.thresholds import Threshold, is_short, threshold_quantity
from kubeledger.model.bodies.eviction import ReclaimAttempted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import format_go_duration
from kubeledger.verify.belief import WORST_FIRST, Belief, Judgement, Ruling, judge, same
from kubeledger.verify.rules.evictions.rounds import Rounds
from kubeledger.verify.rules.evictions.thresholds import Met, Reading, threshold_says

T = TypeVar("T")

Decision = ReclaimAttempted | PodEvicted


def _may_mean(claim: Decision, threshold: Threshold, reading: Reading | None) -> bool:
    """Whether this threshold can be the one that a decision shows."""
    kind = "hard" if threshold.is_hard else "soft"
    if threshold.signal == ALLOCATABLE_MEMORY:
        kind = "allocatable"
    if (
        claim.signal not in (None, threshold.signal)
        or claim.threshold_kind not in (None, kind)
        or claim.resource not in (None, RESOURCE_OF[threshold.signal])
        or (reading is not None and claim.observed not in (None, reading.available))
    ):
        return False
    if claim.threshold is None or (isinstance(threshold.value, float) and reading is None):
        return True
    capacity = reading.capacity if reading is not None else 0
    return threshold_quantity(threshold.value, capacity).value() == claim.threshold


def judge_met(
    rounds: Rounds, ts_ns: int, claim: Decision, seqs: tuple[int, ...]
) -> list[tuple[Judgement, Threshold | None]]:
    """The thresholds that a decision may mean, and whether each was met.

    Which one was meant no line shows below verbosity 3. Without any, what is claimed is none of
    the settings. Under a variant only the claimed resource counts.

    Args:
        rounds: what was read, and what follows for each threshold.
        ts_ns: when the round began to act.
        claim: the decision.
        seqs: records of the settings.
    """
    if rounds.loose:
        claim = ReclaimAttempted(resource=claim.resource)
    shown = claim.observed
    read = {each: rounds.latest(each.signal, ts_ns, shown) for each in rounds.current.beliefs}
    is_recent = rounds.is_recent(ts_ns)
    found: list[tuple[Judgement, Threshold | None]] = []
    for threshold, belief in rounds.current.beliefs.items():
        if _may_mean(claim, threshold, read[threshold]):
            rulings = _claimed_rulings(threshold, claim.observed)
            if is_recent:
                rulings = _rulings(threshold, belief, read[threshold])
            cut = "since when the threshold was met" if is_recent and belief.cut else None
            found.append((judge(list(rulings), cut=cut), threshold))
    if found:
        return found
    amount = "" if claim.threshold is None else f" of {claim.threshold}"
    what = f"{claim.threshold_kind or ''} threshold of {claim.signal or claim.resource}{amount}"
    why = f"no {what.strip()} is set" + ("" if claim.observed is None else " that fits")
    # Of which kind it was, and in which round, follows from lines that may be lost.
    of_any_kind = msgspec.structs.replace(claim, threshold_kind=None, observed=None)
    certain = not any(_may_mean(of_any_kind, each, reading) for each, reading in read.items())
    return [(same(False, why, inputs=seqs, certain=certain), None)]


def best_of(found: Iterable[tuple[Judgement, T]]) -> tuple[Judgement, T]:
    """The first one that goes best with the record."""
    return max(found, key=lambda each: WORST_FIRST.index(each[0].verdict))


def _rulings(
    threshold: Threshold, belief: Belief[Met | None], reading: Reading | None
) -> Iterator[Ruling]:
    """Whether a threshold drives evictions, in each world.

    Since when it was met no line of the kubelet says: the importer's answer is not asked.
    """
    why_met = f"{threshold.signal} was not observed"
    if reading is not None:
        why_met = threshold_says(threshold, reading)
    inputs = () if reading is None else (reading.seq,)
    grace = format_go_duration(threshold.grace_ns)
    # Whether the last milliseconds of a grace period are over does not follow from the records.
    over = {world.state for world in belief.worlds if world.state and world.state.satisfied}
    for world in belief.worlds:
        met, why, allowed = world.state, why_met, False
        if met is not None and not met.satisfied:
            if met._replace(satisfied=True) in over:
                continue
            why += f", but only since {met.since}: its grace period of {grace} was not over"
        elif met is not None:
            allowed = True
            if reading and not is_short(threshold, reading.available, reading.capacity):
                why += ", which is not reclaimed yet"
            if met.since_from_ns:
                why += f", since {met.since}"
                why += "" if threshold.is_hard else f", longer than its grace period of {grace}"
        yield Ruling(allowed=allowed, why=why, assumes=world.assumes, inputs=inputs)


def _claimed_rulings(threshold: Threshold, observed: int | None) -> Iterator[Ruling]:
    """The same where the log does not show the signals: from what the message shows."""
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
