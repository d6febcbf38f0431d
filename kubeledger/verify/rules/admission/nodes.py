"""The node of an admission: its labels and taints, and what it has for pods at any time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    kubepods_resources,
    node_allocatable,
    node_reservation,
    reservation_of,
)
from kubeledger.kubelet.cgroups.pod_config import shares_of_milli_cpu
from kubeledger.kubelet.devicemanager.reducer import DeviceManagerState
from kubeledger.kubelet.kube.configuration import EvictionThresholdError
from kubeledger.kubelet.kube.pod import Taint
from kubeledger.kubelet.kube.quantity import ZERO, Quantity, QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.record import Record
from kubeledger.model.units import whole_number
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.evidence.timeline import Timeline
from kubeledger.verify.variant import UNKNOWN, Settings


class NodeRecord(NamedTuple):
    """A record of the node that shows something new."""

    ts_ns: int
    seq: int
    body: NodeObserved


class LabelsAndTaints(NamedTuple):
    """What the node object holds besides amounts.

    Attributes:
        seqs: (n,) records that show it.
        labels_known, taints_known: a node object shows them, and no later one others.
    """

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    seqs: tuple[int, ...]
    labels_known: bool
    taints_known: bool


class Nodes:
    """Filled in the first reading."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._records: list[NodeRecord] = []
        self._records_with: dict[tuple[str, ...], list[NodeRecord]] = {}

    def prescan(self, record: Record, body: NodeObserved) -> None:
        self._records.append(NodeRecord(record.ts_ns, record.seq, body))
        self._records_with.clear()

    def last(self, ts_ns: int, field: str, *, of_process: bool = False) -> NodeRecord | None:
        """The last record by then that shows a field, else the first one after it.

        ``of_process``: of the process that runs then alone, for its settings decide it.
        """
        records = self._having(field)
        if of_process:
            process = self._timeline.process(ts_ns)
            records = [each for each in records if self._timeline.process(each.ts_ns) is process]
        index = bisect_right(records, ts_ns, key=lambda each: each.ts_ns)
        return records[max(index - 1, 0)] if records else None

    def listed(self, ts_ns: int, resource: str) -> list[int]:
        """How many of an extended resource the node object listed by then, at one time or other."""
        written = (each.body.allocatable for each in self._having("allocatable")
                   if each.ts_ns <= ts_ns)  # fmt: skip
        counts = (whole_number((amounts or {}).get(resource)) for amounts in written)
        return [count for count in counts if count is not None]

    def labels_and_taints(self, ts_ns: int, settings: Settings, node_name: str) -> LabelsAndTaints:
        """Labels and taints by then; what they were before the first node object is not known."""
        objects = self._having("labels", "taints")
        if not objects:
            labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": node_name}
            return LabelsAndTaints(labels, _registered(settings), (), False, False)
        index = bisect_right(objects, ts_ns, key=lambda each: each.ts_ns)
        newest = objects[max(index - 1, 0)]
        taints = _taints(newest.body)
        same = all(_taints(each.body) == taints for each in objects[index : index + 1])
        seqs = (newest.seq,) if index and taints else ()
        return LabelsAndTaints(newest.body.labels, taints, seqs, True, bool(index) and same)

    def _having(self, *fields: str) -> list[NodeRecord]:
        """Records in the order of time that show another value of these fields."""
        if fields not in self._records_with:
            records = self._records_with[fields] = []
            known = None
            for each in sorted(self._records):
                values = [getattr(each.body, field) for field in fields]
                if any(values) and values != known:
                    records.append(each)
                    known = values
        return self._records_with[fields]


def hostname(settings: Settings) -> str | None:
    """The name that the kubelet was configured with; None without one.

    Source: v1.36.2 pkg/util/node/node.go GetHostname
    """
    name = settings.get("--hostname-override")
    return name.strip().lower() or None if isinstance(name, str) else None


def _registered(settings: Settings) -> tuple[Taint, ...]:
    taints = settings.get("registerWithTaints")
    with suppress(msgspec.ValidationError):
        return msgspec.convert(taints if isinstance(taints, list) else (), tuple[Taint, ...])
    return ()


def _taints(body: NodeObserved) -> tuple[Taint, ...]:
    return msgspec.convert(body.taints, tuple[Taint, ...])


# What the node has for pods, by machine and settings.
#
# The kubelet takes the node object, which it writes itself: capacity from the machine, less
# systemReserved, kubeReserved and the hard eviction thresholds. So it is worked out from the
# settings; the object that a recording holds is only of some later time, and is compared.

_LAGS_MAX: Final = 32
"""Of so many devices every number is tried that the node object may still list."""


class Allocatable(msgspec.Struct, frozen=True):
    """What the node has for pods.

    Attributes:
        amounts: resource -> quantity; without extended resources.
        missing: what is not known of cpu, memory and pods, as inputs to name.
        inferred: the machine's size is in no record, but follows from what is.
        is_complete: of what is not in ``amounts`` there is nothing; else it is not known.
    """

    amounts: dict[str, Quantity]
    missing: tuple[str, ...]
    inputs: tuple[int, ...]
    inferred: bool = False
    is_complete: bool = False


def allocatable_at(
    nodes: Nodes, ts_ns: int, settings: Settings, profile: KubeletProfile, state: NodeState
) -> Allocatable:
    """What was for pods then, by the settings as they are now."""
    capacity, inputs, inferred = _capacity(nodes, ts_ns, settings, state)
    if not (missing := _missing_tables(settings)):
        amounts: dict[str, Quantity] = {}
        try:
            reserved = node_reservation(capacity, reservation_of(settings.get), profile.cgroups)
            amounts = node_allocatable(capacity, reserved)
        except (EvictionThresholdError, QuantityError, ValueError):
            missing = ("readable reservations",)  # such a kubelet does not start
        else:
            of = {name: f"the node's capacity of {name}" for name in ("cpu", "memory")}
            of["pods"] = "the setting maxPods"
            missing = tuple(phrase for name, phrase in of.items() if name not in amounts)
        inputs += () if settings.seq is None else (settings.seq,)
        if not missing:
            is_complete = nodes.last(ts_ns, "capacity") is not None
            return Allocatable(amounts, (), inputs, inferred, is_complete)
    record_shown = nodes.last(ts_ns, "allocatable", of_process=True)
    if record_shown is not None and not settings.variant.settings:
        # The settings are not all known: the kubelet's own words are.
        amounts = _quantities(record_shown.body.allocatable)
        if {"cpu", "memory", "pods"} <= amounts.keys():
            return Allocatable(amounts, (), (record_shown.seq,), is_complete=True)
    # Of pods nothing is reserved, and some pods ask for nothing else.
    known = {"pods": capacity["pods"]} if "pods" in capacity else {}
    return Allocatable(known, missing, inputs)


def _missing_tables(settings: Settings) -> tuple[str, ...]:
    tables = "systemReserved", "kubeReserved", "evictionHard"
    given = {name: settings.get(name) for name in tables}
    return tuple(f"the setting {n}" for n in tables if not isinstance(given[n], dict | None))


def absolute_at(
    nodes: Nodes, ts_ns: int, settings: Settings, state: NodeState
) -> dict[str, Quantity] | None:
    """What pods may have at the most, before the hard eviction threshold; None: not known."""
    capacity, _, _ = _capacity(nodes, ts_ns, settings, state)
    if _missing_tables(settings) or not {"cpu", "memory"} <= capacity.keys():
        return None
    with suppress(QuantityError, ValueError):
        return kubepods_resources(capacity, reservation_of(settings.get))
    return None


def device_counts(
    resources: Iterable[str], manager: DeviceManagerState, nodes: Nodes, ts_ns: int
) -> dict[str, list[int | None]]:
    """How many devices of each resource the node lists, the most likely first; None: any number.

    The node object, which is written every ten seconds, lags behind the device manager: it may
    list any number up to the devices that there are, or that it listed before, and none.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go sanitizeNodeAllocatable
    """
    record_shown = nodes.last(ts_ns, "allocatable")
    written = {} if record_shown is None else record_shown.body.allocatable or {}
    found: dict[str, list[int | None]] = {}
    for resource in resources:
        plugin, listed = manager.resources.get(resource), whole_number(written.get(resource))
        if plugin is not None and plugin.healthy is None:
            found[resource] = [None]
            continue
        given = (grants for of_pod in manager.pods.values() for grants in of_pod.values())
        grants = (each[resource] for each in given if resource in each)
        held = {device for grant in grants for device in grant.device_ids}
        healthy = 0 if plugin is None else plugin.healthy or 0
        likely = max(healthy, len(held)) if plugin is not None or held else listed
        if likely is not None:
            total = plugin.total if plugin is not None else None
            before = nodes.listed(ts_ns, resource)
            most = min(max(likely, listed or 0, total or 0, *before), _LAGS_MAX)
            found[resource] = list(dict.fromkeys([likely, *range(most + 1), None]))
    return found


def _capacity(
    nodes: Nodes, ts_ns: int, settings: Settings, state: NodeState
) -> tuple[dict[str, Quantity], tuple[int, ...], bool]:
    """The machine's size, its records, and whether no line and no node object shows it.

    Then the eviction signals hold the capacity of memory and disk, and the CPU shares of the
    cgroup of all pods are those of a number of CPUs.
    """
    record_shown = nodes.last(ts_ns, "capacity")
    machine = nodes.last(ts_ns, "cpus") or nodes.last(ts_ns, "memory_capacity_bytes")
    inferred = record_shown is None and nodes.last(ts_ns, "cpus") is None
    units: dict[str, int | None] = {}
    if machine is not None:
        units = {"cpu": machine.body.cpus, "memory": machine.body.memory_capacity_bytes}
    signals = state.images.signals
    disk, memory = signals.get("nodefs.available"), signals.get("memory.available")
    capacities = {"ephemeral-storage": None if disk is None else disk.capacity}
    if inferred:
        capacities["memory"] = None if memory is None else memory.capacity
        capacities["cpu"] = _cpus_by_shares(state, settings.as_recorded())
    amounts = {name: Quantity.of(n) for name, n in capacities.items() if n is not None}
    amounts |= {} if record_shown is None else _quantities(record_shown.body.capacity)
    amounts |= {name: Quantity.of(n) for name, n in units.items() if n is not None}
    if nodes.last(ts_ns, "capacity", of_process=True) is None:
        amounts.pop("pods", None)
    if (most := _most_pods(settings, amounts.get("cpu"))) is not None:
        amounts["pods"] = Quantity.of(most)
    seqs = tuple(record.seq for record in (record_shown, machine) if record is not None)
    return amounts, seqs, inferred


def _cpus_by_shares(state: NodeState, settings: Settings) -> int | None:
    """Whole CPUs by the shares of the cgroup of all pods, which the recorded ``settings`` gave it.

    None where a setting is not known, or no number or several give the shares.
    """
    shares = next((group.cpu_shares for group in state.cgroups.cgroups.values()
                   if group.level == "node" and group.cpu_shares is not None), None)  # fmt: skip
    levels = settings.get("enforceNodeAllocatable")
    if shares is None or levels is UNKNOWN:
        return None
    milli = 0
    if "pods" in (levels or ()):
        try:
            reserved = reservation_of(settings.get)
        except (QuantityError, ValueError, AttributeError):
            return None
        parts = reserved.system_reserved, reserved.kube_reserved
        milli = sum(part.get("cpu", ZERO).milli_value() for part in parts)
    cpus = round((shares * 1000 / 1024 + milli) / 1000)
    given = [shares_of_milli_cpu(n * 1000 - milli) for n in (cpus, cpus + 1)]
    return cpus if given[0] == shares != given[1] else None


def _most_pods(settings: Settings, cpus: Quantity | None) -> int | None:
    """Source: v1.36.2 pkg/kubelet/nodestatus/setters.go MachineInfo."""
    most, per_core = settings.get("maxPods"), settings.get("podsPerCore")
    if not isinstance(most, int) or isinstance(most, bool) or "maxPods" in settings.disputed:
        return None
    if not isinstance(per_core, int) or per_core <= 0 or cpus is None:
        return most
    return min(cpus.value() * per_core, most)


def _quantities(table: Mapping[str, object] | None) -> dict[str, Quantity]:
    """What can be read of a table of amounts, without extended resources."""
    found = {}
    for name, written in (table or {}).items():
        if isinstance(written, str | int | float) and "/" not in name:
            with suppress(QuantityError):
                found[name] = Quantity.from_api(written)
    return found
