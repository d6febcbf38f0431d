"""Conformance cases of admission: one pod, one node, the pods that are on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import Final

from kubeledger.kubelet.cases.fields import ADMISSIBLE, Judgement, Strict, check_amounts, impossible
from kubeledger.kubelet.kube.pod import Node, Pod
from kubeledger.kubelet.lifecycle import predicate as lifecycle
from kubeledger.kubelet.lifecycle.nodeinfo import InsufficientResourceError, NodeInfo
from kubeledger.kubelet.lifecycle.predicate import (
    PodAdmitResult,
    PredicateFailureReason,
    general_filter,
)
from kubeledger.kubelet.preemption import preemption
from kubeledger.kubelet.preemption.explain import admissible
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


def judge(
    case_input: AdmissionCase,
    profile: KubeletProfile,
    decided: PodAdmitResult,
    claimed: PodAdmitResult,
) -> Judgement:
    """Compare a claim with every outcome that an order of the scalar resources can give."""
    others: dict[PodAdmitResult, None] = {decided: None}
    for other in _outcomes(case_input, profile.admission):
        if claimed == other:
            return ADMISSIBLE
        others[other] = None
    if claimed.admit and decided.admit:
        return impossible(_why_not_these(case_input, profile.admission, claimed, decided))
    return impossible(_why_not_so(claimed, list(others)))


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


def _why_not_so(claimed: PodAdmitResult, outcomes: Sequence[PodAdmitResult]) -> str:
    """Where the kubelet rejects what is claimed admitted, or not, or for another reason."""
    decided = outcomes[0]
    if decided.admit:
        if not decided.victims:
            return "no predicate fails, so it is admitted"
        return f"a critical pod is admitted, {_killed(decided.victims)} for it"
    if claimed.admit:
        return f"the pod is rejected as {_rejections(outcomes)}"
    same = [outcome for outcome in outcomes if outcome.reason == claimed.reason]
    if not same:
        return f"the pod is rejected as {_rejections(outcomes)}"
    if all(claimed.message != outcome.message for outcome in same):
        message = "the message" if len(same) == 1 else "a message such as"
        return f"a pod rejected as {claimed.reason} gets {message} {same[0].message!r}"
    return f"the pod is rejected with {_killed(same[0].victims)} for it"


def _rejections(outcomes: Sequence[PodAdmitResult]) -> str:
    """What the pod may be rejected as; which of scalar resources comes first is random."""
    reasons = list(dict.fromkeys(outcome.reason for outcome in outcomes))
    if len(reasons) == 1:
        return f"{reasons[0]}: {outcomes[0].message}"
    named = f"{', '.join(reasons[:-1])} or {reasons[-1]}"
    return f"{named}, whichever of these resources the kubelet comes to first"


def _why_not_these(
    case: AdmissionCase, facts: AdmissionFacts, claimed: PodAdmitResult, decided: PodAdmitResult
) -> str:
    """Where the pod is admitted, but not over these victims."""
    if claimed.reason or claimed.message:
        return "an admitted pod has neither reason nor message"
    info = NodeInfo(case.node, case.active_pods, facts)
    reasons = general_filter(case.pod, info)
    missing = [r for r in reasons if isinstance(r, InsufficientResourceError)]
    if not missing:
        return "the pod fits, so no pod is killed for it"
    requirements = tuple(reason.requirement for reason in missing)
    why = admissible(case.pod, case.active_pods, facts, requirements, claimed.victims)
    return why or (
        "of pods that are as near and as large the kubelet takes the last one of its list: "
        f"{_killed(decided.victims)}"
    )


def _killed(victims: Sequence[str]) -> str:
    if not victims:
        return "no pod killed"
    names = ", ".join(f"pod {uid}" for uid in victims)
    return f"{names} killed" if len(victims) == 1 else f"{names} killed in this order"
