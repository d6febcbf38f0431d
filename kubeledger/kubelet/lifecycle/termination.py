"""How much time a pod and its containers have to end: when killed, and when the node shuts down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podclass import SYSTEM_CRITICAL_PRIORITY, is_critical_pod
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.model.units import NS_PER_S, parse_go_duration

MINIMUM_GRACE_S = 2


def container_grace_s(
    facts: LifecycleFacts,
    pod_grace_s: int | None,
    probe_grace_s: int | None,
    *,
    gate_is_on: bool = False,
) -> int:
    """Grace period of a kill without one of its own.

    Args:
        probe_grace_s: the same field of the probe whose failure kills; None for none, and
            for any other kill.
        gate_is_on: ProbeTerminationGracePeriod, where the kubelet asks it.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go setTerminationGracePeriod
    Differs: the minimum, which follows in killContainer, is applied here; of an object that is
        deleted the period is the caller's to know.
    """
    if pod_grace_s is None:
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


NOT_ADMITTED: Final = ("NodeShutdown", "Pod was rejected as the node is shutting down.")
"""Reason and message of a refusal meanwhile."""
STATUS: Final = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
"""Reason and message of the status of a pod that was stopped."""


class ShutdownGroup(msgspec.Struct, frozen=True, order=True):
    """Pods of a priority, up to the next group's, and the seconds that they have."""

    priority: int
    seconds: int


def shutdown_groups(
    settings: Mapping[str, Any], facts: LifecycleFacts
) -> tuple[ShutdownGroup, ...]:
    """Groups in the order in which they are stopped; none where the kubelet does nothing.

    Args:
        settings: effective ones: field -> value.

    Raises:
        ValueError: a period is none.

    Source: v1.36.2 pkg/kubelet/nodeshutdown/nodeshutdown_manager.go newPodManager, migrateConfig
    """
    if not facts.graceful_shutdown:
        return ()
    given = settings.get("shutdownGracePeriodByPodPriority")
    if given and facts.shutdown_by_priority:
        names = ("priority", "shutdownGracePeriodSeconds")
        return tuple(
            sorted(ShutdownGroup(*(int(each.get(n) or 0) for n in names)) for each in given)
        )
    whole_ns = parse_go_duration(settings.get("shutdownGracePeriod") or "0s")
    critical_ns = parse_go_duration(settings.get("shutdownGracePeriodCriticalPods") or "0s")
    if whole_ns == 0 or not 0 <= critical_ns <= whole_ns:
        return ()
    return (
        ShutdownGroup(0, (whole_ns - critical_ns) // NS_PER_S),
        ShutdownGroup(SYSTEM_CRITICAL_PRIORITY, critical_ns // NS_PER_S),
    )


def shutdown_group(groups: Sequence[ShutdownGroup], pod: Pod, facts: LifecycleFacts) -> int:
    """Index of a pod's group: the last that does not begin above its priority, or the first.

    Source: v1.36.2 pkg/kubelet/nodeshutdown/nodeshutdown_manager.go groupByPriority; before 1.23
        nodeshutdown_manager_linux.go processShutdownEvent, where static pods are critical, too
    """
    if not facts.shutdown_groups_in_turn:
        return int(is_critical_pod(pod))
    priority = pod.spec.priority or 0
    return max(sum(group.priority <= priority for group in groups) - 1, 0)


def shutdown_grace_s(group: ShutdownGroup, pod: Pod) -> int:
    """Seconds that the pod is given: its own if they are fewer than its group's."""
    own_s = pod.spec.termination_grace_period_seconds
    return group.seconds if own_s is None else min(own_s, group.seconds)
