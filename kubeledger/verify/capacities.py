"""Sizes that hardly ever change, as all records tell them: filesystems, memory, process IDs.

The eviction signals and the summary of statistics tell each of them again and again, so one
that tells another size than all others, before and behind it, is wrong. A disk that was
resized, or a filesystem whose size moves, tells its new size more than once.

The memory of the machine is told once more, where the kubelet starts; its CPUs are told there
alone, but the shares of the cgroup of all pods follow from them (``cpus``).
"""

from __future__ import annotations

import msgspec

from kubeledger.images.records import EvictionSignalObserved, ImageFsObserved
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted, NodeObserved
from kubeledger.verify.cpus import CPUs, WrongCPUs
from kubeledger.verify.finding import Contradiction, Side

__all__ = ["Capacities"]

_IMAGE_FS = "imagefs.available"
_MEMORY = "memory.available"
_ERROR = "log"
"""Source of sizes that an error tells: the kubelet did not believe them either."""
_ENOUGH = 8
"""So many that tell the same do not all lie."""
_SIZES_MAX = 16


class _Size(msgspec.Struct):
    """One size of one thing: how often and when it was told.

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
        odd: sequence numbers of the records that tell a size that is not believed.
    """

    def __init__(self) -> None:
        self.odd: set[int] = set()
        self._sizes: dict[str, dict[int, _Size]] = {}
        self._machines: list[_Machine] = []
        self._starts: list[int] = []
        self._cpus = CPUs()
        self._memory: dict[int, int] = {}
        self._cpus_right: dict[int, int] = {}
        self._disputes: dict[int, Contradiction] = {}

    def note(self, record: Record) -> None:
        """First reading: a record that tells a size, or that a kubelet started."""
        body = record.body
        self._cpus.note(record)
        if isinstance(body, EvictionSignalObserved):
            self._tell(record, body.signal, body.capacity)
        elif isinstance(body, ImageFsObserved) and body.source != _ERROR:
            self._tell(record, _IMAGE_FS, body.capacity_bytes or 0)
        elif isinstance(body, KubeletStarted):
            self._starts.append(record.ts_ns)
        elif isinstance(body, NodeObserved) and body.memory_capacity_bytes is not None:
            self._machines.append(_Machine(record, body.memory_capacity_bytes))

    def settle(self) -> None:
        """The first reading is over."""
        self._starts.sort()
        for name, sizes in self._sizes.items():
            usual = max(sizes.items(), key=lambda item: item[1].count)
            if usual[1].count < _ENOUGH or len(sizes) > 2:
                continue
            for size, told in sizes.items():
                if told.count == 1 and usual[1].first_ns < told.first_ns < usual[1].last_ns:
                    self._doubt(name, (size, told), usual)
            if name == _MEMORY and all(t is usual[1] or t.seq in self.odd for t in sizes.values()):
                self._doubt_machines(*usual)
        for wrong in self._cpus.wrong(self._starts):
            if wrong.told not in self._cpus_right:
                self._doubt_cpus(wrong)

    def dispute(self, seq: int) -> Contradiction | None:
        """What is wrong with the size that a record tells; None where nothing is."""
        return self._disputes.pop(seq, None)

    def memory_bytes(self, told: int | None) -> int | None:
        """The machine's memory where a line about the machine tells ``told``."""
        return told if told is None else self._memory.get(told, told)

    def cpus(self, told: int | None) -> int | None:
        """The machine's CPUs where a line about the machine tells ``told``."""
        return told if told is None else self._cpus_right.get(told, told)

    def is_odd(self, name: str, size: int) -> bool:
        """Whether only a record that is not believed tells that size of a signal's source."""
        told = self._sizes.get(name, {}).get(size)
        return told is not None and told.seq in self.odd

    def _tell(self, record: Record, name: str, size: int) -> None:
        if size <= 0:
            return
        sizes = self._sizes.setdefault(name, {})
        told = sizes.get(size)
        if told is not None:
            told.count += 1
            told.first_ns = min(told.first_ns, record.ts_ns)
            told.last_ns = max(told.last_ns, record.ts_ns)
        elif len(sizes) < _SIZES_MAX:
            sizes[size] = _Size(record.seq, _place(record), record.ts_ns, record.ts_ns)

    def _doubt(self, name: str, odd: tuple[int, _Size], usual: tuple[int, _Size]) -> None:
        size, told = odd
        self.odd.add(told.seq)
        self._disputes[told.seq] = Contradiction(
            ts_ns=told.first_ns,
            subject="node",
            why=f"one record tells another size behind {name} than all {usual[1].count} others, "
            "before it and behind it",
            sides=(
                Side(seq=told.seq, says=f"{told.place}{size}"),
                Side(seq=usual[1].seq, says=f"{usual[1].place}{usual[0]}"),
            ),
        )

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
            self._disputes[machine.record.seq] = Contradiction(
                ts_ns=from_ns,
                subject="node",
                why="the line about the machine and the eviction signals tell different "
                "capacities of memory",
                sides=(
                    Side(seq=machine.record.seq, says=f"{_place(machine.record)}{wrong} bytes"),
                    Side(seq=told.seq, says=f"{told.place}{size} bytes, as {told.count} signals"),
                ),
            )

    def _doubt_cpus(self, wrong: WrongCPUs) -> None:
        machine, cgroup = wrong.machine, wrong.cgroup
        self._cpus_right[wrong.told] = wrong.cpus
        self._disputes[cgroup.seq] = Contradiction(
            ts_ns=cgroup.ts_ns,
            subject="node",
            why="the line about the machine and the cgroup of all pods tell different numbers of "
            "CPUs",
            sides=(
                Side(seq=machine.seq, says=f"{_place(machine)}{wrong.told} CPUs"),
                Side(
                    seq=cgroup.seq,
                    says=f"{_place(cgroup)}{wrong.shares} shares, which only {wrong.cpus} CPUs "
                    "less the reserves give",
                ),
            ),
        )


def _place(record: Record) -> str:
    """Where a record's words stand, with a colon behind it; empty without a place."""
    for piece in record.evidence[:1]:
        return f"{piece.file}: " if piece.line is None else f"{piece.file}:{piece.line}: "
    return ""
