"""Cases of computePodActions (a pod, what the runtime lists, cached probe results), of doBackOff.

Only what the kubelet's map of kills leaves open is free, and objects have no order in JSON
either, so every claim matches or is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import (
    LAST_NS,
    Strict,
    Subsystem,
    check_amounts,
    keyed,
    shortened,
)
from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns
from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import (
    BackedOff,
    compute_pod_actions,
    do_back_off,
    newest_exited,
    restart_backoff,
)
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
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_go_duration, format_ts, parse_go_duration


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


def decide(case_input: PodActionsCase, profile: KubeletProfile) -> dict[str, object]:
    """The actions of one sync, without those that its version or its case does not know."""
    facts = profile.kuberuntime
    actions = _actions(case_input, facts)
    if not facts.kill_reasons:
        kills = actions.containers_to_kill.items()
        actions.containers_to_kill = {i: ContainerToKill(k.name, "", k.message) for i, k in kills}
    outcome: dict[str, object] = msgspec.to_builtins(actions)
    if not facts.resizes_in_place or isinstance(case_input.actuated, UnsetType):
        del outcome["containersToUpdate"]
    if not facts.restart_all_containers:
        del outcome["containersToReset"]
    if not facts.pod_level_resources_resized:
        del outcome["updatePodLevelResources"]
    return outcome


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


PODACTIONS = Subsystem(PodActionsCase, object, decide)


# Cases of doBackOff: one container over a series of syncs that would start it.


_DURATION_MAX_NS = 2**62 - 1
"""A longer back-off cannot be doubled in 64 bits."""


class Step(Strict, frozen=True):
    """One sync: expired entries are dropped before, where ``gc`` says so."""

    at: str
    containers: tuple[ContainerStatus, ...]
    gc: bool = False


class BackoffCase(Strict, frozen=True):
    """One case.

    Attributes:
        container: name of an app or init container.
        initial, max: first and greatest back-off, as Go durations.
    """

    pod: Pod
    container: str
    initial: str
    max: str
    steps: tuple[Step, ...]


def decide_backoff(case_input: BackoffCase, profile: KubeletProfile) -> dict[str, object]:
    """Go through all syncs: which are held back, and the entry after each."""
    return {"steps": list(_syncs(case_input, profile))}


def _syncs(case: BackoffCase, profile: KubeletProfile) -> Iterator[dict[str, object]]:
    spec, meta, name = case.pod.spec, case.pod.metadata, case.container
    if all(c.name != name for c in (*(spec.containers or ()), *(spec.init_containers or ()))):
        raise BadInputError(f"input.container: the pod has no container {shortened(name)}")
    policy = BackOffPolicy(_duration(case.initial, "initial"), _duration(case.max, "max"))
    backoff = restart_backoff(policy, profile.kuberuntime)
    pod = f"{meta.name}_{meta.namespace}({meta.uid})"
    for index, step in enumerate(case.steps):
        now_ns = _time(step.at, f"input.steps[{index}].at")
        check_times(step.containers)
        if step.gc:
            backoff.gc(now_ns)
        exited = newest_exited(step.containers, name)
        ended_ns = _ended_ns(exited)
        held = do_back_off(backoff, name, name, pod, ended_ns, now_ns)
        outcome: dict[str, object] = {
            "held": held is not None,
            "message": "" if held is None else held.message,
            "entry": format_go_duration(backoff.get(name)),
        }
        if profile.kuberuntime.cases_give_back_off_end:
            outcome["until"] = "" if held is None else _until(held, index)
        yield outcome


def _ended_ns(exited: ContainerStatus | None) -> int | None:
    if exited is None:
        return None
    return ZERO_TIME_NS if exited.finished_at is None else instant_ns(exited.finished_at)


def _until(held: BackedOff, index: int) -> str:
    if held.until_ns > LAST_NS:
        raise BadInputError(f"input.steps[{index}]: the back-off ends after the year 9999")
    return format_ts(held.until_ns)


def _time(text: str, field: str) -> int:
    try:
        return instant_ns(text)
    except BadInputError as error:
        raise BadInputError(f"{field}: {error.message}") from None


@lru_cache(maxsize=256)
def _duration(text: str, name: str) -> int:
    try:
        duration_ns = parse_go_duration(text)
    except ValueError:
        duration_ns = -1
    if not 0 <= duration_ns <= _DURATION_MAX_NS:
        raise BadInputError(f"input.{name}: no Go duration for a back-off: {shortened(text)}")
    return duration_ns


BACKOFF = Subsystem(BackoffCase, object, decide_backoff)
