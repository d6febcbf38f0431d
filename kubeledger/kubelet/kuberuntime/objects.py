"""What a sync of a pod reads, what that says of each container, and what is to be done.

Pods are as the kubelet got them: nothing is defaulted, so an absent restart policy is empty
here, which counts as Always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kubelet.kube.pod import Int32, ResizePolicy, ResourceRequirements
from kubeledger.kubelet.kube.statuses import (
    NEVER,
    RestartRule,
    container_should_restart,
    policy_restarts,
)
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts

ContainerState = Literal["created", "running", "exited", "unknown"]
ProbeResult = Literal["Success", "Failure", "UNKNOWN"]
ProbeResults = Mapping[str, ProbeResult]
"""Container ID -> cached result of one probe type."""

CREATED: Final = "created"
RUNNING: Final = "running"
EXITED: Final = "exited"
UNKNOWN: Final = "unknown"

_Uint32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Probe(msgspec.Struct, frozen=True, gc=False):
    """That there is one is all that matters."""


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container or init container of the pod's spec."""

    name: str = ""
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ResizePolicy, ...] | None = None


class EphemeralContainer(msgspec.Struct, frozen=True, gc=False):
    """An ephemeral container of the pod's spec."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Containers in the order of the spec."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] | None = None
    restart_policy: str | None = None
    active_deadline_seconds: int | None = None
    host_network: bool | None = None
    resources: ResourceRequirements | None = None


class PodMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Identity, whether deletion was asked for (RFC 3339), and where the pod came from."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Pod(msgspec.Struct, frozen=True):
    """A pod as it is to be."""

    metadata: PodMeta
    spec: PodSpec


class SandboxStatus(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """A sandbox that the runtime lists.

    Attributes:
        attempt: how many sandboxes of the pod there were before.
        ip: empty while it has none.
    """

    id: str
    state: Literal["ready", "notready"]
    attempt: _Uint32
    ip: str
    host_network: bool


class ContainerStatus(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """A container that the runtime lists.

    Attributes:
        id: with the runtime's name: ``containerd://…``.
        created_at, started_at, finished_at: RFC 3339; Go's zero time where there is none.
        hash_matches: it was made of the definition that the spec holds now.
        reason: of its end, as the runtime reports it.
    """

    id: str
    name: str
    state: ContainerState
    exit_code: Int32 = 0
    created_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    restart_count: Int32 = 0
    hash_matches: bool = True
    reason: str = ""


class PodStatus:
    """What the runtime lists of a pod, newest first."""

    __slots__ = ("_newest", "containers", "sandboxes")

    def __init__(
        self,
        sandboxes: tuple[SandboxStatus, ...] = (),
        containers: tuple[ContainerStatus, ...] = (),
    ) -> None:
        self.sandboxes = sandboxes
        self.containers = containers
        self._newest: dict[str, ContainerStatus] = {}
        for status in containers:
            self._newest.setdefault(status.name, status)

    def find(self, name: str) -> ContainerStatus | None:
        """The newest status of a container.

        Source: v1.36.2 pkg/kubelet/container/runtime.go FindContainerStatusByName
        """
        return self._newest.get(name)


class ContainerToKill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A container to kill.

    Attributes:
        reason: ``LivenessProbe``, ``StartupProbe``, ``Unknown``, or empty for a changed
            definition or size. Kubelets before 1.21 know none.
    """

    name: str
    reason: str
    message: str


class PodActions(msgspec.Struct, kw_only=True, rename="camel"):
    """What to do; indices are those of the spec's lists.

    Attributes:
        kill_pod: stop the sandbox and all that runs in it.
        create_sandbox: make another one then.
        sandbox_id: the sandbox to use, or the one that is replaced; empty for none.
        attempt: of the sandbox to use or to make.
        init_containers_to_start, containers_to_start, ephemeral_containers_to_start: indices,
            in order.
        containers_to_kill: container ID -> kill.
        containers_to_update: resource -> names of containers, in the order of the updates.
        containers_to_reset: IDs of containers to remove, in order.
        update_pod_level_resources: the pod's own requests or limits are to be written.
    """

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = msgspec.field(default="", name="sandboxID")
    attempt: int = 0
    init_containers_to_start: list[int] = []
    containers_to_start: list[int] = []
    ephemeral_containers_to_start: list[int] = []
    containers_to_kill: dict[str, ContainerToKill] = {}
    containers_to_update: dict[str, list[str]] = {}
    containers_to_reset: list[str] = []
    update_pod_level_resources: bool = False


class Sync(msgspec.Struct, kw_only=True):
    """What a sync goes by, and the actions so far.

    Attributes:
        actuated: container name -> resources that were last given to the runtime.
        actuated_pod: the pod's own that were last written; None for none.
    """

    pod: Pod
    status: PodStatus
    liveness: ProbeResults
    startup: ProbeResults
    actuated: Mapping[str, ResourceRequirements]
    actuated_pod: ResourceRequirements | None
    facts: KuberuntimeFacts
    actions: PodActions = msgspec.field(default_factory=PodActions)

    @property
    def restart_policy(self) -> str:
        return self.pod.spec.restart_policy or ""

    def kill(self, status: ContainerStatus, reason: str, message: str) -> None:
        """Kill a container."""
        self.actions.containers_to_kill[status.id] = ContainerToKill(status.name, reason, message)


# What a container's state and its probes' results say: has it run, is it started, or killed?


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
        own_policy: of the container; None for none. Its rules are not asked.

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
