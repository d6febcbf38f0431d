"""Which request, limit, sum, clamp or setting gives a value of a pod or of a container."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.container_config import ContainerConfig
from kubeledger.kubelet.cgroups.conversions import MIN_SHARES
from kubeledger.kubelet.cgroups.decider import PodDecision
from kubeledger.kubelet.cgroups.explain_oom import oom_reason
from kubeledger.kubelet.cgroups.pod_config import (
    HUGE_PAGES_PREFIX,
    NO_QUOTA,
    pod_limit,
    pod_request,
)
from kubeledger.kubelet.cgroups.reasons import Path, quota_reason, shares_reason
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.requests import ResourceList, milli_of, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts

__all__ = ["PodExplainer"]

_THERE: Final = "the pod has this container"


class PodExplainer(msgspec.Struct, frozen=True, kw_only=True):
    """Explains the values of one decision; settings as they were for the decision."""

    pod: Pod
    decision: PodDecision
    facts: CgroupFacts
    enforce_cpu_limits: bool
    cpu_period_us: int
    memory_capacity: int

    def explain(self, path: Path) -> str:
        """The rule behind the value at a path of the outcome, as users see it."""
        match path:
            case ("qosClass",):
                return self._class()
            case ("pod", "hugePageLimits", *_):
                return self._huge_pages(path)
            case ("pod", name):
                return self._pod_value(name)
            case ("containers", name, *rest):
                found = [c for c in self.pod.spec.containers or () if (c.name or "") == name]
                if not found:
                    return "the pod has no such container"
                config = self.decision.containers[name]
                return self.container_value(found[-1], config, rest[0]) if rest else _THERE
            case ("cgroupfsPath",) | ("systemdPath",):
                level = {"Guaranteed": "directly in kubepods"}.get(
                    self.decision.qos_class, f"in the cgroup of class {self.decision.qos_class}"
                )
                return f"a {self.decision.qos_class} pod stands {level}, under its UID"
        return ""

    def _class(self) -> str:
        status, level = self.pod.status, self._level()
        if self.facts.qos_class_from_status and status is not None and status.qos_class:
            return "the pod's status says so"
        who = "spec.resources" if level is not None else "its containers"
        match self.decision.qos_class:
            case "BestEffort":
                return f"{who} neither request nor limit cpu or memory, or only 0"
            case "Guaranteed":
                return f"{who} limit cpu and memory, to what is requested where anything is"
        spec = self.pod.spec
        containers = (*(spec.containers or ()), *(spec.init_containers or ()))
        if level is None:
            for container in containers:
                for name in ("cpu", "memory"):
                    if not _nanos(container.limits, name):
                        return f"container {container.name or ''} has no {name} limit"
        return f"what is requested in {who} is not all limited to the same amount"

    def _pod_value(self, name: str) -> str:
        config, spec = self.decision.pod, self.pod.spec
        best_effort = self.decision.qos_class == "BestEffort"
        match name:
            case "cpuShares":
                if best_effort:
                    return f"a BestEffort pod has the least shares, {MIN_SHARES}"
                level = self.facts.pod_level_resources
                milli = milli_of(pod_request(spec, "cpu", self.facts, pod_level=level) or 0)
                asked = f"{milli} m of cpu are requested{self._by('cpu', limits=False)}"
                return f"{asked}, {shares_reason(milli, config.cpu_shares or 0)}"
            case "cpuQuota" | "cpuPeriod":
                if config.cpu_period_us is None:
                    return self._no_limit("cpu")
                if name == "cpuPeriod":
                    return f"the pod is limited, and cpuCFSQuotaPeriod is {self.cpu_period_us} us"
                if not self.enforce_cpu_limits:
                    return "cpuCFSQuota is off, so a limited pod has the quota -1"
                milli = milli_of(pod_limit(spec, "cpu", self.facts) or 0)
                limit = f"cpu is limited to {milli} m{self._by('cpu', limits=True)}"
                return (
                    f"{limit}, {quota_reason(milli, self.cpu_period_us, config.cpu_quota_us or 0)}"
                )
            case "memoryLimit":
                if config.memory_limit_bytes is None:
                    return self._no_limit("memory")
                limit = f"memory is limited to {config.memory_limit_bytes} bytes"
                return f"{limit}{self._by('memory', limits=True)}"
        return ""

    def _no_limit(self, name: str) -> str:
        """Why the pod is not limited."""
        if self.decision.qos_class == "BestEffort":
            return "a BestEffort pod is not limited"
        spec = self.pod.spec
        unlimited = _without(spec.containers or (), name)
        if not unlimited and self.facts.pod_config_visits_init_containers:
            unlimited = _without(spec.init_containers or (), name)
        return f"container {unlimited[0]} has no {name} limit, so the pod has none"

    def _by(self, name: str, *, limits: bool) -> str:
        """Where an amount of a pod comes from: `` by spec.resources``, with overhead."""
        spec, level = self.pod.spec, self._level()
        named = (level.limits if limits else level.requests) if level is not None else None
        own = named is not None and name in named
        by = " by spec.resources" if own else " by all that runs in the pod"
        overhead = bool(spec.overhead and _nanos(spec.overhead, name))
        return f"{by}, overhead included" if overhead else by

    def _level(self) -> Container | None:
        """The pod level as a container has it, where the version looks at it."""
        if not self.facts.pod_level_resources or self.pod.spec.resources is None:
            return None
        return Container(resources=self.pod.spec.resources)

    def _huge_pages(self, path: Path) -> str:
        limits = self.decision.pod.huge_page_limits
        if len(path) < 3:
            return "" if limits else "no huge pages are requested"
        amount = next((a for size, a in limits.items() if str(size) == path[2]), None)
        if amount is None:
            return f"no resource {HUGE_PAGES_PREFIX}<size> of this size is requested"
        return f"the pod requests {amount} bytes in huge pages of {path[2]} bytes"

    def container_value(self, container: Container, config: ContainerConfig, name: str) -> str:
        """The rule behind a value of any container of the pod.

        Args:
            container: init and ephemeral ones included.
            config: what was decided for it.
            name: of the value, as in the outcome.
        """
        limit = units_of(self._limit(container, "memory")[0])
        milli_limit, holder = self._limit(container, "cpu")
        milli = milli_of(milli_limit)
        match name:
            case "cpuShares":
                return self._container_shares(container, milli, holder, config.cpu_shares)
            case "cpuQuota" | "cpuPeriod" if not self.enforce_cpu_limits:
                return "cpuCFSQuota is off"
            case "cpuPeriod":
                return f"cpuCFSQuotaPeriod is {self.cpu_period_us} us"
            case "cpuQuota":
                if config.cpu_quota_us == NO_QUOTA:
                    return "it has CPUs of its own"
                if not milli:
                    return "no cpu limit is set"
                reason = quota_reason(milli, self.cpu_period_us, config.cpu_quota_us)
                return f"the cpu limit of {holder} is {milli} m, {reason}"
            case "memoryLimit":
                if not limit:
                    return "no memory limit is set"
                return f"this is the memory limit of {self._limit(container, 'memory')[1]}"
            case "oomScoreAdj":
                return oom_reason(
                    self.pod,
                    container,
                    self.decision.qos_class,
                    self.facts,
                    memory_capacity=self.memory_capacity,
                )
        return ""

    def _container_shares(self, container: Container, limit: int, holder: str, shares: int) -> str:
        request = milli_of(_nanos(container.requests, "cpu"))
        if self.facts.limit_is_share_only_without_request:
            absent = "cpu" not in container.requests
        else:
            absent = request == 0
        if not absent:
            return f"the container requests {request} m of cpu, {shares_reason(request, shares)}"
        if not limit:
            return f"no cpu is requested, nor limited, and {MIN_SHARES} shares are the least"
        reason = shares_reason(limit, shares)
        return f"no cpu is requested, so the limit of {holder} counts, {limit} m, {reason}"

    def _limit(self, container: Container, name: str) -> tuple[int, str]:
        """Nanos of the limit that holds, and whose it is."""
        own, level = _nanos(container.limits, name), self._level()
        if own or level is None:
            return own, "the container"
        return _nanos(level.limits, name), "spec.resources"


def _nanos(resources: ResourceList, name: str) -> int:
    return NANOS[resources[name]] if name in resources else 0


def _without(containers: Iterable[Container], name: str) -> list[str]:
    """Names of those that have no limit of a resource."""
    return [c.name or "" for c in containers if not _nanos(c.limits, name)]
