"""What a pod's cgroup and those of its containers have to hold, by the pod's spec.

Values are written once, when the cgroup is made. Since a running pod's resources can be
changed, every version of the spec that a list shows, and what the status says was given,
counts as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from kubeledger.cgroups.container_config import (
    ContainerConfig,
    container_config,
    container_huge_page_limits,
    huge_page_unit_size,
)
from kubeledger.cgroups.conversions import MIN_SHARES, SHARES_PER_CPU
from kubeledger.cgroups.decider import PodDecision, decide_pod, decide_pod_unified
from kubeledger.cgroups.exclusive import exclusive_containers
from kubeledger.cgroups.explain_pod import PodExplainer
from kubeledger.cgroups.paths import parse_cgroup_path
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.cgroups.unified import UnifiedSettings
from kubeledger.kube.pod import Container, Pod
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.cgroups.files import Option
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values
from kubeledger.verify.rules.cgroups.words import container_words, pod_words

__all__ = ["PodOptions"]

_ANY_CAPACITY: Final = 1
"""Bytes of the node in the place of a number: it decides about the OOM score alone, which
is in no cgroup file."""


class PodOptions:
    """What the cgroups of one version of a pod can hold.

    Raises (all methods, and the constructor):
        msgspec.ValidationError, BadInputError, CgroupNameError: the spec cannot be read.
    """

    def __init__(self, listed: ListedPod, pod: Pod, rules: Rules) -> None:
        self.listed = listed
        self.pod = pod
        self.rules = rules
        settings = rules.settings
        self.decision: PodDecision = decide_pod(
            pod,
            rules.profile.cgroups,
            enforce_cpu_limits=bool(settings.enforce_cpu_limits),
            cpu_period_us=settings.cpu_period_us or 0,
            memory_capacity=_ANY_CAPACITY,
            static_cpu_policy=settings.static_cpus,
        )
        self._exclusive = frozenset[str]()
        if settings.static_cpus:
            self._exclusive = exclusive_containers(
                pod, self.decision.qos_class, rules.profile.cgroups
            )
        self._words: dict[str, str] = {}
        self._values: dict[tuple[object, ...], Values] = {}
        self._explainer = PodExplainer(
            pod=pod,
            decision=self.decision,
            facts=rules.profile.cgroups,
            enforce_cpu_limits=bool(settings.enforce_cpu_limits),
            cpu_period_us=settings.cpu_period_us or 0,
            memory_capacity=_ANY_CAPACITY,
        )

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return f"{self.listed.namespace}/{self.listed.name}"

    def pod_option(self, body: CgroupUpdated) -> Option:
        """The pod's own cgroup."""
        values = self._once("pod", "", body, lambda: self._pod_values(body))
        return Option(values, self._pod_why(), self._inputs(), self._fields(body))

    def _pod_values(self, body: CgroupUpdated) -> Values:
        asked, settings = self.decision.pod, self.rules.settings
        assert asked.cpu_shares is not None
        unified = is_unified(body)
        values = kernel_values(
            unified=unified,
            shares=[asked.cpu_shares],
            quota_us=[asked.cpu_quota_us],
            period_us=asked.cpu_period_us,
            memory=asked.memory_limit_bytes,
            by_systemd=settings.cgroupfs is not True,
            files=self._protection() if unified else None,
        )
        for size in body.hugetlb_limit_bytes:
            asked_for = {huge_page_unit_size(s): n for s, n in asked.huge_page_limits.items()}
            values[f"hugetlb_limit_bytes/{size}"] = (asked_for.get(size, 0),)
        if settings.pod_pids is not None:
            limited = settings.pod_pids and self.rules.pod_pids_written
            pids = str(settings.pod_pids) if limited else "max"
            values["unified/pids.max" if unified else "other/pids.max"] = (pids,)
        return values

    def container_option(self, container: Container, body: CgroupUpdated) -> Option:
        """The cgroup of a container, init containers included."""
        name = container.name or ""
        config = self.decision.containers.get(name) or self._decided(container)
        values = self._once(
            "container", name, body, lambda: self._container_values(container, config, body)
        )
        return Option(
            values, self._container_why(container, config), self._inputs(), self._fields(body)
        )

    def _container_values(
        self, container: Container, config: ContainerConfig, body: CgroupUpdated
    ) -> Values:
        settings = self.rules.settings
        values = kernel_values(
            unified=is_unified(body),
            shares=[config.cpu_shares],
            quota_us=[config.cpu_quota_us],
            period_us=config.cpu_period_us or None,
            memory=config.memory_limit_bytes,
            by_runtime=True,
            by_systemd=settings.cgroupfs is not True,
            files=self._protection(container) if is_unified(body) else None,
        )
        limits = container_huge_page_limits(
            self.pod, container, body.hugetlb_limit_bytes, self.rules.profile.cgroups
        )
        for size, limit in limits.items():
            values[f"hugetlb_limit_bytes/{size}"] = (limit,)
        return values

    def _once(
        self, what: str, name: str, body: CgroupUpdated, values: Callable[[], Values]
    ) -> Values:
        """The values of a cgroup; they are the same for all of its kind with the same files."""
        key = (what, name, is_unified(body), *body.hugetlb_limit_bytes)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = values()
        return found

    def sandbox_option(self, body: CgroupUpdated) -> Option:
        """The cgroup of the pause container, for which the kubelet asks for nothing.

        The runtimes give it the least shares; some leave the kernel's default.
        """
        why = (
            f"the kubelet asks for no resources for the sandbox of pod {self.name}, and the "
            f"runtime's default is {MIN_SHARES} shares without quota and limit"
        )
        return Option(
            _sandbox_values(unified=is_unified(body)), why, self._inputs(), self._fields(body)
        )

    def containers(self) -> list[Container]:
        """Containers and init containers."""
        return [*(self.pod.spec.containers or ()), *(self.pod.spec.init_containers or ())]

    def _decided(self, container: Container) -> ContainerConfig:
        settings = self.rules.settings
        return container_config(
            self.pod,
            container,
            self.decision.qos_class,
            self.rules.profile.cgroups,
            enforce_cpu_limits=bool(settings.enforce_cpu_limits),
            cpu_period_us=settings.cpu_period_us or 0,
            memory_capacity=_ANY_CAPACITY,
            exclusive_cpus=(container.name or "") in self._exclusive,
        )

    def _protection(self, container: Container | None = None) -> dict[str, str]:
        """Memory files of the pod, or of a container.

        Without the gate MemoryQoS nobody writes those of a pod.
        """
        settings = self.rules.settings
        if not settings.memory_qos:
            names = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
            return names if container is None else {}
        decision = decide_pod_unified(
            self.pod,
            self.rules.profile.cgroups,
            UnifiedSettings(
                memory_qos=True,
                throttling_factor=settings.throttling_factor or 0.0,
                tiered_reservation=settings.tiered,
                limited_swap=False,
                memory_capacity=_ANY_CAPACITY,
                swap_capacity=0,
                node_allocatable_memory=0,
            ),
        )
        if container is None:
            return decision.pod
        files = decision.containers.get(container.name or "", {})
        # Without a limit the node's allocatable memory counts, which is not looked up here.
        throttled = "memory" in container.limits and settings.throttling_factor is not None
        wanted = ("memory.min", "memory.low", *(("memory.high",) if throttled else ()))
        return {name: files[name] for name in wanted if name in files}

    def _fields(self, body: CgroupUpdated) -> dict[str, Any]:
        """What identifies the cgroup, where the path and the pod tell it."""
        where = parse_cgroup_path(body.cgroup)
        fields: dict[str, Any] = {"qos_class": self.decision.qos_class}
        if where is not None:
            fields |= {"level": where.level, "pod_uid": where.pod_uid}
            if where.container_id is not None:
                fields["container_id"] = where.container_id
        if where is None or where.qos_class != self.decision.qos_class:
            systemd = ".slice" in body.cgroup
            path = self.decision.systemd_path if systemd else self.decision.cgroupfs_path
            below = f"/{body.container_id}" if body.container_id else ""
            fields["cgroup"] = f"{path.removeprefix('/')}{below}"
        return fields

    def _inputs(self) -> tuple[int, ...]:
        seq = self.rules.settings.seq
        return (self.listed.seq,) if seq is None else (self.listed.seq, seq)

    def _pod_why(self) -> str:
        found = self._words.get("")
        if found is None:
            found = self._words[""] = pod_words(self._explainer, self.name)
        return found

    def _container_why(self, container: Container, config: ContainerConfig) -> str:
        name = container.name or ""
        found = self._words.get(f"/{name}")
        if found is None:
            found = self._words[f"/{name}"] = container_words(
                self._explainer, self.name, container, config, exclusive=name in self._exclusive
            )
        return found


@lru_cache(maxsize=2)
def _sandbox_values(*, unified: bool) -> Values:
    return kernel_values(
        unified=unified,
        shares=[MIN_SHARES, SHARES_PER_CPU],
        quota_us=[None],
        period_us=None,
        memory=None,
        by_runtime=True,
    )
