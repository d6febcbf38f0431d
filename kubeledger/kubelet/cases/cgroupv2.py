"""Cases ``cgroupv2``: the cgroup v2 files of one pod and its containers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kubeledger.kubelet.cases.fields import Bytes, Strict, check_amounts
from kubeledger.kubelet.cgroups.decider import PodUnifiedDecision, decide_pod_unified
from kubeledger.kubelet.cgroups.unified import LIMITED_SWAP, TIERED_RESERVATION, UnifiedSettings
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.resources import Amount, nanos_of, units_of
from kubeledger.kubelet.profile.resolve import KubeletProfile

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


INPUT = CgroupV2Input
OUTCOME = object


def decide(case_input: CgroupV2Input, profile: KubeletProfile) -> dict[str, object]:
    """The outcome that a kubelet of this version gives."""
    decision = _decision(case_input, profile)
    containers: dict[str, _Files] = {
        name: {"unified": files} for name, files in decision.containers.items()
    }
    return {"pod": {"unified": decision.pod}, "containers": containers}


def _decision(case_input: CgroupV2Input, profile: KubeletProfile) -> PodUnifiedDecision:
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
    return decide_pod_unified(case_input.pod, profile.cgroups, settings)
