"""Which init containers a sync starts, and whether the pod is initialized.

There are two ways. The first, of kubelets before sidecars, finds the one init container to
run. The walk, since 1.28, goes through all of them from the last to the first: what a later
one says of the earlier ones holds, since an earlier one may have been removed by now. Both
know the end of an init container only from the runtime's list, or, since 1.21, from an app
container that runs.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.statuses import NEVER, is_restartable_init_container
from kubeledger.kubelet.kuberuntime.objects import (
    CREATED,
    EXITED,
    RUNNING,
    UNKNOWN,
    UNKNOWN_STATE,
    Container,
    ContainerStatus,
    Sync,
    has_any_regular_container_created,
    should_container_be_restarted,
    sidecar_kill,
)
from kubeledger.kubelet.kuberuntime.resize import compute_pod_resize_action
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts

_OOM_KILLED = "OOMKilled"


def walks(sync: Sync) -> bool:
    """Whether the init containers of this pod are walked.

    Source: v1.32.0 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions,
        handleRestartableInitContainers
    Differs: the feature gates are facts.
    """
    facts = sync.facts
    if not facts.init_walk or (facts.init_walk_gated and not facts.sidecar_gate_on):
        return False
    inits = sync.pod.spec.init_containers or ()
    return not facts.init_walk_only_with_sidecars or any(
        is_restartable_init_container(container) for container in inits
    )


def initialize(sync: Sync) -> bool:
    """Start what initialization needs next; whether the app containers' turn has come.

    Source: v1.32.0 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions
    Differs: split off.
    """
    if walks(sync):
        return compute_init_container_actions(sync)
    actions = sync.actions
    failed, index, done = find_next_init_container_to_run(sync)
    if done:
        return True
    if index is None:
        return False
    if failed is not None and sync.restart_policy == NEVER:
        _give_up(sync)
        return False
    if failed is not None and failed.state == UNKNOWN:
        _kill_unknown(sync, failed)
    actions.init_containers_to_start.append(index)
    return False


def find_next_init_container_to_run(sync: Sync) -> tuple[ContainerStatus | None, int | None, bool]:
    """The one init container to run, without sidecars.

    Returns:
        The status of the last that failed, None if none has; the index of the one to run,
        None if there is none now; whether all are done.

    Source: v1.32.0 pkg/kubelet/kuberuntime/kuberuntime_container.go findNextInitContainerToRun;
        v1.20.2
    Differs: an index instead of a pointer.
    """
    inits = sync.pod.spec.init_containers or ()
    if not inits:
        return None, None, True
    if sync.facts.running_app_initialized and _any_app_container(sync, RUNNING):
        return None, None, True
    backwards = [(i, sync.status.find(inits[i].name)) for i in reversed(range(len(inits)))]
    for index, status in backwards:
        if status is not None and _is_failed(status, sync.facts):
            return status, index, False
    for index, status in backwards:
        if status is not None and status.state == RUNNING:
            return None, None, False
        if status is not None and status.state == EXITED:
            last = index == len(inits) - 1
            return None, None if last else index + 1, last
    return None, 0, False


class _Walk(msgspec.Struct):
    """Where a walk stands.

    Attributes:
        done: the pod is initialized.
        passed: a later container says that those before it have been.
    """

    done: bool
    passed: bool


def compute_init_container_actions(sync: Sync) -> bool:
    """Walk the init containers; whether the pod is initialized.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go
        computeInitContainerActions; v1.28.0
    Differs: the feature gates are facts.
    """
    inits = sync.pod.spec.init_containers or ()
    if not inits:
        return True
    done = _app_containers_tell(sync)
    walk = _Walk(done, done)
    starts = sync.actions.init_containers_to_start
    for index in reversed(range(len(inits))):
        container = inits[index]
        status = sync.status.find(container.name)
        sidecar = is_restartable_init_container(container)
        if status is None:
            if walk.passed and sidecar:
                starts.append(index)
            continue
        if walk.passed and not sidecar:
            continue
        if not _visit(sync, walk, index, status, sidecar=sidecar):
            _give_up(sync)
            return False
        walk.passed = True
    if not walk.passed:
        starts.append(0)
    starts.reverse()
    return walk.done


def _visit(sync: Sync, walk: _Walk, index: int, status: ContainerStatus, *, sidecar: bool) -> bool:
    """One init container that the runtime lists; False: it failed for good."""
    container = (sync.pod.spec.init_containers or ())[index]
    starts = sync.actions.init_containers_to_start
    if status.state == RUNNING:
        if sidecar:
            _visit_running_sidecar(sync, walk, index, status)
        elif sync.facts.init_containers_resized:
            compute_pod_resize_action(sync, index, container, status, init=True)
        return True
    if status.state == CREATED:
        if sync.facts.created_init_restarted:
            starts.append(index)
        return True
    if status.state == EXITED and not sidecar and not _is_failed(status, sync.facts):
        _pass(sync, walk, index)
        return True
    if not sidecar and not _runs_again(sync, container, status):
        return False
    if status.state == UNKNOWN:
        _kill_unknown(sync, status)
    starts.append(index)
    return True


def _visit_running_sidecar(sync: Sync, walk: _Walk, index: int, status: ContainerStatus) -> None:
    container = (sync.pod.spec.init_containers or ())[index]
    actions = sync.actions
    has_startup_probe = container.startup_probe is not None
    startup = sync.startup.get(status.id)
    liveness = None if container.liveness_probe is None else sync.liveness.get(status.id)
    started = not has_startup_probe or startup == "Success"
    if started:
        _pass(sync, walk, index)
    kill = sidecar_kill(
        container.name,
        liveness,
        startup,
        sync.facts,
        has_startup_probe=has_startup_probe,
        definition_changed=not status.hash_matches,
    )
    if kill is not None:
        sync.kill(status, kill.reason, kill.message)
        actions.init_containers_to_start.append(index)
    elif started and (container.liveness_probe is None or liveness is not None):
        compute_pod_resize_action(sync, index, container, status, init=True)


def _pass(sync: Sync, walk: _Walk, index: int) -> None:
    """An init container has done its part: the next one's turn, or that of the app containers."""
    inits = sync.pod.spec.init_containers or ()
    if index == len(inits) - 1:
        walk.done = True
    elif not walk.passed:
        sync.actions.init_containers_to_start.append(index + 1)


def _app_containers_tell(sync: Sync) -> bool:
    """Whether an app container shows that the pod has been initialized."""
    if not sync.facts.exited_app_not_initialized:
        return has_any_regular_container_created(sync.pod, sync.status)
    return _any_app_container(sync, CREATED, RUNNING)


def _any_app_container(sync: Sync, *states: str) -> bool:
    found = (sync.status.find(container.name) for container in sync.pod.spec.containers or ())
    return any(status is not None and status.state in states for status in found)


def _runs_again(sync: Sync, container: Container, status: ContainerStatus) -> bool:
    """Whether an init container that failed is started again.

    Of one in an unknown state no exit code is known, so that no rule is asked.
    """
    if not sync.facts.container_restart_rules:
        return sync.restart_policy != NEVER
    if status.state == UNKNOWN:
        own = container.restart_policy
        return (sync.restart_policy if own is None else own) != NEVER
    return should_container_be_restarted(container, sync.pod, sync.status, sync.facts)


def _give_up(sync: Sync) -> None:
    sync.actions.kill_pod = True
    sync.actions.init_containers_to_start = []


def _kill_unknown(sync: Sync, status: ContainerStatus) -> None:
    message = f'Init container is in "{status.state}" state, try killing it before restart'
    sync.kill(status, UNKNOWN_STATE, message)


def _is_failed(status: ContainerStatus, facts: KuberuntimeFacts) -> bool:
    """Source: v1.36.2 pkg/kubelet/kuberuntime/helpers.go isInitContainerFailed."""
    if facts.oom_killed_init_failed and status.reason == _OOM_KILLED:
        return True
    return status.state == UNKNOWN or (status.state == EXITED and status.exit_code != 0)
