"""What the machine has, and what of it is for pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    node_allocatable,
    node_reservation,
    reservation_of,
)
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.simulate.engine.config import integer
from kubeledger.simulate.engine.plan import NodePlan

_PODS = 110


class Machine(msgspec.Struct, frozen=True):
    """The node as its object has it, without extended resources.

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
        ValueError: ``reservedSystemCPUs`` is not a set of CPUs.
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
    reserved = node_reservation(capacity, reservation_of(settings.get), profile.cgroups)
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
