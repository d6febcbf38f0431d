"""Version differences in how containers are killed and started again."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_SHUTDOWN = "pkg/kubelet/nodeshutdown/nodeshutdown_manager"
_CONTAINER = "pkg/kubelet/kuberuntime/kuberuntime_container.go"


class LifecycleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem."""

    probe_grace_period: bool = fact(
        since=22,
        text="A liveness or startup probe's own terminationGracePeriodSeconds is used for the "
        "kill that its failure causes, wherever the pod's spec still holds one.",
        source=f"{_CONTAINER} killContainer, later setTerminationGracePeriod: the kubelet asks "
        "no gate since v1.22.0",
        proof="source",
    )
    probe_grace_period_gate: bool = fact(
        since=21,
        until=22,
        text="A probe's own terminationGracePeriodSeconds is used for the kill that its failure "
        "causes, with the gate ProbeTerminationGracePeriod, which is off by default.",
        source=f"{_CONTAINER} killContainer (v1.21)",
        proof="source",
    )
    pod_worker_gives_grace: bool = fact(
        since=22,
        text="When a whole pod is stopped, the pod worker gives the grace period: what was asked "
        "for, the pod's own period in place of 0 s, and at least 1 s.",
        source="pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod",
        proof="source",
    )
    minimum_grace_after_override: bool = fact(
        since=28,
        text="The minimum of 2 s also holds for a grace period given elsewhere.",
        source=f"{_CONTAINER} killContainer: the override moved before the minimum in v1.28.0",
        proof="source",
    )
    sidecars_end_in_order: bool = fact(
        since=29,
        text="Sidecars are stopped after the containers; what they wait comes off their grace.",
        source="pkg/kubelet/kuberuntime/kuberuntime_termination_order.go",
        proof="source",
    )
    static_pod_waits_for_namesake: bool = fact(
        since=22,
        text="The pod of a static pod's changed manifest is not started before the one of its "
        "name is down; that is looked at every 10 s to 15 s.",
        source="pkg/kubelet/pod_workers.go allowPodStart, later allowStaticPodStart",
        proof="source",
    )
    graceful_shutdown: bool = fact(
        since=21,
        text="Pods are stopped within shutdownGracePeriod when the node shuts down.",
        source=f"{_SHUTDOWN}_linux.go; the gate GracefulNodeShutdown is on since v1.21.0",
        proof="source",
    )
    shutdown_groups_in_turn: bool = fact(
        since=23,
        text="Pods are stopped by priority alone, each group when the one before is down or its "
        "time is over; before, critical pods, static ones included, wait for the whole "
        "time of the others.",
        source=f"{_SHUTDOWN}_linux.go processShutdownEvent",
        proof="source",
    )
    shutdown_by_priority: bool = fact(
        since=24,
        text="shutdownGracePeriodByPodPriority replaces shutdownGracePeriod.",
        source=f"{_SHUTDOWN}_linux.go; GracefulNodeShutdownBasedOnPodPriority is on since v1.24.0",
        proof="source",
    )
    shutdown_keeps_phase: bool = fact(
        since=22,
        until=24,
        text="The status of a pod that was stopped has reason and message of the shutdown, and is "
        "not made Failed.",
        source=f"{_SHUTDOWN}_linux.go processShutdownEvent (v1.22.3, v1.23.0)",
        proof="source",
    )
    status_says_rejected: bool = fact(
        since=26,
        text="The status of a refused pod begins with `Pod was rejected: `; before, with `Pod `.",
        source="pkg/kubelet/kubelet.go rejectPod",
        proof="source",
    )
