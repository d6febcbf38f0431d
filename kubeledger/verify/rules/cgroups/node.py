"""The machine's capacity, and what the cgroup of all pods has to hold by it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.cgroups.container_config import huge_page_unit_size
from kubeledger.cgroups.decider import decide_node
from kubeledger.cgroups.node_config import kubepods_resources, resource_config_for_node
from kubeledger.cgroups.pod_config import ResourceConfig
from kubeledger.cgroups.qos_config import QOS_HUGE_PAGE_LIMIT
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.machine import Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.verify.bench import Bench
from kubeledger.verify.capacities import Capacities
from kubeledger.verify.rules.cgroups.files import Option
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values

__all__ = ["MISSING_PIDS", "Capacity", "Machine", "node_option"]

MISSING_PIDS: Final = "the machine's limit of process IDs (signal pid.available)"

_PID_SIGNAL: Final = "pid.available"
"""The eviction manager's signal that tells of that limit."""
_MOST_PIDS: Final = 16
_HUGE_PAGES: Final = "hugepages-"
_BY_CAPACITY: Final = (
    "cpu_shares", "memory_limit_bytes", "unified/cpu.weight", "unified/memory.max",
)  # fmt: skip


class Capacity(msgspec.Struct, frozen=True):
    """What the machine has: resource -> quantity, by the record that tells."""

    seq: int
    amounts: dict[str, Quantity]


class Machine:
    """The capacity as it was at a time; it is told once, and holds from the start on."""

    def __init__(self, sizes: Capacities) -> None:
        self._sizes = sizes
        self._noted: list[Record] = []
        self._told: list[tuple[int, Capacity]] = []
        self._pids: dict[int, tuple[int, int]] = {}

    def foresee(self, record: Record) -> None:
        """Take in what a record of the first reading tells."""
        body = record.body
        if isinstance(body, NodeObserved):
            self._noted.append(record)
        elif isinstance(body, EvictionSignalObserved) and body.signal == _PID_SIGNAL:
            known = body.capacity in self._pids or len(self._pids) >= _MOST_PIDS
            if body.capacity > 0 and not known:
                self._pids[body.capacity] = (record.ts_ns, record.seq)

    def _settle(self) -> None:
        """The first reading is over: what was told is put right where it is not believed."""
        for record in self._noted:
            body = record.body
            assert isinstance(body, NodeObserved)
            try:
                amounts = _amounts(body, self._sizes)
            except QuantityError:
                continue
            if amounts and not any(told.amounts == amounts for _, told in self._told[-1:]):
                self._told.append((record.ts_ns, Capacity(record.seq, amounts)))
                self._told.sort(key=lambda told: told[0])
        self._noted = []

    def at(self, ts_ns: int) -> Capacity | None:
        """What it had then; what was told first where that came later."""
        self._settle()
        if not self._told:
            return None
        index = bisect_right(self._told, ts_ns, key=lambda told: told[0])
        return self._told[max(index - 1, 0)][1]

    def pids(self, ts_ns: int) -> list[tuple[int, int]]:
        """Limits of process IDs, each with the record that told it first.

        A kubelet reads it when it starts, and the eviction manager at each signal, so that each
        that was ever told may be the one that was written; the last before a time comes first.
        """
        told = [(first_ns, limit, seq) for limit, (first_ns, seq) in self._pids.items()]
        before = sorted((each for each in told if each[0] <= ts_ns), reverse=True)
        after = sorted(each for each in told if each[0] > ts_ns)
        return [(limit, seq) for _, limit, seq in (*before, *after)]

    def compare(self, record: Record, body: NodeObserved, state: NodeState, bench: Bench) -> None:
        """Two sources tell the capacity: the line about the machine, and the node object."""
        self._settle()
        memory = self._sizes.memory_bytes(body.memory_capacity_bytes)
        for name, told in (("cpu", body.cpus), ("memory", memory)):
            written = (body.capacity or {}).get(name)
            if told is None or written is None:
                continue
            try:
                same = Quantity.from_api(written).value() == told
            except QuantityError:
                continue
            if same or (state.machine.capacity or {}).get(name) == written:
                continue
            bench.contradict(
                record.ts_ns,
                "node",
                f"the node object and the kubelet's log tell different capacities of {name}",
                (record.seq, f"the node object has a capacity of {written}"),
                (self._told[0][1].seq if self._told else record.seq, f"the machine has {told}"),
            )

    def memory_allocatable(self, ts_ns: int, rules: Rules) -> int | None:
        """Bytes less both reserves, as the QoS reserve reckons; None when it is not known."""
        capacity, reservation = self.at(ts_ns), rules.settings.reservation
        if capacity is None or reservation is None or "memory" not in capacity.amounts:
            return None
        decision = decide_node(capacity.amounts, reservation, rules.profile.cgroups)
        return decision.kubepods["memory"].value()


def _amounts(node: NodeObserved, sizes: Capacities) -> dict[str, Quantity]:
    """The machine as the kubelet found it; as the node object shows it where no line told."""
    amounts = {name: Quantity.from_api(q) for name, q in sorted((node.capacity or {}).items())}
    cpus, memory_bytes = node.cpus, sizes.memory_bytes(node.memory_capacity_bytes)
    if cpus is not None:
        amounts["cpu"] = Quantity.of(cpus)
    if memory_bytes is not None:
        amounts["memory"] = Quantity.of(memory_bytes)
    known = {name for name in amounts if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)}
    return {name: amounts[name] for name in sorted(known)}


def node_option(
    body: CgroupUpdated, machine: Machine, ts_ns: int, rules: Rules
) -> tuple[Option, list[str]]:
    """What is known of the cgroup of all pods, and the names of what is not."""
    settings, unified, capacity = rules.settings, is_unified(body), machine.at(ts_ns)
    missing = rules.missing_for_node
    missing += ["the machine's capacity"] if capacity is None else []
    asked = _asked(capacity, rules, missing) if capacity is not None and not missing else None
    shares = (asked.cpu_shares if asked is not None else None) or 0
    values = kernel_values(
        unified=unified,
        shares=[shares],
        quota_us=[None],
        period_us=None,
        memory=asked.memory_limit_bytes if asked is not None else None,
    )
    inputs = [] if capacity is None else [capacity.seq]
    inputs += [] if settings.seq is None else [settings.seq]
    told = ["no quota"]
    if asked is None or capacity is None:
        for key in _BY_CAPACITY:
            values.pop(key, None)
    else:
        values |= _huge_pages(body, asked.huge_page_limits, capacity, rules, missing)
        less = "less systemReserved and kubeReserved" if settings.enforce_pods else "as a whole"
        cpu, memory = capacity.amounts["cpu"].canonical(), capacity.amounts["memory"].value()
        told = [
            f"the machine's {cpu} CPUs and {memory} bytes of memory, {less}, give "
            f"{asked.cpu_shares} shares and a limit of {asked.memory_limit_bytes} bytes to all pods"
        ]
    if "pids.max" in (body.unified if unified else body.other):
        pids = machine.pids(ts_ns)
        if limits := _pids([limit for limit, _ in pids], rules):
            values["unified/pids.max" if unified else "other/pids.max"] = limits
            told.append(f"pids.max of {limits[0]}")
            inputs += [seq for _, seq in pids[:1]]
        else:
            missing.append(MISSING_PIDS)
    fields = {"level": "node", "qos_class": None, "pod_uid": None}
    return Option(values, ", and ".join(told), tuple(inputs), fields), missing


def _asked(capacity: Capacity, rules: Rules, missing: list[str]) -> ResourceConfig | None:
    """What the kubelet asks for; None where CPUs or memory are not known."""
    settings = rules.settings
    assert settings.reservation is not None
    try:
        if {"cpu", "memory"} <= capacity.amounts.keys():
            if not settings.enforce_pods:
                return resource_config_for_node(capacity.amounts)
            facts = rules.profile.cgroups
            return decide_node(capacity.amounts, settings.reservation, facts).config
    except QuantityError:
        pass  # a difference that no quantity can hold
    missing.append("the machine's CPUs and memory")
    return None


def _huge_pages(
    body: CgroupUpdated,
    asked: Mapping[int, int],
    capacity: Capacity,
    rules: Rules,
    missing: list[str],
) -> Values:
    """The limits of huge pages; a size that the kubelet did not find is limited to 0."""
    known = any(name.startswith(_HUGE_PAGES) for name in capacity.amounts)
    by_size = {huge_page_unit_size(size): n for size, n in asked.items()}
    values: Values = {}
    for size, found in body.hugetlb_limit_bytes.items():
        limits = [by_size.get(size, 0)] if known else []
        # The update of the QoS levels lifts it, where that names the root.
        if rules.profile.cgroups.qos_update_names_root:
            limits.append(QOS_HUGE_PAGE_LIMIT)
        if known or found in limits:
            values[f"hugetlb_limit_bytes/{size}"] = tuple(limits)
        else:
            missing.append("the machine's huge pages")
    return values


def _pids(limits: Sequence[int], rules: Rules) -> tuple[str, ...]:
    """What ``pids.max`` can hold by limits of the machine; empty where nothing tells.

    The machine's limit less what is reserved of it. None is written for the QoS classes, which
    keep the kernel's ``max``; a container's is the runtime's own affair.

    Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go getCgroupConfigInternal
    """
    settings = rules.settings
    if not rules.node_pids_written:
        return ("max",)
    if rules.missing_for_node:
        return ()
    values: dict[str, None] = {}
    for limit in limits:
        left = {"pid": Quantity.of(limit)}
        if settings.enforce_pods:
            assert settings.reservation is not None
            left = kubepods_resources(left, settings.reservation)
        # A limit of 0 is not written, or written as 1, as the runtime's library has it.
        most = left["pid"].value()
        values |= dict.fromkeys([str(most)] if most > 0 else ["max", "0", "1"])
    return tuple(values)
