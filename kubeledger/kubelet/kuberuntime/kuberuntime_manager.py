"""computePodActions: from a pod and what the runtime lists to what a sync has to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kube.restartpolicy import (
    ALWAYS,
    NEVER,
    ON_FAILURE,
    RESTART_ALL,
    matching_restart_rule,
)
from kubeledger.kubelet.kuberuntime.helpers import (
    UNKNOWN_STATE,
    app_kill,
    container_succeeded,
    has_any_regular_container_created,
    should_container_be_restarted,
)
from kubeledger.kubelet.kuberuntime.kuberuntime_container import (
    find_next_init_container_to_run,
    initialize,
    walks,
)
from kubeledger.kubelet.kuberuntime.objects import (
    EXITED,
    RUNNING,
    UNKNOWN,
    Container,
    ContainerStatus,
    ContainerToKill,
    Pod,
    PodActions,
    PodStatus,
    ProbeResults,
    Sync,
)
from kubeledger.kubelet.kuberuntime.resize import (
    compute_pod_level_resources_resize_action,
    compute_pod_resize_action,
)
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts

_NOTHING: Mapping[str, ResourceRequirements] = {}


def compute_pod_actions(
    pod: Pod,
    status: PodStatus,
    liveness: ProbeResults,
    startup: ProbeResults,
    facts: KuberuntimeFacts,
    *,
    actuated: Mapping[str, ResourceRequirements] = _NOTHING,
    actuated_pod: ResourceRequirements | None = None,
    restart_all_containers: bool = False,
) -> PodActions:
    """What a sync has to do for a pod that is to run.

    Args:
        status: what the runtime lists of it.
        liveness: cached results by container ID.
        startup: likewise.
        actuated: container name -> resources last given to the runtime; an absent one counts
            as zero.
        actuated_pod: the pod's own resources last written; None for none.
        restart_all_containers: the pod is marked so.

    Raises:
        QuantityError: a quantity of a container that runs is none.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions; v1.20.2
    Differs: the feature gates are facts, nothing is logged, and no CPUs are given back.
    """
    change = pod_sandbox_changed(pod, status)
    actions = PodActions(
        kill_pod=change.changed,
        create_sandbox=change.changed,
        sandbox_id=change.sandbox_id,
        attempt=change.attempt,
        sandbox_why=change.why,
        create_why=change.why,
        pod_why=change.why,
    )
    sync = Sync(
        pod=pod,
        status=status,
        liveness=liveness,
        startup=startup,
        actuated=actuated,
        actuated_pod=actuated_pod,
        facts=facts,
        actions=actions,
    )
    if restart_all_containers and facts.restart_all_containers:
        _reset(sync)
    elif change.changed:
        _begin_anew(sync)
    else:
        _go_on(sync)
    return actions


def _reset(sync: Sync) -> None:
    """Remove all containers, those whose exit asked for it last.

    Source: v1.36.2 kuberuntime_manager.go computePodActions, getContainersToReset
    Differs: IDs alone.
    """
    spec = sync.pod.spec
    sources, targets = _to_reset(sync, spec.containers or ())
    init_sources, init_targets = _to_reset(sync, spec.init_containers or ())
    sync.actions.containers_to_reset = [*targets, *init_targets, *sources, *init_sources]
    if not sync.actions.kill_pod:
        sync.actions.pod_why = "all its containers are to be restarted"


def _to_reset(sync: Sync, containers: tuple[Container, ...]) -> tuple[list[str], list[str]]:
    sources: list[str] = []
    targets: list[str] = []
    for container in containers:
        for status in sync.status.containers:
            if status.name != container.name:
                continue
            rule = None
            if status.state == EXITED:
                rule = matching_restart_rule(container, status.exit_code)
            asked = rule is not None and rule.action == RESTART_ALL
            (sources if asked else targets).append(status.id)
    return sources, targets


def _begin_anew(sync: Sync) -> None:
    """A pod that gets another sandbox begins from its first init container."""
    spec, actions, facts = sync.pod.spec, sync.actions, sync.facts
    if sync.restart_policy == NEVER and actions.attempt != 0 and sync.status.containers:
        actions.create_sandbox = False
        actions.create_why = "restart policy Never does not begin a pod again"
        return
    starts = [
        index
        for index, container in enumerate(spec.containers or ())
        if not (_policy(sync, container) == ON_FAILURE and _succeeded(sync, container))
    ]
    if not starts and facts.sandbox_only_for_work and _was_initialized(sync):
        actions.create_sandbox = False
        actions.create_why = "all containers of the pod have succeeded"
        return
    if spec.init_containers:
        actions.init_containers_to_start = [0]
        actions.why[spec.init_containers[0].name] = "a new sandbox begins with it"
        return
    actions.containers_to_start = starts
    for index in starts:
        actions.why[(spec.containers or ())[index].name] = "the sandbox is a new one"


def _policy(sync: Sync, container: Container) -> str:
    if sync.facts.container_restart_rules and container.restart_policy is not None:
        return container.restart_policy
    return sync.restart_policy


def _succeeded(sync: Sync, container: Container) -> bool:
    succeeded = container_succeeded(container.name, sync.status, sync.facts)
    if succeeded:
        sync.actions.why[container.name] = "it has succeeded, and restart policy OnFailure"
    return succeeded


def _was_initialized(sync: Sync) -> bool:
    if walks(sync):
        return has_any_regular_container_created(sync.pod, sync.status)
    return find_next_init_container_to_run(sync)[2]


def _go_on(sync: Sync) -> None:
    """In the sandbox that is there: ephemeral, init, then app containers."""
    spec, actions = sync.pod.spec, sync.actions
    if sync.facts.ephemeral_containers:
        for index, ephemeral in enumerate(spec.ephemeral_containers or ()):
            listed = sync.status.find(ephemeral.name) is not None
            actions.why[ephemeral.name] = "it has been" if listed else "it has never been started"
            if not listed:
                actions.ephemeral_containers_to_start.append(index)
    if not initialize(sync):
        return
    kept = 0
    for index, container in enumerate(spec.containers or ()):
        status = sync.status.find(container.name)
        if status is None or status.state != RUNNING:
            _start(sync, index, container, status)
        elif not _killed(sync, index, container, status):
            kept += compute_pod_resize_action(sync, index, container, status, init=False)
    if not kept and not actions.containers_to_start:
        actions.kill_pod = True
        # Sidecars must not keep it alive.
        actions.init_containers_to_start = []
        actions.pod_why = "none of its containers goes on running or is started"
    else:
        actions.pod_why = "containers of it go on running or are started"
    actions.update_pod_level_resources = compute_pod_level_resources_resize_action(sync)


def _start(sync: Sync, index: int, container: Container, status: ContainerStatus | None) -> None:
    """A container that does not run."""
    actions = sync.actions
    actions.why[container.name] = _state(sync, container, status)
    if not should_container_be_restarted(container, sync.pod, sync.status, sync.facts):
        return
    actions.containers_to_start.append(index)
    if status is not None and status.state == UNKNOWN:
        actions.containers_to_kill[status.id] = ContainerToKill(
            status.name,
            UNKNOWN_STATE,
            f'Container is in "{status.state}" state, try killing it before restart',
        )


def _state(sync: Sync, container: Container, status: ContainerStatus | None) -> str:
    """What decides whether a container that does not run is started."""
    if sync.pod.metadata.deletion_timestamp is not None:
        return "the pod is being deleted"
    if status is None:
        return "the runtime lists none of it"
    if status.state != EXITED:
        return f"it is in state {status.state}"
    policy = _policy(sync, container) or ALWAYS
    rules = ""
    if sync.facts.container_restart_rules and container.restart_policy_rules:
        rules = " with rules"
    return f"it exited with code {status.exit_code} under restart policy {policy}{rules}"


def _killed(sync: Sync, index: int, container: Container, status: ContainerStatus) -> bool:
    """A container that runs."""
    kill = app_kill(
        container.name,
        sync.liveness.get(status.id),
        sync.startup.get(status.id),
        sync.facts,
        restart_policy=sync.restart_policy,
        own_policy=container.restart_policy,
        definition_changed=not status.hash_matches,
    )
    if kill is None:
        sync.actions.why[container.name] = "it runs"
        return False
    sync.actions.why[container.name] = f"it runs ({kill.message})"
    sync.actions.containers_to_kill[status.id] = ContainerToKill(
        status.name, kill.reason, kill.message
    )
    if kill.restart:
        sync.actions.containers_to_start.append(index)
    return True


_ATTEMPTS: Final = 2**32


class SandboxChange(msgspec.Struct, frozen=True, gc=False):
    """The sandbox of a sync.

    Attributes:
        changed: another one is needed.
        attempt: of the one to use or to make.
        sandbox_id: the newest one's; empty where it is of no use.
        why: a part of a sentence, after "because".
    """

    changed: bool
    attempt: int
    sandbox_id: str
    why: str


def pod_sandbox_changed(pod: Pod, status: PodStatus) -> SandboxChange:
    """Find the sandbox to use, or that there is none.

    Source: v1.36.2 pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged; v1.20.2
    Differs: there is no sandbox whose network the runtime does not report.
    """
    if not status.sandboxes:
        return SandboxChange(True, 0, "", "the pod has no sandbox")
    newest = status.sandboxes[0]
    attempt = (newest.attempt + 1) % _ATTEMPTS
    ready = sum(sandbox.state == "ready" for sandbox in status.sandboxes)
    if ready > 1:
        return SandboxChange(True, attempt, newest.id, f"{ready} sandboxes of the pod are ready")
    if newest.state != "ready":
        return SandboxChange(True, attempt, newest.id, f"sandbox {newest.id} is not ready")
    host_network = bool(pod.spec.host_network)
    if newest.host_network != host_network:
        uses = "the node's network" if newest.host_network else "a network of its own"
        return SandboxChange(
            True, attempt, "", f"sandbox {newest.id} uses {uses}, the pod does not"
        )
    if not host_network and not newest.ip:
        return SandboxChange(True, attempt, newest.id, f"sandbox {newest.id} has no IP address")
    return SandboxChange(False, newest.attempt, newest.id, f"sandbox {newest.id} is ready")
