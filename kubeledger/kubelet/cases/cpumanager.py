"""Cases of the CPU manager with the static policy: a start, and what comes after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import (
    Strict,
    Subsystem,
    check_amounts,
    container_named,
    cpu_set,
    error_of,
    keyed,
    node_set,
    shortened,
)
from kubeledger.kubelet.cases.hints import HintOutcome, hint_of, hints_shown
from kubeledger.kubelet.cpumanager.cpu_manager import Configuration, ContainerState, Manager
from kubeledger.kubelet.cpumanager.policy_static import PolicyError
from kubeledger.kubelet.cpumanager.state_checkpoint import StateError
from kubeledger.kubelet.cpumanager.topology import DiscoverError, MachineInfo
from kubeledger.kubelet.kube.containermanager import text_of
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.kube.pod import Container, Pod, lists_of_pods
from kubeledger.kubelet.kube.resources import Amount, check_asked
from kubeledger.kubelet.profile.resolve import KubeletProfile, with_gates
from kubeledger.kubelet.topologymanager.policy import BITS_MAX, TopologyHint
from kubeledger.model.errors import BadInputError

InitialContainer = tuple[str, str, str]
"""Pod UID, container, container ID."""
NodeIds = list[Annotated[int, msgspec.Meta(ge=0, le=BITS_MAX - 1)]]


class StepCase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
    tag_field="op",
):
    """A step; active pods and readiness of sources hold from it on."""

    active_pods: list[str] | None = None
    sources_ready: bool | None = None


class Allocate(StepCase, frozen=True, kw_only=True, tag="allocate"):
    """Allocate for a container, with the affinity stored for it; None for any."""

    pod: str
    container: str
    affinity: NodeIds | None
    preferred: bool


class AllocatePod(StepCase, frozen=True, kw_only=True, tag="allocatePod"):
    """Allocate for a pod as a whole."""

    pod: str
    affinity: NodeIds | None
    preferred: bool


class Hints(StepCase, frozen=True, kw_only=True, tag="hints"):
    """Hints of a container."""

    pod: str
    container: str


class PodHints(StepCase, frozen=True, kw_only=True, tag="podHints"):
    """Hints of a pod."""

    pod: str


class AddContainer(StepCase, frozen=True, kw_only=True, tag="addContainer"):
    """A container starts."""

    pod: str
    container: str
    container_id: str = msgspec.field(name="containerID")


class RemoveContainer(StepCase, frozen=True, kw_only=True, tag="removeContainer"):
    """A container is gone."""

    container_id: str = msgspec.field(name="containerID")


class RemoveStaleState(StepCase, frozen=True, kw_only=True, tag="removeStaleState"):
    """What no active pod has goes back."""


class Reconcile(StepCase, frozen=True, kw_only=True, tag="reconcile"):
    """The runtime is told; a pod without statuses has none."""

    statuses: dict[str, dict[str, tuple[ContainerState, str]]]
    update_errors: list[str] | None = None


class Restart(StepCase, frozen=True, kw_only=True, tag="restart"):
    """A new process; what is given is new from then on, and the file is overwritten before."""

    state_file: str | UnsetType | None = UNSET
    topology: MachineInfo | None = None
    reserved_cpu: Amount | UnsetType = msgspec.field(name="reservedCPU", default=UNSET)
    reserved_system_cpus: str | None = msgspec.field(name="reservedSystemCPUs", default=None)
    options: dict[str, str] | None = None
    initial_containers: list[InitialContainer] | None = None


Step = (
    Allocate
    | AllocatePod
    | Hints
    | PodHints
    | AddContainer
    | RemoveContainer
    | RemoveStaleState
    | Reconcile
    | Restart
)


Entries = dict[str, dict[str, str]]
"""Pod UID -> container -> its CPUs."""


class CpuCase(Strict, frozen=True, kw_only=True):
    """Input: a machine, a configuration, pods, and steps.

    Attributes:
        active_pods: UIDs, until a step names others; so with ``sources_ready``.
        initial_containers: what the runtime lists at the start.
        state_file: text of ``cpu_manager_state``; None: no file.
        feature_gates: those that are not at their default.
    """

    topology: MachineInfo
    reserved_cpu: Amount = msgspec.field(name="reservedCPU", default=None)
    reserved_system_cpus: str = msgspec.field(name="reservedSystemCPUs")
    options: dict[str, str]
    topology_policy: str
    pods: dict[str, Pod]
    active_pods: list[str]
    sources_ready: bool
    initial_containers: list[InitialContainer]
    state_file: str | None = None
    steps: list[Step]
    feature_gates: dict[str, bool] | None = None


class StepOutcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What came of a step, and who has which CPUs after it; after a failed restart nobody does."""

    default: str | UnsetType = UNSET
    entries: Entries | UnsetType = UNSET
    pod_entries: dict[str, str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    cpus: str | UnsetType = UNSET
    hints: dict[str, list[HintOutcome]] | UnsetType | None = UNSET
    updates: list[tuple[str, str]] | UnsetType = UNSET


class Outcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What came of the start and of each step, and the file at the end."""

    start_error: str
    default: str | UnsetType = UNSET
    entries: Entries | UnsetType = UNSET
    pod_entries: dict[str, str] | UnsetType = UNSET
    steps: list[StepOutcome]
    state_file: str | None


NODES_MAX: Final = 16
"""Of more the kubelet would look at 2**n sets, and hang."""


class Run:
    """One run of a case.

    Attributes:
        started: what came of the start, without steps.
        manager: of the process that runs; None after a start that failed.
    """

    def __init__(self, case: CpuCase, profile: KubeletProfile, order: MapOrder) -> None:
        """Start."""
        _check_machine("input.topology", case.topology)
        check_amounts("input", {"reservedCPU": case.reserved_cpu})
        check_asked(lists_of_pods(case.pods.values()))
        self.case = case
        for uid, pod in case.pods.items():
            if pod.metadata.uid != uid:
                raise BadInputError(f"{keyed('input.pods', uid)}.metadata.uid: it is another")
        self._profile = with_gates(profile, case.feature_gates)
        self._order = order
        self._file = case.state_file
        self._listed = case.initial_containers
        self._configuration = Configuration(
            machine=case.topology,
            reserved_cpu=case.reserved_cpu,
            reserved_system_cpus=cpu_set("input.reservedSystemCPUs", case.reserved_system_cpus),
            options=case.options,
            topology_policy=case.topology_policy,
        )
        self._active = self._pods_of("input.activePods", case.active_pods)
        self._sources_ready = case.sources_ready
        self._index = 0
        self._shown: tuple[int, str, Entries, dict[str, str]] = (-1, "", {}, {})
        self.manager: Manager | None = None
        self.started = Outcome(start_error=self._start(), steps=[], state_file=None)
        self._show(self.started)

    @property
    def state_file(self) -> str | None:
        return self._file if self.manager is None else self.manager.state_file

    def steps(self) -> Iterator[StepOutcome]:
        """Go through the steps, until the kubelet stops."""
        for index, step in enumerate(self.case.steps):
            if self.manager is None:
                self._check(index, step)
            else:
                yield self.do(index, step)

    def do(self, index: int, step: Step) -> StepOutcome:
        """Do a step, while the kubelet runs."""
        self._index = index
        self._take_over(step)
        outcome = StepOutcome()
        _DOES[type(step)](self, step, outcome)
        self._show(outcome)
        return outcome

    def _check(self, index: int, step: Step) -> None:
        """Make sure that what a step is about is there, though it comes after the end."""
        self._index = index
        self._take_over(step)
        if isinstance(step, Restart):
            self._configure(step)
        elif isinstance(step, Allocate | Hints | AddContainer):
            self._container(step)
        elif isinstance(step, AllocatePod | PodHints):
            self._pod(step)
        if isinstance(step, Allocate | AllocatePod):
            self._affinity(step)

    def _path(self, field: str) -> str:
        return f"input.steps[{self._index}].{field}"

    def _take_over(self, step: Step) -> None:
        """Take over what holds from a step on."""
        if step.active_pods is not None:
            self._active = self._pods_of(self._path("activePods"), step.active_pods)
        if step.sources_ready is not None:
            self._sources_ready = step.sources_ready
        if self.manager is not None:
            self.manager.active_pods, self.manager.sources_ready = self._active, self._sources_ready

    def _pod(self, step: Allocate | AllocatePod | Hints | PodHints | AddContainer) -> Pod:
        pod = self.case.pods.get(step.pod)
        if pod is None:
            raise BadInputError(f"{self._path('pod')}: there is no pod {shortened(step.pod)}")
        return pod

    def _container(self, step: Allocate | Hints | AddContainer) -> Container:
        return container_named(self._path("container"), self._pod(step), step.container)

    def _affinity(self, step: Allocate | AllocatePod) -> TopologyHint:
        return hint_of(self._path("affinity"), step.affinity, step.preferred)

    def _allocate(self, step: Allocate, outcome: StepOutcome) -> None:
        manager, container = self._running, self._container(step)
        affinity = self._affinity(step)
        outcome.error = error_of(manager.allocate, self._pod(step), container, affinity)
        outcome.cpus = text_of(manager.get_cpu_affinity(step.pod, step.container))

    def _allocate_pod(self, step: AllocatePod, outcome: StepOutcome) -> None:
        allocate = self._running.allocate_pod
        outcome.error = error_of(allocate, self._pod(step), self._affinity(step))

    def _hint(self, step: Hints, outcome: StepOutcome) -> None:
        pod, container = self._pod(step), self._container(step)
        outcome.hints = hints_shown(self._running.get_topology_hints(pod, container))

    def _hint_pod(self, step: PodHints, outcome: StepOutcome) -> None:
        outcome.hints = hints_shown(self._running.get_pod_topology_hints(self._pod(step)))

    def _add_container(self, step: AddContainer, outcome: StepOutcome) -> None:
        self._container(step)
        self._running.add_container(step.pod, step.container, step.container_id)

    def _remove_container(self, step: RemoveContainer, outcome: StepOutcome) -> None:
        self._running.remove_container(step.container_id)
        outcome.error = ""

    def _remove_stale_state(self, step: RemoveStaleState, outcome: StepOutcome) -> None:
        self._running.remove_stale_state()

    def _reconcile(self, step: Reconcile, outcome: StepOutcome) -> None:
        updates = self._running.reconcile_state(step.statuses, step.update_errors or ())
        outcome.updates = [(container_id, text_of(cpus)) for container_id, cpus in updates]

    def _restart(self, step: Restart, outcome: StepOutcome) -> None:
        self._configure(step)
        self._file = self.state_file if step.state_file is UNSET else step.state_file
        outcome.error = self._start()

    def _configure(self, step: Restart) -> None:
        """Take over what is new from a restart on."""
        given: dict[str, object] = {}
        if step.topology is not None:
            _check_machine(self._path("topology"), step.topology)
            given["machine"] = step.topology
        if step.reserved_cpu is not UNSET:
            check_amounts(f"input.steps[{self._index}]", {"reservedCPU": step.reserved_cpu})
            given["reserved_cpu"] = step.reserved_cpu
        if step.reserved_system_cpus is not None:
            cpus = cpu_set(self._path("reservedSystemCPUs"), step.reserved_system_cpus)
            given["reserved_system_cpus"] = cpus
        if step.options is not None:
            given["options"] = step.options
        if given:
            self._configuration = msgspec.structs.replace(self._configuration, **given)
        if step.initial_containers is not None:
            self._listed = step.initial_containers

    @property
    def _running(self) -> Manager:
        assert self.manager is not None
        return self.manager

    def _start(self) -> str:
        """Start a process; why it does not start, or empty."""
        containers = {container_id: (pod, name) for pod, name, container_id in self._listed}
        self.manager = None
        try:
            manager = Manager(
                self._configuration, self._profile, self._file, containers, self._order
            )
        except (DiscoverError, PolicyError, StateError) as error:
            return str(error)
        manager.active_pods, manager.sources_ready = self._active, self._sources_ready
        self.manager, self._shown = manager, (-1, "", {}, {})
        return ""

    def _show(self, outcome: StepOutcome | Outcome) -> None:
        """Put into an outcome who has which CPUs, if the kubelet runs."""
        if self.manager is None:
            return
        state = self.manager.state
        if self._shown[0] != state.revision:
            entries = {
                pod: {name: text_of(cpus) for name, cpus in held.items()}
                for pod, held in state.assignments.items()
            }
            pods = {pod: text_of(cpus) for pod, cpus in state.pod_assignments.items()}
            self._shown = (state.revision, text_of(state.default), entries, pods)
        _, outcome.default, outcome.entries, pods = self._shown
        if self._profile.resourcemanagers.pod_level_managers:
            outcome.pod_entries = pods

    def _pods_of(self, path: str, uids: list[str]) -> list[Pod]:
        try:
            return [self.case.pods[uid] for uid in uids]
        except KeyError as error:
            raise BadInputError(f"{path}: there is no pod {shortened(error.args[0])}") from None


_DOES: Final[Mapping[type[Step], Callable[[Run, Any, StepOutcome], None]]] = {
    Allocate: Run._allocate,
    AllocatePod: Run._allocate_pod,
    Hints: Run._hint,
    PodHints: Run._hint_pod,
    AddContainer: Run._add_container,
    RemoveContainer: Run._remove_container,
    RemoveStaleState: Run._remove_stale_state,
    Reconcile: Run._reconcile,
    Restart: Run._restart,
}


def _check_machine(path: str, machine: MachineInfo) -> None:
    node_set(f"{path}.nodes", [node.id for node in machine.nodes])
    if len(machine.nodes) > NODES_MAX:
        raise BadInputError(f"{path}.nodes: more than {NODES_MAX} NUMA nodes")


def decide(case_input: CpuCase, profile: KubeletProfile) -> Outcome:
    """Start, and go through the steps; where the kubelet has a choice, by the order of the case."""
    run = Run(case_input, profile, FIRST_ORDER)
    outcome = run.started
    outcome.steps.extend(run.steps())
    outcome.state_file = run.state_file
    return outcome


def nearest(
    case_input: CpuCase, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Outcome:
    """The claim, if it comes out in some order of Go's maps."""
    begun = msgspec.structs.replace(claimed, steps=[], state_file=None)

    def comes_out(order: MapOrder) -> bool:
        run = Run(case_input, profile, order)
        return (
            run.started == begun
            and all(ours == theirs for ours, theirs in zip_longest(run.steps(), claimed.steps))
            and run.state_file == claimed.state_file
        )

    return claimed if any(explore(comes_out)) else decided


CPUMANAGER = Subsystem(CpuCase, Outcome, decide, nearest)
