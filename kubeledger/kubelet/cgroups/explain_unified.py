"""Which gate, request, limit or behaviour of swap gives a cgroup v2 file, or keeps it away."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.pod_config import pod_request
from kubeledger.kubelet.cgroups.reasons import Path
from kubeledger.kubelet.cgroups.unified import (
    MEMORY_LOW,
    MEMORY_MIN,
    UnifiedSettings,
    memory_high_bytes,
    protection_file,
)
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.requests import ResourceList, units_of
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

__all__ = ["UnifiedExplainer"]

_THERE: Final = "the pod has this container"


class UnifiedExplainer(msgspec.Struct, frozen=True, kw_only=True):
    """Explains the files of one decision."""

    pod: Pod
    qos_class: QOSClass
    facts: CgroupFacts
    settings: UnifiedSettings

    def explain(self, path: Path) -> str:
        """The rule behind the file at a path of the outcome, as users see it."""
        match path:
            case ("pod", "unified", name):
                return self._pod_file(name)
            case ("containers", name, *rest):
                found = [c for c in self.pod.spec.containers or () if (c.name or "") == name]
                if not found:
                    return "the pod has no such container"
                return self._container_file(found[-1], rest[1]) if len(rest) == 2 else _THERE
        return ""

    def _pod_file(self, name: str) -> str:
        if name not in (MEMORY_MIN, MEMORY_LOW):
            return "the kubelet asks for no such file of a pod"
        if off := self._memory_qos_off():
            return off
        if self.facts.memory_reservation_tiers and not self.settings.tiered_reservation:
            return "memoryReservationPolicy is not TieredReservation, so nothing is reserved"
        level = self.facts.pod_level_resources
        request = pod_request(self.pod.spec, "memory", self.facts, pod_level=level) or 0
        return self._protection(name, units_of(request), "the pod")

    def _container_file(self, container: Container, name: str) -> str:
        match name:
            case "memory.min" | "memory.low":
                return self._container_protection(container, name)
            case "memory.high":
                return self._memory_qos_off() or self._high(container)
            case "memory.swap.max":
                return self._swap(container)
            case "memory.oom.group":
                return self._oom_group()
        return "the kubelet asks for no such file of a container"

    def _memory_qos_off(self) -> str:
        if not self.facts.memory_qos:
            return "this version has no MemoryQoS"
        return "" if self.settings.memory_qos else "MemoryQoS is not enforced"

    def _container_protection(self, container: Container, name: str) -> str:
        if off := self._memory_qos_off():
            return off
        request = _memory(container, limits=False)
        if self.facts.memory_reservation_tiers and not (
            request and self.settings.tiered_reservation
        ):
            why = (
                "no memory is requested"
                if self.settings.tiered_reservation
                else "memoryReservationPolicy is not TieredReservation"
            )
            return f"{why}, so both files that reserve memory are set back to 0"
        return self._protection(name, request, "the container")

    def _protection(self, name: str, request: int, who: str) -> str:
        """Memory that is requested is reserved in one file."""
        if not request:
            return f"{who} requests no memory"
        due = protection_file(self.qos_class, self.facts)
        if name != due:
            return f"MemoryQoS reserves what a {self.qos_class} pod requests in {due}"
        return f"MemoryQoS reserves what {who} requests, {request} bytes"

    def _high(self, container: Container) -> str:
        request, limit = (_memory(container, limits=limits) for limits in (False, True))
        top = limit or max(self.settings.node_allocatable_memory, 0)
        factor, of = self.settings.throttling_factor, "limit" if limit else "node's allocatable"
        if not top:
            return "there is neither a memory limit nor allocatable memory of the node"
        if self.facts.memory_high_above_request and request == limit:
            return "the memory request is the limit, which leaves no room to throttle in"
        high = memory_high_bytes(request, limit, self.facts, self.settings)
        if self.facts.memory_high_above_request:
            sum_ = f"{request} + ({top} - {request}) * {factor} in whole pages, {top} the {of},"
        else:
            sum_ = f"{top} * {factor}, {top} the {of},"
        if high is not None and high < 0:
            return f"{sum_} does not fit 64 bits"
        if high is None or high <= request:
            return f"{sum_} is not above the request of {request}"
        return f"{sum_} is {high}"

    def _swap(self, container: Container) -> str:
        if not self.facts.swap_file_written:
            return "this version does not limit swap in this file"
        if self.facts.swap_never_for_critical_pods and is_critical_pod(self.pod):
            return "a critical pod gets no swap"
        if not self.settings.limited_swap:
            most = "unlimited swap" if self.facts.swap_unlimited_unless_limited else "no swap"
            return f"any swapBehavior but LimitedSwap is {most}"
        if self.qos_class != "Burstable":
            return f"LimitedSwap gives a {self.qos_class} pod none"
        asked, limited = (_nanos(resources) for resources in (container.requests, container.limits))
        if asked == limited:
            return "the memory request is the limit" if asked else "no memory is requested"
        request = units_of(asked)
        memory, swap = self.settings.memory_capacity, self.settings.swap_capacity
        if memory <= 0 or request > memory:
            return f"{request} bytes requested are no part of {memory} bytes of memory"
        return f"the container requests {request} of {memory} bytes of memory, of {swap} of swap"

    def _oom_group(self) -> str:
        if not self.facts.oom_kills_whole_container:
            return "this version leaves the file alone"
        if not self.facts.oom_kill_scope_configurable:
            return "this version has all processes of a container killed at once"
        return "singleProcessOOMKill decides about the file, and is not false here"


def _memory(container: Container, *, limits: bool) -> int:
    """Bytes; 0 where there are none."""
    return units_of(_nanos(container.limits if limits else container.requests))


def _nanos(resources: ResourceList) -> int:
    return NANOS[resources["memory"]] if "memory" in resources else 0
