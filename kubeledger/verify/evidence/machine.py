"""What the machine has, as its line in the log, the node object and the signals show it."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import Final

import msgspec

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.record import Body, Record
from kubeledger.verify.finding import Contradiction, Side

HUGE_PAGES: Final = "hugepages-"
_MOST_PIDS: Final = 16


class Capacity(msgspec.Struct, frozen=True):
    """What the machine has: resource -> quantity, by the record that says."""

    ts_ns: int
    seq: int
    amounts: dict[str, Quantity]


class Machine:
    """Filled by the first reading; what is logged once holds from the start on.

    Attributes:
        disputes: seq of a record about the node -> where the node object and the line differ.
    """

    KINDS: tuple[type[Body], ...] = (EvictionSignalObserved, NodeObserved)
    """Kinds of the records that this needs."""

    def __init__(self) -> None:
        self._noted: list[tuple[int, int, NodeObserved]] = []
        self._pids: dict[int, tuple[int, int]] = {}
        self._capacities: list[Capacity] = []
        self.disputes: dict[int, list[Contradiction]] = {}

    def note(self, record: Record) -> None:
        """Take in a record of the first reading."""
        match record.body:
            case NodeObserved() as body:
                self._noted.append((record.ts_ns, record.seq, body))
            case EvictionSignalObserved(signal="pid.available", capacity=limit) if limit > 0:
                if limit in self._pids or len(self._pids) < _MOST_PIDS:
                    self._pids.setdefault(limit, (record.ts_ns, record.seq))

    def settle(self) -> None:
        """The first reading is over."""
        listed: dict[str, str] = {}
        for ts_ns, seq, body in sorted(self._noted, key=lambda noted: noted[:2]):
            logged = {"cpu": body.cpus, "memory": body.memory_capacity_bytes}
            with suppress(QuantityError):
                amounts = _amounts(body, logged)
                if amounts and (not self._capacities or self._capacities[-1].amounts != amounts):
                    self._capacities.append(Capacity(ts_ns, seq, amounts))
            capacity = body.capacity or {}
            for name, amount in logged.items():
                if amount is not None and name in capacity and listed.get(name) != capacity[name]:
                    self._compare(ts_ns, seq, name, capacity[name], amount)
            listed |= capacity

    def at(self, ts_ns: int) -> Capacity | None:
        """What it had then; what was logged first where that came later."""
        index = bisect_right(self._capacities, ts_ns, key=lambda logged: logged.ts_ns)
        return self._capacities[max(index - 1, 0)] if self._capacities else None

    def memory_bytes(self, ts_ns: int) -> int | None:
        """The memory then; None where nothing shows it."""
        capacity = self.at(ts_ns)
        memory = None if capacity is None else capacity.amounts.get("memory")
        return None if memory is None else memory.value()

    def pids(self, ts_ns: int) -> list[tuple[int, int]]:
        """Limits of process IDs, each with the record that showed it first.

        A kubelet reads it when it starts, and the eviction manager at each signal, so that each
        that was ever logged may be the one that was written; the last before a time comes first.
        """
        logged = [(first_ns > ts_ns, abs(first_ns - ts_ns), limit, seq)
                for limit, (first_ns, seq) in self._pids.items()]  # fmt: skip
        return [(limit, seq) for _, _, limit, seq in sorted(logged)]

    def _compare(self, ts_ns: int, seq: int, name: str, written: str, logged: int) -> None:
        """The node object and the line show one capacity; an object that cannot be read none."""
        with suppress(QuantityError):
            if Quantity.from_api(written).value() != logged:
                line = self._capacities[0].seq if self._capacities else seq
                why = f"the node object and the kubelet's log have different capacities of {name}"
                found = Contradiction(
                    ts_ns=ts_ns,
                    subject="node",
                    why=why,
                    sides=(
                        Side(seq=seq, says=f"the node object has a capacity of {written}"),
                        Side(seq=line, says=f"the machine has {logged}"),
                    ),
                )
                self.disputes.setdefault(seq, []).append(found)


def _amounts(body: NodeObserved, logged: dict[str, int | None]) -> dict[str, Quantity]:
    """The machine as the kubelet found it; as the node object shows it where no line showed."""
    names = sorted(n for n in body.capacity or {} if n in logged or n.startswith(HUGE_PAGES))
    amounts = {name: Quantity.from_api((body.capacity or {})[name]) for name in names}
    return amounts | {name: Quantity.of(n) for name, n in logged.items() if n is not None}
