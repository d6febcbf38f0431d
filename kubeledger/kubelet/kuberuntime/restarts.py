"""What the runtime's list says of an app container: has it run, and does it run again?"""

from __future__ import annotations

from kubeledger.kubelet.kube.restartpolicy import container_should_restart, policy_restarts
from kubeledger.kubelet.kuberuntime.objects import (
    CREATED,
    EXITED,
    RUNNING,
    UNKNOWN,
    Container,
    Pod,
    PodStatus,
)
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts


def should_container_be_restarted(
    container: Container, pod: Pod, status: PodStatus, facts: KuberuntimeFacts
) -> bool:
    """Whether a container that does not run is started; always the first time.

    Source: v1.36.2 pkg/kubelet/container/helpers.go ShouldContainerBeRestarted; v1.20.2
    Differs: the feature gates are facts.
    """
    if pod.metadata.deletion_timestamp is not None:
        return False
    found = status.find(container.name)
    if found is None:
        return True
    if found.state == RUNNING:
        return False
    if found.state in (UNKNOWN, CREATED):
        return True
    policy = pod.spec.restart_policy or ""
    if not facts.container_restart_rules:
        return policy_restarts(policy, found.exit_code)
    return container_should_restart(
        container, policy, found.exit_code, restart_all=facts.restart_all_containers
    )


def container_succeeded(name: str, status: PodStatus, facts: KuberuntimeFacts) -> bool:
    """Whether a container need not run again under OnFailure.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go containerSucceeded; v1.20.2
    Differs: nothing.
    """
    found = status.find(name)
    if found is None or found.exit_code != 0:
        return False
    return found.state == EXITED if facts.success_needs_exit else found.state != RUNNING


def has_any_regular_container_created(pod: Pod, status: PodStatus) -> bool:
    """Whether the runtime lists an app container in a known state.

    Source: v1.36.2 kuberuntime_container.go HasAnyRegularContainerCreated; v1.28.0
    Differs: nothing.
    """
    found = (status.find(container.name) for container in pod.spec.containers or ())
    return any(one is not None and one.state in (CREATED, RUNNING, EXITED) for one in found)
