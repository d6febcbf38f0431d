"""The node as admission sees it: what of the machine is for pods, by the settings.

The kubelet takes the node object, which it writes itself: capacity from the machine, less
systemReserved, kubeReserved and the hard eviction thresholds. So it is worked out from the
settings; the object that a recording holds is only of some later time, and is compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeledger.cgroups.node_config import (
    EvictionThresholdError,
    ReservationSettings,
    node_allocatable,
    node_reservation,
)
from kubeledger.kube.pod import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.machine import Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.units import whole_number
from kubeledger.verify.capacities import Capacities
from kubeledger.verify.rules.admission.machine import Clues, clues
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["Allocatable", "Nodes", "count_cpus", "node_of"]

_STORAGE: Final = "ephemeral-storage"
_RESERVING: Final = ("systemReserved", "kubeReserved", "evictionHard")
_CPU_MAX: Final = 1 << 31
_DEFAULT_THRESHOLDS: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""What mergeDefaultEvictionSettings puts beneath the thresholds that are set."""


class Allocatable(msgspec.Struct, frozen=True):
    """What the node has for pods.

    Attributes:
        amounts: resource -> quantity; without extended resources.
        missing: what is not known of cpu, memory and pods, as inputs to name.
        inputs: seqs of the records it comes from.
        inferred: the machine's size is not told, but follows from what is.
        whole: of what is not in ``amounts`` there is nothing; else it is not known.
    """

    amounts: dict[str, Quantity]
    missing: tuple[str, ...]
    inputs: tuple[int, ...]
    inferred: bool = False
    whole: bool = False


class _Told(msgspec.Struct, frozen=True):
    seq: int
    body: NodeObserved


class Nodes:
    """What records of the node tell, of all times."""

    def __init__(self, sizes: Capacities) -> None:
        self._sizes = sizes
        self._told: list[tuple[int, _Told]] = []
        self._telling: dict[str, list[tuple[int, _Told]]] = {}
        self._remembered: tuple[object, Allocatable] | None = None
        self._machine_told = False
        self._starts: list[int] = []

    def kubelet_started(self, record: Record) -> None:
        """Another process, perhaps with other settings, tells of the node from here on."""
        self._starts.append(record.ts_ns)

    def foresee(self, record: Record) -> None:
        """Take in what a record of the node tells."""
        assert isinstance(record.body, NodeObserved)
        if record.body.capacity or record.body.cpus is not None:
            self._machine_told = True
        self._told.append((record.ts_ns, _Told(record.seq, record.body)))
        self._telling.clear()
        self._remembered = None

    def last(self, ts_ns: int, field: str) -> _Told | None:
        """The last record by then that tells something, else the first one after it."""
        telling = self._that_tell(field)
        if not telling:
            return None
        index = bisect_right(telling, ts_ns, key=lambda told: told[0])
        return telling[max(index - 1, 0)][1]

    def of_process(self, ts_ns: int, field: str) -> _Told | None:
        """The same of the process that runs then: what its settings decide is no other's.

        A record repeats what is known of the node; only one that tells another value is new.
        """
        run = bisect_right(self._starts, ts_ns)
        telling, known = [], None
        for told_ns, told in self._that_tell(field):
            value = getattr(told.body, field)
            if value != known and bisect_right(self._starts, told_ns) == run:
                telling.append((told_ns, told))
            known = value
        index = bisect_right(telling, ts_ns, key=lambda told: told[0])
        return telling[max(index - 1, 0)][1] if telling else None

    def objects(
        self, ts_ns: int
    ) -> tuple[int | None, NodeObserved, tuple[NodeObserved, ...]] | None:
        """The node object by then, and the next one; None when none is shown.

        The seq is None when the object is of a later time: what it was before is not told.
        """
        objects = self._that_tell("labels", "taints")
        if not objects:
            return None
        index = bisect_right(objects, ts_ns, key=lambda told: told[0])
        later = tuple(told.body for _, told in objects[index : index + 1])
        if not index:
            return None, later[0], later
        return objects[index - 1][1].seq, objects[index - 1][1].body, later

    def allocatable(
        self,
        ts_ns: int,
        settings: Settings,
        profile: KubeletProfile,
        state: NodeState,
    ) -> Allocatable:
        """What was for pods then, by the settings as they are now."""
        shown = clues(state, told=self._machine_told)
        key = (settings.seq, profile.version, shown, self._at(ts_ns))
        if self._remembered is None or self._remembered[0] != key:
            self._remembered = (key, self._work_out(ts_ns, settings, profile, shown))
        return self._remembered[1]

    def _that_tell(self, *fields: str) -> list[tuple[int, _Told]]:
        """Records in the order of time that tell any of these fields; without fields all."""
        key = " ".join(fields)
        telling = self._telling.get(key)
        if telling is None:
            telling = self._telling[key] = sorted(
                (
                    told
                    for told in self._told
                    if not fields or any(getattr(told[1].body, field) for field in fields)
                ),
                key=lambda told: (told[0], told[1].seq),
            )
        return telling

    def _at(self, ts_ns: int) -> int:
        return bisect_right(self._that_tell(), ts_ns, key=lambda told: told[0])

    def _work_out(
        self, ts_ns: int, settings: Settings, profile: KubeletProfile, shown_by: Clues
    ) -> Allocatable:
        inputs: dict[int, None] = {}
        capacity = self._capacity(ts_ns, settings, shown_by, inputs)
        reserved = _reservation(settings)
        shown = self.of_process(ts_ns, "allocatable")
        if isinstance(reserved, ReservationSettings):
            if settings.seq is not None:
                inputs[settings.seq] = None
            amounts = _less_reserved(capacity, reserved, profile)
            missing = tuple(
                f"the node's capacity of {name}" if name != "pods" else "the setting maxPods"
                for name in ("cpu", "memory", "pods")
                if name not in amounts
            )
            if not missing:
                whole = self.last(ts_ns, "capacity") is not None
                inferred = not self._machine_told
                return Allocatable(amounts, (), tuple(inputs), inferred, whole)
        else:
            missing = reserved
        if shown is not None and not settings.variant.settings:
            # The settings are not all known: the kubelet's own words are.
            written = shown.body.allocatable or {}
            amounts = {
                name: quantity
                for name, text in written.items()
                if (quantity := _quantity(text)) is not None and "/" not in name
            }
            if {"cpu", "memory", "pods"} <= amounts.keys():
                return Allocatable(amounts, (), (shown.seq,), whole=True)
        # Of pods nothing is reserved, and some pods ask for nothing else.
        known = {"pods": capacity["pods"]} if "pods" in capacity else {}
        return Allocatable(known, missing, tuple(inputs))

    def _capacity(
        self, ts_ns: int, settings: Settings, shown_by: Clues, inputs: dict[int, None]
    ) -> dict[str, Quantity]:
        amounts: dict[str, Quantity] = {}
        shown = self.last(ts_ns, "capacity")
        if shown is not None:
            for name, text in (shown.body.capacity or {}).items():
                quantity = _quantity(text)
                if quantity is not None and "/" not in name:
                    amounts[name] = quantity
                    inputs[shown.seq] = None
        machine = self.last(ts_ns, "cpus") or self.last(ts_ns, "memory_capacity_bytes")
        if machine is not None:
            inputs[machine.seq] = None
            cpus = machine.body.cpus
            if cpus is not None:
                amounts["cpu"] = Quantity.of(cpus)
            memory = self._sizes.memory_bytes(machine.body.memory_capacity_bytes)
            if memory is not None:
                amounts["memory"] = Quantity.of(memory)
        indirect = {
            "cpu": shown_by.cpus,
            "memory": shown_by.memory_bytes,
            _STORAGE: shown_by.disk_bytes,
        }
        for name, units in indirect.items():
            if name not in amounts and units is not None:
                amounts[name] = Quantity.of(units)
        if self.of_process(ts_ns, "capacity") is None:
            amounts.pop("pods", None)
        most = _most_pods(settings, amounts.get("cpu"))
        if most is not None:
            amounts["pods"] = Quantity.of(most)
        return amounts


def node_of(
    name: str, allocatable: Mapping[str, str], labels: Mapping[str, str], taints: tuple[Taint, ...]
) -> Node:
    """The node object."""
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels)),
        status=NodeStatus(allocatable=dict(allocatable)),
        spec=NodeSpec(taints=taints),
    )


def _less_reserved(
    capacity: dict[str, Quantity], reserved: ReservationSettings, profile: KubeletProfile
) -> dict[str, Quantity]:
    try:
        return node_allocatable(capacity, node_reservation(capacity, reserved, profile.cgroups))
    except (EvictionThresholdError, QuantityError):
        return {}


def _most_pods(settings: Settings, cpus: Quantity | None) -> int | None:
    """Source: v1.36.2 pkg/kubelet/nodestatus/setters.go MachineInfo."""
    most, per_core = settings.get("maxPods"), settings.get("podsPerCore")
    if not isinstance(most, int) or isinstance(most, bool):
        return None
    if not isinstance(per_core, int) or per_core <= 0 or cpus is None:
        return most
    return min(cpus.value() * per_core, most)


def _reservation(settings: Settings) -> ReservationSettings | tuple[str, ...]:
    """The settings that take off the capacity, or which of them are not known."""
    tables = [_table(settings.get(name)) for name in _RESERVING]
    missing = [
        f"the setting {name}" for name, table in zip(_RESERVING, tables, strict=True) if not table
    ]
    quantities = [
        {name: _quantity(written) for name, written in (table[0] if table else {}).items()}
        for table in tables[:2]
    ]
    for name, amounts in zip(_RESERVING, quantities, strict=False):
        if None in amounts.values():
            missing.append(f"a readable setting {name}")
    if missing:
        return tuple(missing)
    system, kube = ({n: q for n, q in amounts.items() if q is not None} for amounts in quantities)
    own_cpus = count_cpus(settings.get("reservedSystemCPUs"))
    if own_cpus:
        kube.pop("cpu", None)
        system["cpu"] = Quantity.of(own_cpus)
    thresholds = tables[2][0] if tables[2] else {}
    if settings.get("mergeDefaultEvictionSettings") is True:
        thresholds = {**_DEFAULT_THRESHOLDS, **thresholds}
    if settings.get("--experimental-allocatable-ignore-eviction") in (True, "true"):
        thresholds = {}
    hard = {name: text for name, text in thresholds.items() if isinstance(text, str)}
    return ReservationSettings(system_reserved=system, kube_reserved=kube, eviction_hard=hard)


def _table(value: Any) -> tuple[dict[str, Any]] | None:  # noqa: ANN401 # any JSON value
    """A setting that is a table; nothing set is an empty one."""
    if value is UNKNOWN or not isinstance(value, dict | None):
        return None
    return (value or {},)


def _quantity(written: object) -> Quantity | None:
    if not isinstance(written, str | int | float) or isinstance(written, bool):
        return None
    try:
        return Quantity.from_api(written)
    except QuantityError:
        return None


def count_cpus(value: object) -> int:
    """How many CPUs a set like ``0-1,4`` names; 0 for none."""
    count = 0
    for part in value.split(",") if isinstance(value, str) and value else ():
        first, dash, last = part.partition("-")
        low, high = whole_number(first), whole_number(last if dash else first)
        if low is None or high is None or not 0 <= low <= high <= _CPU_MAX:
            return 0
        count += high - low + 1
    return count
