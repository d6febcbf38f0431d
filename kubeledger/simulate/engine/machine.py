"""What the machine has, and what of it is for pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    ReservationSettings,
    node_allocatable,
    node_reservation,
)
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.simulate.engine.config import integer, quantities, table
from kubeledger.simulate.engine.plan import NodePlan

__all__ = ["Machine", "machine_of", "reservation_of"]

_DEFAULT_THRESHOLDS = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""What mergeDefaultEvictionSettings puts beneath the thresholds that are set."""
_PODS = 110


class Machine(msgspec.Struct, frozen=True):
    """The node as its object tells it, without extended resources.

    Attributes:
        capacity, allocatable: resource -> quantity as the API writes it.
        labels: those that the kubelet sets, and the plan's.
    """

    capacity: dict[str, str]
    allocatable: dict[str, str]
    labels: dict[str, str]


def machine_of(node: NodePlan, settings: Mapping[str, Any], profile: KubeletProfile) -> Machine:
    """The node under these settings.

    Raises:
        EvictionThresholdError: a hard threshold is none.
        QuantityError: an amount in the settings is none.
    """
    pods, per_core = integer(settings, "maxPods", _PODS), integer(settings, "podsPerCore", 0)
    if per_core > 0:
        pods = min(pods, per_core * node.cpus)
    capacity = {
        "cpu": Quantity.of(node.cpus),
        "memory": Quantity.of(node.memory_bytes),
        "ephemeral-storage": Quantity.of(node.disk_bytes),
        "pods": Quantity.of(pods),
    }
    reserved = node_reservation(capacity, reservation_of(settings), profile.cgroups)
    allocatable = node_allocatable(capacity, reserved)
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
    }
    return Machine(
        {name: amount.canonical() for name, amount in capacity.items()},
        {name: amount.canonical() for name, amount in allocatable.items()},
        labels | node.labels,
    )


def reservation_of(settings: Mapping[str, Any]) -> ReservationSettings:
    """The settings that take off the capacity.

    Raises:
        QuantityError: an amount is none.
    """
    system = quantities(settings, "systemReserved")
    kube = quantities(settings, "kubeReserved")
    own_cpus = _count_cpus(str(settings.get("reservedSystemCPUs") or ""))
    if own_cpus:
        kube.pop("cpu", None)
        system["cpu"] = Quantity.of(own_cpus)
    hard = table(settings, "evictionHard")
    if settings.get("mergeDefaultEvictionSettings") is True:
        hard = _DEFAULT_THRESHOLDS | hard
    return ReservationSettings(system_reserved=system, kube_reserved=kube, eviction_hard=hard)


def _count_cpus(text: str) -> int:
    """How many CPUs a set like ``0-1,4`` names."""
    count = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        count += int(last) - int(first) + 1 if dash else 1
    return count
