"""The CPU, the memory and the DRA manager of a simulated kubelet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kubeledger.kubelet.cgroups.node_config import node_reservation, reservation_of, reserved_amount
from kubeledger.kubelet.cpumanager.cpu_manager import Configuration, configuration_of
from kubeledger.kubelet.cpumanager.cpu_manager import Manager as CPUManager
from kubeledger.kubelet.cpumanager.policy_static import STATIC
from kubeledger.kubelet.cpumanager.topology import places_of
from kubeledger.kubelet.dra.claiminfo import Answer, ClaimInfoState, Device, Result
from kubeledger.kubelet.dra.manager import Manager
from kubeledger.kubelet.kube import resourceclaim as api
from kubeledger.kubelet.kube.containermanager import CPUSet, text_of
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, PodResourceClaimStatus, PodStatus
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.memorymanager.checkpoint import STATIC as MEMORY_STATIC
from kubeledger.kubelet.memorymanager.checkpoint import recorded, restore_state, state_file
from kubeledger.kubelet.memorymanager.machine import Block, MemoryReservation, NUMANode, State
from kubeledger.kubelet.memorymanager.memory_manager import MachineSettings, default_machine
from kubeledger.kubelet.memorymanager.memory_manager import Manager as MemoryManager
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.devicemanager import ClaimDevice, ClaimPrepared, ClaimReleased
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpusAllocated,
    CpusReleased,
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryManagerStarted,
    MemoryReleased,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.admission import Names, Nodes, ResourceLoop, Telling
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.machine import duration_ns, machine_info
from kubeledger.simulate.engine.plan import PlannedClaim
from kubeledger.simulate.engine.schedule import Draws
from kubeledger.simulate.engine.world import SimContainer, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim

_RECONCILES_NS = 50_000_000
"""When it first looks for what is stale: between two relists."""


def configuration(sim: Sim) -> Configuration:
    """What a CPU manager is made of here."""
    reserved = reserved_amount("cpu", reservation_of(sim.setting))
    return configuration_of(sim.setting, machine_info(sim.plan.node), reserved)


class _CPUManager(Telling[CPUSet], CPUManager):
    """A manager that writes down how it begins, and what it takes back."""

    def __init__(self, sim: Sim) -> None:
        self.listen(sim)
        super().__init__(configuration(sim), sim.profile, sim.cpu_manager_state)

    def restored(self) -> None:
        """The state file is read."""
        policy, state, sim = self.policy, self.state, self.sim
        facts, machine = sim.profile.resourcemanagers, machine_info(sim.plan.node)
        is_empty = not state.default and not state.assignments
        body = CpuManagerStarted(
            policy=STATIC,
            reserved_cpu_set=text_of(policy.reserved),
            cpus=places_of(machine, with_caches=facts.prefer_uncore_option),
            options=policy.options.logged,
            default_cpu_set=text_of(policy.accounted if is_empty else state.default),
            restored=sim.cpu_manager_state is not None,
        )
        sim.journal.write(body)

    def released(self, names: Names, had: CPUSet) -> CpusReleased:
        """CPUs went back to the shared pool."""
        pool = text_of(self.state.default)
        return CpusReleased(**names, cpu_set=text_of(had), default_cpu_set=pool)

    def failed(
        self, names: Names, pod: Pod, container: Container, nodes: Nodes, error: str
    ) -> CpuAllocationFailed:
        """There are too few CPUs."""
        requested = self.policy.guaranteed.of_container(pod, container)
        return CpuAllocationFailed(**names, requested=requested, numa_nodes=nodes, error=error)

    def given(self, names: Names, nodes: Nodes, got: CPUSet) -> CpusAllocated:
        """A container has CPUs alone."""
        return CpusAllocated(
            **names,
            cpu_set=text_of(got),
            requested=got.bit_count(),
            numa_nodes=nodes,
            default_cpu_set=text_of(self.state.default),
        )


class CpuLoop(ResourceLoop[_CPUManager]):
    """CPUs of one kubelet process."""

    def start(self) -> None:
        """Read the state file, and look for what is stale again and again.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go Start
        """
        if self._sim.setting("cpuManagerPolicy") != STATIC:
            return
        self.manager = _CPUManager(self._sim)
        self.save()
        period_ns = duration_ns(self._sim.settings, "cpuManagerReconcilePeriod", "10s")
        self._kubelet.every(period_ns, self._reconcile, first_ns=_RECONCILES_NS)

    def save(self) -> None:
        """Write the state file."""
        if self.manager is not None:
            self._sim.cpu_manager_state = self.manager.state_file

    def _reconcile(self) -> None:
        with self.ready(None) as manager:
            if manager is not None:
                manager.remove_stale_state()


# The memory manager of a simulated kubelet.

T = TypeVar("T")


def machine_settings(
    memory_bytes: int,
    numa_nodes: Sequence[int],
    setting: Callable[[str], Any],
    profile: KubeletProfile,
) -> MachineSettings:
    """What a memory manager knows of a machine, whose nodes have equal parts of the memory.

    Raises:
        EvictionThresholdError: a hard threshold is none.
        QuantityError: an amount is none.
    """
    part, rest = divmod(memory_bytes, len(numa_nodes))
    nodes = [
        NUMANode(node, part + (rest if index == 0 else 0), ())
        for index, node in enumerate(numa_nodes)
    ]
    capacity = {"memory": Quantity.of(memory_bytes)}
    kept = node_reservation(capacity, reservation_of(setting), profile.cgroups)
    return MachineSettings(
        nodes=nodes,
        reservation={name: str(amount) for name, amount in kept.items()},
        reserved=[
            MemoryReservation(int(entry["numaNode"]), entry.get("limits") or {})
            for entry in setting("reservedMemory") or ()
        ],
    )


class _Drawn(MapOrder):
    """Maps are walked from a slot on that is drawn."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def of(self, keys: Collection[T]) -> Sequence[T]:
        ordered = list(keys)
        start = self._draws.below(len(ordered)) if ordered else 0
        return ordered[start:] + ordered[:start]


class _MemoryManager(Telling[list[Block]], MemoryManager):
    """A manager that writes down what it takes back."""

    def __init__(self, sim: Sim) -> None:
        self.listen(sim)
        super().__init__(sim.profile)

    def released(self, names: Names, had: list[Block]) -> MemoryReleased:
        """Memory is free again."""
        return MemoryReleased(**names)

    def failed(
        self, names: Names, pod: Pod, container: Container, nodes: Nodes, error: str
    ) -> MemoryAllocationFailed:
        """There is too little memory."""
        return MemoryAllocationFailed(**names, error=error)

    def given(self, names: Names, nodes: Nodes, got: list[Block]) -> MemoryAllocated:
        """A container has memory of NUMA nodes."""
        return MemoryAllocated(**names, affinity=nodes, blocks=recorded(got))


class NumaMemoryLoop(ResourceLoop[_MemoryManager]):
    """Memory of NUMA nodes in one kubelet process."""

    _saved: State | None = None

    def start(self) -> None:
        """Read the state file.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go Start
        Differs: the file is not kept while the policy is None.
        """
        sim, facts, node = self._sim, self._sim.profile.resourcemanagers, self._sim.plan.node
        if sim.setting("memoryManagerPolicy") != MEMORY_STATIC or not facts.memory_manager_gate_on:
            return
        settings = machine_settings(node.memory_bytes, node.numa_nodes, sim.setting, sim.profile)
        text = sim.memory_manager_state
        manager = self.manager = _MemoryManager(sim)
        manager.order = _Drawn(sim.draws.stream(f"memory manager {self._kubelet.run}"))
        running = {
            instance.container_id: (uid, instance.container or "")
            for uid in sim.runtime.pods()
            for instance in sim.runtime.instances(uid)
        }
        stored = None if text is None else restore_state(text, facts)
        manager.start(default_machine(settings), stored, running)
        sim.journal.write(MemoryManagerStarted(policy=MEMORY_STATIC, restored=text is not None))
        self.save()

    def container_created(self, pod: SimPod, container: SimContainer, container_id: str) -> None:
        """What init containers before it had is given back."""
        with self.ready(None) as manager:
            if manager is not None:
                manager.add_container(pod.api, pod.allocated(container.name), container_id)

    def save(self) -> None:
        """Write the state file, if what it holds has changed."""
        if self.manager is not None and self._saved != self.manager.state:
            self._saved = self.manager.state.clone()
            facts = self._sim.profile.resourcemanagers
            self._sim.memory_manager_state = state_file(self._saved, facts)


# Resource claims of pods: prepared before their sandboxes, unprepared when they have ended.
#
# Drivers are outside of the kubelet: they give what the scenario says, and unprepare at once. What
# is asked of them the kubelet's own manager decides.

_RECONCILE_NS = 60 * NS_PER_S

_Held = dict[tuple[str, str], ClaimInfoState]


class ClaimLoop(Loop):
    """The DRA manager of one kubelet process."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        sim = kubelet.sim
        self._on = sim.profile.stages.dynamic_resources
        self._claims = {
            (pod.manifest["metadata"]["namespace"], claim.name): claim
            for pod in sim.plan.pods
            for claim in pod.claims
        }
        self._manager = Manager(sim.profile.dra)
        self._manager.cache = sim.claims
        sim.claims.restart()

    def start(self) -> None:
        """What pods held that are gone is unprepared, again and again."""
        if self._on and self._claims:
            self._kubelet.every(_RECONCILE_NS, self._reconcile)

    def prepare(self, pod: SimPod) -> str:
        """Prepare a pod's claims; the error, or nothing.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod
        """
        if not self._on or not pod.claims:
            return ""
        before = self._begin()
        answers = self._answers(pod)
        claims = {(pod.namespace, claim.name): _api_claim(pod, claim) for claim in pod.claims}
        error = self._manager.prepare_resources(_seen(pod), claims, answers, FIRST_ORDER)
        if not error:
            for claim in pod.claims:
                held = self._manager.cache.claims[pod.namespace, claim.name]
                if before.get((pod.namespace, claim.name)) != held:
                    self._journal.write(_prepared(pod, held))
        return error

    def unprepare(self, pod: SimPod, cause: int | None) -> str:
        """Give a pod's claims back; the error, with which its end waits, or nothing.

        Source: v1.36.2 pkg/kubelet/kubelet.go SyncTerminatingPod
        """
        if not self._on or not pod.claims:
            return ""
        before = self._begin()
        error = self._manager.unprepare_resources(_seen(pod), self._answers(), FIRST_ORDER)
        self._tell(before, cause)
        return error

    def _reconcile(self) -> None:
        pods = self._sim.world.pods
        active = {uid for uid, pod in pods.items() if pod.admitted and not pod.terminated}
        if self._kubelet.pods.sources_ready:
            before = self._begin()
            self._manager.reconcile(active, self._answers(), FIRST_ORDER)
            self._tell(before, None)

    def _begin(self) -> _Held:
        """What is held; drivers are those that are registered now."""
        failures = self._sim.failures
        drivers = {name for claim in self._claims.values() for name in claim.drivers}
        self._manager.drivers = {
            name for name in drivers if failures.words("driver", None, name) is None
        }
        return dict(self._manager.cache.claims)

    def _answers(self, pod: SimPod | None = None) -> dict[str, Answer]:
        """What each driver says when it is asked to prepare for a pod, or to unprepare."""
        failures, node = self._sim.failures, self._sim.plan.node.name
        answers: dict[str, dict[str, Result]] = {}
        for claim in self._claims.values() if pod is None else pod.claims:
            words = None if pod is None else failures.words("claim", pod, claim.in_spec)
            for driver, names in claim.drivers.items():
                devices = tuple(
                    Device(node, name, cdi_device_ids=(f"{driver}/device={name}",))
                    for name in names
                )
                said = Result(devices=devices) if words is None else Result(error=words)
                answers.setdefault(driver, {})[claim.uid] = said
        return {driver: Answer(results=results) for driver, results in answers.items()}

    def _tell(self, before: _Held, cause: int | None) -> None:
        """Who no longer holds which claim."""
        pods, after = self._sim.world.pods, self._manager.cache.claims
        for key, claim in before.items():
            left = after.get(key)
            for uid in claim.pod_uids:
                if left is not None and uid in left.pod_uids:
                    continue
                known = pods.get(uid)
                body = ClaimReleased(
                    namespace=claim.namespace,
                    pod=None if known is None else known.name,
                    pod_uid=uid,
                    claim=claim.claim_name,
                    claim_uid=claim.claim_uid,
                    unprepared=left is None,
                )
                self._journal.write(body, cause=cause)


def _seen(pod: SimPod) -> Pod:
    """The pod with the claims that were made for it, which its status names."""
    made = tuple(
        PodResourceClaimStatus(name=claim.in_spec, resource_claim_name=claim.name)
        for claim in pod.claims
        if claim.is_made
    )
    return msgspec.structs.replace(pod.api, status=PodStatus(resource_claim_statuses=made))


def _api_claim(pod: SimPod, claim: PlannedClaim) -> api.ResourceClaim:
    """A claim of a pod as the API server has it."""
    owners = (api.OwnerReference(pod.uid, controller=True),) if claim.is_made else ()
    results = tuple(
        api.DeviceRequestAllocationResult(driver=driver)
        for driver, devices in claim.drivers.items()
        for _ in devices
    )
    reserved = (api.ConsumerReference(pod.uid),) if claim.is_reserved else ()
    return api.ResourceClaim(
        api.ClaimMeta(claim.name, pod.namespace, claim.uid, owners),
        api.ResourceClaimStatus(
            api.AllocationResult(api.DeviceAllocationResult(results)), reserved
        ),
    )


def _prepared(pod: SimPod, held: ClaimInfoState) -> ClaimPrepared:
    return ClaimPrepared(
        **pod.identity,
        claim=held.claim_name,
        claim_uid=held.claim_uid,
        drivers={
            name: tuple(
                ClaimDevice(
                    pool=each.pool_name,
                    device=each.device_name,
                    requests=each.request_names or (),
                    cdi_device_ids=each.cdi_device_ids or (),
                )
                for each in state.devices or ()
            )
            for name, state in sorted(held.drivers.items())
        },
    )
