"""The machine as recorded, and hints, as recorded and by the variant."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.topologymanager.policy import BITS_MAX, Hints, TopologyHint, mask_of
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.resourcemanagers import Hint, HintsGenerated
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

    def __init__(self) -> None:
        self._noted: list[tuple[int, int, NodeObserved]] = []
        self._pids: dict[int, tuple[int, int]] = {}
        self._capacities: list[Capacity] = []
        self.disputes: dict[int, list[Contradiction]] = {}

    def note(self, record: Record) -> None:
        match record.body:
            case NodeObserved() as body:
                self._noted.append((record.ts_ns, record.seq, body))
            case EvictionSignalObserved(signal="pid.available", capacity=limit) if limit > 0:
                if limit in self._pids or len(self._pids) < _MOST_PIDS:
                    self._pids.setdefault(limit, (record.ts_ns, record.seq))

    def settle(self) -> None:
        self._capacities, self.disputes = [], {}
        listed: dict[str, str] = {}
        for ts_ns, seq, body in sorted(self._noted, key=lambda noted: noted[:2]):
            logged = {"cpu": body.cpus, "memory": body.memory_capacity_bytes}
            capacity = body.capacity or {}
            # As the kubelet found it, or as the node object shows it where no line showed.
            names = sorted(n for n in capacity if n in logged or n.startswith(HUGE_PAGES))
            told = {name: Quantity.of(n) for name, n in logged.items() if n is not None}
            with suppress(QuantityError):
                amounts = {name: Quantity.from_api(capacity[name]) for name in names} | told
                if amounts and (not self._capacities or self._capacities[-1].amounts != amounts):
                    self._capacities.append(Capacity(ts_ns, seq, amounts))
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
                written_side = Side(seq=seq, says=f"the node object has a capacity of {written}")
                sides = written_side, Side(seq=line, says=f"the machine has {logged}")
                found = Contradiction(ts_ns=ts_ns, subject="node", why=why, sides=sides)
                self.disputes.setdefault(seq, []).append(found)


# Recorded topology hints as the deciders have them.


def mask_of_hint(hint: Hint) -> int | None:
    """Its NUMA nodes as the kubelet holds them; None for no preference."""
    if hint.numa_nodes is None:
        return None
    return mask_of(node for node in hint.numa_nodes if 0 <= node < BITS_MAX)


def masks_of(hints: Mapping[str, tuple[Hint, ...] | None]) -> dict[str, Hints | None]:
    """Hints by resource."""
    return {
        name: None
        if given is None
        else tuple(TopologyHint(mask_of_hint(hint), hint.preferred) for hint in given)
        for name, given in hints.items()
    }


# What hint providers offer and what the topology manager stores, as the variant would have it.
#
# The rules of the providers and that of the topology manager tell each other so.

_KEPT_MAX: Final = 64


class Offer(NamedTuple):
    """Hints that were generated for a pod or container.

    Attributes:
        hints: what is merged, resource -> hints.
        missing: providers whose hints are not known, as noun phrases.
    """

    record: Record
    pod: str
    body: HintsGenerated
    hints: Mapping[str, Hints | None]
    missing: tuple[str, ...] = ()


class Affinity(NamedTuple):
    """What the topology manager stored for a container.

    Attributes:
        hints: (n,) that it may have stored; more than one where sources differ.
        without_topology: resources that had no hints: their devices have no NUMA nodes.
    """

    seq: int
    hints: tuple[TopologyHint, ...]
    without_topology: frozenset[str]


class Alignment:
    """Newest offers, and affinities, of the kubelet process that runs."""

    def __init__(self) -> None:
        self._offers: OrderedDict[int, Offer] = OrderedDict()
        self._stored: dict[str, dict[str, Affinity]] = {}

    def restarted(self) -> None:
        self._offers.clear()
        self._stored.clear()

    def offer(self, record: Record, pod: str, body: HintsGenerated) -> Offer:
        """Hints of a record, which several rules see: as recorded, until one replaces them."""
        found = self._offers.get(record.seq)
        if found is None:
            found = self._offers[record.seq] = Offer(record, pod, body, masks_of(body.hints))
            if len(self._offers) > _KEPT_MAX:
                self._offers.popitem(last=False)
        return found

    def replace(self, offer: Offer) -> None:
        """A provider would have offered something else."""
        self._offers[offer.record.seq] = offer

    def offered(self, seq: int | None) -> Offer | None:
        return None if seq is None else self._offers.get(seq)

    def store(self, pod: str, container: str | None, affinity: Affinity) -> None:
        """The topology manager stored an affinity; without a container that of the pod."""
        self._stored.setdefault(pod, {})[container or ""] = affinity

    def stored(self, pod: str, container: str) -> Affinity | None:
        of_pod = self._stored.get(pod, {})
        return of_pod.get(container) or of_pod.get("")
