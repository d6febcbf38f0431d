"""Version differences in what a sync of a pod does, and in the restart back-off."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import Fact

__all__ = ["FACTS", "KuberuntimeFacts"]


class KuberuntimeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; see ``FACTS`` for each field."""

    sandbox_only_for_work: bool
    success_needs_exit: bool
    ephemeral_containers: bool
    running_app_initialized: bool
    oom_killed_init_failed: bool
    kill_reasons: bool
    init_walk: bool
    init_walk_gated: bool
    sidecar_gate_on: bool
    init_walk_only_with_sidecars: bool
    exited_app_not_initialized: bool
    created_init_restarted: bool
    changed_sidecar_restarted: bool
    container_restart_rules: bool
    restart_all_containers: bool
    resizes_in_place: bool
    static_pods_resized: bool
    init_containers_resized: bool
    pod_level_resources_resized: bool
    back_off_expires_after_600_s: bool
    cases_give_back_off_end: bool
    restart_max_gate: bool
    restart_max_configurable: bool
    restart_decay_gate: bool
    retried_when_back_off_ends: bool


_MANAGER = "kuberuntime_manager.go computePodActions"
_INIT = "kuberuntime_container.go computeInitContainerActions"
_RESIZE = "kuberuntime_manager.go computePodResizeAction"
_POLICY = "pkg/kubelet/kubelet.go newCrashLoopBackOff"

FACTS: tuple[Fact, ...] = (
    Fact(
        name="sandbox_only_for_work",
        since=20,
        backports={19: 4},
        text="A pod with no container left to start, whose initialization is done, gets no new "
        "sandbox; before, it did, unless its policy is Never.",
        source=f"{_MANAGER}: v1.19.0 and v1.20.2 differ (#92614)",
        proof="source",
    ),
    Fact(
        name="success_needs_exit",
        since=32,
        text="For a new sandbox under OnFailure, only containers that exited with code 0 have "
        "succeeded; before, also those created or in an unknown state with exit code 0.",
        source="kuberuntime_manager.go containerSucceeded: v1.31.0 and v1.32.0 differ",
        proof="conformance",
    ),
    Fact(
        name="ephemeral_containers",
        since=23,
        text="Ephemeral containers are started, once.",
        source=f"{_MANAGER}; EphemeralContainers (on since 1.23, asked until 1.24)",
        proof="source",
    ),
    Fact(
        name="running_app_initialized",
        since=21,
        text="Outside of the walk, too, an app container that runs shows that the pod is "
        "initialized; before, init containers that the runtime no longer lists, or whose last "
        "run failed, are run again.",
        source="kuberuntime_container.go findNextInitContainerToRun: v1.20.2 and v1.21.3 differ "
        "(#96572)",
        proof="source",
    ),
    Fact(
        name="oom_killed_init_failed",
        since=23,
        text="An init container whose reason is OOMKilled has failed, whatever its exit code.",
        source="pkg/kubelet/kuberuntime/helpers.go isInitContainerFailed: v1.22.3 and v1.23.0 "
        "differ (#104650)",
        proof="source",
    ),
    Fact(
        name="kill_reasons",
        since=21,
        text="A kill carries a reason: LivenessProbe, StartupProbe or Unknown.",
        source=f"{_MANAGER}: v1.20.2 and v1.21.3 differ",
        proof="source",
    ),
    Fact(
        name="init_walk",
        since=28,
        text="Init containers are walked from the last to the first, with sidecars: any number "
        "of them is started in one sync. Otherwise one is: the last that failed, or the one "
        "after the last that ended.",
        source=f"{_INIT} instead of findNextInitContainerToRun (#116429)",
        proof="source",
    ),
    Fact(
        name="init_walk_gated",
        since=29,
        backports={28: 2},
        text="The walk is behind the gate SidecarContainers.",
        source=f"{_MANAGER}: v1.28.0 and v1.29.0 differ (#120281, for 1.28 #120440)",
        proof="source",
    ),
    Fact(
        name="sidecar_gate_on",
        since=29,
        text="The gate SidecarContainers is on.",
        source="pkg/features/kube_features.go SidecarContainers",
        proof="source",
    ),
    Fact(
        name="init_walk_only_with_sidecars",
        since=32,
        until=33,
        backports={31: 1, 30: 5, 29: 9},
        text="Only pods with a sidecar are walked.",
        source=f"{_MANAGER}: v1.31.0 and v1.32.0 differ (#127162, for 1.31 #127202, for 1.30 "
        "#127203, for 1.29 #127204); in 1.33 LegacySidecarContainers is off",
        proof="source",
    ),
    Fact(
        name="exited_app_not_initialized",
        since=29,
        text="In the walk, only an app container that was created or runs shows that the pod is "
        "initialized; before, also one that exited.",
        source=f"{_INIT}: v1.28.0 and v1.29.0 differ (#120269)",
        proof="source",
    ),
    Fact(
        name="created_init_restarted",
        since=32,
        backports={31: 1, 30: 5, 29: 9},
        text="In the walk, an init container that was created and not started is started again; "
        "before, it is waited for.",
        source=f"{_INIT}: v1.31.0 and v1.32.0 differ (#126543, for 1.31 #127212, for 1.30 "
        "#127213, for 1.29 #127214)",
        proof="conformance",
    ),
    Fact(
        name="changed_sidecar_restarted",
        since=32,
        text="A running sidecar is killed, and started again, when its definition changed.",
        source=f"{_INIT}: v1.31.0 and v1.32.0 differ (#126525)",
        proof="conformance",
    ),
    Fact(
        name="container_restart_rules",
        since=35,
        text="A container's own restart policy, and for one that exited its exit code rules, "
        "come before the pod's policy.",
        source="pkg/kubelet/container/helpers.go ShouldContainerBeRestarted, "
        f"{_MANAGER}; ContainerRestartRules on",
        proof="source",
    ),
    Fact(
        name="restart_all_containers",
        since=36,
        text="A pod marked so has all its containers removed, those whose exit asked for it "
        "last; and the action RestartAllContainers of a rule restarts its container.",
        source="kuberuntime_manager.go getContainersToReset; "
        "RestartAllContainersOnContainerExits on",
        proof="source",
    ),
    Fact(
        name="resizes_in_place",
        since=33,
        text="Requests and limits that differ from those last actuated are updated in the "
        "running container, or it is restarted where resizePolicy says so.",
        source=f"{_RESIZE}; InPlacePodVerticalScaling on. What 1.27 to 1.32 do behind that gate "
        "is not imitated",
        proof="conformance",
    ),
    Fact(
        name="static_pods_resized",
        since=36,
        text="Static pods, too.",
        source="allocation/features_linux.go IsInPlacePodVerticalScalingAllowed: v1.35.0 and "
        "v1.36.2 differ",
        proof="source",
    ),
    Fact(
        name="init_containers_resized",
        since=36,
        text="Running init containers that are no sidecars, too.",
        source=f"{_INIT}; InPlacePodVerticalScalingInitContainers on",
        proof="source",
    ),
    Fact(
        name="pod_level_resources_resized",
        since=36,
        text="Resources of the pod as a whole, too; a container without a limit has the pod's.",
        source="kuberuntime_manager.go computePodLevelResourcesResizeAction, "
        "containerResourcesFromRequirements; InPlacePodLevelResourcesVerticalScaling on",
        proof="source",
    ),
    Fact(
        name="back_off_expires_after_600_s",
        since=32,
        text="A back-off entry is forgotten 600 s after it was last raised; before, after twice "
        "the greatest back-off.",
        source="pkg/kubelet/kubelet.go NewMainKubelet, HasExpiredFunc: v1.31.0 and v1.32.0 differ",
        proof="conformance",
    ),
    Fact(
        name="cases_give_back_off_end",
        since=36,
        text="Cases of back-off give its end (`until`), which the kubelet's error carries since "
        "1.35.",
        source="kuberuntime_manager.go doBackOff, NewBackoffError",
        proof="conformance",
    ),
    Fact(
        name="restart_max_gate",
        since=32,
        text="crashLoopBackOff.maxContainerRestartPeriod counts when the gate "
        "KubeletCrashLoopBackOffMax is on.",
        source=_POLICY,
        proof="source",
    ),
    Fact(
        name="restart_max_configurable",
        since=35,
        text="That gate is on by default.",
        source="pkg/features/kube_features.go KubeletCrashLoopBackOffMax",
        proof="source",
    ),
    Fact(
        name="restart_decay_gate",
        since=33,
        text="The gate ReduceDefaultCrashLoopBackOffDecay makes back-off begin at 1 s and end "
        "at 60 s; it is off by default.",
        source=_POLICY,
        proof="source",
    ),
    Fact(
        name="retried_when_back_off_ends",
        since=35,
        text="A pod with a container in back-off is synced again when the back-off ends; before, "
        "after 10 to 15 s.",
        source="pkg/kubelet/pod_workers.go completeWork, MinBackoffExpiration",
        proof="source",
    ),
)
"""(n,) one per field of ``KuberuntimeFacts``, in the order of the kubelet's own steps."""
