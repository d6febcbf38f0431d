"""computePodActions and doBackOff: from a pod and what the runtime lists to what a sync does."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.flowcontrol import Backoff, BackOffPolicy, next_back_off
from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kube.statuses import (
    NEVER,
    ON_FAILURE,
    RESTART_ALL,
    matching_restart_rule,
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
    UNKNOWN_STATE,
    Container,
    ContainerStatus,
    Pod,
    PodActions,
    PodStatus,
    ProbeResults,
    Sync,
    app_kill,
    container_succeeded,
    has_any_regular_container_created,
    should_container_be_restarted,
)
from kubeledger.kubelet.kuberuntime.resize import (
    compute_pod_level_resources_resize_action,
    compute_pod_resize_action,
)
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.model.units import NS_PER_S, format_go_duration, parse_go_duration

# The back-off of containers that are started again and again.
#
# A container has an *entry* from its first start that follows an exited instance on. Each such
# start raises it: initial value, doubled, up to a maximum. A start is held back while less
# time than the entry's value has passed since the exit of the instance the kubelet looks at.
#
# That instance is the newest *exited* one in the status that the sync began with. A sync that
# kills a container and starts it again still has the status from before the kill, so it
# looks at the instance before. This is why a container whose probe fails every 30 s is held
# back only once its entry is over 30 s, and why its very first restart raises nothing.
#
# An entry expires some time after it was last raised. Housekeeping drops such entries every two
# seconds, also while they hold a container back: a container that ran for 590 s is held back
# for 10 s at most.

EXPIRES_AFTER_NS: Final = 600 * NS_PER_S
"""An entry that was not raised for longer is forgotten, in every kubelet that runs: before
1.32, when this was twice the maximum, the maximum was always 300 s."""

_INITIAL_S, _MAX_S = 10, 300
_REDUCED_INITIAL_S, _REDUCED_MAX_S = 1, 60


def back_off_policy(
    facts: KuberuntimeFacts, gates: dict[str, Any], configured: str | None
) -> BackOffPolicy | None:
    """What this kubelet's entries begin and end with.

    Args:
        configured: ``crashLoopBackOff.maxContainerRestartPeriod`` as a Go duration; None when
            it is not known.

    Returns:
        None when the configured maximum counts and is not known.

    Raises:
        ValueError: the configured maximum is not a duration.

    Source: v1.36.2 pkg/kubelet/kubelet.go newCrashLoopBackOff
    Differs: the gates that a version does not know are passed over.
    """
    initial_s, max_s = _INITIAL_S, _MAX_S
    if facts.restart_decay_gate and gates.get("ReduceDefaultCrashLoopBackOffDecay") is True:
        initial_s, max_s = _REDUCED_INITIAL_S, _REDUCED_MAX_S
    initial_ns, max_ns = initial_s * NS_PER_S, max_s * NS_PER_S
    default = facts.restart_max_configurable
    if facts.restart_max_gate and gates.get("KubeletCrashLoopBackOffMax", default) is True:
        if configured is None:
            return None
        max_ns = parse_go_duration(configured)
        initial_ns = min(initial_ns, max_ns)
    return BackOffPolicy(initial_ns, max_ns)


def series(policy: BackOffPolicy) -> tuple[int, ...]:
    """All values that an entry can have, in order; an entry that is not there left out."""
    values = [policy.initial_ns]
    while (value := next_back_off(policy, values[-1])) != values[-1] and value > 0:
        values.append(value)
    return tuple(values)


def restart_backoff(policy: BackOffPolicy, facts: KuberuntimeFacts) -> Backoff:
    """Without an entry; what a kubelet process remembers of its containers' starts.

    Keys identify containers. The kubelet's also holds the definition, so that a changed
    container begins without an entry: all of it up to 1.30, name and image from 1.31, image
    and resources from 1.34.
    """
    return Backoff(policy, EXPIRES_AFTER_NS if facts.back_off_expires_after_600_s else None)


class BackedOff(msgspec.Struct, frozen=True, gc=False):
    """A start that is held back."""

    value_ns: int
    until_ns: int
    message: str


def do_back_off(
    backoff: Backoff, key: Hashable, container: str, pod: str, ended_ns: int | None, now_ns: int
) -> BackedOff | None:
    """Hold the start of a container back, or (None) count it.

    Args:
        backoff: the process's entries; a start that may continue raises its entry.
        pod: as the kubelet writes it: ``name_namespace(uid)``.
        ended_ns: when the newest exited instance ended; None without one: nothing is counted.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff; v1.20.2
    Differs: the event is left to the caller.
    """
    if ended_ns is None:
        return None
    if not backoff.is_in_back_off_since(key, ended_ns, now_ns):
        backoff.next(key, ended_ns, now_ns)
        return None
    value_ns = backoff.get(key)
    back_off = format_go_duration(value_ns)
    message = f"back-off {back_off} restarting failed container={container} pod={pod}"
    return BackedOff(value_ns, ended_ns + value_ns, message)


def newest_exited(containers: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    """The instance whose end a back-off counts from.

    Args:
        containers: as the runtime lists them, newest first.
    """
    return next((c for c in containers if c.name == name and c.state == EXITED), None)


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
        actuated: container name -> resources last given to the runtime; an absent one counts
            as zero.
        actuated_pod: the pod's own resources last written; None for none.

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
        return
    starts = [
        index
        for index, container in enumerate(spec.containers or ())
        if not (
            _policy(sync, container) == ON_FAILURE
            and container_succeeded(container.name, sync.status, facts)
        )
    ]
    if not starts and facts.sandbox_only_for_work and _was_initialized(sync):
        actions.create_sandbox = False
        return
    if spec.init_containers:
        actions.init_containers_to_start = [0]
        return
    actions.containers_to_start = starts


def _policy(sync: Sync, container: Container) -> str:
    if sync.facts.container_restart_rules and container.restart_policy is not None:
        return container.restart_policy
    return sync.restart_policy


def _was_initialized(sync: Sync) -> bool:
    if walks(sync):
        return has_any_regular_container_created(sync.pod, sync.status)
    return find_next_init_container_to_run(sync)[2]


def _go_on(sync: Sync) -> None:
    """In the sandbox that is there: ephemeral, init, then app containers."""
    spec, actions = sync.pod.spec, sync.actions
    if sync.facts.ephemeral_containers:
        for index, ephemeral in enumerate(spec.ephemeral_containers or ()):
            if sync.status.find(ephemeral.name) is None:
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
    actions.update_pod_level_resources = compute_pod_level_resources_resize_action(sync)


def _start(sync: Sync, index: int, container: Container, status: ContainerStatus | None) -> None:
    """A container that does not run."""
    actions = sync.actions
    if not should_container_be_restarted(container, sync.pod, sync.status, sync.facts):
        return
    actions.containers_to_start.append(index)
    if status is not None and status.state == UNKNOWN:
        message = f'Container is in "{status.state}" state, try killing it before restart'
        sync.kill(status, UNKNOWN_STATE, message)


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
        return False
    sync.kill(status, kill.reason, kill.message)
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
    """

    changed: bool
    attempt: int
    sandbox_id: str


def pod_sandbox_changed(pod: Pod, status: PodStatus) -> SandboxChange:
    """Find the sandbox to use, or that there is none.

    Source: v1.36.2 pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged; v1.20.2
    Differs: there is no sandbox whose network the runtime does not report.
    """
    if not status.sandboxes:
        return SandboxChange(True, 0, "")
    newest = status.sandboxes[0]
    attempt = (newest.attempt + 1) % _ATTEMPTS
    ready = sum(sandbox.state == "ready" for sandbox in status.sandboxes)
    if ready > 1 or newest.state != "ready":
        return SandboxChange(True, attempt, newest.id)
    host_network = bool(pod.spec.host_network)
    if newest.host_network != host_network:
        return SandboxChange(True, attempt, "")
    if not host_network and not newest.ip:
        return SandboxChange(True, attempt, newest.id)
    return SandboxChange(False, newest.attempt, newest.id)
