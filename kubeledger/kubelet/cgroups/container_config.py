"""What the kubelet asks the runtime for, for one container.

Unlike a pod, a container has a quota even where it has no limit: 0, which runtimes read as
none. A container without a CPU request gets shares by its limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.pod_config import (
    MIN_SHARES,
    NO_QUOTA,
    page_size_of,
    quota_of_milli_cpu,
    quota_reason,
    shares_of_milli_cpu,
    shares_reason,
)
from kubeledger.kubelet.kube.int64amount import quotient
from kubeledger.kubelet.kube.pod import Container, Pod, PodSpec, is_sidecar
from kubeledger.kubelet.kube.podclass import is_critical_pod, is_node_critical_pod
from kubeledger.kubelet.kube.podtotals import container_total
from kubeledger.kubelet.kube.resources import (
    HUGE_PAGES,
    NANOS,
    ResourceList,
    is_pod_level_resource,
    milli_of,
    nanos_in,
    units_of,
)
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class ContainerConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Values for one container (CRI LinuxContainerResources).

    Attributes:
        cpu_quota_us, cpu_period_us: both 0 where CFS quota is off; a quota of -1 is none.
        memory_limit_bytes: 0 where there is none.
        reasons: name of a value as outcomes have it -> its rule, as users see it.
    """

    cpu_shares: int
    cpu_quota_us: int
    cpu_period_us: int
    memory_limit_bytes: int
    oom_score_adj: int
    reasons: dict[str, str]


def container_config(
    pod: Pod,
    container: Container,
    qos_class: QOSClass,
    facts: CgroupFacts,
    *,
    enforce_cpu_limits: bool,
    cpu_period_us: int,
    memory_capacity: int,
    exclusive_cpus: bool = False,
) -> ContainerConfig:
    """The values of one container.

    Args:
        enforce_cpu_limits: setting cpuCFSQuota.
        cpu_period_us: setting cpuCFSQuotaPeriod.

    Raises:
        BadInputError: an amount cannot be asked for.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        generateLinuxContainerResources, calculateLinuxResources
    """
    cpu, holder = _limit(pod, container, "cpu", facts)
    memory, memory_holder = _limit(pod, container, "memory", facts)
    milli, memory_limit = milli_of(cpu), units_of(memory)
    shares, of_shares = _shares(container.requests, milli, holder, facts)
    quota, period, of_quota = 0, 0, "cpuCFSQuota is off"
    if enforce_cpu_limits:
        period = cpu_period_us
        quota, of_quota = quota_of_milli_cpu(milli, cpu_period_us), "no cpu limit is set"
        if milli:
            reason = quota_reason(milli, cpu_period_us, quota)
            of_quota = f"the cpu limit of {holder} is {milli} m, {reason}"
        if exclusive_cpus and facts.exclusive_cpus_unlimited:
            quota, of_quota = NO_QUOTA, "it has CPUs of its own"
    of_memory = "no memory limit is set"
    if memory_limit:
        of_memory = f"this is the memory limit of {memory_holder}"
    return ContainerConfig(
        cpu_shares=shares,
        cpu_quota_us=quota,
        cpu_period_us=period,
        memory_limit_bytes=memory_limit,
        oom_score_adj=container_oom_score_adj(
            pod, container, qos_class, facts, memory_capacity=memory_capacity
        ),
        reasons={
            "cpuShares": of_shares,
            "cpuQuota": of_quota,
            "memoryLimit": of_memory,
        },
    )


def container_huge_page_limits(
    pod: Pod, container: Container, page_sizes: Iterable[str], facts: CgroupFacts
) -> dict[str, int]:
    """Huge page limits of a container: all sizes of the host, 0 where none is asked for.

    Args:
        pod: its pod-level limits hold where the container has none of the size.
        page_sizes: of the host, as the kernel writes them (``2MB``).

    Returns:
        Page size -> bytes.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
        GetHugepageLimitsFromResources
    """
    asked: dict[str, int] = {}
    lists: list[ResourceList] = [container.limits]
    if facts.pod_level_resources and pod.spec.resources is not None:
        lists.insert(0, pod.spec.resources.limits or {})
    for limits in lists:
        for name, amount in limits.items():
            if not name.startswith(HUGE_PAGES):
                continue
            if size := huge_page_unit_size(page_size_of(name)):
                asked[size] = units_of(NANOS[amount])
    return {size: asked.get(size, 0) for size in page_sizes}


def huge_page_unit_size(size_bytes: int) -> str | None:
    """A page size as in the name of its cgroup file: 2097152 is ``2MB``.

    Returns:
        None for a size that cannot be written so.

    Source: v1.20.2 pkg/apis/core/v1/helper/helpers.go HugePageUnitSizeFromByteSize
    """
    index, last = 0, len(_UNITS) - 1
    while size_bytes % 1024 == 0 and index < last:
        size_bytes //= 1024
        index += 1
    return None if size_bytes > 1024 and index < last else f"{size_bytes}{_UNITS[index]}"


def _limit(pod: Pod, container: Container, name: str, facts: CgroupFacts) -> tuple[int, str]:
    """Nanos of the container's limit, else of the pod level's, and whose it is; 0 without any.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container_linux.go getCPULimit,
        getMemoryLimit
    """
    limit = nanos_in(container.limits, name)
    if limit or not facts.pod_level_resources or pod.spec.resources is None:
        return limit, "the container"
    return nanos_in(pod.spec.resources.limits, name), "spec.resources"


def _shares(
    requests: ResourceList, limit_milli: int, holder: str, facts: CgroupFacts
) -> tuple[int, str]:
    """Shares by the request, or by the limit in its stead, and the rule for them."""
    request_milli = milli_of(nanos_in(requests, "cpu"))
    absent = "cpu" not in requests
    if not facts.limit_is_share_only_without_request:
        absent = request_milli == 0
    milli_cpu = limit_milli if absent else request_milli
    shares = shares_of_milli_cpu(milli_cpu, capped=facts.container_shares_capped)
    reason = shares_reason(milli_cpu, shares)
    if not absent:
        return shares, f"the container requests {milli_cpu} m of cpu, {reason}"
    if not limit_milli:
        return shares, f"no cpu is requested, nor limited, and {MIN_SHARES} shares are the least"
    why = f"no cpu is requested, so the limit of {holder} counts, {limit_milli} m, {reason}"
    return shares, why


_CPU: int = 10**9
"""Nanos of one CPU."""


def exclusive_containers(pod: Pod, qos_class: QOSClass, facts: CgroupFacts) -> frozenset[str]:
    """Names of the containers that the static CPU policy gives CPUs of their own.

    Args:
        pod: init containers count as well.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go Allocate, guaranteedCPUs
    Differs: there are enough CPUs; PodLevelResourceManagers is off.
    """
    spec = pod.spec
    if qos_class != "Guaranteed" or (facts.pod_level_resources and spec.resources is not None):
        return frozenset()
    return frozenset(
        container.name or ""
        for container in (*(spec.init_containers or ()), *(spec.containers or ()))
        if _whole(nanos_in(container.requests, "cpu"))
    )


def _whole(cpu: int) -> bool:
    return cpu >= _CPU and cpu % _CPU == 0


BEST_EFFORT_OOM_SCORE_ADJ: Final = 1000


def container_oom_score_adj(
    pod: Pod, container: Container, qos_class: QOSClass, facts: CgroupFacts, *, memory_capacity: int
) -> int:
    """The adjustment of one container.

    Args:
        memory_capacity: bytes of the node, above 0.

    Raises:
        BadInputError: a memory request cannot be asked for.

    Source: v1.36.2 pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust
    """
    guaranteed = -997 if facts.oom_score_of_guaranteed_997 else -998
    only_node = facts.oom_only_node_critical_protected
    if qos_class == "Guaranteed" or (is_node_critical_pod if only_node else is_critical_pod)(pod):
        return guaranteed
    if qos_class == "BestEffort":
        return BEST_EFFORT_OOM_SCORE_ADJ
    share = _unallocated_share(pod.spec) if facts.pod_level_resources else 0
    adjust = _score(_memory_request(container) + share, memory_capacity)
    if facts.oom_sidecar_outlives_containers and _is_sidecar_of(pod, container):
        least = min(map(_memory_request, pod.spec.containers or ()), default=0)
        adjust = min(adjust, _score(least + share, memory_capacity))
    if adjust < 1000 + guaranteed:
        return 1000 + guaranteed
    return adjust - 1 if adjust == BEST_EFFORT_OOM_SCORE_ADJ else adjust


def _score(memory_request: int, memory_capacity: int) -> int:
    return 1000 - quotient(1000 * memory_request, memory_capacity)


def _memory_request(container: Container) -> int:
    return units_of(nanos_in(container.requests, "memory"))


def _is_sidecar_of(pod: Pod, container: Container) -> bool:
    """Source: v1.36.2 pkg/kubelet/qos/policy.go isSidecarContainer."""
    if not is_sidecar(container):
        return False
    return any(init.name == container.name for init in pod.spec.init_containers or ())


def _unallocated_share(spec: PodSpec) -> int:
    """Bytes per container of what the pod level requests beyond the containers' requests.

    Source: v1.36.2 pkg/kubelet/qos/helpers.go remainingPodMemReqPerContainer
    """
    own = (spec.resources.requests if spec.resources is not None else None) or {}
    if not any(map(is_pod_level_resource, own)):
        return 0
    request = nanos_in(own, "memory")
    if not request:
        return 0
    inits = spec.init_containers or ()
    requested = container_total(spec, "memory", NANOS, sidecars=True)
    remaining = units_of(request) - units_of(requested)
    return quotient(remaining, len(spec.containers or ()) + len(inits))
