"""The memory of the machine: told where the kubelet starts, and by each eviction signal of it."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.record import Body, Record
from kubeledger.verify.finding import Contradiction, Side

__all__ = ["Capacities"]

_MEMORY = "memory.available"
_ENOUGH = 8
"""So many that tell the same do not all lie."""
_SIZES_MAX = 2


class _Size(msgspec.Struct):
    """One size of the memory: how often and when the signals told it.

    Attributes:
        seq: of the first record that tells it.
    """

    seq: int
    place: str
    first_ns: int
    last_ns: int
    count: int = 1


class _Machine(msgspec.Struct, frozen=True):
    """A line about the machine, or what is known from it."""

    record: Record
    memory_bytes: int


class Capacities:
    """What the first reading gathers, and the second one asks.

    Attributes:
        disputes: record -> what is wrong with the size that it tells.
    """

    KINDS: tuple[type[Body], ...] = (EvictionSignalObserved, KubeletStarted, NodeObserved)
    """Kinds of the records that this needs."""

    def __init__(self) -> None:
        self._sizes: dict[int, _Size] = {}
        self._machines: list[_Machine] = []
        self._starts: list[int] = []
        self._memory: dict[int, int] = {}
        self.disputes: dict[int, Contradiction] = {}

    def note(self, record: Record) -> None:
        """First reading: a record that tells a size, or that a kubelet started."""
        body = record.body
        if isinstance(body, EvictionSignalObserved):
            if body.signal == _MEMORY:
                self._tell(record, body.capacity)
            return
        if isinstance(body, KubeletStarted):
            self._starts.append(record.ts_ns)
        elif isinstance(body, NodeObserved) and body.memory_capacity_bytes is not None:
            self._machines.append(_Machine(record, body.memory_capacity_bytes))

    def settle(self) -> None:
        """The first reading is over."""
        self._starts.sort()
        if len(self._sizes) == 1:
            ((size, told),) = self._sizes.items()
            if told.count >= _ENOUGH:
                self._doubt_machines(size, told)

    def memory_bytes(self, told: int | None) -> int | None:
        """The machine's memory where a line about the machine tells ``told``."""
        return told if told is None else self._memory.get(told, told)

    def _tell(self, record: Record, size: int) -> None:
        told = self._sizes.get(size)
        if told is not None:
            told.count += 1
            told.first_ns = min(told.first_ns, record.ts_ns)
            told.last_ns = max(told.last_ns, record.ts_ns)
        elif size > 0 and len(self._sizes) < _SIZES_MAX:
            self._sizes[size] = _Size(record.seq, _place(record), record.ts_ns, record.ts_ns)

    def _doubt_machines(self, size: int, told: _Size) -> None:
        """A line about the machine, and the signals of the same kubelet process."""
        for machine in self._machines:
            from_ns, wrong = machine.record.ts_ns, machine.memory_bytes
            to_ns = next((ns for ns in self._starts if ns > from_ns), None)
            is_first = from_ns <= told.first_ns and (to_ns is None or told.first_ns < to_ns)
            is_last = to_ns is None and from_ns <= told.last_ns
            if wrong == size or wrong in self._memory or not (is_first or is_last):
                continue
            self._memory[wrong] = size
            self.disputes[machine.record.seq] = Contradiction(
                ts_ns=from_ns,
                subject="node",
                why="the line about the machine and the eviction signals tell different "
                "capacities of memory",
                sides=(
                    Side(seq=machine.record.seq, says=f"{_place(machine.record)}{wrong} bytes"),
                    Side(seq=told.seq, says=f"{told.place}{size} bytes, as {told.count} signals"),
                ),
            )


def _place(record: Record) -> str:
    """Where a record's words stand, with a colon behind it; empty without a place."""
    for piece in record.evidence[:1]:
        return f"{piece.file}: " if piece.line is None else f"{piece.file}:{piece.line}: "
    return ""
