"""What the eviction manager remembers of its thresholds, and the conditions that follow.

A threshold is independent of the others, so each has its own belief: whether it is met, since
when, and whether its grace period was over. Every round steps it by the reading of its signal.

Which thresholds there are, the settings say, as far as verification knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.eviction.decisions import observed_text
from kubeledger.kubelet.eviction.signals import (
    ALLOCATABLE_MEMORY,
    CONDITION_OF,
    MEMORY,
    DiskLayout,
    SignalObservation,
)
from kubeledger.kubelet.eviction.thresholds import (
    Threshold,
    ThresholdConfigError,
    ThresholdSettings,
    is_short,
    parse_threshold_config,
    with_container_fs,
)
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts, parse_go_duration
from kubeledger.verify.belief import Belief, World
from kubeledger.verify.context import Pressure
from kubeledger.verify.variant import UNKNOWN, Settings

Config = tuple[tuple[Threshold, ...], tuple[str, ...]]
"""The thresholds, and the settings that are missing for them."""

_DEFAULT_TRANSITION = "5m0s"


def configured(
    settings: Settings, profile: KubeletProfile | None, layout: DiskLayout | None
) -> Config:
    """The thresholds of a kubelet, with those that it makes of others."""
    if profile is None:
        return (), ("the kubelet's version",)
    missing: list[str] = []

    def table(name: str) -> dict[str, str]:
        value = settings.get(name)
        if value is None and name != "evictionHard":
            return {}
        if not isinstance(value, dict):
            missing.append(f"the setting {name}")
            return {}
        return {str(signal): str(text) for signal, text in value.items()}

    soft, levels = table("evictionSoft"), settings.get("enforceNodeAllocatable")
    texts = ThresholdSettings(
        eviction_hard=table("evictionHard"),
        eviction_soft=soft,
        eviction_soft_grace_period=table("evictionSoftGracePeriod") if soft else {},
        eviction_minimum_reclaim=table("evictionMinimumReclaim"),
        enforce_node_allocatable=tuple(levels) if isinstance(levels, list) else ("pods",),
    )
    if missing:
        return (), tuple(missing)
    try:
        thresholds = parse_threshold_config(texts, profile)
    except ThresholdConfigError as error:
        return (), (f"readable thresholds ({error})",)
    if profile.eviction.split_disk_known and layout is not None:
        _, thresholds = with_container_fs(thresholds, layout)
    return thresholds, ()


def transition_period_ns(settings: Settings) -> int | None:
    """``evictionPressureTransitionPeriod``; None when no source shows it."""
    value = settings.get("evictionPressureTransitionPeriod")
    try:
        return None if value is UNKNOWN else parse_go_duration(str(value or _DEFAULT_TRANSITION))
    except ValueError:
        return None


ALWAYS_READ: Final = frozenset({MEMORY, "nodefs.available", "imagefs.available"})
"""Signals that every kubelet reads, and logs from verbosity 3."""
CLOCK_NS: Final = NS_PER_S // 10
"""A round takes its time some milliseconds after the signals are logged."""
SIGNAL_THEN: Final = "the eviction signal {} at this time (logged from verbosity 3)"
_NOT_KNOWN: Final = "whether thresholds that are in no record yet had been met"


class Reading(NamedTuple):
    """A signal as one round read it."""

    available: int
    capacity: int
    ts_ns: int
    seq: int


class Round(msgspec.Struct):
    """The readings of one round.

    Attributes:
        next_ns: when the next round began; None before that.
    """

    record: Record
    readings: dict[str, Reading] = {}
    next_ns: int | None = None

    @property
    def ts_ns(self) -> int:
        return self.record.ts_ns


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

    @property
    def since(self) -> str:
        """The time at which it was first seen to be, at the earliest."""
        return format_ts(self.since_from_ns) if self.since_from_ns else "a time before"


class Thresholds:
    """The thresholds of one account of the settings.

    Attributes:
        beliefs: threshold -> whether it is met, as of the last round that was stepped.
    """

    def __init__(self, unseen: str | None) -> None:
        """Begin; ``unseen`` is what is not known of the process as a noun phrase, if anything."""
        self.beliefs: dict[Threshold, Belief[Met | None]] = {}
        self.conditions = Conditions(open_at_first=unseen is not None)
        self._unseen = unseen

    def configure(self, thresholds: Iterable[Threshold], last_ns: int | None, ts_ns: int) -> None:
        """What the thresholds are from a round on; those that stay keep what is known of them.

        ``last_ns``: the time of the round before; None for the first.
        """
        known, self.beliefs = self.beliefs, {}
        for threshold in thresholds:
            belief = known.get(threshold)
            if belief is None:
                belief = Belief([World[Met | None](None)])
                if last_ns is not None and last_ns < ts_ns:
                    _forget(belief, last_ns, _NOT_KNOWN)
                elif self._unseen is not None:
                    _forget(belief, ts_ns, self._unseen)
            self.beliefs[threshold] = belief

    def widen(self, ts_ns: int, phrase: str) -> None:
        for belief in self.beliefs.values():
            _forget(belief, ts_ns, phrase)

    def step(self, found: Round, observed: set[str], period_ns: int, *, levels_known: bool) -> None:
        """Step every threshold by a round, of a process that reads the signals ``observed``.

        ``period_ns``: so long a condition stays; ``levels_known``: ``enforceNodeAllocatable`` is,
        without ``pods`` in which the memory of all pods has no threshold.
        """
        ts_ns = found.ts_ns
        for threshold, belief in self.beliefs.items():
            reading = found.readings.get(threshold.signal)
            if reading is not None:
                available, capacity, _, _ = reading
                if belief.states != [None] or is_short(threshold, available, capacity):
                    belief.step(partial(_step, threshold, reading, ts_ns))
                    if threshold.signal == ALLOCATABLE_MEMORY and not levels_known:
                        belief.widen(lambda _: (None,), "the setting enforceNodeAllocatable")
                continue
            # It was not observed, so nothing is met; or its line is lost.
            states = {*belief.states}
            belief.step(lambda _: (None,))
            if threshold.signal in observed:
                states |= {met._replace(satisfied=True) for met in states if met is not None}
                states.add(Met(ts_ns, ts_ns + CLOCK_NS, satisfied=not threshold.grace_ns))
            phrase = f"the signal {threshold.signal} at {format_ts(ts_ns)}"
            belief.widen(partial(_any_of, sorted(states, key=str)), phrase)
        self.conditions.step(found, self.beliefs, period_ns)

    def learn(self, threshold: Threshold | None, now_ns: int) -> None:
        """A decision for a threshold that was not met in any world is evidence that it was.

        So what goes wrong with it stands at this decision, not at those that follow from it.
        """
        belief = None if threshold is None else self.beliefs.get(threshold)
        if belief is not None and not may_act(belief):
            met = Met(0, now_ns, satisfied=True)
            belief.step(lambda _: (met,))

    def due(self) -> list[Threshold]:
        """Thresholds for which something must be reclaimed in every world."""
        states = {threshold: belief.states for threshold, belief in self.beliefs.items()}
        return [each for each, mets in states.items() if all(met and met.satisfied for met in mets)]


def may_act(belief: Belief[Met | None]) -> bool:
    """Whether something is reclaimed for a threshold in any world."""
    return any(met and met.satisfied for met in belief.states)


def _forget(belief: Belief[Met | None], ts_ns: int, phrase: str) -> None:
    belief.widen(lambda _: (None, Met(0, ts_ns, False), Met(0, ts_ns, True)), phrase)


def _any_of(states: Iterable[Met | None], _: Met | None) -> Iterable[Met | None]:
    return states


def _step(
    threshold: Threshold, reading: Reading, ts_ns: int, state: Met | None
) -> Sequence[Met | None]:
    """What one round makes of a threshold; two states where its grace period may be over.

    Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go synchronize
    """
    kept = state is not None and state.satisfied
    if not is_short(threshold, reading.available, reading.capacity, minimum=kept):
        return (None,)
    met = state or Met(ts_ns, ts_ns + CLOCK_NS, satisfied=False)
    shortest = ts_ns - met.since_to_ns if threshold.grace_ns else 0
    longest = ts_ns + CLOCK_NS - met.since_from_ns
    over = [True] * (longest >= threshold.grace_ns) + [False] * (shortest < threshold.grace_ns)
    return [met._replace(satisfied=each) for each in over]


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
        self._shown: dict[str, tuple[Threshold, Reading]] = {}
        self._open_at_first = open_at_first
        self.sure: frozenset[str] = frozenset()
        self.open: frozenset[str] = frozenset()
        self.possible: frozenset[str] = frozenset()

    def learn(self, ts_ns: int, reported: Iterable[str], observed: Iterable[str]) -> None:
        """What the kubelet reports is evidence, too."""
        names = frozenset(reported)
        for times in (self._sure, self._possible):
            for name in set(times) - names:
                del times[name]
            times.update(dict.fromkeys(observed, ts_ns))
        self.sure = self.possible = names
        self.open = frozenset()

    def step(
        self, found: Round, beliefs: Mapping[Threshold, Belief[Met | None]], period_ns: int
    ) -> None:
        ts_ns = found.ts_ns
        if self._open_at_first:
            self._open_at_first = False
            self._possible = dict.fromkeys(CONDITION_OF.values(), ts_ns)
        for threshold, belief in beliefs.items():
            name, states = CONDITION_OF[threshold.signal], belief.states
            if None not in states:
                self._sure[name] = ts_ns
                if (reading := found.readings.get(threshold.signal)) is not None:
                    self._shown[name] = threshold, reading
            if any(states):
                self._possible[name] = ts_ns
        sure, possible = self._sure, self._possible
        self.sure = frozenset(n for n, at in sure.items() if ts_ns + CLOCK_NS - at < period_ns)
        latest_ns = period_ns + CLOCK_NS
        self.possible = frozenset(n for n, at in possible.items() if ts_ns - at < latest_ns)
        self.open = frozenset(n for n in self.possible - self.sure if sure.get(n) != possible[n])

    def at(self, name: str, until_ns: int, period_ns: int, *, settled: bool) -> Pressure:
        """Whether the node has a condition, from the last round until then.

        A round may have ended it that came a second before; ``period_ns``: so long it stays;
        ``settled``: the last round was stepped, and none can have followed it.
        """
        sure_ns = self._sure.get(name)
        if sure_ns is not None and until_ns + NS_PER_S < sure_ns + period_ns:
            threshold, reading = self._shown.get(name, (None, None))
            if threshold is None or reading is None:
                return Pressure(present=True, why=f"the node reports {name}")
            return Pressure(present=True, seq=reading.seq, why=threshold_says(threshold, reading))
        if not settled:
            return Pressure()
        if name not in self.possible:
            return Pressure(present=False, why=f"no threshold of {name} had been met")
        return Pressure(why=f"how long the node had {name}")


def threshold_says(threshold: Threshold, reading: Reading) -> str:
    """What a threshold's signal said, against the threshold and its minimum to be reclaimed."""
    return observed_text(threshold, SignalObservation(reading.available, reading.capacity))
