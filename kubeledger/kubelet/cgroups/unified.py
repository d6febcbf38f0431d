"""cgroup v2 files that the kubelet asks for by name: memory protection, throttling, swap.

They go with a container or pod as text, file -> value. ``memory.min`` and ``memory.low``
keep memory from being reclaimed, ``memory.high`` throttles before the limit kills, and
``memory.swap.max`` says how much may be swapped out.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.cgroups.pod_config import pod_request
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.kube.quantity import int64_of_float, wrapped
from kubeledger.kubelet.kube.resources import NANOS, ResourceList, units_of
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
_NOT_TIERED: Final = "memoryReservationPolicy is not TieredReservation"


class File(NamedTuple):
    """A file's text, None where it is left alone, and the rule for that as users see it."""

    text: str | None
    why: str


Files = dict[str, File]
"""By name."""


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
    off = _memory_qos_off(facts, settings)
    if not off and facts.memory_reservation_tiers and not settings.tiered_reservation:
        off = f"{_NOT_TIERED}, so nothing is reserved"
    if off:
        return dict.fromkeys((MEMORY_MIN, MEMORY_LOW), File(None, off))
    return _protected(units_of(pod_request(pod.spec, "memory", facts)), "the pod", qos_class, facts)


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
    swap = File(None, "this version does not limit swap in this file")
    if facts.swap_file_written:
        swap = _swap_max(pod, container, qos_class, facts, settings)
    files = {OOM_GROUP: _oom_group(facts, settings), SWAP_MAX: swap}
    if off := _memory_qos_off(facts, settings):
        return files | dict.fromkeys((MEMORY_MIN, MEMORY_LOW, MEMORY_HIGH), File(None, off))
    request, limit = _memory(container.requests), _memory(container.limits)
    files |= _protected(request, "the container", qos_class, facts)
    if facts.memory_reservation_tiers and not (request and settings.tiered_reservation):
        why = "no memory is requested" if settings.tiered_reservation else _NOT_TIERED
        reset = File("0", f"{why}, so both files that reserve memory are set back to 0")
        files |= dict.fromkeys((MEMORY_MIN, MEMORY_LOW), reset)
    return files | {MEMORY_HIGH: _memory_high(request, limit, facts, settings)}


def written(files: Files) -> dict[str, str]:
    """File -> text, of those that are written."""
    return {name: file.text for name, file in files.items() if file.text is not None}


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


def kills_all_processes(facts: CgroupFacts, single_process_oom_kill: bool | None) -> bool:
    """Whether the kernel is to kill all processes of a container at once, with cgroup v2."""
    if not facts.oom_kills_all_processes:
        return False
    return not facts.oom_kill_scope_configurable or single_process_oom_kill is False


def _oom_group(facts: CgroupFacts, settings: UnifiedSettings) -> File:
    text = "1" if kills_all_processes(facts, settings.single_process_oom_kill) else None
    if not facts.oom_kills_all_processes:
        return File(text, "this version leaves the file alone")
    if not facts.oom_kill_scope_configurable:
        return File(text, "this version has all processes of a container killed at once")
    return File(text, "singleProcessOOMKill decides about the file, and is not false here")


def _memory_qos_off(facts: CgroupFacts, settings: UnifiedSettings) -> str:
    if not facts.memory_qos:
        return "this version has no MemoryQoS"
    return "" if settings.memory_qos else "MemoryQoS is not enforced"


def _protected(request: int, who: str, qos_class: QOSClass, facts: CgroupFacts) -> Files:
    """The file that protects what is requested: hard, or since there are tiers also soft."""
    hard = not facts.memory_reservation_tiers or qos_class == "Guaranteed"
    due, other = (MEMORY_MIN, MEMORY_LOW) if hard else (MEMORY_LOW, MEMORY_MIN)
    if not request:
        return dict.fromkeys((due, other), File(None, f"{who} requests no memory"))
    why = f"MemoryQoS reserves what {who} requests, {request} bytes"
    elsewhere = f"MemoryQoS reserves what a {qos_class} pod requests in {due}"
    return {due: File(str(request), why), other: File(None, elsewhere)}


def _memory_high(request: int, limit: int, facts: CgroupFacts, settings: UnifiedSettings) -> File:
    """Where throttling begins; without a limit the node's memory stands in.

    Source: v1.22.0, v1.27.0 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
    """
    top, factor = limit or max(settings.node_allocatable_memory, 0), settings.throttling_factor
    of = "limit" if limit else "node's allocatable"
    if factor is None:
        return File(None, "no memoryThrottlingFactor is set")
    if not top:
        return File(None, "there is neither a memory limit nor allocatable memory of the node")
    if not facts.memory_high_above_request:
        high, formula = int64_of_float(float(top) * factor), f"{top} * {factor}, {top} the {of},"
    elif request == limit and not (limit == 0 and facts.memory_high_for_best_effort):
        return File(None, "the memory request is the limit, which leaves no room to throttle in")
    else:
        span = (float(top) - float(request)) * factor
        # Near 2**63 the product wraps around, and the file is then left out.
        high = wrapped(int64_of_float(math.floor(float(request) + span) / PAGE_BYTES) * PAGE_BYTES)
        formula = f"{request} + ({top} - {request}) * {factor} in whole pages, {top} the {of},"
    if high < 0:
        return File(None, f"{formula} does not fit 64 bits")
    if high <= request:
        return File(None, f"{formula} is not above the request of {request}")
    return File(str(high), f"{formula} is {high}")


def _swap_max(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    settings: UnifiedSettings,
) -> File:
    """Only Burstable containers whose memory limit leaves room above the request get swap.

    Source: v1.28.0, v1.33.0 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        ConfigureLimitedSwap, GetContainerSwapBehavior
    """
    if facts.swap_never_for_critical_pods and is_critical_pod(pod):
        return File("0", "a critical pod gets no swap")
    if not settings.limited_swap:
        text, most = ("max", "unlimited") if facts.swap_unlimited_unless_limited else ("0", "no")
        return File(text, f"any swapBehavior but LimitedSwap is {most} swap")
    if qos_class != "Burstable":
        return File("0", f"LimitedSwap gives a {qos_class} pod none")
    asked, limit = (
        NANOS[resources["memory"]] if "memory" in resources else 0
        for resources in (container.requests, container.limits)
    )
    if asked == limit:
        return File("0", "the memory request is the limit" if asked else "no memory is requested")
    request, memory, all_swap = units_of(asked), settings.memory_capacity, settings.swap_capacity
    swap = limited_swap_bytes(request, memory, all_swap)
    if swap is None:
        return File("0", f"{request} bytes requested are no part of {memory} bytes of memory")
    why = f"the container requests {request} of {memory} bytes of memory, of {all_swap} of swap"
    return File(str(swap), why)
