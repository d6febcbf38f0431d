"""What the kubelet asks for a pod's cgroup, before any of its containers is created.

The pod's requests become shares, its limits quota and memory limit. A pod is limited only
where all that runs in it is: one container without a limit leaves the pod without one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubeledger.kubelet.kube.int64amount import quotient
from kubeledger.kubelet.kube.pod import Container, Pod, PodSpec, is_sidecar
from kubeledger.kubelet.kube.podtotals import scheduled_total, staged_total
from kubeledger.kubelet.kube.quantity import QuantityError, value_of
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

# From CPU amounts to the kernel's knobs: shares, quota and weight, and back.
#
# Shares say who gets how much when CPU is scarce, quota how much there is at most. With
# cgroup v2 shares become a weight, by one of two formulas: the kubelet's is linear, runtimes
# went over to a curve that maps the default 1024 to the default 100.

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144
SHARES_PER_CPU: Final = 1024
MILLI_PER_CPU: Final = 1000
QUOTA_PERIOD_US: Final = 100_000
MIN_QUOTA_US: Final = 1000
MAX_WEIGHT: Final = 10_000


def shares_of_milli_cpu(milli_cpu: int, *, capped: bool = True) -> int:
    """CPU shares of a request in millicores: 1024 a core, 2 at least.

    Args:
        milli_cpu: millicores; 0 is no request.
        capped: whether 262144 is the most.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go MilliCPUToShares
    Differs: ``capped=False`` is kuberuntime's own milliCPUToShares up to v1.23.
    """
    shares = quotient(milli_cpu * SHARES_PER_CPU, MILLI_PER_CPU)
    if shares < MIN_SHARES:
        return MIN_SHARES
    return MAX_SHARES if capped and shares > MAX_SHARES else shares


def quota_of_milli_cpu(milli_cpu: int, period_us: int) -> int:
    """CFS quota in microseconds a period of a limit in millicores; 0 where there is none.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota
    Differs: the period is the one in force: 100 ms while the gate CPUCFSQuotaPeriod is off.
    """
    if milli_cpu == 0:
        return 0
    return max(quotient(milli_cpu * period_us, MILLI_PER_CPU), MIN_QUOTA_US)


def weight_of_shares(shares: int) -> int:
    """cpu.weight as the kubelet writes it to pod, QoS and node cgroups: linear.

    Source: v1.36.2 pkg/kubelet/cm/cgroup_manager_linux.go getCPUWeight
    Differs: below the least shares, which the kubelet never asks for, 1.
    """
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * 9999 // 262142


def weight_of_shares_curved(shares: int) -> int:
    """cpu.weight as newer runtimes (runc 1.3.2, crun 1.23) write it to containers.

    Source: opencontainers/cgroups v0.0.5 utils.go ConvertCPUSharesToCgroupV2Value
    """
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def shares_reason(milli_cpu: int, shares: int) -> str:
    """``and 1350 * 1024 / 1000 = 1382``, or which end of the range stands in."""
    exact = milli_cpu * SHARES_PER_CPU // MILLI_PER_CPU
    if shares == exact:
        return f"and {milli_cpu} * {SHARES_PER_CPU} / {MILLI_PER_CPU} = {shares}"
    if shares == MIN_SHARES:
        return f"and {MIN_SHARES} shares are the least"
    if shares == MAX_SHARES:
        return f"and {MAX_SHARES} shares are the most"
    return "which 64 bits cannot hold in shares"


def quota_reason(milli_cpu: int, period_us: int, quota_us: int) -> str:
    """``and 500 * 100000 / 1000 = 50000``, or that the least stands in."""
    exact = milli_cpu * period_us // MILLI_PER_CPU
    if quota_us == exact:
        return f"and {milli_cpu} * {period_us} / {MILLI_PER_CPU} = {quota_us}"
    if quota_us == MIN_QUOTA_US:
        return f"and a quota of {MIN_QUOTA_US} is the least"
    return "which 64 bits cannot hold as a quota"


NO_QUOTA: Final = -1
_OF_BEST_EFFORT: Final = {
    "cpuShares": f"a BestEffort pod has the least shares, {MIN_SHARES}",
    **dict.fromkeys(("cpuQuota", "memoryLimit"), "a BestEffort pod is not limited"),
}


class ResourceConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Values for one cgroup; None leaves the file alone.

    Attributes:
        cpu_quota_us: -1 is no quota.
        huge_page_limits: page size in bytes -> bytes.
        reasons: name of a pod's value as outcomes have it -> its rule, as users see it.
    """

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit_bytes: int | None = None
    huge_page_limits: dict[int, int] = {}
    reasons: dict[str, str] = {}


def resource_config_for_pod(
    pod: Pod,
    qos_class: QOSClass,
    facts: CgroupFacts,
    *,
    enforce_cpu_limits: bool,
    cpu_period_us: int,
    exclusive_cpus: bool = False,
) -> ResourceConfig:
    """The config of a pod's cgroup.

    Args:
        enforce_cpu_limits: setting cpuCFSQuota.
        cpu_period_us: setting cpuCFSQuotaPeriod.

    Raises:
        BadInputError: an amount cannot be asked for.

    Source: v1.36.2 pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod;
        pod_container_manager_linux.go EnsureExists
    Differs: only what is written is computed; cgroup v2 files are in ``unified``.
    """
    spec = pod.spec
    huge_pages = _pod_huge_pages(spec, facts)
    if qos_class == "BestEffort":
        reasons = _OF_BEST_EFFORT
        return ResourceConfig(cpu_shares=MIN_SHARES, huge_page_limits=huge_pages, reasons=reasons)
    guaranteed = qos_class == "Guaranteed"
    off = "cpuCFSQuota is off"
    if exclusive_cpus and facts.exclusive_cpus_unlimited:
        enforce_cpu_limits, off = False, "a container has CPUs of its own"
    milli = milli_of(pod_request(spec, "cpu", facts))
    shares = shares_of_milli_cpu(milli)
    asked = f"{milli} m of cpu are requested{_origin(spec, 'cpu', facts, limits=False)}"
    quota = period = memory = None
    unlimited = None if guaranteed else _unlimited(spec, "cpu", facts)
    of_quota = f"container {unlimited} has no cpu limit, so the pod has none"
    if unlimited is None:
        milli_limit, period = milli_of(_limit(spec, "cpu", facts)), cpu_period_us
        quota, of_quota = NO_QUOTA, f"{off}, so a limited pod has the quota {NO_QUOTA}"
        if enforce_cpu_limits:
            quota = quota_of_milli_cpu(milli_limit, cpu_period_us)
            by = _origin(spec, "cpu", facts, limits=True)
            reason = quota_reason(milli_limit, cpu_period_us, quota)
            of_quota = f"cpu is limited to {milli_limit} m{by}, {reason}"
    unlimited = None if guaranteed else _unlimited(spec, "memory", facts)
    of_memory = f"container {unlimited} has no memory limit, so the pod has none"
    if unlimited is None:
        memory = units_of(_limit(spec, "memory", facts))
        by = _origin(spec, "memory", facts, limits=True)
        of_memory = f"memory is limited to {memory} bytes{by}"
    return ResourceConfig(
        cpu_shares=shares,
        cpu_quota_us=quota,
        cpu_period_us=period,
        memory_limit_bytes=memory,
        huge_page_limits=huge_pages,
        reasons={
            "cpuShares": f"{asked}, {shares_reason(milli, shares)}",
            "cpuQuota": of_quota,
            "memoryLimit": of_memory,
        },
    )


def _origin(spec: PodSpec, name: str, facts: CgroupFacts, *, limits: bool) -> str:
    """Where an amount of a pod comes from: `` by spec.resources``, with overhead."""
    level = spec.resources if facts.pod_level_resources else None
    named = None if level is None else (level.limits if limits else level.requests)
    by = " by spec.resources" if name in (named or {}) else " by all that runs in the pod"
    return f"{by}, overhead included" if nanos_in(spec.overhead, name) else by


def pod_request(spec: PodSpec, name: str, facts: CgroupFacts) -> int:
    """What a pod requests of one resource, overhead included: nanos."""
    sidecars, pod_level = facts.sidecars_run_alongside, facts.pod_level_resources
    return scheduled_total(spec, name, NANOS, sidecars, pod_level)


def _limit(spec: PodSpec, name: str, facts: CgroupFacts) -> int:
    """What a pod may use of one resource, with overhead where there is a limit at all: nanos.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go PodLimits
    """
    own = _pod_level_limits(spec, facts)
    if own and name in own and is_pod_level_resource(name):
        total = NANOS[own[name]]
    else:
        apps = [container.limits for container in spec.containers or ()]
        inits = [(init.limits, is_sidecar(init)) for init in spec.init_containers or ()]
        total = staged_total((apps, inits), name, NANOS, facts.sidecars_run_alongside)
    return total + nanos_in(spec.overhead, name) if total else total


def page_size_of(name: str) -> int:
    """Bytes of one page of a huge page resource; 0 where its name holds no quantity.

    Source: v1.20.2 pkg/apis/core/v1/helper/helpers.go HugePageSizeFromResourceName
    """
    try:
        return value_of(name.removeprefix(HUGE_PAGES))
    except QuantityError:
        return 0


def huge_page_limits(amounts: dict[str, int]) -> dict[int, int]:
    """Bytes by page size; two spellings of a size add up.

    Args:
        amounts: resource name -> bytes.

    Source: v1.20.2 pkg/kubelet/cm/helpers_linux.go HugePageLimits
    """
    limits: dict[int, int] = {}
    for name, amount in amounts.items():
        if name.startswith(HUGE_PAGES):
            size = page_size_of(name)
            limits[size] = limits.get(size, 0) + amount
    return limits


def _unlimited(spec: PodSpec, name: str, facts: CgroupFacts) -> str | None:
    """The first of all that runs in the pod that is not limited, unless the pod level is.

    An init container counts with the sidecars before it, where the version runs them
    alongside: their limits can stand in for its own.
    """
    if nanos_in(_pod_level_limits(spec, facts), name):
        return None
    for container in spec.containers or ():
        if not nanos_in(container.limits, name):
            return container.name or ""
    if not (facts.pod_config_visits_init_containers and spec.init_containers):
        return None
    inits = spec.init_containers
    limited = zip(inits, _init_limits(inits, name, facts), strict=True)
    return next((init.name or "" for init, limit in limited if not limit), None)


def _init_limits(inits: Iterable[Container], name: str, facts: CgroupFacts) -> Iterator[int]:
    """(n,) nanos that each init container may use, with the sidecars beside it."""
    sidecars = 0
    for container in inits:
        limit = sidecars + nanos_in(container.limits, name)
        if facts.sidecars_run_alongside and is_sidecar(container):
            sidecars = limit
        yield limit


def _pod_level_limits(spec: PodSpec, facts: CgroupFacts) -> ResourceList | None:
    if facts.pod_level_resources and spec.resources is not None:
        return spec.resources.limits
    return None


def _pod_huge_pages(spec: PodSpec, facts: CgroupFacts) -> dict[int, int]:
    """Bytes by page size that the pod may use."""
    if not facts.huge_pages_from_pod_requests:
        return _huge_pages_by_container(spec, facts)
    names: dict[str, None] = {}
    for resources in _request_lists(spec, facts):
        for name in resources:
            if name.startswith(HUGE_PAGES):
                names[name] = None
    return huge_page_limits({name: units_of(pod_request(spec, name, facts)) for name in names})


def _request_lists(spec: PodSpec, facts: CgroupFacts) -> Iterator[ResourceList]:
    """All request lists that a pod's requests come from."""
    for container in spec.containers or ():
        yield container.requests
    for container in spec.init_containers or ():
        yield container.requests
    if spec.overhead:
        yield spec.overhead
    if facts.pod_level_resources and spec.resources is not None:
        yield spec.resources.requests or {}


def _huge_pages_by_container(spec: PodSpec, facts: CgroupFacts) -> dict[int, int]:
    """Sum of the containers; later at least the most of any init container.

    Source: v1.20.2, v1.23.0 pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod
    """
    total: dict[int, int] = {}
    for container in spec.containers or ():
        for size, amount in huge_page_limits(_huge_pages(container.requests)).items():
            total[size] = total.get(size, 0) + amount
    if facts.pod_config_visits_init_containers:
        for container in spec.init_containers or ():
            for size, amount in huge_page_limits(_huge_pages(container.requests)).items():
                if size not in total or amount > total[size]:
                    total[size] = amount
    return total


def _huge_pages(resources: ResourceList) -> dict[str, int]:
    return {
        name: units_of(NANOS[amount])
        for name, amount in resources.items()
        if name.startswith(HUGE_PAGES)
    }
