"""From a version text and its feature gates to the profile of that kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from kubeledger.kubelet.profile.admission import AdmissionFacts, AllocationFacts
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.kubelet.profile.devices import DeviceFacts, DraFacts
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.kubelet.profile.facts import Fact, KubeletVersion, declared, parse_version
from kubeledger.kubelet.profile.images import ImageFacts, ImagePullFacts
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts, LifecycleFacts, StageFacts
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts, TopologyFacts


class KubeletProfile(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one kubelet version does, wherever versions differ: facts by subsystem."""

    version: KubeletVersion
    admission: AdmissionFacts
    allocation: AllocationFacts
    cgroups: CgroupFacts
    devices: DeviceFacts
    dra: DraFacts
    eviction: EvictionFacts
    imagepull: ImagePullFacts
    images: ImageFacts
    kuberuntime: KuberuntimeFacts
    lifecycle: LifecycleFacts
    prober: ProberFacts
    resourcemanagers: ResourceManagerFacts
    stages: StageFacts
    topology: TopologyFacts


_GROUPS = {
    field.name: field.type
    for field in msgspec.structs.fields(KubeletProfile)
    if field.name != "version"
}

FACT_TABLES: dict[str, dict[str, Fact]] = {name: declared(of) for name, of in _GROUPS.items()}
"""subsystem -> name -> fact; docs/internals/parity.md is generated from this."""


@lru_cache(maxsize=256)
def resolve(version_text: str) -> KubeletProfile:
    """Profile of a kubelet version.

    Raises:
        BadQuestionError: the text is no version, or one outside of the known range.
    """
    version = parse_version(version_text)
    groups = {
        name: of(**{field: fact.holds(version) for field, fact in FACT_TABLES[name].items()})
        for name, of in _GROUPS.items()
    }
    return KubeletProfile(version=version, **groups)


# Feature gates that decide facts: what is true of a version holds until a gate is set.
#
# Only gates whose facts the profile holds; ``MemoryQoS``, the gates of back-off and those that a
# subsystem reads besides a fact of its own (``probe_grace_period_gate``) are no part of it.


class Stages(msgspec.Struct, frozen=True):
    """A feature gate over versions.

    Attributes:
        alpha, beta: first minor versions of these stages, in which ``AllAlpha`` and
            ``AllBeta`` stand for it; None: it has no such stage.
        locked: first minor version that does not let it be set any more; None: all do.
    """

    alpha: int | None = None
    beta: int | None = None
    locked: int | None = None


class GatedFact(msgspec.Struct, frozen=True):
    """A fact that a gate decides.

    Attributes:
        group: subsystem, as ``KubeletProfile`` names it.
        since: first minor version whose code asks the gate.
        until: first minor version whose code no longer does; None: all later ones do.
        when_on: the fact with the gate on; None: that of the version.
        when_off: the fact with the gate off.
    """

    gate: str
    group: str
    name: str
    since: int
    when_on: bool | None = True
    when_off: bool = False
    until: int | None = None

    def is_asked(self, minor: int) -> bool:
        """Whether a version's code asks the gate."""
        return self.since <= minor and (self.until is None or minor < self.until)


GATES: Final[Mapping[str, Stages]] = {
    "SidecarContainers": Stages(alpha=28, beta=29, locked=33),
    "PodLevelResources": Stages(alpha=32, beta=34),
    "PodLevelResourceManagers": Stages(alpha=36, beta=37),
    "CPUManagerPolicyAlphaOptions": Stages(alpha=23),
    "CPUManagerPolicyBetaOptions": Stages(beta=23),
    "TopologyManagerPolicyAlphaOptions": Stages(alpha=26),
    "TopologyManagerPolicyBetaOptions": Stages(beta=26),
    "DisableCPUQuotaWithExclusiveCPUs": Stages(beta=33),
    "InPlacePodVerticalScaling": Stages(alpha=27, beta=33, locked=35),
    "InPlacePodLevelResourcesVerticalScaling": Stages(alpha=35, beta=36),
    "DRAExtendedResource": Stages(alpha=34, beta=36),
    "DynamicResourceAllocation": Stages(alpha=26, beta=32, locked=35),
    "ImageVolume": Stages(alpha=31, beta=33, locked=36),
    "KubeletEnsureSecretPulledImages": Stages(alpha=33, beta=35),
    "ImageMaximumGCAge": Stages(alpha=29, beta=30, locked=35),
    "GracefulNodeShutdown": Stages(alpha=20, beta=21),
    "GracefulNodeShutdownBasedOnPodPriority": Stages(alpha=23, beta=24),
    "KubeletSeparateDiskGC": Stages(alpha=29, beta=31),
    "AllowOverwriteTerminationGracePeriodSeconds": Stages(locked=35),
    "EphemeralContainers": Stages(alpha=16, beta=23, locked=25),
    "InPlacePodVerticalScalingInitContainers": Stages(beta=36),
    "LegacySidecarContainers": Stages(locked=34),
    "ExecProbeTimeout": Stages(locked=35),
    "GRPCContainerProbe": Stages(alpha=23, beta=24, locked=27),
    "ContainerRestartRules": Stages(alpha=34, beta=35),
    "RestartAllContainersOnContainerExits": Stages(alpha=35, beta=36),
    "ChangeContainerStatusOnKubeletRestart": Stages(),
    "MemoryManager": Stages(alpha=21, beta=22, locked=32),
    "PodDisruptionConditions": Stages(alpha=25, beta=26, locked=31),
    "PodObservedGenerationTracking": Stages(alpha=33, beta=34, locked=35),
}
GATED_FACTS: Final = (
    GatedFact(
        "SidecarContainers", "admission", "sidecars_forbidden", 28, when_on=False, when_off=True
    ),
    GatedFact("SidecarContainers", "kuberuntime", "sidecar_gate_on", 28),
    GatedFact("SidecarContainers", "lifecycle", "sidecars_end_in_order", 29),
    GatedFact("SidecarContainers", "cgroups", "oom_sidecar_outlives_containers", 32),
    GatedFact("PodLevelResources", "admission", "pod_level_resources", 32),
    GatedFact("PodLevelResources", "cgroups", "pod_level_resources", 32),
    GatedFact("PodLevelResources", "eviction", "message_names_pod_request", 34),
    GatedFact(
        "InPlacePodVerticalScaling", "eviction", "message_reads_allocated_memory", 27, until=32
    ),
    GatedFact("DisableCPUQuotaWithExclusiveCPUs", "cgroups", "exclusive_cpus_unlimited", 33),
    GatedFact("InPlacePodVerticalScaling", "admission", "resized_requests_count", 27),
    GatedFact("InPlacePodVerticalScaling", "kuberuntime", "resizes_in_place", 33),
    GatedFact(
        "InPlacePodLevelResourcesVerticalScaling",
        "admission",
        "resized_pod_level_requests_count",
        35,
    ),
    GatedFact(
        "InPlacePodLevelResourcesVerticalScaling", "kuberuntime", "pod_level_resources_resized", 35
    ),
    GatedFact("DRAExtendedResource", "admission", "drops_resources_claimed_from_drivers", 36),
    GatedFact("DRAExtendedResource", "devices", "claimed_resources_skipped", 35),
    GatedFact("DRAExtendedResource", "dra", "extended_resource_claims", 36),
    GatedFact("DynamicResourceAllocation", "stages", "dynamic_resources", 26),
    GatedFact("ImageVolume", "images", "image_volumes_in_use", 31),
    GatedFact("KubeletEnsureSecretPulledImages", "imagepull", "verifies_pull_credentials", 33),
    GatedFact("ImageMaximumGCAge", "images", "maximum_age_gate_on", 29),
    GatedFact("GracefulNodeShutdown", "lifecycle", "graceful_shutdown", 20),
    GatedFact("GracefulNodeShutdownBasedOnPodPriority", "lifecycle", "shutdown_by_priority", 23),
    GatedFact("KubeletSeparateDiskGC", "eviction", "split_disk_gate_on", 29),
    GatedFact(
        "AllowOverwriteTerminationGracePeriodSeconds",
        "eviction",
        "soft_eviction_grace_at_most_the_pods",
        32,
        when_on=False,
        when_off=True,
    ),
    GatedFact("EphemeralContainers", "kuberuntime", "ephemeral_containers", 16),
    GatedFact(
        "InPlacePodVerticalScalingInitContainers", "kuberuntime", "init_containers_resized", 36
    ),
    GatedFact("LegacySidecarContainers", "kuberuntime", "init_walk_only_with_sidecars", 33),
    GatedFact("ExecProbeTimeout", "prober", "exec_timeout_fails", 20),
    GatedFact("GRPCContainerProbe", "prober", "grpc_probes", 23),
    GatedFact("ContainerRestartRules", "kuberuntime", "container_restart_rules", 34),
    GatedFact("ContainerRestartRules", "prober", "exited_container_keeps_worker", 34, until=35),
    GatedFact("ContainerRestartRules", "prober", "container_restart_rules", 35),
    GatedFact("RestartAllContainersOnContainerExits", "kuberuntime", "restart_all_containers", 35),
    GatedFact("RestartAllContainersOnContainerExits", "prober", "restart_all_containers", 35),
    GatedFact(
        "ChangeContainerStatusOnKubeletRestart",
        "prober",
        "kubelet_restart_keeps_results",
        35,
        when_on=False,
        when_off=True,
    ),
    GatedFact("MemoryManager", "resourcemanagers", "memory_manager_gate_on", 21),
    GatedFact("InPlacePodVerticalScaling", "resourcemanagers", "allocated_resources_win", 27),
    # From 1.36 on the gate of the managers alone decides.
    GatedFact("PodLevelResources", "resourcemanagers", "pod_level_pods_skipped", 34, until=36),
    GatedFact("PodLevelResourceManagers", "resourcemanagers", "pod_level_managers", 36),
    GatedFact("CPUManagerPolicyAlphaOptions", "resourcemanagers", "cpu_alpha_options", 23),
    GatedFact("CPUManagerPolicyBetaOptions", "resourcemanagers", "cpu_beta_options", 23),
    GatedFact("TopologyManagerPolicyAlphaOptions", "topology", "alpha_options", 26),
    GatedFact("TopologyManagerPolicyBetaOptions", "topology", "beta_options", 26),
    # Some patch releases lack the condition whatever the gate says.
    GatedFact("PodDisruptionConditions", "admission", "preempted_pod_condition", 26, when_on=None),
    GatedFact("PodDisruptionConditions", "eviction", "disruption_target_condition", 26),
    GatedFact(
        "PodObservedGenerationTracking", "admission", "preempted_pod_condition_generation", 33
    ),
    GatedFact("PodObservedGenerationTracking", "eviction", "disruption_target_generation", 33),
)
"""By gate; gates in the order of the subsystems.

Source: pkg/features/kube_features.go of v1.20 to v1.36.2, and where each is asked.
"""


def with_gates(profile: KubeletProfile, gates: Mapping[str, object] | None) -> KubeletProfile:
    """The profile of a kubelet that runs with feature gates.

    Args:
        gates: ``featureGates``: name -> on or off; others than booleans count as not set.
    """
    if not gates:
        return profile
    given = tuple((name, on) for name, on in gates.items() if isinstance(on, bool))
    return _with_gates(profile, given)


@lru_cache(maxsize=256)
def _with_gates(profile: KubeletProfile, given: tuple[tuple[str, bool], ...]) -> KubeletProfile:
    set_ones = dict(given)
    values = {name: _value(name, profile.version.minor, set_ones) for name in GATES}
    by_group: dict[str, dict[str, bool]] = {}
    for fact in GATED_FACTS:
        on = values[fact.gate]
        if on is not None and fact.is_asked(profile.version.minor):
            value = fact.when_on if on else fact.when_off
            if value is not None:
                by_group.setdefault(fact.group, {})[fact.name] = value
    groups = {
        group: msgspec.structs.replace(getattr(profile, group), **facts)
        for group, facts in by_group.items()
    }
    return msgspec.structs.replace(profile, **groups)


def _value(name: str, minor: int, given: Mapping[str, bool]) -> bool | None:
    """What is set for a gate; None when nothing is, or the version does not let it be set."""
    stages = GATES[name]
    if stages.locked is not None and minor >= stages.locked:
        return None
    if name in given:
        return given[name]
    if stages.beta is not None and minor >= stages.beta:
        return given.get("AllBeta")
    if stages.alpha is not None and minor >= stages.alpha:
        return given.get("AllAlpha")
    return None
