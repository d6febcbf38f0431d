"""Was the node under pressure? By the eviction signals, as far as the log holds them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NamedTuple

import msgspec

from kubeledger.eviction.records import NodeConditionsChanged
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.quantity import QuantityError, value_of
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S, parse_go_duration
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["CONDITIONS", "Condition", "Pressure"]

Condition = Literal["MemoryPressure", "DiskPressure", "PIDPressure"]
CONDITIONS: Final[tuple[Condition, ...]] = ("MemoryPressure", "DiskPressure", "PIDPressure")

_FRESH_NS: Final = 30 * NS_PER_S
_GRID_NS: Final = 16 * NS_PER_S
"""Signals are read every ten seconds; a reading that comes later than this was preceded by another,
whose line is lost."""
_MARGIN: Final = 0.001
"""The kubelet reckons shares in 32-bit floats: what is this near to a threshold is not told."""


class _Limit(NamedTuple):
    """A threshold as it is written: an amount, or a share of the capacity; neither: unreadable."""

    hard: bool
    written: object
    amount: float | None = None
    share: float | None = None

    def at(self, capacity: int) -> float | None:
        """The amount; None when it is not known."""
        return self.amount if self.share is None else self.share * capacity / 100


class _Short(msgspec.Struct):
    """The last readings that bear on a condition."""

    read_ns: int
    short_ns: int | None = None
    short_seq: int = 0
    possibly_ns: int | None = None
    says: str = ""


class Pressure:
    """Conditions of the node, by the signals of one kubelet process.

    Attributes:
        reported: what the kubelet itself reported last; None before it did.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: dict[Condition, _Short] = {}
        self._since_ns: dict[Condition, dict[str, tuple[int, int]]] = {}
        self._began_ns: int | None = None
        self.reported: frozenset[str] | None = None

    def begin(self, began_ns: int | None) -> None:
        """Another kubelet process begins; None: at a time that is not known."""
        self._began_ns = began_ns
        self.reported = None
        self._seen.clear()
        self._since_ns.clear()

    def conditions_changed(
        self, record: Record, body: NodeConditionsChanged, state: NodeState
    ) -> None:
        """Take in what the kubelet reports."""
        self.reported = frozenset(body.conditions)

    def signal_read(self, record: Record, body: EvictionSignalObserved) -> None:
        """Take in a signal."""
        condition = _condition(body.signal)
        if condition is None:
            return
        seen = self._seen.get(condition)
        if seen is None:
            seen = self._seen[condition] = _Short(read_ns=record.ts_ns)
        seen.read_ns = record.ts_ns
        chains = self._since_ns.setdefault(condition, {})
        since_ns, last_ns = chains.get(body.signal, (record.ts_ns, record.ts_ns))
        unbroken = record.ts_ns - last_ns <= _GRID_NS
        chains[body.signal] = (since_ns if unbroken else record.ts_ns, record.ts_ns)
        for threshold in self._settings.once(_thresholds, body.signal):
            limit = threshold.at(body.capacity)
            if limit is None or body.available < limit * (1 + _MARGIN):
                seen.possibly_ns = record.ts_ns
            if threshold.hard and limit is not None and body.available < limit * (1 - _MARGIN):
                seen.short_ns, seen.short_seq = record.ts_ns, record.seq
                seen.says = (
                    f"{body.signal} was {body.available}, under the threshold {threshold.written}"
                )

    def surely(self, condition: Condition, since_ns: int, until_ns: int) -> tuple[int, str] | None:
        """Record and words that show the node under pressure all that time; None if none do."""
        seen = self._seen.get(condition)
        if seen is None or seen.short_ns is None or seen.short_ns + NS_PER_S > since_ns:
            return None
        stays_ns = self._transition_ns()
        if stays_ns is None:
            stays_ns = _FRESH_NS // 3 if seen.short_ns == seen.read_ns else 0
        if until_ns + NS_PER_S >= seen.short_ns + stays_ns:
            return None
        return seen.short_seq, seen.says

    def possibly(self, condition: Condition, ts_ns: int) -> bool | None:
        """Whether the node may have been under pressure; None when no signal tells.

        That it was not is told by readings without a gap, for as long as a condition stays.
        """
        seen = self._seen.get(condition)
        if seen is None or ts_ns - seen.read_ns > _FRESH_NS:
            return None
        stays_ns = self._transition_ns()
        held_ns = None if stays_ns is None else ts_ns - stays_ns - _FRESH_NS
        if seen.possibly_ns is not None and (held_ns is None or seen.possibly_ns >= held_ns):
            return True
        chains = self._since_ns[condition].values()
        if any(ts_ns - last_ns > _GRID_NS for _, last_ns in chains):
            return None
        unbroken_ns = max(since_ns for since_ns, _ in chains)
        begun = self._began_ns is not None and unbroken_ns <= self._began_ns + _FRESH_NS
        return False if begun or (held_ns is not None and unbroken_ns <= held_ns) else None

    def evidence(self, condition: Condition) -> tuple[int, ...]:
        """The record of the last reading that was short."""
        seen = self._seen.get(condition)
        return () if seen is None or not seen.short_seq else (seen.short_seq,)

    def _transition_ns(self) -> int | None:
        text = self._settings.get("evictionPressureTransitionPeriod")
        if not isinstance(text, str):
            return None
        try:
            return parse_go_duration(text)
        except ValueError:
            return None


def _thresholds(settings: Settings, signal: str) -> list[_Limit]:
    """Each threshold of a signal.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go addAllocatableThresholds; v1.20.2
    """
    tables = [(True, "evictionHard"), (False, "evictionSoft")]
    if signal == "allocatableMemory.available":
        # All pods together have the hard threshold of the node's memory, if that is enforced.
        enforced = settings.get("enforceNodeAllocatable")
        if enforced is UNKNOWN:
            return [_Limit(hard=False, written=None)]
        if not isinstance(enforced, list) or "pods" not in enforced:
            return []
        signal, tables = "memory.available", tables[:1]
    limits: list[_Limit] = []
    for hard, setting in tables:
        table = settings.get(setting)
        if table is UNKNOWN:
            limits.append(_Limit(hard=False, written=None))
        elif isinstance(table, dict) and signal in table:
            limits.append(_limit(hard=hard, written=table[signal]))
    return limits


def _condition(signal: str) -> Condition | None:
    if signal in ("memory.available", "allocatableMemory.available"):
        return "MemoryPressure"
    if signal.startswith(("nodefs.", "imagefs.", "containerfs.")):
        return "DiskPressure"
    return "PIDPressure" if signal == "pid.available" else None


def _limit(*, hard: bool, written: object) -> _Limit:
    """A threshold; of what cannot be read no amount is known."""
    unreadable = _Limit(hard, written)
    if not isinstance(written, str):
        return unreadable
    if written.endswith("%"):
        try:
            share = Decimal(written[:-1])
        except InvalidOperation:
            return unreadable
        return unreadable._replace(share=float(share)) if share.is_finite() else unreadable
    try:
        return unreadable._replace(amount=float(value_of(written)))
    except QuantityError:
        return unreadable
