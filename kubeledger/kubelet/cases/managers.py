"""Cases of the CPU and of the memory manager: a process, and calls of the kubelet in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import Strict, container_named, error_of, shortened
from kubeledger.kubelet.cases.hints import hint_of, hints_shown
from kubeledger.kubelet.kube.containermanager import ContainerRef
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Pod, lists_of_pods
from kubeledger.kubelet.kube.resources import check_asked
from kubeledger.kubelet.memorymanager.machine import KubeletPanicError
from kubeledger.kubelet.profile.resolve import KubeletProfile, with_gates
from kubeledger.model.errors import BadInputError

Initial = tuple[tuple[str, str, str], ...]
"""Pod UID, container, container ID."""

NODES_MAX = 16
"""More NUMA nodes are refused: the kubelet would look at 2**n sets of them and hang."""


Op = Literal[
    "allocate",
    "allocatePod",
    "hints",
    "podHints",
    "addContainer",
    "removeContainer",
    "removeStaleState",
    "restart",
]
"""What both managers are called for; the CPU manager reconciles as well."""


class StepCase(Strict, frozen=True, kw_only=True):
    """A call, with what it needs; ``active_pods`` and ``sources_ready`` hold from then on.

    Attributes:
        affinity: stored for the container; None for any.
        state_file, initial_containers: of a new process, if they are given: its file is
            overwritten before (None: it is gone), and the runtime lists these.
    """

    op: Literal[Op, "reconcile"]
    pod: str = ""
    container: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    affinity: tuple[int, ...] | None = None
    preferred: bool = False
    active_pods: tuple[str, ...] | None = None
    sources_ready: bool | None = None
    state_file: str | UnsetType | None = UNSET
    initial_containers: Initial | None = None


class ManagerCase(Strict, frozen=True, kw_only=True):
    """The pods, what the runtime and the state file hold at the start, and what happens.

    Attributes:
        active_pods: UIDs, until a step names others; so with ``sources_ready``.
        state_file: its text; None: no file.
        feature_gates: those that are not at their default.
    """

    pods: dict[str, Pod]
    active_pods: tuple[str, ...] = ()
    sources_ready: bool = True
    initial_containers: Initial = ()
    state_file: str | None = None
    feature_gates: dict[str, bool] | None = None
    steps: tuple[StepCase, ...] = ()


class ManagerWalk(ABC):
    """A case in one order of the kubelet's maps.

    Attributes:
        manager: of the process that runs, or of the last one that did.
        error: why the process does not start; empty while it runs. ``start_error``: of the first.
        begun: the state after the start.
        outcome_of: what is made of a step.
    """

    manager: Any
    outcome_of: type

    def __init__(self, case: ManagerCase, profile: KubeletProfile, order: MapOrder) -> None:
        check_asked(lists_of_pods(case.pods.values()))
        self.case, self.order = case, order
        self.profile = with_gates(profile, case.feature_gates)
        self._active = self._pods("input.activePods", case.active_pods)
        self._ready = case.sources_ready
        try:
            self.error = self._begin("input", case, case.state_file)
        except KubeletPanicError as error:
            raise crash("input", error) from None
        self.start_error = self.error
        self.begun = {} if self.error else self.shown(whole=True)

    @property
    @abstractmethod
    def stored(self) -> Any:  # noqa: ANN401  # its text, or what it holds
        """What the state file holds."""

    @abstractmethod
    def start(
        self,
        path: str,
        given: Any,  # noqa: ANN401  # of the manager
        stored: Any,  # noqa: ANN401
        containers: dict[str, ContainerRef],
    ) -> str:
        """Make ``manager``; why it does not start, or empty.

        Args:
            given: the case, or the step that has what is new, at ``path``.
            containers: that the runtime lists, by ID.
        """

    @abstractmethod
    def told(self, step: Any) -> dict[str, Any]:  # noqa: ANN401  # of the manager
        """What a container has after an allocation, or what the runtime is told."""

    @abstractmethod
    def shown(self, *, whole: bool) -> dict[str, Any]:
        """The state; ``whole``: with what only a start can change."""

    def steps(self) -> Iterator[Any]:
        """Go through the steps, until the kubelet stops."""
        for index, step in enumerate(self.case.steps):
            if self.error:
                return
            path = f"input.steps[{index}]"
            try:
                said = self._do(step, path)
            except KubeletPanicError as error:
                raise crash(path, error) from None
            state = {} if self.error else self.shown(whole=step.op == "restart")
            yield self.outcome_of(**state, **said)

    def _do(self, step: StepCase, path: str) -> dict[str, Any]:
        """Take a step; what it returns."""
        manager = self.manager
        if step.active_pods is not None:
            self._active = self._pods(f"{path}.activePods", step.active_pods)
        if step.sources_ready is not None:
            self._ready = step.sources_ready
        manager.active_pods, manager.sources_ready = self._active, self._ready
        match step.op:
            case "restart":
                stored = self.stored if isinstance(step.state_file, UnsetType) else step.state_file
                self.error = self._begin(path, step, stored)
                return {"error": self.error}
            case "removeStaleState":
                manager.remove_stale_state()
                return {}
            case "removeContainer":
                manager.remove_container(step.container_id)
                return {"error": ""}
            case "reconcile":
                return self.told(step)
        pod = self._pods(f"{path}.pod", (step.pod,))[0]
        hint = hint_of(f"{path}.affinity", step.affinity, step.preferred)
        if step.op == "podHints":
            return {"hints": hints_shown(manager.get_pod_topology_hints(pod))}
        if step.op == "allocatePod":
            return {"error": error_of(manager.allocate_pod, pod, hint)}
        container = container_named(f"{path}.container", pod, step.container)
        if step.op == "hints":
            return {"hints": hints_shown(manager.get_topology_hints(pod, container))}
        if step.op == "addContainer":
            manager.add_container(pod, container, step.container_id)
            return {}
        error = error_of(manager.allocate, pod, container, hint)
        return {"error": error} | self.told(step)

    def _begin(self, path: str, given: Any, stored: Any) -> str:  # noqa: ANN401
        if given.initial_containers is not None:
            listed = given.initial_containers
            self._listed = {container_id: (pod, name) for pod, name, container_id in listed}
        error = self.start(path, given, stored, self._listed)
        if not error:
            self.manager.active_pods, self.manager.sources_ready = self._active, self._ready
        return error

    def _pods(self, path: str, uids: tuple[str, ...]) -> list[Pod]:
        try:
            return [self.case.pods[uid] for uid in uids]
        except KeyError as error:
            raise BadInputError(
                f"{path}: no pod {shortened(error.args[0])} in input.pods"
            ) from None


def crash(path: str, error: KubeletPanicError) -> BadInputError:
    """A kubelet that crashes over what is at ``path`` has no outcome."""
    return BadInputError(f"{path}: the kubelet crashes here: {error}")
