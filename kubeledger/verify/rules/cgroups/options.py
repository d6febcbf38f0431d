"""What cgroups can hold, by the version, the settings and what a pod asks for.

The latter is what the machine's capacity gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from kubeledger.kubelet.cgroups.container_config import (
    ContainerConfig,
    container_huge_page_limits,
    huge_page_unit_size,
)
from kubeledger.kubelet.cgroups.decider import decide_pod, decide_pod_unified
from kubeledger.kubelet.cgroups.node_config import (
    QOS_HUGE_PAGE_LIMIT,
    Quantities,
    ReservationSettings,
    kubepods_resources,
    reservation_of,
    resource_config_for_node,
)
from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.kubelet.cgroups.pod_config import MIN_SHARES, SHARES_PER_CPU, ResourceConfig
from kubeledger.kubelet.cgroups.unified import TIERED_RESERVATION, UnifiedSettings
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.units import parse_go_duration, whole_number
from kubeledger.verify.evidence.machine import HUGE_PAGES, Capacity, Machine
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.files import Option, Values, is_unified, kernel_values
from kubeledger.verify.variant import Settings, Variant, profile_of

NO_RESERVE: Final = -1
"""In the place of a percentage: nothing is reserved by QoS class."""

_NS_PER_US: Final = 1000
_SOURCE: Final = "kubernetes.io/config.source"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Under which a value was written; None where no source says, or it cannot be read.

    Attributes:
        profile: of the kubelet, with its gates.
        seq: record that holds the recorded settings.
        enforce_cpu_limits, cpu_period_us: cpuCFSQuota and cpuCFSQuotaPeriod.
        reserve_percent: the share of memory in qosReserved, ``NO_RESERVE`` without one or
            without its gate.
        reservation: systemReserved and kubeReserved; thresholds are not taken off a cgroup.
        enforce_pods: ``pods`` is among enforceNodeAllocatable.
        per_qos: cgroupsPerQOS; taken as on when no source shows, for there are cgroups.
        by_systemd: cgroupDriver may be systemd.
        memory_qos: gate MemoryQoS.
        throttling_factor: memoryThrottlingFactor.
        tiered: memoryReservationPolicy is TieredReservation.
        pod_pids: podPidsLimit; 0 where there is none.
        static_cpus: cpuManagerPolicy is static, so that a container may have CPUs of its own.
        asked: the settings among these that a configuration file alone shows.
    """

    profile: KubeletProfile
    seq: int | None
    enforce_cpu_limits: bool | None
    cpu_period_us: int | None
    reserve_percent: int | None
    reservation: ReservationSettings | None
    enforce_pods: bool | None
    per_qos: bool
    by_systemd: bool
    memory_qos: bool
    throttling_factor: float | None
    tiered: bool
    pod_pids: int | None
    static_cpus: bool
    asked: frozenset[str] = frozenset()

    @property
    def missing(self) -> list[str]:
        """Settings that pods and containers need and no source shows."""
        values = {"cpuCFSQuota": self.enforce_cpu_limits, "cpuCFSQuotaPeriod": self.cpu_period_us}
        return [f"the setting {name}" for name, value in values.items() if value is None]

    @property
    def missing_for_node(self) -> list[str]:
        """Settings that the cgroup of all pods needs and no source shows."""
        values = {
            "the settings systemReserved and kubeReserved": self.reservation,
            "the setting enforceNodeAllocatable": self.enforce_pods,
        }
        return [name for name, value in values.items() if value is None]

    def kubepods(self, capacity: Quantities) -> Quantities | None:
        """What all pods together may use; None where settings are not reported, or do not fit.

        Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go
            enforceNodeAllocatableCgroups
        """
        if self.missing_for_node or self.reservation is None:
            return None
        with suppress(QuantityError):  # a difference that no quantity can hold
            return kubepods_resources(capacity, self.reservation) if self.enforce_pods else capacity
        return None

    def resizes(self, listed: ListedPod) -> bool:
        """Whether the resources of this pod can change while it runs; a static pod's cannot."""
        annotations = listed.as_(Pod).metadata.annotations or {}
        possible = self.profile.admission.resized_requests_count
        return possible and annotations.get(_SOURCE, "api") == "api"


def rules_of(process: Process | None, variant: Variant) -> Rules | None:
    """Those of a kubelet process, under a variant; None where its version's are not known."""
    settings = Settings(variant, process)
    version = variant.kubelet_version or (None if process is None else process.version)
    get = settings.get
    profile = profile_of(version, get("featureGates"))
    if profile is None:
        return None
    enforce, keys, pids = get("cpuCFSQuota"), get("enforceNodeAllocatable"), get("podPidsLimit")
    factor, protects = get("memoryThrottlingFactor"), _alpha_gate(settings, "MemoryQoS")
    return Rules(
        profile=profile,
        seq=settings.seq,
        enforce_cpu_limits=enforce if isinstance(enforce, bool) else None,
        cpu_period_us=_period_us(get("cpuCFSQuotaPeriod")),
        reserve_percent=_reserve(settings),
        reservation=_reservation(settings),
        enforce_pods="pods" in (keys or ()) if isinstance(keys, list | None) else None,
        per_qos=get("cgroupsPerQOS") is not False,
        by_systemd=get("cgroupDriver") != "cgroupfs",
        memory_qos=profile.cgroups.memory_qos_gate_on if protects is None else protects,
        throttling_factor=float(factor) if isinstance(factor, int | float) else None,
        tiered=get("memoryReservationPolicy") == TIERED_RESERVATION,
        pod_pids=max(pids, 0) if isinstance(pids, int) else None,
        static_cpus=get("cpuManagerPolicy") == "static",
        asked=frozenset(settings.asked),
    )


def _alpha_gate(settings: Settings, name: str) -> bool | None:
    """Whether an alpha feature is on; None where no source says so either way."""
    gates = settings.get("featureGates")
    if not isinstance(gates, dict | None):
        return None
    value = (gates or {}).get(name)
    value = (gates or {}).get("AllAlpha", False) if value is None else value
    return value if isinstance(value, bool) else None


def _period_us(value: object) -> int | None:
    with suppress(ValueError):
        if isinstance(value, str) and (period := parse_go_duration(value) // _NS_PER_US) > 0:
            return period
    return None


def _reserve(settings: Settings) -> int | None:
    """Source: v1.20.2 pkg/kubelet/cm/helpers.go ParseQOSReserved."""
    gate, reserved = _alpha_gate(settings, "QOSReserved"), settings.get("qosReserved")
    if gate is False:
        return NO_RESERVE
    if gate is None or not isinstance(reserved, dict | None):
        return None
    text = (reserved or {}).get("memory")
    if text is None:
        return NO_RESERVE
    percent = whole_number(text[:-1]) if isinstance(text, str) and text.endswith("%") else None
    return percent if percent is not None and percent >= 0 else None


def _reservation(settings: Settings) -> ReservationSettings | None:
    names = "systemReserved", "kubeReserved", "reservedSystemCPUs"
    values = {name: settings.get(name) for name in names}
    with suppress(QuantityError, ValueError, TypeError, AttributeError):
        return reservation_of(values.get)
    return None


_ANY_CAPACITY: Final = 1
"""Bytes of the node in the place of a number: it decides about the OOM score alone, which
is in no cgroup file."""
_UNPROTECTED: Final = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
_NAMED_MAX: Final = 8
_ASKED: Final = {
    "cpuShares": ("requests", "cpu"),
    "cpuQuota": ("limits", "cpu"),
    "memoryLimit": ("limits", "memory"),
}
"""Value -> the part of a container's resources that it is the sum of."""


class PodOptions:
    """What the cgroups of one version of a pod can hold.

    Raises (all methods, and the constructor):
        msgspec.ValidationError, BadInputError, CgroupNameError: the spec cannot be read.
    """

    def __init__(self, version: ListedPod, pod: Pod, rules: Rules) -> None:
        self._pod = pod
        self._containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        self._name = f"{version.namespace}/{version.name}"
        self._rules, self._facts = rules, rules.profile.cgroups
        self._inputs = tuple(seq for seq in (version.seq, rules.seq) if seq is not None)
        self._decision = decide_pod(
            pod,
            self._facts,
            enforce_cpu_limits=bool(rules.enforce_cpu_limits),
            cpu_period_us=rules.cpu_period_us or 0,
            memory_capacity=_ANY_CAPACITY,
            static_cpu_policy=rules.static_cpus,
            with_init_containers=True,
        )

    def of(self, body: CgroupUpdated) -> list[Option] | str:
        """All that a cgroup can be; words for what is missing where that is nothing."""
        if body.level == "pod":
            return [self._of_pod(body)]
        if body.sandbox and self._pod.spec.overhead:
            return "the runtime's rule for the sandbox of a pod with overhead"
        if body.sandbox:
            return [self._of_sandbox(body)]
        asked = (each for each in self._containers if body.container in (None, each.name))
        found = [self._of_container(container, body) for container in asked]
        if body.container is None:
            # What no list and no line names may be a debug container, for which nothing is asked.
            return [self._of_sandbox(body), *found]
        return found[:1] or f"container {body.container} in the pod's spec"

    def _option(self, body: CgroupUpdated, values: Values, why: str) -> Option:
        """With what identifies the cgroup, where the path and the pod show it."""
        where, decision = parse_cgroup_path(body.cgroup), self._decision
        fields: dict[str, Any] = {"qos_class": decision.qos_class}
        if where is not None:
            fields |= {"level": where.level, "pod_uid": where.pod_uid}
        if where is not None and where.container_id is not None:
            fields["container_id"] = where.container_id
        if where is None or where.qos_class != decision.qos_class:
            path = decision.systemd_path if ".slice" in body.cgroup else decision.cgroupfs_path
            below = f"/{body.container_id}" if body.container_id else ""
            fields["cgroup"] = f"{path.removeprefix('/')}{below}"
        return Option(values, why, self._inputs, fields)

    def _of_sandbox(self, body: CgroupUpdated) -> Option:
        """The cgroup of the pause container, for which the kubelet asks for nothing.

        The runtimes give it the least shares; some leave the kernel's default.
        """
        why = f"the kubelet asks for no resources for the sandbox of pod {self._name}, and the "
        why += f"runtime's default is {MIN_SHARES} shares without quota and limit"
        shares = [MIN_SHARES, SHARES_PER_CPU]
        values = kernel_values(unified=is_unified(body), shares=shares, by_runtime=True)
        return self._option(body, values, why)

    def _of_pod(self, body: CgroupUpdated) -> Option:
        asked, rules, unified = self._decision.pod, self._rules, is_unified(body)
        values = self._asked_for(asked, body, by_runtime=False)
        if unified:
            # Without the gate MemoryQoS nobody writes those of a pod.
            values |= _texts(self._protection(None) if rules.memory_qos else _UNPROTECTED)
        huge_pages = {huge_page_unit_size(s): n for s, n in asked.huge_page_limits.items()}
        for size in body.hugetlb_limit_bytes:
            values[f"hugetlb_limit_bytes/{size}"] = (huge_pages.get(size, 0),)
        if rules.pod_pids is not None and rules.profile.cgroups.process_ids_limited:
            pids = str(rules.pod_pids) if rules.pod_pids else "max"
            values["unified/pids.max" if unified else "other/pids.max"] = (pids,)
        who = f"pod {self._name} is {self._decision.qos_class} and"
        return self._option(body, values, _words(who, asked, self._pod_reasons()))

    def _of_container(self, container: Container, body: CgroupUpdated) -> Option:
        config = self._decision.containers[container.name or ""]
        values = self._asked_for(config, body, by_runtime=True)
        if is_unified(body) and self._rules.memory_qos:
            values |= _texts(self._protection(container))
        sizes = body.hugetlb_limit_bytes
        limits = container_huge_page_limits(self._pod, container, sizes, self._facts)
        values |= {f"hugetlb_limit_bytes/{size}": (limit,) for size, limit in limits.items()}
        who = f"container {container.name} of pod {self._name}"
        return self._option(body, values, _words(who, config, config.reasons))

    def _asked_for(
        self, asked: ResourceConfig | ContainerConfig, body: CgroupUpdated, *, by_runtime: bool
    ) -> Values:
        return kernel_values(
            unified=is_unified(body),
            shares=[asked.cpu_shares or 0],
            memory=[asked.memory_limit_bytes],
            quota_us=asked.cpu_quota_us,
            period_us=asked.cpu_period_us,
            by_runtime=by_runtime,
            by_systemd=self._rules.by_systemd,
        )

    def _pod_reasons(self) -> dict[str, str]:
        """The rules for the values of the pod, with what its containers ask for."""
        reasons = dict(self._decision.pod.reasons)
        for value, (part, resource) in _ASKED.items():
            amounts = ((c.name or "", getattr(c, part)) for c in self._containers)
            pairs = [(name, str(asked[resource])) for name, asked in amounts if resource in asked]
            reasons[value] += f": {listed(pairs)}" if pairs else ""
        return reasons

    def _protection(self, container: Container | None) -> dict[str, str]:
        """Memory files of the pod, or of a container, with the gate MemoryQoS.

        Without a limit the node's allocatable memory says where throttling begins, which is not
        looked up here, so that nothing does; nor where the factor is not known.
        """
        settings = UnifiedSettings(
            memory_qos=True,
            throttling_factor=self._rules.throttling_factor,
            tiered_reservation=self._rules.tiered,
            limited_swap=False,
            memory_capacity=_ANY_CAPACITY,
            swap_capacity=0,
            node_allocatable_memory=0,
        )
        decision = decide_pod_unified(self._pod, self._facts, settings)
        if container is None:
            return decision.pod
        files = decision.containers.get(container.name or "", {})
        return {name: text for name, text in files.items() if name in _UNPROTECTED}


def _texts(files: dict[str, str]) -> Values:
    return {f"unified/{name}": (text,) for name, text in files.items()}


def _words(who: str, asked: ResourceConfig | ContainerConfig, why: dict[str, str]) -> str:
    quota, memory = "no quota", asked.memory_limit_bytes
    if asked.cpu_quota_us and asked.cpu_quota_us > 0:
        quota = f"a quota of {asked.cpu_quota_us} us every {asked.cpu_period_us} us"
    limit = f"a memory limit of {memory} bytes" if memory else "no memory limit"
    return (
        f"{who} gets {asked.cpu_shares} shares ({why['cpuShares']}), "
        f"{quota} ({why['cpuQuota']}) and {limit} ({why['memoryLimit']})"
    )


def listed(pairs: Iterable[tuple[str, str]]) -> str:
    """``app 150m, side 100m and 3 more``: the first amounts, each with whose it is."""
    words = [f"{name} {amount}" for name, amount in pairs]
    more = f" and {len(words) - _NAMED_MAX} more" if len(words) > _NAMED_MAX else ""
    return ", ".join(words[:_NAMED_MAX]) + more


MISSING_PIDS: Final = "the machine's limit of process IDs (signal pid.available)"
_QUOTA: Final = ("cpu_quota_us", "cpu_period_us")


def node_option(
    body: CgroupUpdated, machine: Machine, ts_ns: int, rules: Rules
) -> tuple[Option, list[str]]:
    """What is known of the cgroup of all pods, and the names of what is not."""
    unified, capacity, missing = is_unified(body), machine.at(ts_ns), rules.missing_for_node
    left = None if capacity is None else rules.kubepods(capacity.amounts)
    inputs = [rules.seq]
    if capacity is not None and left is not None and {"cpu", "memory"} <= left.keys():
        asked, amounts = resource_config_for_node(left), capacity.amounts
        memory = asked.memory_limit_bytes
        values = kernel_values(unified=unified, shares=[asked.cpu_shares or 0], memory=[memory])
        values |= _huge_pages(body, asked, capacity, rules, missing)
        less = "less systemReserved and kubeReserved" if rules.enforce_pods else "as a whole"
        text = f"the machine's {amounts['cpu'].canonical()} CPUs and {amounts['memory'].value()} "
        text += f"bytes of memory, {less}, give {asked.cpu_shares} shares and a limit of {memory} "
        text += "bytes to all pods"
    else:
        text, values = "no quota", kernel_values(unified=unified, shares=[0])
        values = {key: values[key] for key in _QUOTA}
        if capacity is None:
            missing.append("the machine's capacity")
        elif not missing:
            missing.append("the machine's CPUs and memory")
    inputs += [] if capacity is None else [capacity.seq]
    files = body.unified if unified else body.other
    if rules.profile.cgroups.process_ids_limited and "pids.max" in files:
        pids = machine.pids(ts_ns)
        if limits := _pids([limit for limit, _ in pids], rules):
            values["unified/pids.max" if unified else "other/pids.max"] = limits
            text += f", and pids.max of {limits[0]}"
            inputs += [seq for _, seq in pids[:1]]
        else:
            missing.append(MISSING_PIDS)
    fields = {"level": "node", "qos_class": None, "pod_uid": None}
    return Option(values, text, tuple(seq for seq in inputs if seq is not None), fields), missing


def _huge_pages(
    body: CgroupUpdated, asked: ResourceConfig, capacity: Capacity, rules: Rules, missing: list[str]
) -> Values:
    """The limits of huge pages; a size that the kubelet did not find is limited to 0."""
    known = any(name.startswith(HUGE_PAGES) for name in capacity.amounts)
    by_size = {huge_page_unit_size(size): n for size, n in asked.huge_page_limits.items()}
    values: Values = {}
    for size, found in body.hugetlb_limit_bytes.items():
        limits = [by_size.get(size, 0)] if known else []
        # The update of the QoS levels lifts it, where that names the root.
        if rules.profile.cgroups.qos_update_names_root:
            limits.append(QOS_HUGE_PAGE_LIMIT)
        if known or found in limits:
            values[f"hugetlb_limit_bytes/{size}"] = tuple(limits)
        else:
            missing.append("the machine's huge pages")
    return values


def _pids(limits: Sequence[int], rules: Rules) -> tuple[str, ...]:
    """What ``pids.max`` can hold by limits of the machine; empty where nothing says.

    The machine's limit less what is reserved of it. None is written for the QoS classes, which
    keep the kernel's ``max``; a container's is the runtime's own affair.

    Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go getCgroupConfigInternal
    """
    values: dict[str, None] = {}
    for limit in limits:
        left = rules.kubepods({"pid": Quantity.of(limit)}) or {}
        # A limit of 0 is not written, or written as 1, as the runtime's library has it.
        for most in (amount.value() for amount in left.values()):
            values |= dict.fromkeys([str(most)] if most > 0 else ["max", "0", "1"])
    return tuple(values)
