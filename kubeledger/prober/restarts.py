"""Whether a container that ended will run again: policies and exit code rules."""

from __future__ import annotations

from kubeledger.prober.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    RestartRule,
    condition_is_true,
    is_restartable_init_container,
)
from kubeledger.profile.prober import ProberFacts

__all__ = [
    "container_should_restart",
    "is_sidecar",
    "matching_restart_rule",
    "may_run_again",
    "should_all_containers_restart",
]

RESTART = "Restart"
RESTART_ALL = "RestartAllContainers"


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
        return container_should_restart(container, pod, terminated.exit_code, facts) or (
            facts.restart_all_containers and should_all_containers_restart(pod, pod_status)
        )
    if pod.spec.restart_policy != "Never":
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


def container_should_restart(
    container: Container, pod: Pod, exit_code: int, facts: ProberFacts
) -> bool:
    """Rules of the container first, then its policy, then the pod's (Always when unset).

    Rules count only in a container that has a policy of its own.

    Source: v1.36.2 pkg/api/v1/pod/util.go ContainerShouldRestart
    Differs: the gate of the action RestartAllContainers is a fact.
    """
    if container.restart_policy is not None:
        rule = matching_restart_rule(container, exit_code)
        if rule is not None and (
            rule.action == RESTART or (rule.action == RESTART_ALL and facts.restart_all_containers)
        ):
            return True
        decided = _by_policy(container.restart_policy, exit_code)
        if decided is not None:
            return decided
    decided = _by_policy(pod.spec.restart_policy, exit_code)
    return True if decided is None else decided


def _by_policy(policy: str, exit_code: int) -> bool | None:
    """What a policy says of an exit code; None for one that does not exist."""
    match policy:
        case "Always":
            return True
        case "OnFailure":
            return exit_code != 0
        case "Never":
            return False
        case _:
            return None


def matching_restart_rule(container: Container, exit_code: int) -> RestartRule | None:
    """The first rule whose exit codes match.

    Source: v1.36.2 pkg/api/v1/pod/util.go FindMatchingContainerRestartRule
    Differs: None instead of an empty rule and false.
    """
    for rule in container.restart_policy_rules or ():
        if rule.exit_codes is None:
            continue
        listed = exit_code in (rule.exit_codes.values or ())
        if rule.exit_codes.operator == ("In" if listed else "NotIn"):
            return rule
    return None


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
