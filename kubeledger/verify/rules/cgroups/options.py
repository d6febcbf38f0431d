"""What the cgroups of one version of a pod can hold, and from which amounts that is reckoned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from kubeledger.kubelet.cgroups.container_config import (
    container_config,
    container_huge_page_limits,
    huge_page_unit_size,
)
from kubeledger.kubelet.cgroups.conversions import MIN_SHARES, SHARES_PER_CPU
from kubeledger.kubelet.cgroups.decider import decide_pod, decide_pod_unified
from kubeledger.kubelet.cgroups.exclusive import exclusive_containers
from kubeledger.kubelet.cgroups.explain_pod import PodExplainer
from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.kubelet.cgroups.unified import UnifiedSettings
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.rules.cgroups.files import Option
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values

__all__ = ["PodOptions", "listed"]

_ANY_CAPACITY: Final = 1
"""Bytes of the node in the place of a number: it decides about the OOM score alone, which
is in no cgroup file."""
_UNPROTECTED: Final = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
_NAMED_MAX: Final = 8


class PodOptions:
    """What the cgroups of one version of a pod can hold.

    Raises (all methods, and the constructor):
        msgspec.ValidationError, BadInputError, CgroupNameError: the spec cannot be read.
    """

    def __init__(self, listed: ListedPod, pod: Pod, rules: Rules) -> None:
        self.pod = pod
        self.containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        self._name = f"{listed.namespace}/{listed.name}"
        self._rules, settings, self._facts = rules, rules.settings, rules.profile.cgroups
        seqs = (listed.seq, settings.seq)
        self._inputs = tuple(seq for seq in seqs if seq is not None)
        self._enforced = bool(settings.enforce_cpu_limits)
        self._period_us = settings.cpu_period_us or 0
        self._decision = decide_pod(
            pod,
            self._facts,
            enforce_cpu_limits=self._enforced,
            cpu_period_us=self._period_us,
            memory_capacity=_ANY_CAPACITY,
            static_cpu_policy=settings.static_cpus,
        )
        self._explainer = PodExplainer(
            pod=pod,
            decision=self._decision,
            facts=self._facts,
            enforce_cpu_limits=self._enforced,
            cpu_period_us=self._period_us,
            memory_capacity=_ANY_CAPACITY,
        )
        self._known: dict[tuple[object, ...], Option] = {}

    def of_pod(self, body: CgroupUpdated) -> Option:
        """The pod's own cgroup."""
        return self._once("", body, lambda: Option(self._pod_values(body), self._pod_why()))

    def of_container(self, container: Container, body: CgroupUpdated) -> Option:
        """The cgroup of a container, init containers included."""
        return self._once(f"/{container.name}", body, lambda: self._container(container, body))

    def of_sandbox(self, body: CgroupUpdated) -> Option:
        """The cgroup of the pause container, for which the kubelet asks for nothing.

        The runtimes give it the least shares; some leave the kernel's default.
        """
        why = (
            f"the kubelet asks for no resources for the sandbox of pod {self._name}, and the "
            f"runtime's default is {MIN_SHARES} shares without quota and limit"
        )
        shares = [MIN_SHARES, SHARES_PER_CPU]
        values = kernel_values(unified=is_unified(body), shares=shares, by_runtime=True)
        return self._once("sandbox", body, lambda: Option(values, why))

    def _once(self, what: str, body: CgroupUpdated, made: Callable[[], Option]) -> Option:
        """An option; its values are the same for all of its kind with the same files."""
        key = (what, is_unified(body), *body.hugetlb_limit_bytes)
        if key not in self._known:
            self._known[key] = replace(made(), inputs=self._inputs)
        return replace(self._known[key], fields=self._fields(body))

    def _fields(self, body: CgroupUpdated) -> dict[str, Any]:
        """What identifies the cgroup, where the path and the pod tell it."""
        where, decision = parse_cgroup_path(body.cgroup), self._decision
        fields: dict[str, Any] = {"qos_class": decision.qos_class}
        if where is not None:
            fields |= {"level": where.level, "pod_uid": where.pod_uid}
            if where.container_id is not None:
                fields["container_id"] = where.container_id
        if where is None or where.qos_class != decision.qos_class:
            path = decision.systemd_path if ".slice" in body.cgroup else decision.cgroupfs_path
            below = f"/{body.container_id}" if body.container_id else ""
            fields["cgroup"] = f"{path.removeprefix('/')}{below}"
        return fields

    def _pod_values(self, body: CgroupUpdated) -> Values:
        asked, settings, unified = self._decision.pod, self._rules.settings, is_unified(body)
        values = kernel_values(
            unified=unified,
            shares=[asked.cpu_shares or 0],
            memory=[asked.memory_limit_bytes],
            quota_us=asked.cpu_quota_us,
            period_us=asked.cpu_period_us,
            by_systemd=settings.by_systemd,
        )
        if unified:
            # Without the gate MemoryQoS nobody writes those of a pod.
            values |= _texts(self._protection(None) if settings.memory_qos else _UNPROTECTED)
        asked_for = {huge_page_unit_size(s): n for s, n in asked.huge_page_limits.items()}
        for size in body.hugetlb_limit_bytes:
            values[f"hugetlb_limit_bytes/{size}"] = (asked_for.get(size, 0),)
        if settings.pod_pids is not None:
            limited = settings.pod_pids and self._rules.pod_pids_written
            pids = str(settings.pod_pids) if limited else "max"
            values["unified/pids.max" if unified else "other/pids.max"] = (pids,)
        return values

    def _container(self, container: Container, body: CgroupUpdated) -> Option:
        decision, settings = self._decision, self._rules.settings
        exclusive = settings.static_cpus and (container.name or "") in exclusive_containers(
            self.pod, decision.qos_class, self._facts
        )
        config = decision.containers.get(container.name or "") or container_config(
            self.pod,
            container,
            decision.qos_class,
            self._facts,
            enforce_cpu_limits=self._enforced,
            cpu_period_us=self._period_us,
            memory_capacity=_ANY_CAPACITY,
            exclusive_cpus=exclusive,
        )
        quota, memory = config.cpu_quota_us, config.memory_limit_bytes
        values = kernel_values(
            unified=is_unified(body),
            shares=[config.cpu_shares],
            memory=[memory],
            quota_us=quota,
            period_us=config.cpu_period_us,
            by_runtime=True,
            by_systemd=settings.by_systemd,
        )
        if is_unified(body) and settings.memory_qos:
            values |= _texts(self._protection(container))
        limits = container_huge_page_limits(
            self.pod, container, body.hugetlb_limit_bytes, self._facts
        )
        values |= {f"hugetlb_limit_bytes/{size}": (limit,) for size, limit in limits.items()}
        because = {
            name: self._explainer.container_value(container, config, name)
            for name in ("cpuShares", "cpuQuota", "memoryLimit")
        }
        if exclusive and quota <= 0:
            because["cpuQuota"] = "it has CPUs of its own"
        why = (
            f"container {container.name} of pod {self._name} gets {config.cpu_shares} shares "
            f"({because['cpuShares']}), {_quota(quota, config.cpu_period_us)} "
            f"({because['cpuQuota']}) and {_limit(memory)} "
            f"({because['memoryLimit']}{_parts([('', container.limits)], 'memory')})"
        )
        return Option(values, why)

    def _pod_why(self) -> str:
        asked, explain = self._decision.pod, self._explainer.explain
        quota, memory = asked.cpu_quota_us or 0, asked.memory_limit_bytes
        limits = [(c.name or "", c.limits) for c in self.containers]
        by_cpu = _parts(limits, "cpu") if quota > 0 else ""
        by_memory = _parts(limits, "memory") if memory else ""
        requests = _parts([(c.name or "", c.requests) for c in self.containers], "cpu")
        return (
            f"pod {self._name} is {self._decision.qos_class} and gets {asked.cpu_shares} shares "
            f"({explain(('pod', 'cpuShares'))}{requests}), {_quota(quota, asked.cpu_period_us)} "
            f"({explain(('pod', 'cpuQuota'))}{by_cpu}) and {_limit(memory)} "
            f"({explain(('pod', 'memoryLimit'))}{by_memory})"
        )

    def _protection(self, container: Container | None) -> dict[str, str]:
        """Memory files of the pod, or of a container, with the gate MemoryQoS."""
        factor = self._rules.settings.throttling_factor
        settings = UnifiedSettings(
            memory_qos=True,
            throttling_factor=factor or 0.0,
            tiered_reservation=self._rules.settings.tiered,
            limited_swap=False,
            memory_capacity=_ANY_CAPACITY,
            swap_capacity=0,
            node_allocatable_memory=0,
        )
        decision = decide_pod_unified(self.pod, self._facts, settings)
        if container is None:
            return decision.pod
        files = decision.containers.get(container.name or "", {})
        # Without a limit the node's allocatable memory counts, which is not looked up here.
        throttled = "memory" in container.limits and factor is not None
        return {n: t for n, t in files.items() if n in ("memory.min", "memory.low")
                or (n == "memory.high" and throttled)}  # fmt: skip


def _texts(files: dict[str, str]) -> Values:
    return {f"unified/{name}": (text,) for name, text in files.items()}


def _quota(quota_us: int, period_us: int | None) -> str:
    return f"a quota of {quota_us} us every {period_us} us" if quota_us > 0 else "no quota"


def _limit(memory: int | None) -> str:
    return f"a memory limit of {memory} bytes" if memory else "no memory limit"


def _parts(amounts: Iterable[tuple[str, ResourceList]], resource: str) -> str:
    """``: app 150m, side 100m``; empty where nobody has an amount."""
    told = [(name, str(found[resource])) for name, found in amounts if resource in found]
    return f": {listed(told)}" if told else ""


def listed(told: list[tuple[str, str]]) -> str:
    """``app 150m, side 100m and 3 more``: the first amounts, each with whose it is."""
    words = ", ".join(f"{name} {amount}".strip() for name, amount in told[:_NAMED_MAX])
    return f"{words} and {len(told) - _NAMED_MAX} more" if len(told) > _NAMED_MAX else words
