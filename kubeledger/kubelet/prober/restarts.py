"""Whether a container that ended will run again: policies and exit code rules."""

from __future__ import annotations

from kubeledger.kubelet.kube.restartpolicy import (
    NEVER,
    RESTART_ALL,
    container_should_restart,
    is_restartable_init_container,
    matching_restart_rule,
)
from kubeledger.kubelet.prober.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    condition_is_true,
)
from kubeledger.kubelet.profile.prober import ProberFacts


def may_run_again(
    pod: Pod,
    container: Container,
    status: ContainerStatus,
    pod_status: PodStatus,
    facts: ProberFacts,
) -> bool:
    """Whether a worker waits for the next instance of a container that does not run.

    Source: v1.36.2 pkg/kubelet/prober/worker.go doProbe
    Differs: split off; the feature gates are facts.
    """
    terminated = status.state.terminated
    if terminated is None:
        return True
    if facts.container_restart_rules:
        restart_all = facts.restart_all_containers
        return container_should_restart(
            container, pod.spec.restart_policy, terminated.exit_code, restart_all=restart_all
        ) or (restart_all and should_all_containers_restart(pod, pod_status))
    if pod.spec.restart_policy != NEVER:
        return True
    return facts.sidecar_worker_outlives_exit and is_sidecar(pod, container)


def is_sidecar(pod: Pod, container: Container) -> bool:
    """Whether a worker's container is a restartable init container of the pod.

    Source: v1.36.2 pkg/kubelet/prober/worker.go isInitContainer
    Differs: the restart policy is asked here as well.
    """
    return is_restartable_init_container(container) and any(
        init.name == container.name for init in pod.spec.init_containers or ()
    )


def should_all_containers_restart(pod: Pod, status: PodStatus) -> bool:
    """Whether any container's exit, or one noted before, restarts the whole pod in place.

    Of two statuses with one name the app container's is taken, of several the last.

    Source: v1.36.2 pkg/kubelet/container/helpers.go ShouldAllContainersRestart
    Differs: only the API status is read, as the probe worker asks.
    """
    if condition_is_true(status, "AllContainersRestarting"):
        return True
    by_name = {
        container.name: container
        for container in (
            *(status.init_container_statuses or ()),
            *(status.container_statuses or ()),
        )
    }
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        found = by_name.get(container.name)
        if found is None or found.state.terminated is None:
            continue
        rule = matching_restart_rule(container, found.state.terminated.exit_code)
        if rule is not None and rule.action == RESTART_ALL:
            return True
    return False
