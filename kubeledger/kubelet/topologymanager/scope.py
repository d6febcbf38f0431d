"""Admission of a pod by the topology manager, per container or for the pod as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.hint import ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.policies import Policy, merge

AFFINITY_REASON = "TopologyAffinityError"
AFFINITY_MESSAGE = "Resources cannot be allocated with Topology locality"
UNEXPECTED_REASON = "UnexpectedAdmissionError"


class HintProvider(msgspec.Struct, frozen=True, kw_only=True):
    """Device, CPU or memory manager as the topology manager sees it.

    Attributes:
        container_hints: container -> hints by resource.
        pod_hints: the same for the pod as a whole.
        allocate: container, affinity -> error text, empty when all went well.
    """

    container_hints: Callable[[str], ProviderHints]
    pod_hints: Callable[[], ProviderHints]
    allocate: Callable[[str, int | None], str]


class AdmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the topology manager answers for a pod.

    Attributes:
        admit: whether the pod may run.
        reason, message: why not; empty if it may.
        affinities: container -> stored affinity (mask, None for any), in the order stored.
    """

    admit: bool
    reason: str = ""
    message: str = ""
    affinities: dict[str, int | None] = {}


def admit(
    containers: Sequence[str],
    providers: Sequence[HintProvider],
    policy: Policy,
    scope: str,
    facts: TopologyFacts,
) -> AdmitResult:
    """Align and allocate each container in turn; the first error ends it.

    Grants made before an error stay. With policy none nothing is stored, so every
    provider allocates without an affinity.

    Args:
        containers: (n,) init containers first, then app containers, in the pod's order.
        providers: (p,) device manager, CPU manager, memory manager, in this order.
        policy: the node's policy.
        scope: ``container`` or ``pod``.
        facts: of the kubelet version.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/scope_container.go, scope_pod.go Admit
    Differs: no
    """
    stored: dict[str, int | None] = {}
    shared: TopologyHint | None = None
    if policy.name != "none" and scope == "pod":
        shared, fits = merge(policy, [p.pod_hints() for p in providers], facts)
        if not fits:
            return _affinity_error(stored)
    for container in containers:
        if policy.name != "none":
            hint, fits = shared, True
            if hint is None:
                hint, fits = _aligned(container, providers, policy, facts)
            if not fits:
                return _affinity_error(stored)
            stored[container] = hint.affinity
        for provider in providers:
            error = provider.allocate(container, stored.get(container))
            if error:
                return _unexpected(error, stored)
    return AdmitResult(admit=True, affinities=stored)


def _aligned(
    container: str, providers: Sequence[HintProvider], policy: Policy, facts: TopologyFacts
) -> tuple[TopologyHint, bool]:
    return merge(policy, [p.container_hints(container) for p in providers], facts)


def _affinity_error(stored: dict[str, int | None]) -> AdmitResult:
    return AdmitResult(
        admit=False, reason=AFFINITY_REASON, message=AFFINITY_MESSAGE, affinities=stored
    )


def _unexpected(error: str, stored: dict[str, int | None]) -> AdmitResult:
    return AdmitResult(
        admit=False,
        reason=UNEXPECTED_REASON,
        message=f"Allocate failed due to {error}, which is unexpected",
        affinities=stored,
    )
