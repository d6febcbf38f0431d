"""Why a pod is taken down: what the pod worker takes note of, and the time it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.lifecycle.termination import container_grace_s, overridden_grace_s
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.simulate.engine.journal import Journal
from kubeledger.simulate.engine.world import SimPod

KillReason = Literal[
    "preempted", "evicted", "pod_deleted", "pod_ended", "deadline_exceeded", "orphaned",
    "node_shutdown",
]  # fmt: skip
_Why = Literal["deleted", "ended", "killed", "orphaned", "shutdown"]
_WHY_TERMINATING: Mapping[KillReason, _Why] = {
    "preempted": "killed", "evicted": "killed", "pod_deleted": "deleted", "pod_ended": "ended",
    "deadline_exceeded": "ended", "orphaned": "orphaned", "node_shutdown": "shutdown",
}  # fmt: skip
"""Reason of a kill -> why the pod worker says that it stops the pod."""
_GIVES = frozenset({"orphaned", "shutdown"})
"""A line has the grace period; for a shutdown, the shutdown manager's own."""
_BY_ITSELF = (None, "pod_ended", "deadline_exceeded")
"""Nobody asked for a grace period."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod is taken down.

    Attributes:
        reason: as ``ContainerKilled`` names it; None when it had ended before.
        cause: record that led to it.
        grace_s: given by the caller; None: what the pod's spec gives.
        status_reason, status_message: the pod's status says so then; empty: it stays.
        keeps_phase: that does not make the pod a failed one.
    """

    reason: KillReason | None = None
    cause: int | None = None
    grace_s: int | None = None
    status_reason: str = ""
    status_message: str = ""
    keeps_phase: bool = False


def written(journal: Journal, facts: LifecycleFacts, pod: SimPod, ending: Ending) -> Ending:
    """Write down why a pod is taken down, as pod workers do; the ending with its cause.

    Source: v1.36.2 pkg/kubelet/pod_workers.go UpdatePod
    """
    if ending.reason is None:
        return ending
    why = _WHY_TERMINATING[ending.reason]
    if why != "shutdown" and not facts.pod_worker_gives_grace:
        return ending
    body = PodTerminating(
        **pod.identity,
        reason="removed" if why == "deleted" and pod.source == "file" else why,
        grace_period_s=ending.grace_s if why in _GIVES else None,
    )
    seq = journal.write(body, cause=ending.cause)
    return msgspec.structs.replace(ending, cause=seq) if ending.cause is None else ending


def ending_grace_s(facts: LifecycleFacts, spec: Mapping[str, Any], ending: Ending) -> int:
    """Seconds that the containers of a pod get."""
    spec_s = spec.get("terminationGracePeriodSeconds")
    if ending.grace_s is None and ending.reason in _BY_ITSELF:
        return container_grace_s(facts, spec_s, None)
    return overridden_grace_s(facts, ending.grace_s, spec_s)
