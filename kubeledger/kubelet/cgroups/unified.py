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
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.kube.quantity import int64_of_float, wrapped
from kubeledger.kubelet.kube.resources import ResourceList, nanos_in, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

MEMORY_MIN: Final = "memory.min"
MEMORY_LOW: Final = "memory.low"
MEMORY_HIGH: Final = "memory.high"
SWAP_MAX: Final = "memory.swap.max"
OOM_GROUP: Final = "memory.oom.group"

TIERED_RESERVATION: Final = "TieredReservation"
LIMITED_SWAP: Final = "LimitedSwap"
PAGE_BYTES: Final = 4096


Files = dict[str, str]
"""Name -> text, of those that are written."""


class UnifiedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What of the kubelet's configuration and of the machine counts; cgroup v2 is a given.

    Attributes:
        memory_qos: gate MemoryQoS.
        throttling_factor: setting memoryThrottlingFactor; None: nothing is throttled.
        tiered_reservation: setting memoryReservationPolicy is TieredReservation.
        limited_swap: setting swapBehavior is LimitedSwap; the gate NodeSwap is on.
        single_process_oom_kill: setting of that name as the runtime manager holds it.
        memory_capacity, swap_capacity: bytes of the node.
        node_allocatable_memory: bytes; 0 where it is not known.
    """

    memory_qos: bool
    throttling_factor: float | None
    tiered_reservation: bool
    limited_swap: bool
    single_process_oom_kill: bool | None = None
    memory_capacity: int
    swap_capacity: int
    node_allocatable_memory: int


def pod_files(
    pod: Pod, qos_class: QOSClass, facts: CgroupFacts, settings: UnifiedSettings
) -> Files:
    """Files of the pod's cgroup: its memory request, protected.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod
    """
    reserves = settings.tiered_reservation or not facts.memory_reservation_tiers
    if not (facts.memory_qos and settings.memory_qos and reserves):
        return {}
    request = units_of(pod_request(pod.spec, "memory", facts))
    return {_tiers(qos_class, facts)[0]: str(request)} if request else {}


def container_files(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    settings: UnifiedSettings,
) -> Files:
    """Files of one container.

    Raises:
        QuantityError: a memory amount is not a quantity.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        generateLinuxContainerResources
    Differs: the swap controller is there.
    """
    files: Files = {}
    if kills_all_processes(facts, settings.single_process_oom_kill):
        files[OOM_GROUP] = "1"
    if facts.swap_file_written:
        files[SWAP_MAX] = _swap_max(pod, container, qos_class, facts, settings)
    if not (facts.memory_qos and settings.memory_qos):
        return files
    request, limit = _memory(container.requests), _memory(container.limits)
    if facts.memory_reservation_tiers and not (request and settings.tiered_reservation):
        files |= dict.fromkeys(_tiers(qos_class, facts), "0")
    elif request:
        files[_tiers(qos_class, facts)[0]] = str(request)
    high = _memory_high(request, limit, facts, settings)
    return files if high is None else files | {MEMORY_HIGH: str(high)}


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
    return units_of(nanos_in(resources, "memory"))


def kills_all_processes(facts: CgroupFacts, single_process_oom_kill: bool | None) -> bool:
    """Whether the kernel is to kill all processes of a container at once, with cgroup v2."""
    if not facts.oom_kills_all_processes:
        return False
    return not facts.oom_kill_scope_configurable or single_process_oom_kill is False


def _tiers(qos_class: QOSClass, facts: CgroupFacts) -> tuple[str, str]:
    """The file that protects a request, hard or since there are tiers also soft; the other one."""
    hard = not facts.memory_reservation_tiers or qos_class == "Guaranteed"
    return (MEMORY_MIN, MEMORY_LOW) if hard else (MEMORY_LOW, MEMORY_MIN)


def _memory_high(
    request: int, limit: int, facts: CgroupFacts, settings: UnifiedSettings
) -> int | None:
    """Where throttling begins; without a limit the node's memory stands in.

    Source: v1.22.0, v1.27.0 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
    """
    top, factor = limit or max(settings.node_allocatable_memory, 0), settings.throttling_factor
    if factor is None or not top:
        return None
    if not facts.memory_high_above_request:
        high = int64_of_float(float(top) * factor)
    elif request == limit and not (limit == 0 and facts.memory_high_for_best_effort):
        return None
    else:
        span = (float(top) - float(request)) * factor
        # Near 2**63 the product wraps around, and the file is then left out.
        high = wrapped(int64_of_float(math.floor(float(request) + span) / PAGE_BYTES) * PAGE_BYTES)
    return high if high > request else None


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
    request = _memory(container.requests)
    if qos_class != "Burstable" or (
        nanos_in(container.requests, "memory") == nanos_in(container.limits, "memory")
    ):
        return "0"
    swap = limited_swap_bytes(request, settings.memory_capacity, settings.swap_capacity)
    return str(swap or 0)
