"""Eviction thresholds: which signals were short, by the settings and what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from kubeledger.images.state import SignalState
from kubeledger.kube.quantity import QuantityError, value_of
from kubeledger.units import NS_PER_S
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["Pressure", "SignalReading", "read_pressure", "readings_of"]

_SETTINGS = ("evictionHard", "evictionSoft")
_RECLAIM = "evictionMinimumReclaim"
_FRESH_NS = 60 * NS_PER_S
_OF_THRESHOLD = {"allocatableMemory.available": "memory.available"}
"""Signals that are measured by the threshold of another."""


class SignalReading(msgspec.Struct, frozen=True):
    """A signal as the eviction manager last read it."""

    signal: str
    ts_ns: int
    available: int
    capacity: int


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """What the signals say of some resource.

    Attributes:
        short: sentences on signals that were under a threshold.
        clear: sentences on signals that were not.
        missing: inputs that are missing.
    """

    short: tuple[str, ...]
    clear: tuple[str, ...]
    missing: tuple[str, ...]


def readings_of(signals: Mapping[str, SignalState]) -> tuple[SignalReading, ...]:
    """What of the state may be kept."""
    return tuple(
        SignalReading(name, signal.read_ts_ns, signal.available, signal.capacity)
        for name, signal in sorted(signals.items())
    )


def read_pressure(
    settings: Settings,
    readings: tuple[SignalReading, ...],
    ts_ns: int,
    concerns: Callable[[str], bool],
) -> Pressure:
    """Compare the signals with their thresholds.

    A threshold that was met counts until the least amount to be reclaimed is there on top
    of it, so it is added here.

    Args:
        settings: of the kubelet.
        readings: the last of each signal.
        ts_ns: the time that is asked about; what is long past does not count.
        concerns: whether a signal is of interest.
    """
    missing: list[str] = []
    tables: list[Mapping[str, Any]] = []
    for name in (*_SETTINGS, _RECLAIM):
        table = settings.get(name)
        if table is None and name != "evictionHard":
            table = {}
        if table is UNKNOWN or not isinstance(table, Mapping):
            missing.append(f"the setting {name}")
            table = {}
        tables.append(table)
    *thresholds, reclaim = tables
    short: list[str] = []
    clear: list[str] = []
    fresh = {r.signal: r for r in readings if ts_ns - r.ts_ns <= _FRESH_NS}
    for signal in _with_threshold(thresholds, concerns):
        reading = fresh.get(signal)
        if reading is None:
            missing.append(f"the eviction signal {signal} at this time (logged from verbosity 3)")
            continue
        for limit in _limits(reading, thresholds, reclaim):
            if limit is None:
                missing.append(f"a readable threshold of {signal}")
                continue
            sentence = f"{signal} was {reading.available}, the threshold is {limit}"
            (short if reading.available < limit else clear).append(sentence)
    if not short and not clear and not missing:
        clear.append("no threshold is set")
    return Pressure(short=tuple(short), clear=tuple(clear), missing=tuple(missing))


def _with_threshold(
    thresholds: list[Mapping[str, Any]], concerns: Callable[[str], bool]
) -> list[str]:
    """Signals of interest that have a threshold."""
    named = {name for table in thresholds for name in table}
    named |= {signal for signal, name in _OF_THRESHOLD.items() if name in named}
    return sorted(name for name in named if concerns(name))


def _limits(
    reading: SignalReading, thresholds: list[Mapping[str, Any]], reclaim: Mapping[str, Any]
) -> Iterator[int | None]:
    """Amounts under which the signal is short; None for one that cannot be read."""
    name = _OF_THRESHOLD.get(reading.signal, reading.signal)
    for table in thresholds:
        if name not in table:
            continue
        limit = _amount(table[name], reading.capacity)
        extra = _amount(reclaim[name], reading.capacity) if name in reclaim else 0
        yield None if limit is None or extra is None else limit + extra


def _amount(value: object, capacity: int) -> int | None:
    """A quantity, or a share of the capacity."""
    if not isinstance(value, str):
        return None
    if value.endswith("%"):
        try:
            share = Decimal(value[:-1])
        except InvalidOperation:
            return None
        # The kubelet reckons in 32-bit floats: one unit more does no harm here.
        return int(share * capacity / 100) + 1 if share.is_finite() else None
    try:
        return value_of(value)
    except QuantityError:
        return None
