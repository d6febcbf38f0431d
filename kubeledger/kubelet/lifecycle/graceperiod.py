"""The grace period of a container, in seconds."""

from __future__ import annotations

from kubeledger.kubelet.profile.lifecycle import LifecycleFacts

MINIMUM_GRACE_S = 2


def container_grace_s(
    facts: LifecycleFacts,
    pod_grace_s: int | None,
    probe_grace_s: int | None,
    *,
    gate_is_on: bool = False,
    deletion_grace_s: int | None = None,
) -> int:
    """Grace period of a kill without one of its own.

    Args:
        facts: of the kubelet version.
        pod_grace_s: the spec's ``terminationGracePeriodSeconds``.
        probe_grace_s: the same field of the probe whose failure kills; None for none, and
            for any other kill.
        gate_is_on: ProbeTerminationGracePeriod, where the kubelet asks it.
        deletion_grace_s: the object's ``deletionGracePeriodSeconds``.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go setTerminationGracePeriod
    Differs: the minimum, which follows in killContainer, is applied here.
    """
    if deletion_grace_s is not None:
        grace_s = deletion_grace_s
    elif pod_grace_s is None:
        grace_s = MINIMUM_GRACE_S
    else:
        honoured = facts.probe_grace_period or (facts.probe_grace_period_gate and gate_is_on)
        grace_s = probe_grace_s if honoured and probe_grace_s is not None else pod_grace_s
    return max(grace_s, MINIMUM_GRACE_S)


def overridden_grace_s(
    facts: LifecycleFacts, override_s: int | None, pod_grace_s: int | None
) -> int:
    """Grace period of a kill that stops a whole pod.

    Args:
        facts: of the kubelet version.
        override_s: what was asked for, by the eviction manager for example; None for nothing.
        pod_grace_s: the spec's ``terminationGracePeriodSeconds``. The pod worker takes it
            where it is asked for 0 s, too.

    Source: v1.36.2 pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod and
        pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer
    Differs: a pod that was being stopped with a shorter period is the caller's to know.
    """
    if facts.pod_worker_gives_grace:
        override_s = max(override_s or pod_grace_s or 0, 1)
    elif override_s is None:
        return container_grace_s(facts, pod_grace_s, None)
    return max(override_s, MINIMUM_GRACE_S) if facts.minimum_grace_after_override else override_s
