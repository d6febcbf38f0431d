"""Cases of computePodActions: a pod, what the runtime lists of it, and cached probe results.

Only what the kubelet's map of kills leaves open is free, and objects have no order in JSON
either, so every claim matches or is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import Strict, check_amounts, keyed
from kubeledger.kubelet.kube.gotexts import instant_ns
from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import compute_pod_actions
from kubeledger.kubelet.kuberuntime.objects import (
    ContainerStatus,
    ContainerToKill,
    Pod,
    PodActions,
    PodStatus,
    ProbeResult,
    SandboxStatus,
)
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile


class PodActionsCase(Strict, frozen=True):
    """One case.

    Attributes:
        sandboxes, containers: as the runtime lists them, newest first.
        liveness, startup: container ID -> cached result.
        actuated: container name -> resources last given to the runtime.
    """

    pod: Pod
    sandboxes: tuple[SandboxStatus, ...]
    containers: tuple[ContainerStatus, ...]
    liveness: dict[str, ProbeResult]
    startup: dict[str, ProbeResult]
    actuated: dict[str, ResourceRequirements] | UnsetType = UNSET
    restart_all_containers: bool = False


class Outcome(Strict, frozen=True):
    """What is to be done; indices are those of the spec's lists.

    Attributes:
        containers_to_update: only where the version resizes, and the case says what was
            actuated.
        containers_to_reset, update_pod_level_resources: only where the version knows it.
    """

    kill_pod: bool
    create_sandbox: bool
    sandbox_id: str = msgspec.field(name="sandboxID")
    attempt: int
    init_containers_to_start: list[int]
    containers_to_start: list[int]
    ephemeral_containers_to_start: list[int]
    containers_to_kill: dict[str, ContainerToKill]
    containers_to_update: dict[str, list[str]] | UnsetType = UNSET
    containers_to_reset: list[str] | UnsetType = UNSET
    update_pod_level_resources: bool | UnsetType = UNSET


INPUT = PodActionsCase
OUTCOME = Outcome


def decide(case_input: PodActionsCase, profile: KubeletProfile) -> Outcome:
    """The actions of one sync."""
    facts = profile.kuberuntime
    return _outcome(_actions(case_input, facts), case_input, facts)


def check_times(containers: Sequence[ContainerStatus]) -> None:
    """Make sure that all times of containers that the runtime lists are times."""
    for container in containers:
        for text in (container.created_at, container.started_at, container.finished_at):
            if text is not None:
                instant_ns(text)


def _actions(case: PodActionsCase, facts: KuberuntimeFacts) -> PodActions:
    actuated = {} if isinstance(case.actuated, UnsetType) else case.actuated
    if case.pod.metadata.deletion_timestamp is not None:
        instant_ns(case.pod.metadata.deletion_timestamp)
    check_times(case.containers)
    spec = case.pod.spec
    _check_resources("input.pod.spec.resources", spec.resources)
    for group, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for index, container in enumerate(containers or ()):
            path = f"input.pod.spec.{group}[{index}].resources"
            _check_resources(path, container.resources)
    for name, resources in actuated.items():
        _check_resources(keyed("input.actuated", name), resources)
    return compute_pod_actions(
        case.pod,
        PodStatus(case.sandboxes, case.containers),
        case.liveness,
        case.startup,
        facts,
        actuated=actuated,
        restart_all_containers=case.restart_all_containers,
    )


def _check_resources(path: str, resources: ResourceRequirements | None) -> None:
    if resources is not None:
        check_amounts(f"{path}.requests", resources.requests)
        check_amounts(f"{path}.limits", resources.limits)


def _outcome(actions: PodActions, case: PodActionsCase, facts: KuberuntimeFacts) -> Outcome:
    resizes = facts.resizes_in_place and not isinstance(case.actuated, UnsetType)
    pod_level = facts.pod_level_resources_resized
    kills = actions.containers_to_kill
    if not facts.kill_reasons:
        kills = {i: ContainerToKill(kill.name, "", kill.message) for i, kill in kills.items()}
    return Outcome(
        kill_pod=actions.kill_pod,
        create_sandbox=actions.create_sandbox,
        sandbox_id=actions.sandbox_id,
        attempt=actions.attempt,
        init_containers_to_start=actions.init_containers_to_start,
        containers_to_start=actions.containers_to_start,
        ephemeral_containers_to_start=actions.ephemeral_containers_to_start,
        containers_to_kill=kills,
        containers_to_update=actions.containers_to_update if resizes else UNSET,
        containers_to_reset=actions.containers_to_reset if facts.restart_all_containers else UNSET,
        update_pod_level_resources=actions.update_pod_level_resources if pod_level else UNSET,
    )
