"""Cases ``qos``: the values of the QoS cgroups over the active pods; QOSReserved is on."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubeledger.kubelet.cases.fields import Strict, check_amounts, keyed
from kubeledger.kubelet.cgroups.decider import QOSDecision, decide_qos
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.resources import ResourceList, nanos_of, units_of
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError

_Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class QOSInput(Strict, frozen=True):
    """Allocatable of the node, the setting qosReserved, and the active pods."""

    allocatable: ResourceList
    qos_reserved_percent: dict[str, _Percent]
    active_pods: list[Pod]


class LevelValues(Strict, frozen=True):
    """None: not written."""

    cpu_shares: int | None
    memory_limit: int | None


_UNTOUCHED = LevelValues(None, None)

INPUT = QOSInput
OUTCOME = object


def decide(case_input: QOSInput, profile: KubeletProfile) -> dict[str, LevelValues]:
    """The outcome that a kubelet of this version gives, by level."""
    decision = _decision(case_input, profile)
    config = decision.config
    levels = {
        "burstable": LevelValues(config.burstable_shares, config.burstable_memory_limit),
        "besteffort": LevelValues(config.best_effort_shares, config.best_effort_memory_limit),
    }
    if profile.cgroups.qos_update_names_root:
        levels["kubepods"] = _UNTOUCHED
    return levels


def _decision(case_input: QOSInput, profile: KubeletProfile) -> QOSDecision:
    return decide_qos(
        case_input.active_pods,
        profile.cgroups,
        allocatable_memory=_allocatable_memory(case_input),
        memory_reserve_percent=case_input.qos_reserved_percent.get("memory"),
    )


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
