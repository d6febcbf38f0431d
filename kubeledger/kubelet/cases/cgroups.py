"""Cases of cgroups: a pod and its containers, their v2 files, the QoS levels, the node."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kubelet.cases.fields import Strict, Subsystem, check_amounts, keyed
from kubeledger.kubelet.cgroups.container_config import ContainerConfig
from kubeledger.kubelet.cgroups.decider import (
    NodeDecision,
    decide_node,
    decide_pod,
    decide_pod_unified,
    decide_qos,
)
from kubeledger.kubelet.cgroups.node_config import (
    ReservationSettings,
    eviction_signals,
    eviction_threshold,
)
from kubeledger.kubelet.cgroups.paths import CgroupNameError
from kubeledger.kubelet.cgroups.pod_config import ResourceConfig
from kubeledger.kubelet.cgroups.unified import LIMITED_SWAP, TIERED_RESERVATION, UnifiedSettings
from kubeledger.kubelet.kube.configuration import EvictionThresholdError
from kubeledger.kubelet.kube.pod import Bytes, Pod
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import Amount, ResourceList, nanos_of, units_of
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError

_Period = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
"""Microseconds: the kubelet takes none beyond one second."""

_Memory = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class CgroupInput(Strict, frozen=True):
    """A pod, two settings and the node's memory in bytes."""

    pod: Pod
    cpu_cfs_quota: bool = msgspec.field(name="cpuCFSQuota")
    cpu_cfs_quota_period_us: _Period = msgspec.field(name="cpuCFSQuotaPeriodUs")
    memory_capacity: _Memory


def _decide_cgroup(case_input: CgroupInput, profile: KubeletProfile) -> dict[str, object]:
    """What the kubelet asks for; of a container a memory limit of 0 is not written."""
    try:
        decision = decide_pod(
            case_input.pod,
            profile.cgroups,
            enforce_cpu_limits=case_input.cpu_cfs_quota,
            cpu_period_us=case_input.cpu_cfs_quota_period_us,
            memory_capacity=case_input.memory_capacity,
        )
    except CgroupNameError as error:
        raise BadInputError(f"input.pod.metadata.uid: {error}") from None
    return {
        "qosClass": decision.qos_class,
        "pod": _values(decision.pod) | {"hugePageLimits": decision.pod.huge_page_limits},
        "containers": {
            name: _values(config) | {"oomScoreAdj": config.oom_score_adj}
            for name, config in decision.containers.items()
        },
        "cgroupfsPath": decision.cgroupfs_path,
        "systemdPath": decision.systemd_path,
    }


def _values(config: ResourceConfig | ContainerConfig) -> dict[str, object]:
    """None: not written."""
    return {
        "cpuShares": config.cpu_shares,
        "cpuQuota": config.cpu_quota_us,
        "cpuPeriod": config.cpu_period_us,
        "memoryLimit": config.memory_limit_bytes,
    }


CGROUP = Subsystem(CgroupInput, object, _decide_cgroup)


# ``cgroupv2``: the cgroup v2 files of one pod and its containers.

_Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]
_Files = dict[str, dict[str, str]]


class CgroupV2Input(Strict, frozen=True, kw_only=True):
    """A pod, the node's memory and swap in bytes, and settings; both gates are on.

    Attributes:
        memory_reservation_policy: since 1.36.
        swap_behavior: empty is the version's default.
    """

    pod: Pod
    memory_capacity: Bytes
    swap_capacity: Bytes
    node_allocatable_memory: Amount
    memory_qos: bool = msgspec.field(name="memoryQoS")
    memory_throttling_factor: _Fraction | None
    memory_reservation_policy: Literal["", "None", "TieredReservation"] = "None"
    swap_behavior: Literal["", "NoSwap", "LimitedSwap", "UnlimitedSwap"]


def _decide_files(case_input: CgroupV2Input, profile: KubeletProfile) -> dict[str, object]:
    check_amounts("input", {"nodeAllocatableMemory": case_input.node_allocatable_memory})
    settings = UnifiedSettings(
        memory_qos=case_input.memory_qos,
        throttling_factor=case_input.memory_throttling_factor,
        tiered_reservation=case_input.memory_reservation_policy == TIERED_RESERVATION,
        limited_swap=case_input.swap_behavior == LIMITED_SWAP,
        memory_capacity=case_input.memory_capacity,
        swap_capacity=case_input.swap_capacity,
        node_allocatable_memory=units_of(nanos_of(case_input.node_allocatable_memory)),
    )
    decision = decide_pod_unified(case_input.pod, profile.cgroups, settings)
    containers: dict[str, _Files] = {
        name: {"unified": files} for name, files in decision.containers.items()
    }
    return {"pod": {"unified": decision.pod}, "containers": containers}


CGROUPV2 = Subsystem(CgroupV2Input, object, _decide_files)


# ``qos``: the values of the QoS cgroups over the active pods; QOSReserved is on.

_Level = dict[str, int | None]
_Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class QOSInput(Strict, frozen=True):
    """Allocatable of the node, the setting qosReserved, and the active pods."""

    allocatable: ResourceList
    qos_reserved_percent: dict[str, _Percent]
    active_pods: list[Pod]


def _decide_levels(case_input: QOSInput, profile: KubeletProfile) -> dict[str, _Level]:
    config = decide_qos(
        case_input.active_pods,
        profile.cgroups,
        allocatable_memory=_allocatable_memory(case_input),
        memory_reserve_percent=case_input.qos_reserved_percent.get("memory"),
    ).config
    levels = {
        "burstable": _level(config.burstable_shares, config.burstable_memory_limit),
        "besteffort": _level(config.best_effort_shares, config.best_effort_memory_limit),
    }
    if profile.cgroups.qos_update_names_root:
        levels["kubepods"] = _level(None, None)
    return levels


def _level(cpu_shares: int | None, memory_limit: int | None) -> _Level:
    """None: not written."""
    return {"cpuShares": cpu_shares, "memoryLimit": memory_limit}


def _allocatable_memory(case_input: QOSInput) -> int | None:
    """Bytes, once what cannot be has been refused."""
    check_amounts("input.allocatable", case_input.allocatable)
    for resource in case_input.qos_reserved_percent:
        if resource != "memory":
            raise BadInputError(
                f"{keyed('input.qosReservedPercent', resource)}: only memory can be reserved"
            )
    if "memory" not in case_input.allocatable:
        return None
    return units_of(nanos_of(case_input.allocatable["memory"]))


QOS = Subsystem(QOSInput, object, _decide_levels)


# ``nodeallocatable``: what a node keeps from pods, and the cgroup of all pods.


class NodeAllocatableInput(Strict, frozen=True, kw_only=True):
    """The node's capacity and three settings; null and absent settings are empty."""

    capacity: ResourceList
    system_reserved: ResourceList | None = None
    kube_reserved: ResourceList | None = None
    eviction_hard: dict[str, str] | None = None


_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


def _decide_allocatable(
    case_input: NodeAllocatableInput, profile: KubeletProfile
) -> dict[str, object]:
    """Quantities are canonical."""
    decision = _decision_of_node(case_input, profile)
    config = decision.config
    return {
        "reservation": _canonical(decision.reservation),
        "kubepods": {
            "resources": _canonical(decision.kubepods),
            **_level(config.cpu_shares, config.memory_limit_bytes),
        },
        "overReserved": decision.over_reserved,
    }


def _decision_of_node(case_input: NodeAllocatableInput, profile: KubeletProfile) -> NodeDecision:
    _check(case_input, profile)
    settings = ReservationSettings(
        system_reserved=_quantities(case_input.system_reserved),
        kube_reserved=_quantities(case_input.kube_reserved),
        eviction_hard=case_input.eviction_hard or {},
    )
    try:
        return decide_node(_quantities(case_input.capacity), settings, profile.cgroups)
    except QuantityError as error:
        raise BadInputError(f"input: the sum of reserved amounts: {error}") from None


def _check(case_input: NodeAllocatableInput, profile: KubeletProfile) -> None:
    """Refuse what no kubelet can be configured with.

    Source: v1.20.2 cmd/kubelet/app/server.go parseResourceList
    """
    check_amounts("input.capacity", case_input.capacity)
    for name, amounts in (
        ("input.systemReserved", case_input.system_reserved),
        ("input.kubeReserved", case_input.kube_reserved),
    ):
        check_amounts(name, amounts)
        for resource in amounts or {}:
            if resource not in _RESERVABLE:
                raise BadInputError(
                    f"{keyed(name, resource)}: the kubelet cannot reserve this resource",
                    advice=f"one of {', '.join(_RESERVABLE)}",
                )
    known = eviction_signals(profile.eviction)
    for signal, text in (case_input.eviction_hard or {}).items():
        path = keyed("input.evictionHard", signal)
        if signal not in known:
            raise BadInputError(
                f"{path}: kubelet {profile.version} knows no such eviction signal",
                advice=f"one of {', '.join(known)}",
            )
        try:
            eviction_threshold(signal, text, profile.cgroups)
        except EvictionThresholdError as error:
            raise BadInputError(f"{path}: {error}") from None


def _quantities(amounts: ResourceList | None) -> dict[str, Quantity]:
    return {name: Quantity.from_api(amount) for name, amount in (amounts or {}).items()}


def _canonical(quantities: dict[str, Quantity]) -> dict[str, str]:
    return {name: quantity.canonical() for name, quantity in quantities.items()}


NODEALLOCATABLE = Subsystem(NodeAllocatableInput, object, _decide_allocatable)
