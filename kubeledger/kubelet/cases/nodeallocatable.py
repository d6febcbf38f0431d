"""Cases ``nodeallocatable``: what a node keeps from pods, and the cgroup of all pods."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.cases.fields import Strict, check_amounts, keyed
from kubeledger.kubelet.cgroups.decider import NodeDecision, decide_node
from kubeledger.kubelet.cgroups.node_config import (
    ReservationSettings,
    eviction_signals,
    hard_eviction_reservation,
)
from kubeledger.kubelet.kube.configuration import EvictionThresholdError
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError


class NodeAllocatableInput(Strict, frozen=True, kw_only=True):
    """The node's capacity and three settings; null and absent settings are empty."""

    capacity: ResourceList
    system_reserved: ResourceList | None = None
    kube_reserved: ResourceList | None = None
    eviction_hard: dict[str, str] | None = None


class KubepodsValues(Strict, frozen=True):
    """The root of all pods; None: not written."""

    resources: dict[str, str]
    cpu_shares: int | None
    memory_limit: int | None


class NodeAllocatableOutcome(Strict, frozen=True):
    """Quantities are canonical."""

    reservation: dict[str, str]
    kubepods: KubepodsValues
    over_reserved: list[str]


INPUT = NodeAllocatableInput
OUTCOME = object

_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


def decide(case_input: NodeAllocatableInput, profile: KubeletProfile) -> NodeAllocatableOutcome:
    """The outcome that a kubelet of this version gives."""
    decision = _decision(case_input, profile)
    config = decision.config
    return NodeAllocatableOutcome(
        _canonical(decision.reservation),
        KubepodsValues(_canonical(decision.kubepods), config.cpu_shares, config.memory_limit_bytes),
        decision.over_reserved,
    )


def _decision(case_input: NodeAllocatableInput, profile: KubeletProfile) -> NodeDecision:
    _check(case_input, profile)
    settings = ReservationSettings(
        system_reserved=_quantities(case_input.system_reserved),
        kube_reserved=_quantities(case_input.kube_reserved),
        eviction_hard=case_input.eviction_hard or {},
    )
    try:
        return decide_node(_quantities(case_input.capacity), settings, profile.cgroups)
    except EvictionThresholdError as error:
        raise _bad_threshold(case_input, profile, error) from None
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
    for signal in case_input.eviction_hard or {}:
        if signal not in known:
            path = keyed("input.evictionHard", signal)
            raise BadInputError(
                f"{path}: kubelet {profile.version} knows no such eviction signal",
                advice=f"one of {', '.join(known)}",
            )


def _bad_threshold(
    case_input: NodeAllocatableInput, profile: KubeletProfile, error: EvictionThresholdError
) -> BadInputError:
    """The error for a user, with the signal whose threshold is refused."""
    capacity = _quantities(case_input.capacity)
    for signal, threshold in (case_input.eviction_hard or {}).items():
        try:
            hard_eviction_reservation({signal: threshold}, capacity, profile.cgroups)
        except EvictionThresholdError as found:
            return BadInputError(f"{keyed('input.evictionHard', signal)}: {found}")
    return BadInputError(f"input.evictionHard: {error}")


def _quantities(amounts: ResourceList | None) -> dict[str, Quantity]:
    return {name: Quantity.from_api(amount) for name, amount in (amounts or {}).items()}


def _canonical(quantities: dict[str, Quantity]) -> dict[str, str]:
    return {name: quantity.canonical() for name, quantity in quantities.items()}
