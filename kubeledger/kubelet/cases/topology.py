"""Cases of whole admissions: the topology manager with the CPU and the memory manager behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.cpumanager import CPUsHeld, cpus_held
from kubeledger.kubelet.cases.fields import (
    Strict,
    check_amounts,
    cpu_set,
    keyed,
    shortened,
    walked,
)
from kubeledger.kubelet.cases.hints import Hint, hints_of
from kubeledger.kubelet.cases.managers import crash
from kubeledger.kubelet.cases.memorymanager import (
    MemoryHeld,
    memory_held,
    settings_of,
    sort_blocks,
)
from kubeledger.kubelet.cpumanager.cpu_manager import Configuration
from kubeledger.kubelet.cpumanager.cpu_manager import Manager as CPUManager
from kubeledger.kubelet.cpumanager.policy_static import PolicyError
from kubeledger.kubelet.cpumanager.topology import Core, DiscoverError, MachineInfo, Node
from kubeledger.kubelet.kube.containermanager import AllocationError
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Container, NotNegative, Pod, containers_of, lists_of_pods
from kubeledger.kubelet.kube.resources import Amount, ResourceList, check_asked
from kubeledger.kubelet.memorymanager.machine import (
    KubeletPanicError,
    MemoryManagerError,
    MemoryReservation,
    NUMANode,
)
from kubeledger.kubelet.memorymanager.memory_manager import Manager as MemoryManager
from kubeledger.kubelet.memorymanager.memory_manager import default_machine
from kubeledger.kubelet.profile.resolve import KubeletProfile, with_gates
from kubeledger.kubelet.topologymanager.policy import ProviderHints, TopologyHint, bits_of
from kubeledger.kubelet.topologymanager.scope import (
    ConfigurationError,
    Scope,
    TopologySettings,
    new_policy,
)
from kubeledger.model.errors import BadInputError


class MachineNode(NUMANode, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A NUMA node; ``distances`` is its row of the table, None where cAdvisor reports none."""

    cores: tuple[Core, ...]
    distances: tuple[NotNegative, ...] | None = None


class StepCase(Strict, frozen=True, kw_only=True):
    """A pod is admitted, or is not active any more."""

    op: Literal["admit", "remove"]
    pod: str


HintsCase = dict[str, dict[str, dict[str, tuple[Hint, ...] | None] | None]]
"""Pod UID -> container, "" for the pod -> resource -> hints."""


class TopologyCase(Strict, frozen=True, kw_only=True):
    """Input: a machine, the settings of all three managers, pods, and what becomes of them.

    Attributes:
        other_hints, other_errors: hints of one more provider, which is asked first, and errors of
            its allocations by pod UID and container.
    """

    num_sockets: int
    nodes: tuple[MachineNode, ...]
    reserved_cpu: Amount = msgspec.field(name="reservedCPU", default=None)
    reserved_system_cpus: str = msgspec.field(name="reservedSystemCPUs", default="")
    cpu_manager_policy_options: dict[str, str] = {}
    node_allocatable_reservation: ResourceList = {}
    reserved_memory: tuple[MemoryReservation, ...] = ()
    policy: str
    scope: str
    topology_manager_policy_options: dict[str, str] = {}
    feature_gates: dict[str, bool] = {}
    pods: dict[str, Pod]
    other_hints: HintsCase = {}
    other_errors: dict[str, dict[str, str]] = {}
    steps: tuple[StepCase, ...]


class StepOutcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer to a pod, what is stored for its containers, and the managers after it."""

    admit: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    affinity: dict[str, Hint] | UnsetType = UNSET
    cpu: CPUsHeld
    memory: MemoryHeld


class TopologyOutcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Why the kubelet does not start, or what came of each step."""

    start_error: str
    steps: list[StepOutcome]


class TopologyWalk:
    """A kubelet's topology manager with its providers, the scripted one first.

    Attributes:
        error: why it does not start; empty if it does.
    """

    def __init__(self, case: TopologyCase, profile: KubeletProfile, order: MapOrder) -> None:
        check_amounts("input", {"reservedCPU": case.reserved_cpu})
        check_asked(lists_of_pods(case.pods.values()))
        self._case, self._order = case, order
        self._profile = with_gates(profile, case.feature_gates)
        self._other = _Scripted(case)
        self._active: list[Pod] = []
        self.error = ""
        try:
            self._start()
        except (ConfigurationError, DiscoverError, PolicyError, MemoryManagerError) as error:
            self.error = str(error)

    def _start(self) -> None:
        case, profile, order = self._case, self._profile, self._order
        reservation, reserved = case.node_allocatable_reservation, case.reserved_memory
        memory = settings_of("input", case.nodes, reservation, reserved)
        settings = TopologySettings(
            policy=case.policy, scope=case.scope, options=case.topology_manager_policy_options
        )
        distances = {node.id: node.distances for node in case.nodes}
        policy = new_policy(settings, distances, profile.topology, order)
        configuration = Configuration(
            machine=MachineInfo(case.num_sockets, tuple(Node(n.id, n.cores) for n in case.nodes)),
            reserved_cpu=case.reserved_cpu,
            reserved_system_cpus=cpu_set("input.reservedSystemCPUs", case.reserved_system_cpus),
            options=case.cpu_manager_policy_options,
            topology_policy=policy.name,
        )
        self._cpu = CPUManager(configuration, profile, order=order)
        self._memory = MemoryManager(profile)
        self._memory.order = order
        self._memory.start(default_machine(memory, order), None, {})
        providers = (self._other, self._cpu, self._memory)
        self._scope = Scope(policy, case.scope, providers, profile)

    def steps(self) -> Iterator[StepOutcome]:
        """Take the steps, if the kubelet runs."""
        for index, step in enumerate(() if self.error else self._case.steps):
            path = f"input.steps[{index}]"
            pod = self._case.pods.get(step.pod)
            if pod is None:
                raise BadInputError(f"{path}.pod: no pod {shortened(step.pod)} in input.pods")
            if step.op == "remove":
                self._active = [each for each in self._active if each is not pod]
                yield self._shown()
                continue
            try:
                yield self._admit(pod)
            except KubeletPanicError as error:
                raise crash(path, error) from None

    def outcome(self, steps: list[StepOutcome]) -> TopologyOutcome:
        return TopologyOutcome(start_error=self.error, steps=steps)

    def _admit(self, pod: Pod) -> StepOutcome:
        active = [*self._active, pod]
        self._cpu.active_pods = self._memory.active_pods = active
        result = self._scope.admit(pod)
        if result.admit:
            self._active = active
        outcome = self._shown()
        outcome.admit, outcome.reason, outcome.message = result.admit, result.reason, result.message
        uid = pod.metadata.uid or ""
        stored = {c.name or "": self._scope.affinity(uid, c.name or "") for c in containers_of(pod)}
        outcome.affinity = {
            name: Hint(
                None if hint.affinity is None else tuple(bits_of(hint.affinity)), hint.preferred
            )
            for name, hint in stored.items()
        }
        return outcome

    def _shown(self) -> StepOutcome:
        with_pods = self._profile.resourcemanagers.pod_level_managers
        return StepOutcome(
            cpu=CPUsHeld(**cpus_held(self._cpu.state, with_pods=with_pods)),
            memory=MemoryHeld(**memory_held(self._memory.state, with_pods=with_pods)),
        )


class _Scripted:
    """A provider that answers what the case says."""

    def __init__(self, case: TopologyCase) -> None:
        self._errors = case.other_errors
        self._hints: dict[tuple[str, str], ProviderHints] = {}
        for uid, containers in case.other_hints.items():
            for name, resources in containers.items():
                path = keyed("input.otherHints", uid)
                self._hints[uid, name] = hints_of(keyed(path, name), resources or {})

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        return self._hints.get((pod.metadata.uid or "", container.name or ""))

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        return self._hints.get((pod.metadata.uid or "", ""))

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Fail where the case says so."""
        error = self._errors.get(pod.metadata.uid or "", {}).get(container.name or "", "")
        if error:
            raise AllocationError(error)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Devices are not given to a pod as a whole."""


def _sort(claimed: TopologyOutcome) -> None:
    sort_blocks(step.memory for step in claimed.steps)


TOPOLOGY = walked(TopologyCase, TopologyOutcome, TopologyWalk, sort=_sort)
