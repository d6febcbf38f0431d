"""Cases ``cgroupv2``: the cgroup v2 files of one pod and its containers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kubeledger.kubelet.cases.fields import Bytes, check_amounts
from kubeledger.kubelet.cases.judgement import MATCH, Judgement, impossible
from kubeledger.kubelet.cgroups.decider import PodUnifiedDecision, admissible, decide_pod_unified
from kubeledger.kubelet.cgroups.unified import LIMITED_SWAP, TIERED_RESERVATION, UnifiedSettings
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.requests import Amount, nanos_of, units_of
from kubeledger.kubelet.profile.resolve import KubeletProfile

__all__ = ["INPUT", "CgroupV2Input", "decide", "judge"]

_Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]
_Files = dict[str, dict[str, str]]


class CgroupV2Input(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A pod, the node's memory and swap in bytes, and settings; both gates are on.

    Attributes:
        memory_qos: whether MemoryQoS is enforced.
        memory_reservation_policy: since 1.36.
        swap_behavior: empty is the version's default.
    """

    pod: Pod
    memory_capacity: Bytes
    swap_capacity: Bytes
    node_allocatable_memory: Amount
    memory_qos: bool = msgspec.field(name="memoryQoS")
    memory_throttling_factor: _Fraction
    memory_reservation_policy: Literal["", "None", "TieredReservation"] = "None"
    swap_behavior: Literal["", "NoSwap", "LimitedSwap", "UnlimitedSwap"]


INPUT = CgroupV2Input


def decide(case_input: CgroupV2Input, profile: KubeletProfile) -> dict[str, object]:
    """The outcome that a kubelet of this version gives.

    Raises:
        BadInputError: a quantity cannot be read, or asked for.
    """
    settings = _settings(case_input)
    return _outcome(decide_pod_unified(case_input.pod, profile.cgroups, settings))


def judge(case_input: CgroupV2Input, profile: KubeletProfile, outcome: object) -> Judgement:
    """Whether the kubelet could have asked for this; there is one possible outcome.

    Raises:
        BadInputError: as ``decide``.
    """
    settings = _settings(case_input)
    decision = decide_pod_unified(case_input.pod, profile.cgroups, settings)
    difference = admissible(_outcome(decision), outcome, decision.explain)
    return MATCH if difference is None else impossible(difference)


def _settings(case_input: CgroupV2Input) -> UnifiedSettings:
    check_amounts("input", {"nodeAllocatableMemory": case_input.node_allocatable_memory})
    return UnifiedSettings(
        memory_qos=case_input.memory_qos,
        throttling_factor=case_input.memory_throttling_factor,
        tiered_reservation=case_input.memory_reservation_policy == TIERED_RESERVATION,
        limited_swap=case_input.swap_behavior == LIMITED_SWAP,
        memory_capacity=case_input.memory_capacity,
        swap_capacity=case_input.swap_capacity,
        node_allocatable_memory=units_of(nanos_of(case_input.node_allocatable_memory)),
    )


def _outcome(decision: PodUnifiedDecision) -> dict[str, object]:
    containers: dict[str, _Files] = {
        name: {"unified": files} for name, files in decision.containers.items()
    }
    return {"pod": {"unified": decision.pod}, "containers": containers}
