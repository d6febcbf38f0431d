"""Version differences in the life of pods: syncs, back-off, kills, and what they wait for."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven

_SHUTDOWN = "pkg/kubelet/nodeshutdown/nodeshutdown_manager"
_CONTAINER = "pkg/kubelet/kuberuntime/kuberuntime_container.go"


class LifecycleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.lifecycle``: what a kubelet version does in this subsystem."""

    probe_grace_period: bool = fact(
        "A liveness or startup probe's own terminationGracePeriodSeconds is used for the kill "
        "that its failure causes, wherever the pod's spec still holds one.",
        since=22,
        source=f"{_CONTAINER} killContainer, later setTerminationGracePeriod: the kubelet asks "
        "no gate since v1.22.0",
    )
    probe_grace_period_gate: bool = fact(
        "A probe's own terminationGracePeriodSeconds is used for the kill that its failure "
        "causes, with the gate ProbeTerminationGracePeriod, which is off by default.",
        since=21,
        until=22,
        source=f"{_CONTAINER} killContainer (v1.21)",
    )
    pod_worker_gives_grace: bool = fact(
        "When a whole pod is stopped, the pod worker gives the grace period: what was asked for, "
        "the pod's own period in place of 0 s, and at least 1 s.",
        since=22,
        source="pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod",
    )
    minimum_grace_after_override: bool = fact(
        "The minimum of 2 s also holds for a grace period given elsewhere.",
        since=28,
        source=f"{_CONTAINER} killContainer: the override moved before the minimum in v1.28.0",
    )
    sidecars_end_in_order: bool = fact(
        "Sidecars are stopped after the containers; what they wait comes off their grace.",
        since=29,
        source="pkg/kubelet/kuberuntime/kuberuntime_termination_order.go",
    )
    static_pod_waits_for_namesake: bool = fact(
        "The pod of a static pod's changed manifest is not started before the one of its name is "
        "down; that is looked at every 10 s to 15 s.",
        since=22,
        source="pkg/kubelet/pod_workers.go allowPodStart, later allowStaticPodStart",
    )
    graceful_shutdown: bool = fact(
        "Pods are stopped within shutdownGracePeriod when the node shuts down.",
        since=21,
        source=f"{_SHUTDOWN}_linux.go; the gate GracefulNodeShutdown is on since v1.21.0",
    )
    shutdown_groups_in_turn: bool = fact(
        "Pods are stopped by priority alone, each group when the one before is down or its time "
        "is over; before, critical pods, static ones included, wait for the whole time of the "
        "others.",
        since=23,
        source=f"{_SHUTDOWN}_linux.go processShutdownEvent",
    )
    shutdown_by_priority: bool = fact(
        "shutdownGracePeriodByPodPriority replaces shutdownGracePeriod.",
        since=24,
        source=f"{_SHUTDOWN}_linux.go; GracefulNodeShutdownBasedOnPodPriority is on since v1.24.0",
    )
    shutdown_keeps_phase: bool = fact(
        "The status of a pod that was stopped has reason and message of the shutdown, and is not "
        "made Failed.",
        since=22,
        until=24,
        source=f"{_SHUTDOWN}_linux.go processShutdownEvent (v1.22.3, v1.23.0)",
    )
    status_says_rejected: bool = fact(
        "The status of a refused pod begins with `Pod was rejected: `; before, with `Pod `.",
        since=26,
        source="pkg/kubelet/kubelet.go rejectPod",
    )


# Version differences in what a kubelet says of a pod, or a node, that something keeps waiting.

_WAIT = "pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount"


class StageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.stages``: what a kubelet version does in this subsystem."""

    network_error_names_container: bool = fact(
        "A network that is not ready is the container runtime's network; before, the runtime "
        "network.",
        since=21,
        source="pkg/kubelet/kubelet.go updateRuntimeUp: v1.20.0 and v1.21.0 differ",
    )
    volumes_not_processed_named: bool = fact(
        "The error of volumes that are not mounted names those that were not processed, and as "
        "unattached those alone that are attached; before, all that the pod mounts.",
        since=27,
        source=f"{_WAIT}: v1.26.0 and v1.27.0 differ",
    )
    volume_wait_takes_context: bool = fact(
        "The wait for volumes ends with a deadline, of which no event is sent, and when the pod "
        "is to be stopped.",
        since=28,
        source=f"{_WAIT}; pkg/kubelet/kubelet.go SyncPod, wait.Interrupted: v1.27.0 and v1.28.0 "
        "differ",
    )
    dynamic_resources: bool = fact(
        "Claims of a pod are prepared before its sandbox.",
        since=34,
        source="pkg/features/kube_features.go DynamicResourceAllocation",
    )
    claim_failures_reported: bool = fact(
        "A claim that cannot be prepared is an event, and no error of the sync.",
        since=28,
        source="pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod: v1.27.0 and v1.28.0 differ",
    )
    hook_event_has_words: bool = fact(
        "The event of a post-start hook that failed has the handler's own words.",
        until=26,
        source="pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer: v1.25.0 and "
        "v1.26.0 differ",
    )
    status_read_from_lister: bool = fact(
        "The first try to write the node's status reads the node from a cache, so that an API "
        "server that is gone is noticed only when there is something to write.",
        since=31,
        source="pkg/kubelet/kubelet_node_status.go tryUpdateNodeStatus: v1.30.0 and v1.31.0 differ",
    )


# Version differences in what a sync of a pod does, and in the restart back-off.

_MANAGER = "kuberuntime_manager.go computePodActions"
_INIT = "kuberuntime_container.go computeInitContainerActions"
_RESIZE = "kuberuntime_manager.go computePodResizeAction"
_POLICY = "pkg/kubelet/kubelet.go newCrashLoopBackOff"


class KuberuntimeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.kuberuntime``: what a kubelet version does in this subsystem."""

    sandbox_only_for_work: bool = fact(
        "A pod with no container left to start, whose initialization is done, gets no new "
        "sandbox; before, it did, unless its policy is Never.",
        since=20,
        backports={19: 4},
        source=f"{_MANAGER}: v1.19.0 and v1.20.2 differ (#92614)",
    )
    success_needs_exit: bool = fact(
        "For a new sandbox under OnFailure, only containers that exited with code 0 have "
        "succeeded; before, also those created or in an unknown state with exit code 0.",
        since=32,
        source="kuberuntime_manager.go containerSucceeded: v1.31.0 and v1.32.0 differ",
    )
    ephemeral_containers: bool = fact(
        "An ephemeral container of the spec is started once; before, it is passed over.",
        since=23,
        source=f"{_MANAGER}; EphemeralContainers (on since 1.23, asked until 1.24)",
    )
    running_app_initialized: bool = fact(
        "Outside of the walk, too, an app container that runs shows that the pod is initialized; "
        "before, init containers that the runtime no longer lists, or whose last run failed, are "
        "run again.",
        since=21,
        source="kuberuntime_container.go findNextInitContainerToRun: v1.20.2 and v1.21.3 differ "
        "(#96572)",
    )
    oom_killed_init_failed: bool = fact(
        "An init container whose reason is OOMKilled has failed, whatever its exit code.",
        since=23,
        source="pkg/kubelet/kuberuntime/helpers.go isInitContainerFailed: v1.22.3 and v1.23.0 "
        "differ (#104650)",
    )
    kill_reasons: bool = fact(
        "A kill carries a reason: LivenessProbe, StartupProbe or Unknown.",
        since=21,
        source=f"{_MANAGER}: v1.20.2 and v1.21.3 differ",
    )
    init_walk: bool = fact(
        "Init containers are walked from the last to the first, with sidecars: any number of them "
        "is started in one sync. Otherwise one is: the last that failed, or the one after the "
        "last that ended.",
        since=28,
        source=f"{_INIT} instead of findNextInitContainerToRun (#116429)",
    )
    init_walk_gated: bool = fact(
        "Init containers are walked only with the gate SidecarContainers; before, in every pod.",
        since=29,
        backports={28: 2},
        source=f"{_MANAGER}: v1.28.0 and v1.29.0 differ (#120281, for 1.28 #120440)",
    )
    sidecar_gate_on: bool = fact(
        "The gate SidecarContainers is on.",
        since=29,
        source="pkg/features/kube_features.go SidecarContainers",
    )
    init_walk_only_with_sidecars: bool = fact(
        "Init containers are walked only in pods with a sidecar; in others one is started at a "
        "time.",
        since=32,
        backports={31: 1, 30: 5, 29: 9},
        until=33,
        source=f"{_MANAGER}: v1.31.0 and v1.32.0 differ (#127162, for 1.31 #127202, for 1.30 "
        "#127203, for 1.29 #127204); in 1.33 LegacySidecarContainers is off",
    )
    exited_app_not_initialized: bool = fact(
        "In the walk, only an app container that was created or runs shows that the pod is "
        "initialized; before, also one that exited.",
        since=29,
        source=f"{_INIT}: v1.28.0 and v1.29.0 differ (#120269)",
    )
    created_init_restarted: bool = proven(
        "In the walk, an init container that was created and not started is started again; "
        "before, it is waited for.",
        since=32,
        backports={31: 1, 30: 5, 29: 9},
        source=f"{_INIT}: v1.31.0 and v1.32.0 differ (#126543, for 1.31 #127212, for 1.30 "
        "#127213, for 1.29 #127214)",
    )
    changed_sidecar_restarted: bool = proven(
        "A running sidecar is killed, and started again, when its definition changed.",
        since=32,
        source=f"{_INIT}: v1.31.0 and v1.32.0 differ (#126525)",
    )
    container_restart_rules: bool = fact(
        "A container's own restart policy, and for one that exited its exit code rules, come "
        "before the pod's policy.",
        since=35,
        source="pkg/kubelet/container/helpers.go ShouldContainerBeRestarted, "
        f"{_MANAGER}; ContainerRestartRules on",
    )
    restart_all_containers: bool = fact(
        "A pod marked so has all its containers removed, those whose exit asked for it last; and "
        "the action RestartAllContainers of a rule restarts its container.",
        since=36,
        source="kuberuntime_manager.go getContainersToReset; RestartAllContainersOnContainerExits "
        "on",
    )
    resizes_in_place: bool = proven(
        "Requests and limits that differ from those last actuated are updated in the running "
        "container, or it is restarted where resizePolicy says so.",
        since=33,
        source=f"{_RESIZE}; InPlacePodVerticalScaling on. What 1.27 to 1.32 do behind that gate "
        "is not imitated",
    )
    static_pods_resized: bool = fact(
        "Static pods are resized in place as well.",
        since=36,
        source="allocation/features_linux.go IsInPlacePodVerticalScalingAllowed: v1.35.0 and "
        "v1.36.2 differ",
    )
    memory_decrease_checked: bool = fact(
        "Of a resize that lowers limits of memory, those of the pod and of each container are "
        "compared with what is in use, and all that are below it are named; before, the pod's "
        "limit alone, lowered or not.",
        since=34,
        source="kuberuntime_manager.go validateMemoryResizeAction; v1.33.13 doPodResizeAction",
    )
    init_containers_resized: bool = fact(
        "Init containers that are not sidecars are resized in place while they run.",
        since=36,
        source=f"{_INIT}; InPlacePodVerticalScalingInitContainers on",
    )
    pod_level_resources_resized: bool = fact(
        "The pod's own resources are resized in place as well; a container without a limit has "
        "the pod's.",
        since=36,
        source="kuberuntime_manager.go computePodLevelResourcesResizeAction, "
        "containerResourcesFromRequirements; InPlacePodLevelResourcesVerticalScaling on",
    )
    back_off_expires_after_600_s: bool = proven(
        "A back-off entry is forgotten 600 s after it was last raised; before, after twice the "
        "greatest back-off.",
        since=32,
        source="pkg/kubelet/kubelet.go NewMainKubelet, HasExpiredFunc: v1.31.0 and v1.32.0 differ",
    )
    cases_give_back_off_end: bool = proven(
        "Cases of back-off give its end (`until`), which the kubelet's error carries since 1.35.",
        since=36,
        source="kuberuntime_manager.go doBackOff, NewBackoffError",
    )
    restart_max_gate: bool = fact(
        "crashLoopBackOff.maxContainerRestartPeriod counts when the gate "
        "KubeletCrashLoopBackOffMax is on.",
        since=32,
        source=_POLICY,
    )
    restart_max_configurable: bool = fact(
        "The gate KubeletCrashLoopBackOffMax is on by default.",
        since=35,
        source="pkg/features/kube_features.go KubeletCrashLoopBackOffMax",
    )
    restart_decay_gate: bool = fact(
        "The gate ReduceDefaultCrashLoopBackOffDecay makes back-off begin at 1 s and end at 60 s; "
        "it is off by default.",
        since=33,
        source=_POLICY,
    )
    retried_when_back_off_ends: bool = fact(
        "A pod with a container in back-off is synced again when the back-off ends; before, after "
        "10 to 15 s.",
        since=35,
        source="pkg/kubelet/pod_workers.go completeWork, MinBackoffExpiration",
    )
