"""The machine's capacity, and what the cgroup of all pods has to hold by it."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.container_config import huge_page_unit_size
from kubeledger.kubelet.cgroups.decider import decide_node
from kubeledger.kubelet.cgroups.node_config import kubepods_resources, resource_config_for_node
from kubeledger.kubelet.cgroups.pod_config import ResourceConfig
from kubeledger.kubelet.cgroups.qos_config import QOS_HUGE_PAGE_LIMIT
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.cgroups.files import Option
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values

__all__ = ["MISSING_PIDS", "Capacity", "Machine", "node_option"]

MISSING_PIDS: Final = "the machine's limit of process IDs (signal pid.available)"
_PID_SIGNAL: Final = "pid.available"
"""The eviction manager's signal that tells of that limit."""
_MOST_PIDS: Final = 16
_HUGE_PAGES: Final = "hugepages-"


class Capacity(msgspec.Struct, frozen=True):
    """What the machine has: resource -> quantity, by the record that tells."""

    seq: int
    amounts: dict[str, Quantity]


class Machine:
    """The capacity as it was at a time; it is told once, and holds from the start on."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._noted: list[tuple[int, int, NodeObserved]] = []
        self._told: list[tuple[int, Capacity]] = []
        self._pids: dict[int, tuple[int, int]] = {}

    def foresee(self, record: Record) -> None:
        """Take in what a record of the first reading tells."""
        body = record.body
        if isinstance(body, NodeObserved):
            self._noted.append((record.ts_ns, record.seq, body))
        elif isinstance(body, EvictionSignalObserved) and body.signal == _PID_SIGNAL:
            known = body.capacity in self._pids or len(self._pids) >= _MOST_PIDS
            if body.capacity > 0 and not known:
                self._pids[body.capacity] = (record.ts_ns, record.seq)

    def at(self, ts_ns: int) -> Capacity | None:
        """What it had then; what was told first where that came later."""
        for told_ns, seq, node in sorted(self._noted, key=lambda noted: noted[:2]):
            try:
                amounts = self._amounts(node)
            except QuantityError:
                continue
            if amounts and not any(told.amounts == amounts for _, told in self._told[-1:]):
                self._told.append((told_ns, Capacity(seq, amounts)))
        self._noted.clear()
        index = bisect_right(self._told, ts_ns, key=lambda told: told[0])
        return self._told[max(index - 1, 0)][1] if self._told else None

    def _amounts(self, node: NodeObserved) -> dict[str, Quantity]:
        """The machine as the kubelet found it; as the node object shows it where no line told."""
        shown = node.capacity or {}
        cpus, memory_bytes = node.cpus, node.memory_capacity_bytes
        names = sorted(n for n in shown if n in ("cpu", "memory") or n.startswith(_HUGE_PAGES))
        amounts = {name: Quantity.from_api(shown[name]) for name in names}
        if cpus is not None:
            amounts["cpu"] = Quantity.of(cpus)
        if memory_bytes is not None:
            amounts["memory"] = Quantity.of(memory_bytes)
        return amounts

    def pids(self, ts_ns: int) -> list[tuple[int, int]]:
        """Limits of process IDs, each with the record that told it first.

        A kubelet reads it when it starts, and the eviction manager at each signal, so that each
        that was ever told may be the one that was written; the last before a time comes first.
        """
        told = [(first_ns > ts_ns, abs(first_ns - ts_ns), limit, seq)
                for limit, (first_ns, seq) in self._pids.items()]  # fmt: skip
        return [(limit, seq) for _, _, limit, seq in sorted(told)]

    def compare(self, record: Record, body: NodeObserved, state: NodeState) -> None:
        """Two sources tell the capacity: the line about the machine, and the node object."""
        first = self.at(0)
        for name, told in (("cpu", body.cpus), ("memory", body.memory_capacity_bytes)):
            written = (body.capacity or {}).get(name)
            known = (state.machine.capacity or {}).get(name)
            if told is None or written is None or written == known:
                continue
            try:
                same = Quantity.from_api(written).value() == told
            except QuantityError:
                continue
            if not same:
                self._bench.contradict(
                    record.ts_ns,
                    "node",
                    f"the node object and the kubelet's log tell different capacities of {name}",
                    (record.seq, f"the node object has a capacity of {written}"),
                    (first.seq if first else record.seq, f"the machine has {told}"),
                )

    def memory_allocatable(self, ts_ns: int, rules: Rules) -> int | None:
        """Bytes less both reserves, as the QoS reserve reckons; None when it is not known."""
        capacity, reservation = self.at(ts_ns), rules.settings.reservation
        if capacity is None or reservation is None or "memory" not in capacity.amounts:
            return None
        decision = decide_node(capacity.amounts, reservation, rules.profile.cgroups)
        return decision.kubepods["memory"].value()


def node_option(
    body: CgroupUpdated, machine: Machine, ts_ns: int, rules: Rules
) -> tuple[Option, list[str]]:
    """What is known of the cgroup of all pods, and the names of what is not."""
    unified, capacity, missing = is_unified(body), machine.at(ts_ns), rules.missing_for_node
    told, inputs = "no quota", [rules.settings.seq]
    values = kernel_values(unified=unified, shares=[0])
    if capacity is not None:
        inputs.insert(0, capacity.seq)
    asked = _asked(capacity, rules) if capacity is not None and not missing else None
    if capacity is not None and asked is not None:
        memory = asked.memory_limit_bytes
        values = kernel_values(unified=unified, shares=[asked.cpu_shares or 0], memory=[memory])
        values |= _huge_pages(body, asked, capacity, rules, missing)
        less = (
            "less systemReserved and kubeReserved" if rules.settings.enforce_pods else "as a whole"
        )
        amounts = capacity.amounts
        told = (
            f"the machine's {amounts['cpu'].canonical()} CPUs and {amounts['memory'].value()} "
            f"bytes of memory, {less}, give {asked.cpu_shares} shares and a limit of {memory} "
            "bytes to all pods"
        )
    else:
        values = {key: values[key] for key in ("cpu_quota_us", "cpu_period_us")}
        lacking = "the machine's capacity" if capacity is None else "the machine's CPUs and memory"
        missing += [lacking] if capacity is None or not missing else []
    if "pids.max" in (body.unified if unified else body.other):
        pids = machine.pids(ts_ns)
        if limits := _pids([limit for limit, _ in pids], rules):
            values["unified/pids.max" if unified else "other/pids.max"] = limits
            told += f", and pids.max of {limits[0]}"
            inputs += [seq for _, seq in pids[:1]]
        else:
            missing.append(MISSING_PIDS)
    fields = {"level": "node", "qos_class": None, "pod_uid": None}
    return Option(values, told, tuple(seq for seq in inputs if seq is not None), fields), missing


def _asked(capacity: Capacity, rules: Rules) -> ResourceConfig | None:
    """What the kubelet asks for; None where CPUs or memory are not known."""
    settings = rules.settings
    if not {"cpu", "memory"} <= capacity.amounts.keys() or settings.reservation is None:
        return None
    if not settings.enforce_pods:
        return resource_config_for_node(capacity.amounts)
    with suppress(QuantityError):  # a difference that no quantity can hold
        return decide_node(capacity.amounts, settings.reservation, rules.profile.cgroups).config
    return None


def _huge_pages(
    body: CgroupUpdated, asked: ResourceConfig, capacity: Capacity, rules: Rules, missing: list[str]
) -> Values:
    """The limits of huge pages; a size that the kubelet did not find is limited to 0."""
    known = any(name.startswith(_HUGE_PAGES) for name in capacity.amounts)
    by_size = {huge_page_unit_size(size): n for size, n in asked.huge_page_limits.items()}
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


def _pids(limits: list[int], rules: Rules) -> tuple[str, ...]:
    """What ``pids.max`` can hold by limits of the machine; empty where nothing tells.

    The machine's limit less what is reserved of it. None is written for the QoS classes, which
    keep the kernel's ``max``; a container's is the runtime's own affair.

    Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go getCgroupConfigInternal
    """
    settings = rules.settings
    if not rules.node_pids_written:
        return ("max",)
    values: dict[str, None] = {}
    for limit in limits if not rules.missing_for_node else ():
        left = {"pid": Quantity.of(limit)}
        if settings.enforce_pods and settings.reservation is not None:
            left = kubepods_resources(left, settings.reservation)
        # A limit of 0 is not written, or written as 1, as the runtime's library has it.
        most = left["pid"].value()
        values |= dict.fromkeys([str(most)] if most > 0 else ["max", "0", "1"])
    return tuple(values)
