"""Cases of the CPU manager with the static policy: a start, and what comes after it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import (
    check_amounts,
    cpu_set,
    keyed,
    node_set,
    walked,
)
from kubeledger.kubelet.cases.hints import Hint
from kubeledger.kubelet.cases.managers import NODES_MAX, ManagerCase, ManagerWalk, StepCase
from kubeledger.kubelet.cpumanager.cpu_manager import Configuration, ContainerState, Manager
from kubeledger.kubelet.cpumanager.policy_static import PolicyError
from kubeledger.kubelet.cpumanager.state_checkpoint import State, StateError
from kubeledger.kubelet.cpumanager.topology import DiscoverError, MachineInfo
from kubeledger.kubelet.kube.containermanager import ContainerRef, text_of
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.resources import Amount
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError


class CpuStep(StepCase, frozen=True, kw_only=True):
    """A step; what a restart is given is new from then on.

    Attributes:
        statuses: of a reconciliation: pod UID -> container -> its state and ID.
        update_errors: IDs of containers whose update fails.
    """

    statuses: dict[str, dict[str, tuple[ContainerState, str]]] = {}
    update_errors: list[str] | None = None
    topology: MachineInfo | None = None
    reserved_cpu: Amount | UnsetType = msgspec.field(name="reservedCPU", default=UNSET)
    reserved_system_cpus: str | None = msgspec.field(name="reservedSystemCPUs", default=None)
    options: dict[str, str] | None = None


class CpuCase(ManagerCase, frozen=True, kw_only=True):
    """Input: a machine, a configuration, pods, and steps."""

    topology: MachineInfo
    reserved_cpu: Amount = msgspec.field(name="reservedCPU", default=None)
    reserved_system_cpus: str = msgspec.field(name="reservedSystemCPUs")
    options: dict[str, str]
    topology_policy: str
    steps: tuple[CpuStep, ...]


class CPUsHeld(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Who has which CPUs, by pod UID; after a start that failed nobody does."""

    default: str | UnsetType = UNSET
    entries: dict[str, dict[str, str]] | UnsetType = UNSET
    pod_entries: dict[str, str] | UnsetType = UNSET


class StepOutcome(CPUsHeld, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What came of a step, and who has which CPUs after it."""

    error: str | UnsetType = UNSET
    cpus: str | UnsetType = UNSET
    hints: dict[str, list[Hint]] | UnsetType | None = UNSET
    updates: list[tuple[str, str]] | UnsetType = UNSET


class Outcome(CPUsHeld, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What came of the start and of each step, and the file at the end."""

    start_error: str
    steps: list[StepOutcome]
    state_file: str | None


def cpus_held(state: State, *, with_pods: bool) -> dict[str, Any]:
    """Fields of ``CPUsHeld``."""
    held: dict[str, Any] = {
        "default": text_of(state.default),
        "entries": {
            pod: {name: text_of(cpus) for name, cpus in of_pod.items()}
            for pod, of_pod in state.assignments.items()
        },
    }
    if with_pods:
        pods = state.pod_assignments.items()
        held["pod_entries"] = {pod: text_of(cpus) for pod, cpus in pods}
    return held


class CpuWalk(ManagerWalk):
    """A case in one order of the kubelet's maps."""

    manager: Manager
    outcome_of = StepOutcome

    def __init__(self, case: CpuCase, profile: KubeletProfile, order: MapOrder) -> None:
        """Start."""
        for uid, pod in case.pods.items():
            if pod.metadata.uid != uid:
                raise BadInputError(f"{keyed('input.pods', uid)}.metadata.uid: it is another")
        self._configuration = Configuration(
            machine=case.topology, topology_policy=case.topology_policy
        )
        self._shown: tuple[State, int, dict[str, Any]] | None = None
        super().__init__(case, profile, order)

    @property
    def stored(self) -> str | None:
        return self._file if self.error else self.manager.state_file

    def start(
        self,
        path: str,
        given: CpuCase | CpuStep,
        stored: str | None,
        containers: dict[str, ContainerRef],
    ) -> str:
        """Start with what is given from now on."""
        self._configure(path, given)
        self._file = stored
        configuration, profile = self._configuration, self.profile
        try:
            self.manager = Manager(configuration, profile, stored, containers, self.order)
        except (DiscoverError, PolicyError, StateError) as error:
            return str(error)
        return ""

    def _configure(self, path: str, given: CpuCase | CpuStep) -> None:
        new: dict[str, object] = {}
        if given.topology is not None:
            nodes = given.topology.nodes
            node_set(f"{path}.topology.nodes", [node.id for node in nodes])
            if len(nodes) > NODES_MAX:
                raise BadInputError(f"{path}.topology.nodes: more than {NODES_MAX} NUMA nodes")
            new["machine"] = given.topology
        if given.reserved_cpu is not UNSET:
            check_amounts(path, {"reservedCPU": given.reserved_cpu})
            new["reserved_cpu"] = given.reserved_cpu
        if given.reserved_system_cpus is not None:
            cpus = cpu_set(f"{path}.reservedSystemCPUs", given.reserved_system_cpus)
            new["reserved_system_cpus"] = cpus
        if given.options is not None:
            new["options"] = given.options
        self._configuration = msgspec.structs.replace(self._configuration, **new)

    def told(self, step: CpuStep) -> dict[str, Any]:
        """The CPUs that a container runs on, or the updates that the runtime took."""
        manager = self.manager
        if step.op == "reconcile":
            updates = manager.reconcile_state(step.statuses, step.update_errors or ())
            return {"updates": [(container_id, text_of(cpus)) for container_id, cpus in updates]}
        return {"cpus": text_of(manager.get_cpu_affinity(step.pod, step.container))}

    def shown(self, *, whole: bool) -> dict[str, Any]:
        """Who has which CPUs, made anew where that has changed."""
        state, known = self.manager.state, self._shown
        if known is None or known[0] is not state or known[1] != state.revision:
            with_pods = self.profile.resourcemanagers.pod_level_managers
            known = self._shown = (state, state.revision, cpus_held(state, with_pods=with_pods))
        return known[2]

    def outcome(self, steps: list[StepOutcome]) -> Outcome:
        """With the file as it is now."""
        file = self.stored
        return Outcome(start_error=self.start_error, **self.begun, steps=steps, state_file=file)


CPUMANAGER = walked(CpuCase, Outcome, CpuWalk)
