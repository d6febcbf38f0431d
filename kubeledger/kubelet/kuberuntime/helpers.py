"""What a container's state and its probes' results say: has it run, is it started, or killed?"""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.kube.restartpolicy import NEVER, container_should_restart, policy_restarts
from kubeledger.kubelet.kuberuntime.objects import (
    CREATED,
    EXITED,
    RUNNING,
    UNKNOWN,
    Container,
    Pod,
    PodStatus,
    ProbeResult,
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
    """
    found = status.find(name)
    if found is None or found.exit_code != 0:
        return False
    return found.state == EXITED if facts.success_needs_exit else found.state != RUNNING


def has_any_regular_container_created(pod: Pod, status: PodStatus) -> bool:
    """Whether the runtime lists an app container in a known state.

    Source: v1.36.2 kuberuntime_container.go HasAnyRegularContainerCreated; v1.28.0
    """
    found = (status.find(container.name) for container in pod.spec.containers or ())
    return any(one is not None and one.state in (CREATED, RUNNING, EXITED) for one in found)


LIVENESS_PROBE: Final = "LivenessProbe"
STARTUP_PROBE: Final = "StartupProbe"
UNKNOWN_STATE: Final = "Unknown"

_FAILURE: Final = "Failure"
_SUCCESS: Final = "Success"


class Kill(msgspec.Struct, frozen=True, gc=False):
    """A kill that a sync decides on.

    Attributes:
        message: in the kubelet's words.
        reason: ``LivenessProbe``, ``StartupProbe``, or empty for a changed definition.
        restart: the same sync starts the container again.
    """

    message: str
    reason: str
    restart: bool


def app_kill(
    container: str,
    liveness: ProbeResult | None,
    startup: ProbeResult | None,
    facts: KuberuntimeFacts,
    *,
    restart_policy: str,
    own_policy: str | None = None,
    definition_changed: bool = False,
) -> Kill | None:
    """Why a running app container is killed; None when it is not.

    A changed definition kills first, and restarts whatever the policy. Else only cached
    failures kill, liveness before startup; readiness never does.

    Args:
        liveness: cached result of its container ID; None for none.
        startup: likewise.
        restart_policy: of the pod.
        own_policy: of the container; None for none. Its rules are not asked.
        definition_changed: its spec is not that of when it was started.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions; v1.20.2
    Differs: split off.
    """
    if definition_changed:
        return Kill(f"Container {container} definition changed, will be restarted", "", True)
    if liveness == _FAILURE:
        message, reason = f"Container {container} failed liveness probe", LIVENESS_PROBE
    elif startup == _FAILURE:
        message, reason = f"Container {container} failed startup probe", STARTUP_PROBE
    else:
        return None
    policy = restart_policy
    if facts.container_restart_rules and own_policy is not None:
        policy = own_policy
    if policy == NEVER:
        return Kill(message, reason, False)
    return Kill(f"{message}, will be restarted", reason, True)


def sidecar_kill(
    container: str,
    liveness: ProbeResult | None,
    startup: ProbeResult | None,
    facts: KuberuntimeFacts,
    *,
    has_startup_probe: bool,
    definition_changed: bool = False,
) -> Kill | None:
    """Why a running sidecar is killed, which is started again in any case; None: it is not.

    The startup probe is asked first, and until it has succeeded nothing else counts.

    Args:
        liveness: cached result of its container ID; None for none, or without such a probe.
        startup: likewise.
        facts: of the kubelet version; older ones have no sidecars.
        has_startup_probe: whether there is one.
        definition_changed: its spec is not that of when it was started.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go
        computeInitContainerActions; v1.28.0
    Differs: split off.
    """
    if not facts.init_walk:
        return None
    if has_startup_probe and startup != _SUCCESS:
        failed = startup == _FAILURE
        message = f"Init container {container} failed startup probe"
        return Kill(message, STARTUP_PROBE, True) if failed else None
    if definition_changed and facts.changed_sidecar_restarted:
        return Kill(f"Init container {container} definition changed", "", True)
    if liveness == _FAILURE:
        return Kill(f"Init container {container} failed liveness probe", LIVENESS_PROBE, True)
    return None
