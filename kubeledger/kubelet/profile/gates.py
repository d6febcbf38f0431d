"""Feature gates that decide facts: what is true of a version holds until a gate is set.

Only gates whose facts the profile holds; ``MemoryQoS``, the gates of back-off and those that a
subsystem reads besides a fact of its own (``probe_grace_period_gate``) are no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from kubeledger.kubelet.profile.resolve import KubeletProfile

__all__ = ["GATES", "Gate", "GatedFact", "with_gates"]


class GatedFact(msgspec.Struct, frozen=True):
    """A fact that a gate decides.

    Attributes:
        group: subsystem, as ``KubeletProfile`` names it.
        name: of the fact.
        since: first minor version whose code asks the gate.
        when_on: the fact with the gate on; None: that of the version.
        when_off: the fact with the gate off.
    """

    group: str
    name: str
    since: int
    when_on: bool | None = True
    when_off: bool = False


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """A feature gate over versions.

    Attributes:
        name: as in ``featureGates``.
        alpha, beta: first minor versions of these stages, in which ``AllAlpha`` and
            ``AllBeta`` stand for it; None: it has no such stage.
        locked: first minor version that does not let it be set any more; None: all do.
        facts: (n,) what it decides.
    """

    name: str
    alpha: int | None = None
    beta: int | None = None
    locked: int | None = None
    facts: tuple[GatedFact, ...]


GATES: Final = (
    Gate(
        name="SidecarContainers",
        alpha=28,
        beta=29,
        locked=33,
        facts=(
            GatedFact("admission", "sidecars_forbidden", 28, when_on=False, when_off=True),
            GatedFact("kuberuntime", "sidecar_gate_on", 28),
            GatedFact("lifecycle", "sidecars_end_in_order", 29),
            GatedFact("cgroups", "oom_sidecar_outlives_containers", 32),
        ),
    ),
    Gate(
        name="PodLevelResources",
        alpha=32,
        beta=34,
        facts=(
            GatedFact("admission", "pod_level_resources", 32),
            GatedFact("cgroups", "pod_level_resources", 32),
            GatedFact("eviction", "message_names_pod_request", 34),
        ),
    ),
    Gate(
        name="DisableCPUQuotaWithExclusiveCPUs",
        beta=33,
        facts=(GatedFact("cgroups", "exclusive_cpus_unlimited", 33),),
    ),
    Gate(
        name="InPlacePodVerticalScaling",
        alpha=27,
        beta=33,
        locked=35,
        facts=(
            GatedFact("admission", "resized_requests_count", 27),
            GatedFact("kuberuntime", "resizes_in_place", 33),
        ),
    ),
    Gate(
        name="InPlacePodLevelResourcesVerticalScaling",
        alpha=35,
        beta=36,
        facts=(
            GatedFact("admission", "resized_pod_level_requests_count", 35),
            GatedFact("kuberuntime", "pod_level_resources_resized", 35),
        ),
    ),
    Gate(
        name="DRAExtendedResource",
        alpha=34,
        beta=36,
        facts=(
            GatedFact("admission", "drops_resources_claimed_from_drivers", 36),
            GatedFact("devices", "claimed_resources_skipped", 35),
        ),
    ),
    Gate(
        name="ImageVolume",
        alpha=31,
        beta=33,
        locked=36,
        facts=(GatedFact("images", "image_volumes_in_use", 31),),
    ),
    Gate(
        name="ImageMaximumGCAge",
        alpha=29,
        beta=30,
        locked=35,
        facts=(GatedFact("images", "maximum_age_gate_on", 29),),
    ),
    Gate(
        name="GracefulNodeShutdown",
        alpha=20,
        beta=21,
        facts=(GatedFact("lifecycle", "graceful_shutdown", 20),),
    ),
    Gate(
        name="GracefulNodeShutdownBasedOnPodPriority",
        alpha=23,
        beta=24,
        facts=(GatedFact("lifecycle", "shutdown_by_priority", 23),),
    ),
    Gate(
        name="KubeletSeparateDiskGC",
        alpha=29,
        beta=31,
        facts=(GatedFact("eviction", "split_disk_gate_on", 29),),
    ),
    Gate(
        name="AllowOverwriteTerminationGracePeriodSeconds",
        locked=35,
        facts=(
            GatedFact(
                "eviction",
                "soft_eviction_grace_at_most_the_pods",
                32,
                when_on=False,
                when_off=True,
            ),
        ),
    ),
    Gate(
        name="EphemeralContainers",
        alpha=16,
        beta=23,
        locked=25,
        facts=(GatedFact("kuberuntime", "ephemeral_containers", 16),),
    ),
    Gate(
        name="InPlacePodVerticalScalingInitContainers",
        beta=36,
        facts=(GatedFact("kuberuntime", "init_containers_resized", 36),),
    ),
    Gate(
        name="LegacySidecarContainers",
        locked=34,
        facts=(GatedFact("kuberuntime", "init_walk_only_with_sidecars", 33),),
    ),
    Gate(
        name="ExecProbeTimeout",
        locked=35,
        facts=(GatedFact("prober", "exec_timeout_fails", 20),),
    ),
    Gate(
        name="GRPCContainerProbe",
        alpha=23,
        beta=24,
        locked=27,
        facts=(GatedFact("prober", "grpc_probes", 23),),
    ),
    Gate(
        name="ContainerRestartRules",
        alpha=34,
        beta=35,
        facts=(
            GatedFact("kuberuntime", "container_restart_rules", 34),
            GatedFact("prober", "container_restart_rules", 34),
        ),
    ),
    Gate(
        name="RestartAllContainersOnContainerExits",
        alpha=35,
        beta=36,
        facts=(
            GatedFact("kuberuntime", "restart_all_containers", 35),
            GatedFact("prober", "restart_all_containers", 35),
        ),
    ),
    Gate(
        name="ChangeContainerStatusOnKubeletRestart",
        facts=(
            GatedFact("prober", "kubelet_restart_keeps_results", 35, when_on=False, when_off=True),
        ),
    ),
    Gate(
        name="PodDisruptionConditions",
        alpha=25,
        beta=26,
        locked=31,
        # Some patch releases lack the condition whatever the gate says.
        facts=(
            GatedFact("admission", "preempted_pod_condition", 26, when_on=None),
            GatedFact("eviction", "disruption_target_condition", 26),
        ),
    ),
    Gate(
        name="PodObservedGenerationTracking",
        alpha=33,
        beta=34,
        locked=35,
        facts=(
            GatedFact("admission", "preempted_pod_condition_generation", 33),
            GatedFact("eviction", "disruption_target_generation", 33),
        ),
    ),
)
"""Gates in the order of the subsystems.

Source: pkg/features/kube_features.go of v1.20 to v1.36.2, and where each is asked.
"""


def with_gates(profile: KubeletProfile, gates: Mapping[str, object] | None) -> KubeletProfile:
    """The profile of a kubelet that runs with feature gates.

    Args:
        profile: of its version.
        gates: ``featureGates``: name -> on or off; others than booleans count as not set.
    """
    given = {name: value for name, value in (gates or {}).items() if isinstance(value, bool)}
    values = tuple((gate.name, _value(gate, profile.version.minor, given)) for gate in GATES)
    return _applied(profile, tuple((name, on) for name, on in values if on is not None))


def _value(gate: Gate, minor: int, given: Mapping[str, bool]) -> bool | None:
    """What is set for a gate; None when nothing is, or the version does not let it be set."""
    if gate.locked is not None and minor >= gate.locked:
        return None
    if gate.name in given:
        return given[gate.name]
    if gate.beta is not None and minor >= gate.beta:
        return given.get("AllBeta")
    if gate.alpha is not None and minor >= gate.alpha:
        return given.get("AllAlpha")
    return None


@lru_cache(maxsize=64)
def _applied(profile: KubeletProfile, values: tuple[tuple[str, bool], ...]) -> KubeletProfile:
    by_group: dict[str, dict[str, bool]] = {}
    given = dict(values)
    for gate in GATES:
        for fact in gate.facts if gate.name in given else ():
            value = fact.when_on if given[gate.name] else fact.when_off
            if value is not None and profile.version.minor >= fact.since:
                by_group.setdefault(fact.group, {})[fact.name] = value
    groups = {
        group: msgspec.structs.replace(getattr(profile, group), **facts)
        for group, facts in by_group.items()
    }
    return msgspec.structs.replace(profile, **groups)
