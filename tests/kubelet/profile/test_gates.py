"""Feature gates that decide facts."""

import pytest

from kubeledger.kubelet.profile.facts import NEWEST, OLDEST
from kubeledger.kubelet.profile.resolve import FACT_TABLES, GATED_FACTS, GATES, resolve, with_gates


def fact(version: str, path: str, **gates: object) -> bool:
    """``group.name`` of a version with gates."""
    group, name = path.split(".")
    value: bool = getattr(getattr(with_gates(resolve(version), gates), group), name)
    return value


def test_every_gate_decides_facts_that_exist() -> None:
    decided = [(each.group, each.name) for each in GATED_FACTS]
    known = {(group, name) for group, table in FACT_TABLES.items() for name in table}
    assert set(decided) <= known
    assert len(decided) == len(set(decided))
    assert {each.gate for each in GATED_FACTS} == GATES.keys()
    begins = {
        name: [stage for stage in (of.alpha, of.beta) if stage is not None]
        for name, of in GATES.items()
    }
    assert all(each.since >= min(begins[each.gate], default=0) for each in GATED_FACTS)
    for name, of in GATES.items():
        assert of.locked is None or of.locked > max(begins[name], default=0)


@pytest.mark.parametrize("version", [f"1.{minor}.0" for minor in range(OLDEST, NEWEST + 1)])
def test_no_gate_changes_nothing(version: str) -> None:
    """Nor does one that the table does not hold, or an invalid value."""
    profile = resolve(version)
    assert with_gates(profile, None) == profile
    odd: dict[str, object] = {"CPUManager": False, "SidecarContainers": "yes"}
    assert with_gates(profile, odd) == profile


@pytest.mark.parametrize(
    ("version", "path", "gates", "holds"),
    [
        ("1.28.0", "admission.sidecars_forbidden", {}, True),
        ("1.28.0", "admission.sidecars_forbidden", {"SidecarContainers": True}, False),
        ("1.28.0", "admission.sidecars_forbidden", {"AllAlpha": True}, False),
        ("1.28.0", "admission.sidecars_forbidden", {"AllBeta": True}, True),
        ("1.28.0", "admission.sidecars_forbidden", {"AllAlpha": True, "SidecarContainers": False},
         True),
        ("1.30.0", "admission.sidecars_forbidden", {"SidecarContainers": False}, True),
        ("1.30.0", "lifecycle.sidecars_end_in_order", {"AllBeta": False}, False),
        ("1.33.0", "admission.sidecars_forbidden", {"SidecarContainers": False}, False),
        ("1.27.0", "admission.sidecars_forbidden", {"SidecarContainers": False}, False),
        ("1.33.0", "cgroups.pod_level_resources", {"PodLevelResources": True}, True),
        ("1.36.0", "admission.pod_level_resources", {"PodLevelResources": False}, False),
        ("1.31.0", "admission.pod_level_resources", {"PodLevelResources": True}, False),
        ("1.34.0", "images.image_volumes_in_use", {"ImageVolume": True}, True),
        ("1.29.0", "images.maximum_age_gate_on", {"ImageMaximumGCAge": True}, True),
        ("1.34.0", "images.maximum_age_gate_on", {"ImageMaximumGCAge": False}, False),
        ("1.20.2", "resourcemanagers.memory_manager_gate_on", {"MemoryManager": True}, False),
        ("1.21.3", "resourcemanagers.memory_manager_gate_on", {"MemoryManager": True}, True),
        ("1.31.0", "resourcemanagers.memory_manager_gate_on", {"MemoryManager": False}, False),
        ("1.32.0", "resourcemanagers.memory_manager_gate_on", {"MemoryManager": False}, True),
        ("1.20.2", "prober.exec_timeout_fails", {"ExecProbeTimeout": False}, False),
        ("1.36.2", "prober.exec_timeout_fails", {"ExecProbeTimeout": False}, True),
        ("1.36.2", "prober.kubelet_restart_keeps_results",
         {"ChangeContainerStatusOnKubeletRestart": True}, False),
        ("1.27.0", "admission.preempted_pod_condition", {"PodDisruptionConditions": True}, False),
        ("1.28.0", "admission.preempted_pod_condition", {"PodDisruptionConditions": False}, False),
        ("1.35.0", "admission.drops_resources_claimed_from_drivers", {"AllAlpha": True}, False),
        ("1.35.0", "devices.claimed_resources_skipped", {"DRAExtendedResource": True}, True),
        ("1.28.2", "kuberuntime.sidecar_gate_on", {"SidecarContainers": True}, True),
        ("1.30.0", "kuberuntime.sidecar_gate_on", {"SidecarContainers": False}, False),
        ("1.33.0", "kuberuntime.init_walk_only_with_sidecars", {"LegacySidecarContainers": True},
         True),
        ("1.34.0", "kuberuntime.init_walk_only_with_sidecars", {"LegacySidecarContainers": True},
         False),
        ("1.20.2", "kuberuntime.ephemeral_containers", {"EphemeralContainers": True}, True),
        ("1.33.0", "kuberuntime.resizes_in_place", {"InPlacePodVerticalScaling": False}, False),
        ("1.31.0", "kuberuntime.resizes_in_place", {"InPlacePodVerticalScaling": True}, False),
        ("1.34.0", "kuberuntime.container_restart_rules", {"ContainerRestartRules": True}, True),
    ],
)  # fmt: skip
def test_a_gate(
    version: str, path: str, gates: dict[str, object], holds: bool
) -> None:  # parameters
    """Set in a version that asks it, it wins over what the version does by itself."""
    assert fact(version, path, **gates) is holds
