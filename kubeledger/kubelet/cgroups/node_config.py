"""The levels above pods: what of a node is for pods, and the QoS cgroups.

    reserved from scheduling   = system reserve + kube reserve + hard eviction threshold
    the cgroup kubepods        = capacity - system reserve - kube reserve

The threshold is not taken off the cgroup: the kubelet needs room to evict in before the
kernel kills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeledger.kubelet.cgroups.pod_config import (
    MIN_SHARES,
    ResourceConfig,
    huge_page_limits,
    pod_request,
    shares_of_milli_cpu,
)
from kubeledger.kubelet.kube.configuration import parse_threshold
from kubeledger.kubelet.kube.containermanager import cpus_of
from kubeledger.kubelet.kube.int64amount import quotient
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podclass import pod_qos
from kubeledger.kubelet.kube.podtotals import scheduled_total
from kubeledger.kubelet.kube.quantity import ZERO, Format, Quantity, int64_of_float
from kubeledger.kubelet.kube.resources import NANOS, milli_of, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.kubelet.profile.eviction import EvictionFacts

Quantities = Mapping[str, Quantity]

_RESOURCE_OF_SIGNAL: Final = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}

_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_DEFAULT_THRESHOLDS: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
_SIGNALS_OF_SPLIT_DISKS: Final = ("containerfs.available", "containerfs.inodesFree")


class ReservationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings systemReserved, kubeReserved and evictionHard (signal -> as written)."""

    system_reserved: dict[str, Quantity]
    kube_reserved: dict[str, Quantity]
    eviction_hard: dict[str, str]


def reservation_of(setting: Callable[[str], Any]) -> ReservationSettings:
    """The effective settings that take off the capacity.

    Args:
        setting: name of a KubeletConfiguration field, or of a ``--flag`` -> its JSON value. What is
            not set is None; the three tables are nothing else.

    Raises:
        QuantityError: an amount is none.
        ValueError: ``reservedSystemCPUs`` is not a set of CPUs.

    Source: v1.20.2 cmd/kubelet/app/server.go run; v1.33.0 mergeDefaultEvictionSettings
    """
    system, kube = (
        {name: Quantity.from_api(amount) for name, amount in (setting(table) or {}).items()}
        for table in ("systemReserved", "kubeReserved")
    )
    own_cpus = setting("reservedSystemCPUs")
    if isinstance(own_cpus, str) and own_cpus:
        kube.pop("cpu", None)
        system["cpu"] = Quantity.of(len(cpus_of(own_cpus)))
    hard = {str(signal): str(text) for signal, text in (setting("evictionHard") or {}).items()}
    if setting("mergeDefaultEvictionSettings") is True:
        hard = _DEFAULT_THRESHOLDS | hard
    if setting("--experimental-allocatable-ignore-eviction") in (True, "true"):
        hard = {}
    return ReservationSettings(system_reserved=system, kube_reserved=kube, eviction_hard=hard)


def reserved_amount(resource: str, settings: ReservationSettings) -> str | None:
    """What both reserves keep of a resource, as the API writes it; None: nothing."""
    parts = (settings.system_reserved, settings.kube_reserved)
    amount = parts[0].get(resource, ZERO).add(parts[1].get(resource, ZERO))
    return None if amount.is_zero else amount.canonical()


def eviction_signals(facts: EvictionFacts) -> tuple[str, ...]:
    """Signals that a threshold can be set for.

    Source: v1.20.2, v1.29.0 pkg/kubelet/eviction/api/types.go OpForSignal
    """
    return _SIGNALS + _SIGNALS_OF_SPLIT_DISKS if facts.split_disk_known else _SIGNALS


def hard_eviction_reservation(
    eviction_hard: Mapping[str, str], capacity: Quantities, facts: CgroupFacts
) -> dict[str, Quantity]:
    """What must stay free of memory and of the node's disk; other signals reserve nothing.

    Raises:
        EvictionThresholdError: a threshold is refused.

    Source: v1.20.2 pkg/kubelet/cm/helpers.go hardEvictionReservation
    """
    reservation: dict[str, Quantity] = {}
    for signal, text in eviction_hard.items():
        threshold = eviction_threshold(signal, text, facts)
        resource = _RESOURCE_OF_SIGNAL.get(signal)
        if resource is None or threshold is None:
            continue
        if isinstance(threshold, float):
            amount = float(capacity.get(resource, ZERO).value()) * threshold
            threshold = Quantity.of(int64_of_float(amount), Format.BINARY_SI)
        reservation[resource] = threshold
    return reservation


def node_reservation(
    capacity: Quantities, settings: ReservationSettings, facts: CgroupFacts
) -> dict[str, Quantity]:
    """What is kept from pods when they are scheduled, of all resources the node has.

    Raises:
        EvictionThresholdError: a threshold is refused.

    Source: v1.20.2 pkg/kubelet/cm/node_container_manager_linux.go
        GetNodeAllocatableReservation
    """
    eviction = hard_eviction_reservation(settings.eviction_hard, capacity, facts)
    reservation: dict[str, Quantity] = {}
    for name in capacity:
        amount = Quantity.of(0)
        for part in (settings.system_reserved, settings.kube_reserved, eviction):
            amount = amount.add(part.get(name, ZERO))
        if not amount.is_zero:
            reservation[name] = amount
    return reservation


def kubepods_resources(capacity: Quantities, settings: ReservationSettings) -> dict[str, Quantity]:
    """What all pods together may use: capacity less both reserves, not below 0.

    Source: v1.20.2 pkg/kubelet/cm/node_container_manager_linux.go
        getNodeAllocatableAbsoluteImpl
    """
    resources: dict[str, Quantity] = {}
    for name, amount in capacity.items():
        left = amount.sub(settings.system_reserved.get(name, ZERO))
        left = left.sub(settings.kube_reserved.get(name, ZERO))
        resources[name] = Quantity.of(0, left.format) if left.sign < 0 else left
    return resources


def node_allocatable(capacity: Quantities, reservation: Quantities) -> dict[str, Quantity]:
    """Allocatable in the node's status: what is left, not below 0; huge pages are no memory.

    Source: v1.20.2 pkg/kubelet/nodestatus/setters.go MachineInfo
    """
    allocatable: dict[str, Quantity] = {}
    for name, amount in capacity.items():
        left = amount.sub(reservation[name]) if name in reservation else amount
        allocatable[name] = Quantity.of(0, left.format) if left.sign < 0 else left
    for name, amount in capacity.items():
        if name.startswith("hugepages-") and "memory" in allocatable:
            left = allocatable["memory"].sub(amount)
            allocatable["memory"] = Quantity.of(0, left.format) if left.sign < 0 else left
    return allocatable


def resource_config_for_node(resources: Quantities) -> ResourceConfig:
    """The config of ``kubepods``, or of a cgroup of reserved resources. Never a quota.

    Source: v1.20.2 pkg/kubelet/cm/node_container_manager_linux.go getCgroupConfig
    Differs: process IDs are not among the values.
    """
    cpu, memory = resources.get("cpu"), resources.get("memory")
    return ResourceConfig(
        cpu_shares=None if cpu is None else shares_of_milli_cpu(cpu.milli_value()),
        memory_limit_bytes=None if memory is None else memory.value(),
        huge_page_limits=huge_page_limits({n: q.value() for n, q in resources.items()}),
    )


def over_reserved(capacity: Quantities, reservation: Quantities) -> list[str]:
    """Resources of which more is reserved than there is, sorted; any refuses the start.

    Source: v1.20.2 pkg/kubelet/cm/node_container_manager_linux.go validateNodeAllocatable
    """
    return sorted(n for n, amount in reservation.items() if amount > capacity.get(n, ZERO))


def eviction_threshold(signal: str, text: str, facts: CgroupFacts) -> Quantity | float | None:
    """A quantity, or a fraction of the capacity; None for the two that mean no threshold.

    Raises:
        EvictionThresholdError: it is refused.
    """
    return parse_threshold(signal, text, 1.0 if facts.eviction_percentage_at_most_100 else 100.0)


# What the kubelet asks for the QoS cgroups, once a minute and when pods come and go.
#
# Burstable pods share one cgroup, so its shares are what they request together; otherwise a
# share there would not be worth the same as one of a Guaranteed pod, which stands a level
# higher. BestEffort pods share the least there is. With a memory reserve each class may use
# what is left after the reserved part of the requests of the classes above it.

QOS_HUGE_PAGE_LIMIT: Final = 1 << 62
"""Bytes of each page size of the host that a QoS cgroup may use: in effect no limit."""


class QOSRequests(msgspec.Struct, frozen=True, gc=False):
    """Requests of the active pods by class.

    Attributes:
        guaranteed_memory, burstable_memory: bytes.
    """

    burstable_milli_cpu: int
    guaranteed_memory: int
    burstable_memory: int


class QOSConfig(msgspec.Struct, frozen=True, gc=False):
    """Values of the two QoS cgroups; None leaves a memory limit alone, bytes otherwise."""

    burstable_shares: int
    best_effort_shares: int = MIN_SHARES
    burstable_memory_limit: int | None = None
    best_effort_memory_limit: int | None = None


def qos_requests(pods: Sequence[Pod], facts: CgroupFacts) -> QOSRequests:
    """Sum what active pods request; each pod's amount is rounded, then added.

    Raises:
        QuantityError: an amount is not a quantity.

    Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go setCPUCgroupConfig,
        getQoSMemoryRequests
    """
    milli_cpu = guaranteed = burstable = 0
    sidecars, memory_level = facts.sidecars_run_alongside, facts.qos_memory_counts_pod_level
    for pod in pods:
        qos_class = pod_qos(
            pod, status_wins=facts.qos_class_from_status, pod_level=facts.pod_level_resources
        )
        if qos_class == "BestEffort":
            continue
        memory = units_of(scheduled_total(pod.spec, "memory", NANOS, sidecars, memory_level))
        if qos_class == "Guaranteed":
            guaranteed += memory
        else:
            burstable += memory
            milli_cpu += milli_of(pod_request(pod.spec, "cpu", facts))
    return QOSRequests(milli_cpu, guaranteed, burstable)


def qos_config(
    requests: QOSRequests, *, allocatable_memory: int | None, memory_reserve_percent: int | None
) -> QOSConfig:
    """The values of the QoS cgroups.

    Args:
        allocatable_memory: bytes of capacity less system and kube reserve; eviction
            thresholds are not taken off. None where it is not known.
        memory_reserve_percent: of ``--qos-reserved``; None without it or its gate.

    Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups,
        setMemoryReserve
    Differs: these are the values of the first attempt. Where the kernel refuses a memory limit
        below what is used, the kubelet tries again with the usage.
    """
    shares = shares_of_milli_cpu(requests.burstable_milli_cpu)
    if memory_reserve_percent is None or not allocatable_memory:
        return QOSConfig(shares)
    percent = memory_reserve_percent
    burstable = allocatable_memory - quotient(requests.guaranteed_memory * percent, 100)
    best_effort = burstable - quotient(requests.burstable_memory * percent, 100)
    return QOSConfig(shares, burstable_memory_limit=burstable, best_effort_memory_limit=best_effort)


def qos_unified(
    requests: QOSRequests, facts: CgroupFacts, *, tiered_reservation: bool
) -> dict[str, dict[str, str]]:
    """Cgroup v2 files of the QoS levels under the gate MemoryQoS.

    A level protects what those below it protect, or their protection would be void.

    Returns:
        ``kubepods`` and ``burstable`` -> file -> bytes, as text.

    Source: v1.22.0, v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go setMemoryQoS
    """
    if not facts.memory_qos:
        return {"kubepods": {}, "burstable": {}}
    both = requests.guaranteed_memory + requests.burstable_memory
    burstable = requests.burstable_memory
    if not facts.memory_reservation_tiers:
        return {
            "kubepods": {"memory.min": str(both)} if both > 0 else {},
            "burstable": {"memory.min": str(burstable)} if burstable > 0 else {},
        }
    if not tiered_reservation:
        both = burstable = 0
    return {"kubepods": {"memory.min": str(both)}, "burstable": {"memory.low": str(burstable)}}
