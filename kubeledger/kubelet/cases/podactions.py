"""Cases of computePodActions: a pod, what the runtime lists of it, and cached probe results.

Only what the kubelet's map of kills leaves open is free, and objects have no order in JSON
either, so every claim matches or is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import Judgement, Strict, check_amounts, impossible, keyed
from kubeledger.kubelet.kube.gotexts import instant_ns
from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import compute_pod_actions
from kubeledger.kubelet.kuberuntime.objects import (
    Container,
    ContainerStatus,
    ContainerToKill,
    EphemeralContainer,
    Pod,
    PodActions,
    PodStatus,
    ProbeResult,
    SandboxStatus,
)
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile


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


class Outcome(Strict, frozen=True):
    """What is to be done; indices are those of the spec's lists.

    Attributes:
        containers_to_update: only where the version resizes, and the case says what was
            actuated.
        containers_to_reset, update_pod_level_resources: only where the version knows it.
    """

    kill_pod: bool
    create_sandbox: bool
    sandbox_id: str = msgspec.field(name="sandboxID")
    attempt: int
    init_containers_to_start: list[int]
    containers_to_start: list[int]
    ephemeral_containers_to_start: list[int]
    containers_to_kill: dict[str, ContainerToKill]
    containers_to_update: dict[str, list[str]] | UnsetType = UNSET
    containers_to_reset: list[str] | UnsetType = UNSET
    update_pod_level_resources: bool | UnsetType = UNSET


INPUT = PodActionsCase
OUTCOME = Outcome


def decide(case_input: PodActionsCase, profile: KubeletProfile) -> Outcome:
    """The actions of one sync."""
    facts = profile.kuberuntime
    return _outcome(_actions(case_input, facts), case_input, facts)


def judge(
    case_input: PodActionsCase, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Judgement:
    """Compare a claim; nothing here is left to chance."""
    actions = _actions(case_input, profile.kuberuntime)
    return impossible(_Comparison(case_input, actions, decided, claimed).difference())


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


def _outcome(actions: PodActions, case: PodActionsCase, facts: KuberuntimeFacts) -> Outcome:
    resizes = facts.resizes_in_place and not isinstance(case.actuated, UnsetType)
    pod_level = facts.pod_level_resources_resized
    kills = actions.containers_to_kill
    if not facts.kill_reasons:
        kills = {i: ContainerToKill(kill.name, "", kill.message) for i, kill in kills.items()}
    return Outcome(
        kill_pod=actions.kill_pod,
        create_sandbox=actions.create_sandbox,
        sandbox_id=actions.sandbox_id,
        attempt=actions.attempt,
        init_containers_to_start=actions.init_containers_to_start,
        containers_to_start=actions.containers_to_start,
        ephemeral_containers_to_start=actions.ephemeral_containers_to_start,
        containers_to_kill=kills,
        containers_to_update=actions.containers_to_update if resizes else UNSET,
        containers_to_reset=actions.containers_to_reset if facts.restart_all_containers else UNSET,
        update_pod_level_resources=actions.update_pod_level_resources if pod_level else UNSET,
    )


class _Comparison:
    """A claim beside what was decided."""

    def __init__(
        self, case: PodActionsCase, actions: PodActions, ours: Outcome, theirs: Outcome
    ) -> None:
        self._spec = case.pod.spec
        self._listed = {status.id: status.name for status in case.containers}
        self._actions = actions
        self._ours = ours
        self._theirs = theirs

    def difference(self) -> str:
        """One sentence about the first difference; they do differ."""
        return self._of_pod() or self._of_starts() or self._of_kills() or self._of_others()

    def _of_pod(self) -> str:
        ours, theirs, actions = self._ours, self._theirs, self._actions
        if ours.kill_pod != theirs.kill_pod:
            negated = "" if ours.kill_pod else "not "
            return f"the pod is {negated}killed, because {actions.pod_why}"
        if ours.create_sandbox != theirs.create_sandbox:
            which = "another" if ours.create_sandbox else "no other"
            return f"{which} sandbox is made, because {actions.create_why}"
        for name, mine, claimed in (
            ("sandbox", ours.sandbox_id, theirs.sandbox_id),
            ("attempt", ours.attempt, theirs.attempt),
        ):
            if mine != claimed:
                return f"the {name} is {mine!r}, not {claimed!r}, because {actions.sandbox_why}"
        return ""

    def _of_starts(self) -> str:
        ours, theirs, spec = self._ours, self._theirs, self._spec
        groups: tuple[
            tuple[str, Sequence[Container | EphemeralContainer], list[int], list[int]], ...
        ] = (
            (
                "init container",
                spec.init_containers or (),
                ours.init_containers_to_start,
                theirs.init_containers_to_start,
            ),
            (
                "container",
                spec.containers or (),
                ours.containers_to_start,
                theirs.containers_to_start,
            ),
            (
                "ephemeral container",
                spec.ephemeral_containers or (),
                ours.ephemeral_containers_to_start,
                theirs.ephemeral_containers_to_start,
            ),
        )
        for kind, containers, mine, claimed in groups:
            if mine != claimed:
                return self._of_start(kind, [c.name for c in containers], mine, claimed)
        return ""

    def _of_start(self, kind: str, names: list[str], ours: list[int], theirs: list[int]) -> str:
        for index in theirs:
            if not 0 <= index < len(names):
                return f"the pod has no {kind} {index}"
        for index, name in enumerate(names):
            if (index in ours) != (index in theirs):
                negated = "" if index in ours else "not "
                return f"{kind} {name} is {negated}started, because {self._why(name)}"
        return f"the {kind}s {ours} are started, each once and in this order, not {theirs}"

    def _of_kills(self) -> str:
        ours, theirs = self._ours.containers_to_kill, self._theirs.containers_to_kill
        for container_id in sorted(ours.keys() | theirs.keys()):
            mine, claimed = ours.get(container_id), theirs.get(container_id)
            if mine is None:
                name = self._listed.get(container_id)
                if name is None:
                    return f"the runtime lists no container {container_id}"
                return f"container {name} is not killed, because {self._why(name)}"
            if claimed is None:
                return f"container {mine.name} is killed: {mine.message}"
            if mine != claimed:
                return (
                    f"container {mine.name} is killed with the reason {mine.reason!r} and the "
                    f"message {mine.message!r}, not as {claimed.name!r} with {claimed.reason!r} "
                    f"and {claimed.message!r}"
                )
        return ""

    def _of_others(self) -> str:
        for name, what in (
            ("containers_to_update", "the containers to update are"),
            ("containers_to_reset", "the containers to remove, in order, are"),
            ("update_pod_level_resources", "that the pod's own resources are to be written is"),
        ):
            mine, claimed = getattr(self._ours, name), getattr(self._theirs, name)
            if mine is UNSET and claimed is not UNSET:
                return f"the outcome has not the shape of one: this version has no {name}"
            if mine != claimed:
                return f"{what} {mine}, not {'left out' if claimed is UNSET else claimed}"
        raise AssertionError("the outcomes do not differ")

    def _why(self, name: str) -> str:
        return self._actions.why.get(name) or self._actions.pod_why
