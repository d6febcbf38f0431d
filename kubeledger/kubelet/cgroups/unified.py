"""cgroup v2 files that the kubelet asks for by name: memory protection, throttling, swap.

They go with a container or pod as text, file -> value. ``memory.min`` and ``memory.low``
keep memory from being reclaimed, ``memory.high`` throttles before the limit kills, and
``memory.swap.max`` says how much may be swapped out.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.pod_config import pod_request
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.quantity import int64_of_float, wrapped
from kubeledger.kubelet.kube.requests import ResourceList, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

__all__ = [
    "LIMITED_SWAP",
    "MEMORY_LOW",
    "MEMORY_MIN",
    "TIERED_RESERVATION",
    "UnifiedSettings",
    "container_unified",
    "kills_whole_container",
    "limited_swap_bytes",
    "memory_high_bytes",
    "pod_unified",
    "protection_file",
]

MEMORY_MIN: Final = "memory.min"
MEMORY_LOW: Final = "memory.low"
MEMORY_HIGH: Final = "memory.high"
SWAP_MAX: Final = "memory.swap.max"
OOM_GROUP: Final = "memory.oom.group"

TIERED_RESERVATION: Final = "TieredReservation"
LIMITED_SWAP: Final = "LimitedSwap"
PAGE_BYTES: Final = 4096


class UnifiedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What of the kubelet's configuration and of the machine counts; cgroup v2 is a given.

    Attributes:
        memory_qos: gate MemoryQoS.
        throttling_factor: setting memoryThrottlingFactor.
        tiered_reservation: setting memoryReservationPolicy is TieredReservation.
        limited_swap: setting swapBehavior is LimitedSwap; the gate NodeSwap is on.
        single_process_oom_kill: setting of that name as the runtime manager holds it.
        memory_capacity, swap_capacity: bytes of the node.
        node_allocatable_memory: bytes; 0 where it is not known.
    """

    memory_qos: bool
    throttling_factor: float
    tiered_reservation: bool
    limited_swap: bool
    single_process_oom_kill: bool | None = None
    memory_capacity: int
    swap_capacity: int
    node_allocatable_memory: int


def pod_unified(
    pod: Pod, qos_class: QOSClass, facts: CgroupFacts, settings: UnifiedSettings
) -> dict[str, str]:
    """Files of the pod's cgroup: its memory request, protected.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod
    """
    if not (facts.memory_qos and settings.memory_qos):
        return {}
    if facts.memory_reservation_tiers and not settings.tiered_reservation:
        return {}
    pod_level = facts.pod_level_resources
    request = units_of(pod_request(pod.spec, "memory", facts, pod_level=pod_level) or 0)
    return {protection_file(qos_class, facts): str(request)} if request > 0 else {}


def container_unified(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    settings: UnifiedSettings,
) -> dict[str, str]:
    """Files of one container.

    Raises:
        QuantityError: a memory amount is no quantity.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        generateLinuxContainerResources
    Differs: the swap controller is there.
    """
    files: dict[str, str] = {}
    if kills_whole_container(facts, settings.single_process_oom_kill):
        files[OOM_GROUP] = "1"
    request, limit = _memory(container.requests), _memory(container.limits)
    if facts.swap_file_written:
        files[SWAP_MAX] = _swap_max(pod, container, qos_class, facts, settings)
    if facts.memory_qos and settings.memory_qos:
        files.update(_memory_protection(request, qos_class, facts, settings))
        high = memory_high_bytes(request, limit, facts, settings)
        if high is not None and high > request:
            files[MEMORY_HIGH] = str(high)
    return files


def limited_swap_bytes(memory_request: int, memory_capacity: int, swap_capacity: int) -> int | None:
    """Swap in proportion to the memory requested; None where there is no proportion.

    Source: v1.28.0 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        calcSwapForBurstablePods
    """
    if memory_capacity <= 0 or memory_request > memory_capacity:
        return None
    return int64_of_float(float(memory_request) / float(memory_capacity) * float(swap_capacity))


def _memory(resources: ResourceList) -> int:
    """Bytes; 0 where there are none."""
    return units_of(NANOS[resources["memory"]]) if "memory" in resources else 0


def kills_whole_container(facts: CgroupFacts, single_process_oom_kill: bool | None) -> bool:
    """Whether the kernel is to kill all processes of a container at once, with cgroup v2.

    Args:
        facts: of the kubelet version.
        single_process_oom_kill: as in :class:`UnifiedSettings`.
    """
    if not facts.oom_kills_whole_container:
        return False
    return not facts.oom_kill_scope_configurable or single_process_oom_kill is False


def protection_file(qos_class: QOSClass, facts: CgroupFacts) -> str:
    """The file that protects memory of a class: hard, or since there are tiers also soft."""
    hard = not facts.memory_reservation_tiers or qos_class == "Guaranteed"
    return MEMORY_MIN if hard else MEMORY_LOW


def _memory_protection(
    request: int, qos_class: QOSClass, facts: CgroupFacts, settings: UnifiedSettings
) -> dict[str, str]:
    if not facts.memory_reservation_tiers:
        return {MEMORY_MIN: str(request)} if request else {}
    if request and settings.tiered_reservation:
        return {protection_file(qos_class, facts): str(request)}
    return {MEMORY_MIN: "0", MEMORY_LOW: "0"}


def memory_high_bytes(
    request: int, limit: int, facts: CgroupFacts, settings: UnifiedSettings
) -> int | None:
    """Bytes at which throttling begins; without a limit the node's memory stands in.

    Negative where 64 bits do not hold it; the file is then not written.

    Source: v1.22.0, v1.27.0 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
    """
    top = limit or max(settings.node_allocatable_memory, 0)
    if not facts.memory_high_above_request:
        return int64_of_float(float(top) * settings.throttling_factor)
    if request == limit or not top:
        return None
    span = (float(top) - float(request)) * settings.throttling_factor
    # Near 2**63 the product wraps around, and the file is then left out.
    return wrapped(int64_of_float(math.floor(float(request) + span) / PAGE_BYTES) * PAGE_BYTES)


def _swap_max(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    settings: UnifiedSettings,
) -> str:
    """Only Burstable containers whose memory limit leaves room above the request get swap.

    Source: v1.28.0, v1.33.0 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        ConfigureLimitedSwap, GetContainerSwapBehavior
    """
    if facts.swap_never_for_critical_pods and is_critical_pod(pod):
        return "0"
    if not settings.limited_swap:
        return "max" if facts.swap_unlimited_unless_limited else "0"
    request, limit = (
        NANOS[resources["memory"]] if "memory" in resources else 0
        for resources in (container.requests, container.limits)
    )
    # Without request and limit the two are equal as well.
    if qos_class != "Burstable" or request == limit:
        return "0"
    swap = limited_swap_bytes(units_of(request), settings.memory_capacity, settings.swap_capacity)
    return "0" if swap is None else str(swap)
