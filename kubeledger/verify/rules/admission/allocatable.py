"""What the node has for pods, by machine and settings.

The kubelet takes the node object, which it writes itself: capacity from the machine, less
systemReserved, kubeReserved and the hard eviction thresholds. So it is worked out from the
settings; the object that a recording holds is only of some later time, and is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    EvictionThresholdError,
    ReservationSettings,
    node_allocatable,
    node_reservation,
)
from kubeledger.kubelet.devicemanager.state import DeviceManagerState
from kubeledger.kubelet.kube.cpuset import cpus_of
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.units import whole_number
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.rules.admission.machine import by_signs
from kubeledger.verify.rules.admission.nodes import Nodes
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["Allocatable", "allocatable_at", "device_counts"]

_RESERVING: Final = ("systemReserved", "kubeReserved", "evictionHard")
_LAGS_MAX: Final = 32
"""Of so many devices every number is tried that the node object may still list."""
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


def allocatable_at(
    nodes: Nodes, ts_ns: int, settings: Settings, profile: KubeletProfile, state: NodeState
) -> Allocatable:
    """What was for pods then, by the settings as they are now."""
    inputs: dict[int, None] = {}
    capacity, inferred = _capacity(nodes, ts_ns, settings, state, inputs)
    reserved = _reservation(settings)
    missing: tuple[str, ...]
    if isinstance(reserved, ReservationSettings):
        inputs |= {} if settings.seq is None else {settings.seq: None}
        amounts: dict[str, Quantity] = {}
        try:
            reservation = node_reservation(capacity, reserved, profile.cgroups)
            amounts = node_allocatable(capacity, reservation)
        except (EvictionThresholdError, QuantityError):
            pass  # such a kubelet does not start
        missing = tuple(
            f"the node's capacity of {name}" if name != "pods" else "the setting maxPods"
            for name in ("cpu", "memory", "pods")
            if name not in amounts
        )
        if not missing:
            whole = nodes.last(ts_ns, "capacity") is not None
            return Allocatable(amounts, (), tuple(inputs), inferred, whole)
    else:
        missing = reserved
    shown = nodes.last(ts_ns, "allocatable", of_process=True)
    if shown is not None and not settings.variant.settings:
        # The settings are not all known: the kubelet's own words are.
        amounts = _quantities(shown.body.allocatable)
        if {"cpu", "memory", "pods"} <= amounts.keys():
            return Allocatable(amounts, (), (shown.seq,), whole=True)
    # Of pods nothing is reserved, and some pods ask for nothing else.
    known = {"pods": capacity["pods"]} if "pods" in capacity else {}
    return Allocatable(known, missing, tuple(inputs))


def device_counts(
    resources: Iterable[str], manager: DeviceManagerState, nodes: Nodes, ts_ns: int
) -> dict[str, list[int | None]]:
    """How many devices of each resource the node lists, the likeliest first; None: any number.

    The node object, which is written every ten seconds, lags behind the device manager: it may
    list any number up to the devices that there are, and none.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go sanitizeNodeAllocatable
    """
    shown = nodes.last(ts_ns, "allocatable")
    written = (shown.body.allocatable if shown is not None else None) or {}
    found: dict[str, list[int | None]] = {}
    for resource in resources:
        plugin, held = manager.resources.get(resource), len(_held(resource, manager))
        listed = whole_number(written.get(resource))
        healthy = plugin.healthy if plugin is not None else 0
        if plugin is not None and healthy is None:
            found[resource] = [None]
            continue
        likely = max(healthy or 0, held) if plugin is not None or held else listed
        if likely is not None:
            total = plugin.total if plugin is not None else None
            most = min(max(likely, listed or 0, total or 0), _LAGS_MAX)
            found[resource] = list(dict.fromkeys([likely, *range(most + 1), None]))
    return found


def _held(resource: str, manager: DeviceManagerState) -> set[str]:
    """Devices of a resource that containers hold."""
    return {
        device
        for containers in manager.pods.values()
        for by_resource in containers.values()
        if resource in by_resource
        for device in by_resource[resource].device_ids
    }


def _capacity(
    nodes: Nodes, ts_ns: int, settings: Settings, state: NodeState, inputs: dict[int, None]
) -> tuple[dict[str, Quantity], bool]:
    """The machine's size, and whether no line and no node object tells it."""
    amounts: dict[str, Quantity] = {}
    shown = nodes.last(ts_ns, "capacity")
    machine = nodes.last(ts_ns, "cpus") or nodes.last(ts_ns, "memory_capacity_bytes")
    if shown is not None and (amounts := _quantities(shown.body.capacity)):
        inputs[shown.seq] = None
    units: dict[str, int | None] = {}
    if machine is not None:
        inputs[machine.seq] = None
        units = {"cpu": machine.body.cpus, "memory": machine.body.memory_capacity_bytes}
    amounts |= {name: Quantity.of(n) for name, n in units.items() if n is not None}
    inferred = shown is None and nodes.last(ts_ns, "cpus") is None
    for name, n in by_signs(state, inferred).items():
        if n is not None:
            amounts.setdefault(name, Quantity.of(n))
    if nodes.last(ts_ns, "capacity", of_process=True) is None:
        amounts.pop("pods", None)
    most = _most_pods(settings, amounts.get("cpu"))
    if most is not None:
        amounts["pods"] = Quantity.of(most)
    return amounts, inferred


def _most_pods(settings: Settings, cpus: Quantity | None) -> int | None:
    """Source: v1.36.2 pkg/kubelet/nodestatus/setters.go MachineInfo."""
    most, per_core = settings.get("maxPods"), settings.get("podsPerCore")
    if not isinstance(most, int) or isinstance(most, bool) or "maxPods" in settings.disputed:
        return None
    if not isinstance(per_core, int) or per_core <= 0 or cpus is None:
        return most
    return min(cpus.value() * per_core, most)


def _reservation(settings: Settings) -> ReservationSettings | tuple[str, ...]:
    """The settings that take off the capacity, or which of them are not known."""
    tables: list[dict[str, Any]] = []
    missing = []
    for name in _RESERVING:
        table = settings.get(name)
        if table is UNKNOWN or not isinstance(table, dict | None):
            missing.append(f"the setting {name}")
            table = {}
        tables.append(table or {})
    system, kube = map(_quantities, tables[:2])
    for name, read, written in zip(_RESERVING, (system, kube), tables, strict=False):
        if len(read) < len(written):
            missing.append(f"a readable setting {name}")
    if missing:
        return tuple(missing)
    own_cpus = settings.get("reservedSystemCPUs")
    with suppress(ValueError):
        if isinstance(own_cpus, str) and own_cpus:
            system["cpu"] = Quantity.of(len(cpus_of(own_cpus)))
            kube.pop("cpu", None)
    thresholds = tables[2]
    if settings.get("mergeDefaultEvictionSettings") is True:
        thresholds = {**_DEFAULT_THRESHOLDS, **thresholds}
    if settings.get("--experimental-allocatable-ignore-eviction") in (True, "true"):
        thresholds = {}
    hard = {name: text for name, text in thresholds.items() if isinstance(text, str)}
    return ReservationSettings(system_reserved=system, kube_reserved=kube, eviction_hard=hard)


def _quantities(table: Mapping[str, object] | None) -> dict[str, Quantity]:
    """What can be read of a table of amounts, without extended resources."""
    found = {}
    for name, written in (table or {}).items():
        if isinstance(written, str | int | float) and "/" not in name:
            try:
                found[name] = Quantity.from_api(written)
            except QuantityError:
                continue
    return found
