"""Cases of the memory manager: a machine, a state file, and calls of the kubelet in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Literal

import msgspec

from kubeledger.kubelet.cases.fields import (
    Strict,
    Subsystem,
    check_amounts,
    container_named,
    error_of,
    most_alike,
    shortened,
)
from kubeledger.kubelet.cases.hints import HintOutcome, hint_of, hints_shown
from kubeledger.kubelet.cases.memory_node import (
    Blocks,
    Entries,
    HugePagesCase,
    Machine,
    ReservationCase,
    Uint64,
    check_nodes,
    entries_shown,
    machine_shown,
    node_of,
    pods_shown,
    reservations_of,
    sorted_entries,
)
from kubeledger.kubelet.kube.containermanager import ContainerRef
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.kube.pod import Pod, lists_of_pods
from kubeledger.kubelet.kube.resources import ResourceList, check_asked
from kubeledger.kubelet.memorymanager.checkpoint import restore_state
from kubeledger.kubelet.memorymanager.machine import KubeletPanicError, MemoryManagerError, State
from kubeledger.kubelet.memorymanager.memory_manager import (
    MachineSettings,
    Manager,
    default_machine,
)
from kubeledger.kubelet.profile.resolve import KubeletProfile, with_gates
from kubeledger.model.errors import BadInputError

Initial = tuple[tuple[str, str, str], ...]


class NodeCase(Strict, frozen=True, kw_only=True):
    """A NUMA node; huge pages are page size in KiB and number of pages."""

    id: int
    memory: Uint64
    hugepages: HugePagesCase | None = None


class StepCase(Strict, frozen=True, kw_only=True):
    """A call, with what it needs; ``active_pods`` and ``sources_ready`` hold from then on."""

    op: Literal[
        "allocate",
        "allocatePod",
        "hints",
        "podHints",
        "addContainer",
        "removeContainer",
        "removeStaleState",
        "restart",
    ]
    pod: str = ""
    container: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    affinity: tuple[int, ...] | None = None
    preferred: bool = False
    active_pods: tuple[str, ...] | None = None
    sources_ready: bool | None = None
    state_file: str | msgspec.UnsetType | None = msgspec.UNSET
    nodes: tuple[NodeCase, ...] | None = None
    node_allocatable_reservation: ResourceList | None = None
    reserved_memory: tuple[ReservationCase, ...] | None = None
    initial_containers: Initial | None = None


class MemoryCase(Strict, frozen=True, kw_only=True):
    """Input: the machine, its settings, the pods, and what happens."""

    nodes: tuple[NodeCase, ...]
    node_allocatable_reservation: ResourceList | None = None
    reserved_memory: tuple[ReservationCase, ...] | None = None
    feature_gates: dict[str, bool] | None = None
    pods: dict[str, Pod]
    active_pods: tuple[str, ...] = ()
    sources_ready: bool = True
    initial_containers: Initial = ()
    state_file: str | None = None
    steps: tuple[StepCase, ...] = ()


Unset = msgspec.UnsetType


class _StateOutcome(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """NUMA node -> assignments, cells, memory; containers -> blocks, a set; pods -> blocks."""

    machine_state: Machine | Unset = msgspec.UNSET
    entries: Entries | Unset = msgspec.UNSET
    pod_entries: dict[str, Blocks] | Unset = msgspec.UNSET


class StepOutcome(_StateOutcome, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a call returned, and the state after it; of a start that failed only the error."""

    error: str | Unset = msgspec.UNSET
    numa_nodes: list[int] | Unset | None = msgspec.UNSET
    hints: dict[str, list[HintOutcome]] | Unset | None = msgspec.UNSET


class MemoryOutcome(_StateOutcome, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The start, and what came of each step."""

    start_error: str
    steps: list[StepOutcome]


def decide(case_input: MemoryCase, profile: KubeletProfile) -> MemoryOutcome:
    """Call after call; maps are walked in the order of the case."""
    world = _World(case_input, profile)
    begun = world.call(-1, FIRST_ORDER)
    steps = []
    for index in range(len(case_input.steps)):
        if not world.runs:
            break
        steps.append(world.call(index, FIRST_ORDER))
    return _outcome(begun, steps)


def nearest(
    case_input: MemoryCase, profile: KubeletProfile, decided: MemoryOutcome, claimed: MemoryOutcome
) -> MemoryOutcome:
    """Follow the claim call by call, in every order that the kubelet's maps can take."""
    worlds, outcomes = [_World(case_input, profile)], []
    for index, claim in enumerate((_start_of(claimed), *claimed.steps), start=-1):
        if index == len(case_input.steps) or not (worlds[0].runs or index < 0):
            break
        found = [each for world in worlds for each in _explored(world, index)]
        wanted = _in_order(claim)
        worlds = _distinct(world for world, outcome in found if outcome == wanted)
        outcomes.append(most_alike([outcome for _, outcome in found], wanted))
        if not worlds:
            break
    else:
        if worlds[0].runs and len(claimed.steps) < len(case_input.steps):
            outcomes.append(next(_explored(worlds[0], len(claimed.steps)))[1])
    return _outcome(outcomes[0], outcomes[1:])


def _start_of(outcome: MemoryOutcome) -> StepOutcome:
    return StepOutcome(
        error=outcome.start_error,
        machine_state=outcome.machine_state,
        entries=outcome.entries,
        pod_entries=outcome.pod_entries,
    )


def _outcome(begun: StepOutcome, steps: list[StepOutcome]) -> MemoryOutcome:
    return MemoryOutcome(
        start_error=begun.error or "",
        machine_state=begun.machine_state,
        entries=begun.entries,
        pod_entries=begun.pod_entries,
        steps=steps,
    )


class _World:
    """A kubelet process after some steps.

    Attributes:
        manager: of the process that runs, or that was to start.
    """

    def __init__(self, case_input: MemoryCase, profile: KubeletProfile) -> None:
        check_asked(lists_of_pods(case_input.pods.values()))
        self.profile = with_gates(profile, case_input.feature_gates)
        if not self.profile.resourcemanagers.memory_manager_gate_on:
            raise BadInputError(f"kubelet {profile.version} has no memory manager that is on")
        self.case = case_input
        self.settings = _settings(case_input, None, "input")
        self.initial = case_input.initial_containers
        self.manager = Manager(self.profile)
        self.manager.active_pods = self._pods(case_input.active_pods, "input.activePods")
        self.manager.sources_ready = case_input.sources_ready
        self.runs = False

    def copy(self) -> _World:
        """The same process, to try another order."""
        other = copy(self)
        other.manager = self.manager.copy()
        return other

    def call(self, index: int, order: MapOrder) -> StepOutcome:
        """Take a step; -1 is the start."""
        path = f"input.steps[{index}]" if index >= 0 else "input"
        try:
            if index < 0:
                return self._start(self.case.state_file, order)
            return self._step(self.case.steps[index], path, order)
        except KubeletPanicError as error:
            raise BadInputError(f"{path}: the kubelet crashes here: {error}") from None

    def _step(self, step: StepCase, path: str, order: MapOrder) -> StepOutcome:
        manager = self.manager
        manager.order = order
        if step.active_pods is not None:
            manager.active_pods = self._pods(step.active_pods, f"{path}.activePods")
        if step.sources_ready is not None:
            manager.sources_ready = step.sources_ready
        if step.op == "restart":
            return self._restart(step, path, order)
        outcome = StepOutcome()
        if step.op == "removeStaleState":
            manager.remove_stale_state()
        elif step.op == "removeContainer":
            manager.remove_container(step.container_id)
            outcome.error = ""
        else:
            pod = self._pods((step.pod,), f"{path}.pod")[0]
            self._call_with_pod(step, pod, path, outcome)
        return self._shown(outcome)

    def _call_with_pod(self, step: StepCase, pod: Pod, path: str, outcome: StepOutcome) -> None:
        manager = self.manager
        match step.op:
            case "podHints":
                outcome.hints = hints_shown(manager.get_pod_topology_hints(pod))
            case "allocatePod":
                hint = hint_of(f"{path}.affinity", step.affinity, step.preferred)
                outcome.error = error_of(manager.allocate_pod, pod, hint)
            case "hints":
                container = container_named(f"{path}.container", pod, step.container)
                outcome.hints = hints_shown(manager.get_topology_hints(pod, container))
            case "addContainer":
                container = container_named(f"{path}.container", pod, step.container)
                manager.add_container(pod, container, step.container_id)
            case _:
                container = container_named(f"{path}.container", pod, step.container)
                hint = hint_of(f"{path}.affinity", step.affinity, step.preferred)
                outcome.error = error_of(manager.allocate, pod, container, hint)
                outcome.numa_nodes = manager.get_memory_numa_nodes(step.pod, step.container)

    def _restart(self, step: StepCase, path: str, order: MapOrder) -> StepOutcome:
        before = self.manager
        self.settings = _settings(step, self.settings, path)
        self.manager = Manager(self.profile)
        self.manager.active_pods = before.active_pods
        self.manager.sources_ready = before.sources_ready
        if step.initial_containers is not None:
            self.initial = step.initial_containers
        return self._start(
            _as_stored(before.state) if step.state_file is msgspec.UNSET else step.state_file, order
        )

    def _start(self, stored: State | str | None, order: MapOrder) -> StepOutcome:
        try:
            machine = default_machine(self.settings, order)
            if isinstance(stored, str):
                stored = restore_state(stored, self.manager.facts)
            self.manager.order = order
            self.manager.start(machine, stored, _by_id(self.initial))
        except MemoryManagerError as error:
            self.runs = False
            return StepOutcome(error=str(error))
        self.runs = True
        return self._shown(StepOutcome(error=""), whole=True)

    def _pods(self, uids: tuple[str, ...], path: str) -> list[Pod]:
        pods = self.case.pods
        for uid in uids:
            if uid not in pods:
                raise BadInputError(f"{path}: no pod {shortened(uid)} in input.pods")
        return [pods[uid] for uid in uids]

    def _shown(self, outcome: StepOutcome, *, whole: bool = False) -> StepOutcome:
        """The state after a call; ``whole``: with the columns of a memory table that stay."""
        state = self.manager.state
        outcome.machine_state = machine_shown(state.machine, whole=whole)
        outcome.entries = entries_shown(state)
        if self.manager.facts.pod_level_managers:
            outcome.pod_entries = pods_shown(state)
        return outcome


def _explored(world: _World, index: int) -> Iterator[tuple[_World, StepOutcome]]:
    """A step in every order: the process after it, and the outcome."""

    def walk(order: MapOrder) -> tuple[_World, StepOutcome]:
        other = world.copy()
        return other, other.call(index, order)

    return explore(walk)


def _distinct(worlds: Iterable[_World]) -> list[_World]:
    """Processes from which the same can follow, once each."""
    found: list[_World] = []
    for world in worlds:
        if not any(world.manager.memory() == each.manager.memory() for each in found):
            found.append(world)
    return found


def _settings(
    given: MemoryCase | StepCase, before: MachineSettings | None, path: str
) -> MachineSettings:
    """The settings of a process; what a restart does not give stays."""
    check_nodes(f"{path}.nodes", [node.id for node in given.nodes or ()])
    nodes = tuple(
        node_of(f"{path}.nodes[{index}]", node.id, node.memory, node.hugepages)
        for index, node in enumerate(given.nodes or ())
    )
    reservation, reserved = given.node_allocatable_reservation, given.reserved_memory
    check_amounts(f"{path}.nodeAllocatableReservation", reservation)
    reservations = reservations_of(f"{path}.reservedMemory", reserved or ())
    if before is None:
        before = MachineSettings(nodes=nodes, reservation={}, reserved=())
    return MachineSettings(
        nodes=before.nodes if given.nodes is None else nodes,
        reservation=before.reservation if reservation is None else reservation,
        reserved=before.reserved if reserved is None else reservations,
    )


def _by_id(initial: Initial) -> dict[str, ContainerRef]:
    return {container_id: (uid, name) for uid, name, container_id in initial}


def _as_stored(state: State) -> State:
    """The state as the file gives it back: maps by key."""
    return State(
        machine=state.machine,
        entries={
            uid: dict(sorted(containers.items()))
            for uid, containers in sorted(state.entries.items())
        },
        pod_entries=dict(sorted(state.pod_entries.items())),
    )


def _in_order(claim: StepOutcome) -> StepOutcome:
    """A claim with its sets of blocks sorted."""
    if claim.entries is not msgspec.UNSET:
        claim.entries = sorted_entries(claim.entries)
    if claim.pod_entries is not msgspec.UNSET:
        claim.pod_entries = {uid: sorted(blocks) for uid, blocks in claim.pod_entries.items()}
    return claim


MEMORYMANAGER = Subsystem(MemoryCase, MemoryOutcome, decide, nearest)
