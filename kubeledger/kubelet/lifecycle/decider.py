"""Admission by predicates: is a pod admitted, why not, and what it preempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.kube.amounts import check_asked
from kubeledger.kubelet.kube.pod import Node, Pod, is_sidecar, lists_of_pods
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.lifecycle.predicates import (
    GOOS,
    LABEL_OS,
    PredicateFailureReason,
    general_filter,
    message_of,
)
from kubeledger.kubelet.lifecycle.resourcefit import InsufficientResourceError
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.preemption import InsufficientResource

_STRICT: Final = "Strict"


class PodAdmitResult(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What admission came to.

    Attributes:
        admit: whether it is admitted.
        reason, message: why not; empty if it is.
        victims: UIDs of pods that were killed for it, in that order.
    """

    admit: bool
    reason: str
    message: str
    victims: tuple[str, ...]


Recovery = Callable[[tuple[InsufficientResource, ...]], tuple[tuple[str, ...], str]]
"""Makes room for a critical pod: amounts missing -> victims, and an error or nothing."""

_ADMITTED: Final = PodAdmitResult(True, "", "", ())


def decide(
    pod: Pod,
    info: NodeInfo,
    facts: AdmissionFacts,
    recovery: Recovery | None,
    reasons: Sequence[PredicateFailureReason] | None = None,
) -> PodAdmitResult:
    """Run the predicates over a pod.

    Args:
        pod: the pod to admit.
        info: the node with the pods on it.
        facts: the kubelet's version.
        recovery: makes room by preemption; None for a pod that is not critical.
        reasons: the reasons against the pod, if they are known already.

    Raises:
        BadInputError: a quantity of the pod cannot be asked for.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go Admit; v1.20.2
    Differs: the node is there, no device is held, and all reasons are of known types.
    """
    check_asked(lists_of_pods((pod,)))
    refusal = _checks_before(pod, info.node, facts)
    if refusal is not None:
        return refusal
    if reasons is None:
        reasons = general_filter(pod, info, facts)
    admitted = _ADMITTED
    if reasons and recovery is not None:
        insufficient = [r for r in reasons if isinstance(r, InsufficientResourceError)]
        if len(insufficient) < len(reasons):
            # A critical pod is never kept out by resources, only by what is left.
            reasons = [r for r in reasons if not isinstance(r, InsufficientResourceError)]
        else:
            victims, error = recovery(tuple(reason.requirement for reason in insufficient))
            if error:
                return _rejected("UnexpectedAdmissionError", _unexpected(error))
            reasons, admitted = (), PodAdmitResult(True, "", "", victims)
    if reasons:
        return _rejected(reasons[0].reason, message_of(reasons[0], facts))
    late = _os_check(pod) if facts.os_checks and not facts.os_checks_first else None
    return admitted if late is None else msgspec.structs.replace(late, victims=admitted.victims)


def insufficient_scalars(reasons: Sequence[PredicateFailureReason]) -> range:
    """Positions of the reasons whose order is that of a Go map, so random."""
    scalars = [
        index
        for index, reason in enumerate(reasons)
        if isinstance(reason, InsufficientResourceError)
        and reason.resource_name not in ("pods", "cpu", "memory", "ephemeral-storage")
    ]
    return range(scalars[0], scalars[-1] + 1) if scalars else range(0)


def _unexpected(error: str) -> str:
    return f"Unexpected error while attempting to recover from admission failure: {error}"


def _checks_before(pod: Pod, node: Node, facts: AdmissionFacts) -> PodAdmitResult | None:
    """Refusals that no preemption would help against."""
    if facts.os_checks_first:
        refusal = _os_check(pod)
        if refusal is not None:
            return refusal
    if facts.supplemental_groups_check:
        refusal = _supplemental_groups_check(pod, node)
        if refusal is not None:
            return refusal
    if facts.sidecars_forbidden:
        for container in pod.spec.init_containers or ():
            if is_sidecar(container):
                return _rejected(
                    "InitContainerRestartPolicyForbidden",
                    f'Init container "{container.name or ""}" may not have a non-default '
                    "restartPolicy",
                )
    return None


def _os_check(pod: Pod) -> PodAdmitResult | None:
    """The kubelet runs on Linux.

    Source: v1.36.2 pkg/kubelet/lifecycle/predicate.go rejectPodAdmissionBasedOnOSSelector,
        rejectPodAdmissionBasedOnOSField
    Differs: no. It is the label of the pod, not its selector, that is compared.
    """
    if (pod.metadata.labels or {}).get(LABEL_OS, GOOS) != GOOS:
        return _rejected(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != GOOS:
        return _rejected(
            "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
        )
    return None


def _supplemental_groups_check(pod: Pod, node: Node) -> PodAdmitResult | None:
    context = pod.spec.security_context
    if context is None or context.supplemental_groups_policy != _STRICT:
        return None
    features = node.status.features
    if features is not None and features.supplemental_groups_policy:
        return None
    return _rejected(
        "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
    )


def _rejected(reason: str, message: str) -> PodAdmitResult:
    return PodAdmitResult(False, reason, message, ())
