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

from kubeledger.kubelet.cgroups.arithmetic import quotient
from kubeledger.kubelet.cgroups.conversions import MIN_SHARES, shares_of_milli_cpu
from kubeledger.kubelet.cgroups.pod_config import pod_request
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import Pod, PodSpec
from kubeledger.kubelet.kube.podqos import pod_qos
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
    cpu_level, memory_level = facts.pod_level_resources, facts.qos_memory_counts_pod_level
    for pod in pods:
        qos_class = pod_qos(
            pod, status_wins=facts.qos_class_from_status, pod_level=facts.pod_level_resources
        )
        if qos_class == "BestEffort":
            continue
        spec = pod.spec
        if spec.init_containers or spec.overhead or spec.resources is not None:
            cpu = pod_request(spec, "cpu", facts, pod_level=cpu_level) or 0
            memory = pod_request(spec, "memory", facts, pod_level=memory_level) or 0
        else:
            cpu, memory = _cpu_and_memory(spec)
        if qos_class == "Guaranteed":
            guaranteed += units_of(memory)
        else:
            burstable += units_of(memory)
            milli_cpu += milli_of(cpu)
    return QOSRequests(milli_cpu, guaranteed, burstable)


def _cpu_and_memory(spec: PodSpec) -> tuple[int, int]:
    """``pod_request`` of both for a pod of containers alone, as most are; fast."""
    cpu = memory = 0
    for container in spec.containers or ():
        resources = container.resources
        if resources is not None and (requests := resources.requests):
            if "cpu" in requests:
                cpu += NANOS[requests["cpu"]]
            if "memory" in requests:
                memory += NANOS[requests["memory"]]
    return cpu, memory


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
    Differs: these are the values of the first attempt; see ``retried_qos_config``.
    """
    shares = shares_of_milli_cpu(requests.burstable_milli_cpu)
    if memory_reserve_percent is None or not allocatable_memory:
        return QOSConfig(shares)
    percent = memory_reserve_percent
    burstable = allocatable_memory - quotient(requests.guaranteed_memory * percent, 100)
    best_effort = burstable - quotient(requests.burstable_memory * percent, 100)
    return QOSConfig(shares, burstable_memory_limit=burstable, best_effort_memory_limit=best_effort)


def retried_qos_config(
    config: QOSConfig, *, burstable_usage: int | None, best_effort_usage: int | None
) -> QOSConfig:
    """The values of the second attempt, after an update of a QoS cgroup failed.

    The kernel refuses a memory limit below what is used and cannot be reclaimed. Such a limit
    becomes the usage, so that the class grows no further; the others stay. Without a memory
    reserve there is no second attempt.

    Args:
        config: values of the first attempt.
        burstable_usage: bytes that the class uses; None where that cannot be read, which
            ends the adjusting.
        best_effort_usage: the same.

    Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go retrySetMemoryReserve; v1.20.2
    Differs: the classes are gone through in the order of the arguments, in the kubelet in that
        of a Go map, which shows where one usage cannot be read.
    """
    burstable, best_effort = config.burstable_memory_limit, config.best_effort_memory_limit
    if burstable_usage is None:
        return config
    if burstable is not None:
        burstable = max(burstable, burstable_usage)
    if best_effort is not None and best_effort_usage is not None:
        best_effort = max(best_effort, best_effort_usage)
    return msgspec.structs.replace(
        config, burstable_memory_limit=burstable, best_effort_memory_limit=best_effort
    )


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
