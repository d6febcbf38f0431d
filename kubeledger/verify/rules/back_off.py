"""The entry of a container in the kubelet's back-off map: all that it may hold.

Each start that follows an exited instance raises it, by the kubelet's own step. What is not
known of it is worlds: starts that no record shows, starts of which it is open whether the
runtime still listed an exited instance, and an entry that may or may not have been forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy, next_back_off
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import (
    EXPIRES_AFTER_NS,
    back_off_policy,
    series,
)
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Belief, Ruling, World
from kubeledger.verify.context import VerifyContext

_FORGOTTEN_PERHAPS_NS: Final = EXPIRES_AFTER_NS - 10 * NS_PER_S
_FORGOTTEN_SURELY_NS: Final = EXPIRES_AFTER_NS + 120 * NS_PER_S
"""Housekeeping drops old entries every two seconds, unless something holds it up."""
_MARGIN_NS: Final = NS_PER_S // 2


class Entry(NamedTuple):
    """An entry: nanoseconds (0: there is none) and when it was raised; None: not known."""

    value_ns: int
    raised_ns: int | None = None

    def at(self, now_ns: int) -> tuple[Entry, ...]:
        """What it may be then: an old one is forgotten."""
        age_ns = 0 if self.raised_ns is None else now_ns - self.raised_ns
        if not self.value_ns or age_ns <= _FORGOTTEN_PERHAPS_NS:
            return (self,)
        return (_NONE,) if age_ns > _FORGOTTEN_SURELY_NS else (_NONE, self)


_NONE: Final = Entry(0)


def policy_of(context: VerifyContext) -> BackOffPolicy | str:
    """The kubelet's first and greatest back-off, or what is missing to know them."""
    if context.profile is None:
        return context.missing_profile
    facts = context.profile.kuberuntime
    gates = context.settings.get("featureGates")
    if not isinstance(gates, dict):
        if facts.restart_max_gate:
            return "the feature gates"
        gates = {}
    setting = context.settings.get("crashLoopBackOff")
    configured = setting.get("maxContainerRestartPeriod") if isinstance(setting, dict) else None
    try:
        found = back_off_policy(facts, gates, configured if isinstance(configured, str) else None)
    except ValueError:
        found = None
    return found or "crashLoopBackOff.maxContainerRestartPeriod"


class BackOff:
    """What is believed of one container's entry.

    Attributes:
        belief: over entries.
        may_count_unlogged: the entry was logged, and may count a start already that no record has
            shown yet.
        failed_start: a start may have failed since the last one that did not.
        held_back: a start was held back since the newest instance ended.
        early: for the newest start, what each world says of whether its back-off was over.
        unknown, failures, unlogged: what is missing where nothing is known; where starts may have
            failed without a line; where an instance may have run that no record shows.
    """

    def __init__(self, container: str, *, is_new: bool) -> None:
        """A new container has no entry; nothing is known about others."""
        self._name = container
        self.unknown = f"the restarts of container {container} since the kubelet started"
        self.failures = f"events about starts of container {container} that failed"
        self.unlogged = f"whether container {container} ran once more, which no record shows"
        self._which = f"which restarts of container {container} raised its back-off"
        self.may_count_unlogged = self.failed_start = self.held_back = False
        self.early: tuple[Ruling, ...] = ()
        self._starts: list[int] | None = [] if is_new else None
        self.belief: Belief[Entry] = Belief([World(_NONE)])
        self._doubted: tuple[int, Entry] | None = None
        self.is_unknown = not is_new

    def lose(self) -> None:
        """Starts may be missing: any entry is possible."""
        self.is_unknown, self._starts, self._doubted = True, None, None

    def reset(self) -> None:
        self.belief = Belief([World(_NONE)])
        self.is_unknown = self.may_count_unlogged = False
        self._starts, self._doubted = [], None

    def is_none(self) -> bool:
        return not self.is_unknown and all(not w.state.value_ns for w in self.belief.worlds)

    def may_be_new(self) -> None:
        """The container's definition may be another one, of which there is no entry."""
        changed = f"whether an update changed the definition of {self._name}"
        self.belief.widen(lambda _: (_NONE,), changed)
        self._starts = None

    def may_have_risen(self, policy: BackOffPolicy, assumes: str) -> None:
        """Starts that no record shows may have raised it, nobody knows how often."""
        self._starts = None
        values = series(policy)
        self.belief.widen(lambda old: (Entry(ns) for ns in values if ns > old.value_ns), assumes)

    def pass_time(self, now_ns: int) -> None:
        if not self.is_unknown:
            self.belief.step(lambda entry: entry.at(now_ns)[-1:])
            dropped = f"whether the old back-off of container {self._name} was dropped by then"
            self.belief.widen(lambda entry: entry.at(now_ns)[:-1], dropped)
            if self.is_none() and self._starts:
                self._starts = []

    def start(self, policy: BackOffPolicy | str, now_ns: int, *, raises: bool | None) -> None:
        """A start, by then: whether it followed an exited instance, and so raised the entry.

        ``policy``: or what is missing of it; ``raises``: None where that is open.
        """
        if isinstance(policy, str):
            self.lose()
        elif not self.is_unknown and raises is not False:
            known = policy
            if raises is None or self.may_count_unlogged:
                self._starts = None
                self.belief.widen(lambda entry: (_raised(known, entry, now_ns),), self._which)
            else:
                self.belief.step(lambda entry: (_raised(known, entry, now_ns),))
                if self._starts is not None:
                    self._starts.append(now_ns)
            if self._doubted is not None:
                seq, entry = self._doubted
                self._doubted = seq, _raised(known, entry, now_ns)
        self.may_count_unlogged = self.failed_start = self.held_back = False

    def too_early(self, start_ns: int, ended_ns: int | None) -> tuple[Ruling, ...]:
        """What each world says of a start at a time; none where nothing is known.

        The exited instance that the kubelet looks at ended no earlier than ``ended_ns``.
        """
        if self.is_unknown or ended_ns is None:
            return ()
        passed_ns, rulings = start_ns + _MARGIN_NS - ended_ns, list[Ruling]()
        why = f"the instance that counts had not ended before {format_ts(ended_ns)}, so only "
        why += f"{passed_ns / NS_PER_S:.1f} s of a back-off of "
        for world in self.belief.worlds:
            value_ns, assumes = world.state.value_ns, world.assumes
            is_over = passed_ns >= value_ns
            said = "" if is_over else f"{why}{value_ns / NS_PER_S:.1f} s had passed"
            rulings.append(Ruling(allowed=is_over, why=said, assumes=assumes))
        self.belief.keep(lambda entry: passed_ns >= entry.value_ns)
        return tuple(rulings)

    def holds_back(
        self, value_ns: int, seq: int, policy: BackOffPolicy, passed_ns: int
    ) -> tuple[Ruling, ...]:
        """What each world says of a start that is held back for so long; the belief narrows.

        A value that no world allows may have been wrong, or starts are missing, which can only
        have raised it: a later one that follows from it is open. ``passed_ns``: so long ago, at
        most, the newest instance that was shown ended.
        """
        self.belief.keep(lambda entry: entry.value_ns > 0)
        worlds = self.belief.worlds
        values = sorted({world.state.value_ns for world in worlds})
        text = " or ".join(f"{value // NS_PER_S} s" for value in values)
        why = f"{self._history()} its back-off was {text}"
        denied = f"{why}, not {value_ns // NS_PER_S} s"
        expected = None if len(values) != 1 else {"back_off_s": values[0] // NS_PER_S}
        held = [(world.state.value_ns == value_ns, world.assumes) for world in worlds]
        rulings = tuple(
            Ruling(allowed=is_it, why=why if is_it else denied, expected=expected, assumes=assumes)
            for is_it, assumes in held
        )
        raised = Entry(value_ns, worlds[0].state.raised_ns)
        self.may_count_unlogged |= values[0] < value_ns
        if value_ns not in values:
            if any(value_ns in _reached(policy, world.state, passed_ns) for world in worlds):
                assumes = self.unlogged
            elif self._doubted is not None and self._doubted[1].value_ns == value_ns:
                assumes = f"unrecorded starts before record {self._doubted[0]}"
            elif self.belief.cut:
                assumes = self._which
            else:
                may_be = value_ns in series(policy) and value_ns > values[-1]
                self._doubted = (seq, raised) if may_be else None
                return rulings
            rulings = (*rulings, Ruling(allowed=True, why="", assumes=(assumes,)))
            self._starts = None
        self._doubted = None
        self.belief = Belief([World(raised)])
        return rulings

    def reported(self, value_ns: int, raised_ns: int | None, now_ns: int) -> None:
        """A record says what the entry is, but not how it came about."""
        entry = Entry(value_ns, raised_ns)
        if entry.at(now_ns) == (_NONE,):  # what is there was raised by a start that is missing
            entry = Entry(value_ns)
        self.belief = Belief([World(entry)])
        self.lose()
        self.is_unknown, self.may_count_unlogged = False, True

    def _history(self) -> str:
        """How the entry came to be, up to "its back-off was"."""
        name, starts = f"container {self._name}", self._starts
        if not starts:
            return f"{name} had been started again so often that"
        if len(starts) == 1:
            return f"{name} had been started again once, at {format_ts(starts[0])}, so"
        first, last = format_ts(starts[0]), format_ts(starts[-1])
        return f"{name} had been started again {len(starts)} times from {first} to {last}, so"


def _raised(policy: BackOffPolicy, entry: Entry, now_ns: int) -> Entry:
    return Entry(next_back_off(policy, entry.value_ns), now_ns)


def _reached(policy: BackOffPolicy, entry: Entry, passed_ns: int) -> Iterator[int]:
    """Values of an entry after starts that no record shows, each of which waited for its own."""
    while entry.value_ns <= passed_ns:
        passed_ns -= max(entry.value_ns, policy.initial_ns)
        entry = _raised(policy, entry, 0)
        yield entry.value_ns
