"""Was the node under pressure? By the eviction signals, as far as the log holds them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY
from kubeledger.kubelet.eviction.thresholds import is_short, threshold_quantity
from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.evictions.config import Config, configured, transition_period_ns
from kubeledger.verify.settings import UNKNOWN

__all__ = ["CONDITIONS", "Condition", "Pressure"]

Condition = Literal["MemoryPressure", "DiskPressure", "PIDPressure"]
CONDITIONS: Final[tuple[Condition, ...]] = ("MemoryPressure", "DiskPressure", "PIDPressure")

_FRESH_NS: Final = 30 * NS_PER_S
_GRID_NS: Final = 16 * NS_PER_S
"""Signals are read every ten seconds; a reading that comes later than this was preceded by another,
whose line is lost."""


class _Short(msgspec.Struct):
    """The last readings that bear on a condition.

    Attributes:
        read_ns: of the last one.
        short_ns, seq, says: the last one that was surely under a hard threshold.
        possibly_ns: the last one that may have been under any.
        chains: signal -> first and last of its readings without a gap.
    """

    read_ns: int = 0
    short_ns: int | None = None
    seq: int = 0
    says: str = ""
    possibly_ns: int | None = None
    chains: dict[str, tuple[int, int]] = {}


class Pressure:
    """Conditions of the node, by the signals of one kubelet process.

    Attributes:
        reported: what the kubelet itself reported last; None before it did.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._config: Config | None = None
        self.begin(None)

    def begin(self, began_ns: int | None) -> None:
        """Another kubelet process begins; None: at a time that is not known."""
        self._began_ns, self._config = began_ns, None
        self._seen: dict[Condition, _Short] = {}
        self.reported: frozenset[str] | None = None

    def signal_read(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        """Take in a signal."""
        condition = _condition(body.signal)
        if condition is None:
            return
        seen, now_ns = self._seen.setdefault(condition, _Short()), record.ts_ns
        seen.read_ns = now_ns
        since_ns, last_ns = seen.chains.get(body.signal, (now_ns, now_ns))
        seen.chains[body.signal] = (since_ns if now_ns - last_ns <= _GRID_NS else now_ns, now_ns)
        if self._config is None:
            self._config = configured(self._bench.settings, self._bench.profile, None)
        thresholds, missing = self._config
        if missing:
            seen.possibly_ns = now_ns
        for each in (each for each in thresholds if each.signal == body.signal):
            if not is_short(each, body.available, body.capacity):
                continue
            seen.possibly_ns = now_ns
            enforced = self._bench.settings.get("enforceNodeAllocatable")
            if not each.grace_ns and (enforced, each.signal) != (UNKNOWN, ALLOCATABLE_MEMORY):
                limit = threshold_quantity(each.value, body.capacity).canonical()
                seen.short_ns, seen.seq = now_ns, record.seq
                seen.says = f"{body.signal} was {body.available}, under the threshold of {limit}"

    def changed(self, record: Record, body: NodeConditionsChanged, state: NodeState) -> None:
        """The kubelet reports the node's conditions."""
        self.reported = frozenset(body.conditions)

    def surely(self, condition: Condition, since_ns: int, until_ns: int) -> tuple[int, str] | None:
        """Record and words that show the node under pressure all that time; None if none do."""
        seen = self._seen.get(condition)
        if seen is None or seen.short_ns is None or seen.short_ns + NS_PER_S > since_ns:
            return None
        stays_ns = transition_period_ns(self._bench.settings)
        if stays_ns is None:
            stays_ns = _FRESH_NS // 3 if seen.short_ns == seen.read_ns else 0
        return None if until_ns + NS_PER_S >= seen.short_ns + stays_ns else (seen.seq, seen.says)

    def possibly(self, condition: Condition, ts_ns: int) -> bool | None:
        """Whether the node may have been under pressure; None when no signal tells.

        That it was not is told by readings without a gap, for as long as a condition stays.
        """
        seen = self._seen.get(condition)
        if seen is None or ts_ns - seen.read_ns > _FRESH_NS:
            return None
        stays_ns = transition_period_ns(self._bench.settings)
        held_ns = None if stays_ns is None else ts_ns - stays_ns - _FRESH_NS
        if seen.possibly_ns is not None and (held_ns is None or seen.possibly_ns >= held_ns):
            return True
        if any(ts_ns - last_ns > _GRID_NS for _, last_ns in seen.chains.values()):
            return None
        unbroken_ns = max(since_ns for since_ns, _ in seen.chains.values())
        begun = self._began_ns is not None and unbroken_ns <= self._began_ns + _FRESH_NS
        return False if begun or (held_ns is not None and unbroken_ns <= held_ns) else None

    def evidence(self, condition: Condition) -> tuple[int, ...]:
        """The record of the last reading that was short."""
        seen = self._seen.get(condition)
        return () if seen is None or not seen.seq else (seen.seq,)


def _condition(signal: str) -> Condition | None:
    if signal in ("memory.available", "allocatableMemory.available"):
        return "MemoryPressure"
    if signal.startswith(("nodefs.", "imagefs.", "containerfs.")):
        return "DiskPressure"
    return "PIDPressure" if signal == "pid.available" else None
