"""What the kubelet asks for the QoS cgroups, once a minute and when pods come and go.

Burstable pods share one cgroup, so its shares are what they request together; otherwise a
share there would not be worth the same as one of a Guaranteed pod, which stands a level
higher. BestEffort pods share the least there is. With a memory reserve each class may use
what is left after the reserved part of the requests of the classes above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.conversions import MIN_SHARES, quotient, shares_of_milli_cpu
from kubeledger.kubelet.cgroups.pod_config import pod_request
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.kube.podtotals import scheduled_total
from kubeledger.kubelet.kube.requests import milli_of, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts

QOS_HUGE_PAGE_LIMIT: Final = 1 << 62
"""Bytes of each page size of the host that a QoS cgroup may use: in effect no limit."""


class QOSRequests(msgspec.Struct, frozen=True, gc=False):
    """Requests of the active pods by class.

    Attributes:
        burstable_milli_cpu: millicores.
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
        requests: of the active pods.
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
