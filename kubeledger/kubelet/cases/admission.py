"""Conformance cases of admission: one pod, one node, the pods that are on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import Final

from kubeledger.kubelet.cases.fields import Strict, check_amounts, most_alike
from kubeledger.kubelet.kube.pod import Node, Pod
from kubeledger.kubelet.lifecycle import predicate as lifecycle
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.lifecycle.predicate import (
    PodAdmitResult,
    PredicateFailureReason,
    general_filter,
)
from kubeledger.kubelet.preemption import preemption
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile

_ORDERS_MAX: Final = 5040
"""Orders of scalar resources that are tried: all of seven."""


class AdmissionCase(Strict, frozen=True):
    """The input of a case.

    Attributes:
        active_pods: (n,) in the order the kubelet lists them, which decides between equals.
    """

    node: Node
    pod: Pod
    active_pods: tuple[Pod, ...]


INPUT: Final = AdmissionCase
OUTCOME: Final = PodAdmitResult


def decide(case_input: AdmissionCase, profile: KubeletProfile) -> PodAdmitResult:
    """Admit or reject; scalar resources are taken sorted by name."""
    _check_node(case_input.node)
    facts = profile.admission
    info = NodeInfo(case_input.node, case_input.active_pods, facts)
    recovery = preemption.recovery(case_input.pod, case_input.active_pods, facts)
    return lifecycle.decide(case_input.pod, info, recovery)


def nearest(
    case_input: AdmissionCase,
    profile: KubeletProfile,
    decided: PodAdmitResult,
    claimed: PodAdmitResult,
) -> PodAdmitResult:
    """Of what an order of the scalar resources can give, the claim or what is most like it."""
    return most_alike([decided, *_outcomes(case_input, profile.admission)], claimed)


def _check_node(node: Node) -> None:
    check_amounts("input.node.status.allocatable", node.status.allocatable)
    check_amounts("input.node.status.capacity", node.status.capacity)


def _outcomes(case: AdmissionCase, facts: AdmissionFacts) -> Iterator[PodAdmitResult]:
    """What ``decide`` gives, then the same for other orders of the scalar resources."""
    info = NodeInfo(case.node, case.active_pods, facts)
    recovery = preemption.recovery(case.pod, case.active_pods, facts)
    reasons = general_filter(case.pod, info)
    random = lifecycle.insufficient_scalars(reasons)
    for order in _orders(reasons[random.start : random.stop], all_of_them=recovery is not None):
        ordered: list[PredicateFailureReason] = [*reasons]
        ordered[random.start : random.stop] = order
        yield lifecycle.decide(case.pod, info, recovery, ordered)


def _orders(
    scalars: Sequence[PredicateFailureReason], *, all_of_them: bool
) -> Iterator[Sequence[PredicateFailureReason]]:
    """Orders of the scalar resources that can matter: without preemption only who is first."""
    if all_of_them:
        yield from islice(permutations(scalars), _ORDERS_MAX)
        return
    for at in range(max(len(scalars), 1)):
        yield [*scalars[at:], *scalars[:at]]
