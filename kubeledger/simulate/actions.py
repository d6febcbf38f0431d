"""What one sync of a pod has to do: what to kill, what to start (computePodActions)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubeledger.prober.objects import Container
from kubeledger.prober.records import ProbeType
from kubeledger.prober.restarts import container_should_restart
from kubeledger.prober.results import FAILURE, SUCCESS
from kubeledger.prober.syncloop import kill_message, sidecar_kill_message
from kubeledger.profile.prober import ProberFacts
from kubeledger.simulate.pleg import View
from kubeledger.simulate.podphase import init_failed, restart_policy
from kubeledger.simulate.world import SimContainer, SimPod

__all__ = ["Actions", "Failed", "PlannedKill", "actions_of"]

Failed = Callable[[SimPod, SimContainer], tuple[ProbeType, int] | None]
"""Which probe of a running container has failed, and the record of that."""


class PlannedKill(msgspec.Struct, frozen=True):
    """A container to kill because of its probe; ``cause`` is the record of the failure."""

    container: SimContainer
    probe_type: ProbeType
    message: str
    cause: int


class Actions(msgspec.Struct):
    """What to do, in this order.

    Attributes:
        kills: containers whose probe failed.
        starts: init containers, else app containers; what is killed and started is in both.
        nothing_left: no app container runs or will be started, so the pod is stopped.
    """

    kills: list[PlannedKill] = []
    starts: list[SimContainer] = []
    nothing_left: bool = False


def actions_of(pod: SimPod, view: View, failed: Failed, facts: ProberFacts) -> Actions:
    """What a sync does with a pod that is to run.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions
    Differs: a sandbox that went away by itself, changed definitions, resizes and
        ephemeral containers are not there.
    """
    actions = Actions()
    specs = {c.name: c for c in (*(pod.probed.spec.init_containers or ()), *_apps(pod))}
    apps = [c for c in pod.containers if not c.init]
    initialized = any(c.name in view for c in apps)
    if init_failed(pod, view):
        actions.nothing_left = True
        return actions
    if not _inits(pod, view, failed, facts, actions, specs, initialized=initialized):
        return actions
    kept = 0
    for container in apps:
        instance = view.get(container.name)
        if instance is None or not instance.running:
            code = None if instance is None else instance.exit_code
            if code is None or should_restart(pod, specs[container.name], code, facts):
                actions.starts.append(container)
            continue
        found = failed(pod, container)
        message = None if found is None else _message(pod, specs[container.name], found[0], facts)
        if found is None or message is None:
            kept += 1
            continue
        actions.kills.append(PlannedKill(container, found[0], message, found[1]))
        if message.endswith("will be restarted"):
            actions.starts.append(container)
    app_starts = [c for c in actions.starts if not c.init]
    actions.nothing_left = not kept and not app_starts
    return actions


def should_restart(pod: SimPod, spec: Container, code: int, facts: ProberFacts) -> bool:
    """Whether a container that ended is started again.

    Source: v1.36.2 pkg/kubelet/container/helpers.go ShouldContainerBeRestarted
    Differs: split: deletion and states are for the caller.
    """
    if not facts.container_restart_rules:
        spec = msgspec.structs.replace(spec, restart_policy=None, restart_policy_rules=None)
    return container_should_restart(spec, pod.probed, code, facts)


def _inits(
    pod: SimPod,
    view: View,
    failed: Failed,
    facts: ProberFacts,
    actions: Actions,
    specs: dict[str, Container],
    *,
    initialized: bool,
) -> bool:
    """Init containers one after the other; whether app containers may be looked at.

    Source: v1.36.2 kuberuntime_container.go computeInitContainerActions; v1.20.2
        findNextInitContainerToRun
    Differs: no.
    """
    for container in pod.containers:
        if not container.init:
            continue
        instance = view.get(container.name)
        if container.sidecar:
            if instance is None or not instance.running:
                actions.starts.append(container)
                if not initialized:
                    return False
                continue
            found = failed(pod, container)
            if found is not None:
                _kill_sidecar(container, specs[container.name], found, facts, actions)
            if not initialized and not container.started:
                return False
            continue
        if initialized or (instance is not None and instance.exit_code == 0):
            continue
        if instance is None or not instance.running:
            actions.starts.append(container)
        return False
    return True


def _kill_sidecar(
    container: SimContainer,
    spec: Container,
    found: tuple[ProbeType, int],
    facts: ProberFacts,
    actions: Actions,
) -> None:
    message = sidecar_kill_message(
        container.name,
        FAILURE if found[0] == "liveness" else None,
        FAILURE if found[0] == "startup" else SUCCESS,
        facts,
        has_startup_probe=spec.startup_probe is not None,
    )
    if message is not None:
        actions.kills.append(PlannedKill(container, found[0], message, found[1]))
        actions.starts.append(container)


def _message(pod: SimPod, spec: Container, probe_type: ProbeType, facts: ProberFacts) -> str | None:
    return kill_message(
        spec.name,
        FAILURE if probe_type == "liveness" else None,
        FAILURE if probe_type == "startup" else None,
        facts,
        restart_policy=restart_policy(pod),
        own_policy=spec.restart_policy,
    )


def _apps(pod: SimPod) -> list[Container]:
    return pod.probed.spec.containers
