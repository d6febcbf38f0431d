"""Messages of the eviction manager: its rounds, thresholds and evictions."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from kubeledger.kubelet.kube.quantity import QuantityError, value_of
from kubeledger.model.units import NS_PER_S

# What a round of the eviction manager (``synchronize``) logs of its thresholds, from verbosity 3.
#
# Each round lists the thresholds that are met: without regard to grace periods, with those that
# stay met until the minimum is reclaimed, those whose grace period is over, and of these the
# ones with newer statistics than the last round's, which drive what follows.

_UNRESOLVED, _SATISFIED, _UPDATED = "reclaim not satisfied", "grace periods satisfied", "updated"
_AGAIN: Final = "after resource reclaim"
_RESOURCES: Final = {
    "memory.available": "memory",
    "allocatableMemory.available": "memory",
    "pid.available": "pids",
    "available": "ephemeral-storage",
    "inodesFree": "inodes",
}
"""Signal, or the last word of a disk's signal -> resource that it measures."""

_COPY: Final = "containerfs."
_ROUND_NS: Final = NS_PER_S
"""The thresholds of a round are logged at once."""
_LOST_NS: Final = 25 * NS_PER_S
"""A round comes every 10 s: so long without one, lines were lost."""


class _Threshold(NamedTuple):
    """One that is met, as logged; the quantity stands for what is configured."""

    signal: str
    quantity: str


class Driver(NamedTuple):
    """The threshold that drives a reclaim; fields as in ``ReclaimAttempted``."""

    signal: str | None = None
    threshold: int | None = None
    observed: int | None = None
    kind: Literal["hard", "soft", "allocatable"] | None = None
    since_ts_ns: int | None = None


class EvictionRounds:
    """The rounds of the present kubelet process."""

    def __init__(self) -> None:
        self._since: dict[_Threshold, int | None] = {}
        self._soft: set[_Threshold] = set()
        self._prompt: set[_Threshold] = set()
        self._met: dict[str, dict[_Threshold, str]] = {}
        self._ts_ns: int | None = None
        self._noted_ns: int | None = None
        self._known_before = False

    def restart(self, ts_ns: int) -> None:
        """Another process began then: until its first round it has met nothing."""
        self.__init__()  # type: ignore[misc] # all of it is new
        self._known_before, self._ts_ns = True, ts_ns

    def begin(self, ts_ns: int) -> None:
        if self._ts_ns is not None:
            self._see_grace_periods()
            unresolved = self._met.get(_UNRESOLVED, {})
            self._since = {met: self._since.get(met) for met in unresolved}
            # Where rounds are not in the log, a threshold may have been met in them.
            self._known_before = ts_ns - self._ts_ns < _LOST_NS
            self._prompt &= unresolved.keys()
        self._met = {}
        self._ts_ns, self._noted_ns = ts_ns, None

    def note_threshold(
        self, ts_ns: int, log: str, signal: str, quantity: str, available: str
    ) -> None:
        """A line about a threshold that is met; ``log`` says in which list."""
        if _AGAIN in log:
            return  # still the same round, however long the reclaim took
        seen_ns, longest_ns = self._noted_ns, _ROUND_NS
        if seen_ns is None:
            seen_ns, longest_ns = self._ts_ns, _LOST_NS
        if seen_ns is not None and ts_ns - seen_ns > longest_ns:
            # The line that begins the round is lost; so may others be, of rounds without any met.
            self.begin(ts_ns)
            self._since, self._known_before = {}, False
        self._noted_ns = ts_ns
        for name in (_UNRESOLVED, _SATISFIED, _UPDATED):
            if name in log:
                met = _Threshold(signal, quantity)
                self._met.setdefault(name, {})[met] = available
                if name == _UNRESOLVED and met not in self._since:
                    self._since[met] = ts_ns if self._known_before else None

    def driver(self, resource: str | None, message: str | None = None) -> Driver:
        """The threshold that caused a reclaim, as far as it can be determined.

        Args:
            message: of an evicted pod; from 1.26 on it has the quantity and the available amount.
        """
        threshold, observed = amounts_in(message or "")
        self._see_grace_periods()
        found = {
            met: available
            for met, available in self._met.get(_UPDATED, {}).items()
            if _resource_of(met.signal) == resource
            and threshold in (None, amount_of(met.quantity))
            and observed in (None, amount_of(available))
        }
        for met in [met for met in found if met.signal.startswith(_COPY)]:
            # It is a copy of the threshold of another disk.
            others = [each for each in found if each.signal != met.signal]
            if any(each.quantity == met.quantity for each in others):
                del found[met]
        if len(found) != 1:
            # Up to 1.25 no message shows which of two thresholds of a signal it was.
            signals = {met.signal for met in found}
            seen = {amount_of(available) for available in found.values()}
            only = signals.pop() if len(signals) == 1 else None
            if only is not None and only.startswith(_COPY):
                only = None
            if only is None and resource == "pids":
                only = "pid.available"
            if observed is None and only is not None and len(seen) == 1:
                observed = seen.pop()
            return Driver(only, threshold, observed)
        ((met, available),) = found.items()
        return Driver(
            # Of which disk a copy is no line shows where that of the disk itself is lost.
            None if met.signal.startswith(_COPY) else met.signal,
            amount_of(met.quantity),
            amount_of(available),
            self._kind(met),
            self._since.get(met),
        )

    def _see_grace_periods(self) -> None:
        """What is met and must wait has a grace period.

        What drove a reclaim, or had not to wait when it was met first, has none, or it is over:
        the line that would say so again was lost.
        """
        satisfied = self._met.get(_SATISFIED, {}).keys() | self._met.get(_UPDATED, {}).keys()
        self._prompt |= {met for met in satisfied if met not in self._soft}
        self._soft |= self._met.get(_UNRESOLVED, {}).keys() - satisfied - self._prompt

    def _kind(self, met: _Threshold) -> Literal["hard", "soft", "allocatable"] | None:
        if met.signal == "allocatableMemory.available":
            return "allocatable"
        if met in self._soft:
            return "soft"
        return "hard" if self._since.get(met) is not None else None


def amount_of(text: str) -> int | None:
    """A quantity as a number; None for one that cannot be read."""
    try:
        return value_of(text)
    except QuantityError:
        return None


def amounts_in(message: str) -> tuple[int | None, int | None]:
    """Threshold and available amount of an eviction's message."""
    _, head, rest = message.partition(" Threshold quantity: ")
    quantity, middle, rest = rest.partition(", available: ")
    available, tail, _ = rest.partition(". ")
    if not (head and middle and tail):
        return None, None
    return amount_of(quantity), amount_of(available)


def _resource_of(signal: str) -> str | None:
    return _RESOURCES.get(signal) or _RESOURCES.get(signal.rpartition(".")[2])
