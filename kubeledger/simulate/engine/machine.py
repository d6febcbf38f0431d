"""What the machine has, what of it is for pods, and the settings that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    node_allocatable,
    node_reservation,
    reservation_of,
)
from kubeledger.kubelet.cpumanager.topology import Core, MachineInfo, Node
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.units import parse_go_duration
from kubeledger.simulate.engine.plan import NodePlan

Settings = Mapping[str, Any]


def duration_ns(settings: Settings, name: str, default: str = "0s") -> int:
    """A duration in nanoseconds; the default where it is not set."""
    value = settings.get(name)
    return parse_go_duration(default if value is None else str(value))


def integer(settings: Settings, name: str, default: int) -> int:
    """A number."""
    value = settings.get(name)
    return default if value is None else int(value)


def table(settings: Settings, name: str) -> dict[str, str]:
    """Names and texts; empty where it is not set."""
    return {str(key): str(value) for key, value in (settings.get(name) or {}).items()}


def gate(settings: Settings, name: str, *, default: bool = False) -> bool:
    """Whether a feature gate is on; by default that of an alpha feature."""
    gates = settings.get("featureGates") or {}
    return bool(gates.get(name, gates.get("AllAlpha", False) or default))


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


class Cpus(Protocol):
    """How the CPUs of a machine lie; see ``NodePlan``."""

    @property
    def cpus(self) -> int: ...
    @property
    def numa_nodes(self) -> Sequence[int]: ...
    @property
    def sockets(self) -> int: ...
    @property
    def threads_per_core(self) -> int: ...
    @property
    def uncore_caches(self) -> int | None: ...


def machine_info(node: Cpus) -> MachineInfo:
    """The CPUs of a node as cAdvisor reports them.

    Cores are dealt out to NUMA nodes, sockets and uncore caches in a row, as evenly as their number
    allows. The threads of a core are numbered as Linux does: first one of each core, then another.
    """
    cores = node.cpus // node.threads_per_core
    numbers, caches = sorted(node.numa_nodes), node.uncore_caches
    of_nodes: dict[int, list[Core]] = {numa: [] for numa in numbers}
    for core in range(cores):
        socket = core * node.sockets // cores
        threads = tuple(core + number * cores for number in range(node.threads_per_core))
        cache = None if caches is None else core * caches // cores
        numa = numbers[core * len(numbers) // cores]
        of_nodes[numa].append(Core(core, socket, threads, cache))
    return MachineInfo(
        num_sockets=node.sockets,
        nodes=tuple(Node(numa, tuple(members)) for numa, members in of_nodes.items()),
    )
