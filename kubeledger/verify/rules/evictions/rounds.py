"""What the eviction manager read in each of its rounds, and what it remembers of its thresholds.

A threshold is independent of the others, so each has its own belief: whether it is met, since
when, and whether its grace period was over. Every round steps it by the readings of the signal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from kubeledger.eviction.signals import CONDITION_OF, DiskLayout
from kubeledger.eviction.thresholds import Threshold, is_short
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Belief, World
from kubeledger.verify.evidence.coverage import EVICTING_NS, SILENCE_NS

__all__ = ["CLOCK_NS", "Conditions", "Met", "Reading", "Round", "Rounds", "layout_of"]

CLOCK_NS: Final = NS_PER_S // 10
"""A round takes its time some milliseconds after the signals are logged."""
_ROUND_NS: Final = NS_PER_S
"""The signals of one round are logged at once."""
_NOT_KNOWN: Final = "whether thresholds that no record told yet had been met"
_RECENT_NS: Final = 2 * NS_PER_S
"""A round acts at once on what it read."""


class Reading(NamedTuple):
    """A signal as one round read it."""

    available: int
    capacity: int
    ts_ns: int
    seq: int


class Round(msgspec.Struct):
    """The readings of one round: signal -> reading."""

    ts_ns: int
    readings: dict[str, Reading] = {}


class Met(NamedTuple):
    """A threshold is met; a state of None means that it is not.

    Attributes:
        since_from_ns, since_to_ns: bounds of the time at which it was first seen to be.
        satisfied: its grace period was over in the last round, so that it stays met until the
            minimum is reclaimed.
    """

    since_from_ns: int
    since_to_ns: int
    satisfied: bool


class Rounds:
    """The rounds of one kubelet process.

    Attributes:
        last: the round that is being read, or the last one; None before the first.
        before: the one before it.
        thresholds: threshold -> belief, as of ``last``.
        conditions: what follows for the node, as of ``last``.
    """

    def __init__(self, unseen: str | None) -> None:
        """Begin; ``unseen`` is what is not known of the process as a noun phrase, if anything."""
        self.last: Round | None = None
        self.before: Round | None = None
        self.thresholds: dict[Threshold, Belief[Met | None]] = {}
        self.conditions = Conditions(open_at_first=unseen is not None)
        self._unseen = unseen
        self._stepped = True
        self._observed: set[str] = set()

    def configure(self, thresholds: Iterable[Threshold], ts_ns: int) -> None:
        """What the thresholds are from a round on; those that stay keep what is known of them."""
        known, self.thresholds = self.thresholds, {}
        for threshold in thresholds:
            belief = known.get(threshold)
            if belief is None:
                belief = Belief([World[Met | None](None)])
                if self.last is not None and self.last.ts_ns < ts_ns:
                    _forget(belief, self.last.ts_ns, _NOT_KNOWN)
                elif self._unseen is not None:
                    _forget(belief, ts_ns, self._unseen)
            self.thresholds[threshold] = belief

    def begins(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Whether a reading is the first one of another round; one that is told twice is not."""
        last = self.last
        if last is None or not 0 <= record.ts_ns - last.ts_ns <= _ROUND_NS:
            return True
        seen = last.readings.get(body.signal)
        if seen is None:
            return False
        told = (body.available, body.capacity, record.ts_ns)
        return (seen.available, seen.capacity, seen.ts_ns) != told

    def begin(self, ts_ns: int, *, evicted: bool) -> None:
        """Another round; the last one is closed, and ``evicted`` a pod or not."""
        self.before, self.last = self.last, Round(ts_ns=ts_ns)
        self._stepped = False
        longest = EVICTING_NS if evicted else SILENCE_NS
        if self.before is not None and ts_ns - self.before.ts_ns > longest:
            self.widen(f"the eviction manager's rounds since {format_ts(self.before.ts_ns)}")

    def read(self, record: Record, body: EvictionSignalObserved) -> None:
        """Take in a reading of this round."""
        assert self.last is not None
        reading = Reading(body.available, body.capacity, record.ts_ns, record.seq)
        self.last.readings[body.signal] = reading
        self._observed.add(body.signal)

    def widen(self, phrase: str) -> None:
        """Rounds may have been held of which no record tells."""
        last_ns = self.last.ts_ns if self.last is not None else 0
        for belief in self.thresholds.values():
            _forget(belief, last_ns, phrase)

    def close(self, period_ns: int) -> None:
        """Step every threshold by the last round, once."""
        if self._stepped or self.last is None:
            return
        self._stepped = True
        ts_ns = self.last.ts_ns
        for threshold, belief in self.thresholds.items():
            reading = self.last.readings.get(threshold.signal)
            if reading is None:
                # It was not observed, so nothing is met; or its line is lost, as it is known that
                # this process observes it.
                phrase = f"the signal {threshold.signal} at {format_ts(ts_ns)}"
                before = tuple(world.state for world in belief.worlds)
                if threshold.signal in self._observed:
                    now = Met(ts_ns, ts_ns + CLOCK_NS, satisfied=not threshold.grace_ns)
                    over = (met._replace(satisfied=True) for met in before if met is not None)
                    before = (*before, *over, now)
                belief.step(lambda _: (None,))
                belief.widen(partial(_any_of, before), phrase)
            else:
                belief.step(partial(_step, threshold, reading, ts_ns))
        self.conditions.step(ts_ns, self.thresholds, period_ns)

    def learn(self, threshold: Threshold | None, since_ns: int | None) -> None:
        """A decision for a threshold that was not met in any world is evidence that it was.

        So what goes wrong with it stands at this decision, not at those that follow from it.
        """
        belief = self.thresholds.get(threshold) if threshold is not None else None
        if belief is None or any(world.state and world.state.satisfied for world in belief.worlds):
            return
        now_ns = self.last.ts_ns if self.last is not None else 0
        met = Met(since_ns or 0, since_ns or now_ns, satisfied=True)
        belief.step(lambda _: (met,))

    def is_recent(self, ts_ns: int) -> bool:
        """Whether the round that led to a decision of that time was read."""
        return self.last is not None and 0 <= ts_ns - self.last.ts_ns + CLOCK_NS <= _RECENT_NS

    def latest(self, signal: str, ts_ns: int) -> Reading | None:
        """What the round read that led to a decision; None when no record tells."""
        if self.last is None or not self.is_recent(ts_ns):
            return None
        return self.last.readings.get(signal)


def _forget(belief: Belief[Met | None], ts_ns: int, phrase: str) -> None:
    belief.widen(lambda _: (None, Met(0, ts_ns, False), Met(0, ts_ns, True)), phrase)


def _any_of(states: tuple[Met | None, ...], _: Met | None) -> tuple[Met | None, ...]:
    return states


def _step(
    threshold: Threshold, reading: Reading, ts_ns: int, state: Met | None
) -> Sequence[Met | None]:
    """What one round makes of a threshold; two states where its grace period may be over.

    Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go synchronize
    """
    available, capacity = reading.available, reading.capacity
    kept = state is not None and state.satisfied
    if not is_short(threshold, available, capacity, minimum=kept):
        return (None,)
    met = state or Met(ts_ns, ts_ns + CLOCK_NS, satisfied=False)
    shortest = ts_ns - met.since_to_ns if threshold.grace_ns else 0
    longest = ts_ns + CLOCK_NS - met.since_from_ns
    found: list[Met | None] = []
    if longest >= threshold.grace_ns:
        found.append(met._replace(satisfied=True))
    if shortest < threshold.grace_ns:
        found.append(met._replace(satisfied=False))
    return found


class Conditions:
    """The pressure conditions that follow from thresholds, each for the transition period.

    Attributes:
        sure: reported in every world.
        possible: reported in some.
        open: those of them that not only the last milliseconds of the period leave open.
    """

    def __init__(self, *, open_at_first: bool) -> None:
        """Begin; ``open_at_first``: before the first round any condition may have been reported."""
        self._sure: dict[str, int] = {}
        self._possible: dict[str, int] = {}
        self._open_at_first = open_at_first
        self.sure: frozenset[str] = frozenset()
        self.open: frozenset[str] = frozenset()
        self.possible: frozenset[str] = frozenset()

    def learn(self, ts_ns: int, reported: Iterable[str], observed: Iterable[str]) -> None:
        """What the kubelet reports is evidence, too."""
        told = frozenset(reported)
        for times in (self._sure, self._possible):
            for name in set(times) - told:
                del times[name]
            times.update(dict.fromkeys(observed, ts_ns))
        self.sure = self.possible = told
        self.open = frozenset()

    def step(
        self, ts_ns: int, thresholds: Mapping[Threshold, Belief[Met | None]], period_ns: int
    ) -> None:
        """Follow the thresholds of a round that was closed."""
        if self._open_at_first:
            self._open_at_first = False
            self._possible = dict.fromkeys(CONDITION_OF.values(), ts_ns)
        for threshold, belief in thresholds.items():
            name = CONDITION_OF[threshold.signal]
            met = [world.state is not None for world in belief.worlds]
            if all(met):
                self._sure[name] = ts_ns
            if any(met):
                self._possible[name] = ts_ns
        self.sure = frozenset(
            name for name, at in self._sure.items() if ts_ns + CLOCK_NS - at < period_ns
        )
        self.possible = frozenset(
            name for name, at in self._possible.items() if ts_ns - at - CLOCK_NS < period_ns
        )
        self.open = frozenset(
            name
            for name in self.possible - self.sure
            if self._sure.get(name) != self._possible[name]
        )


def layout_of(rounds: Iterable[Round | None]) -> DiskLayout | None:
    """Where images and containers are, by the sizes of the disks; None when not known.

    A line that is lost hides one of a disk's two sizes; so those count that two disks both tell.
    """
    for found in rounds:
        if found is None:
            continue
        one_disk = _are_one(found, "nodefs", "imagefs")
        if one_disk is None:
            continue
        if _are_one(found, "containerfs", "imagefs") in (True, None):
            return "shared" if one_disk else "dedicated"
        return "containers" if one_disk else "split"
    return None


def _are_one(found: Round, disk: str, other: str) -> bool | None:
    """Whether two disks have the same sizes; None where no size of both is told."""
    pairs = [
        (found.readings.get(f"{disk}.{amount}"), found.readings.get(f"{other}.{amount}"))
        for amount in ("available", "inodesFree")
    ]
    told = [one.capacity == two.capacity for one, two in pairs if one and two]
    return all(told) if told else None
