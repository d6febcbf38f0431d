"""From lines and state files of the CPU manager to its observations and decisions.

An allocation is reported by five lines or so: Allocate, the affinity, AllocateCPUs with the number,
the shared pool, AllocateCPUs with the result, the container's set. A release is reported by
RemoveContainer and, if the container had CPUs of its own, the shared pool. The container's set
is written again by the loop that reconciles cgroups, for every container, and so shows nothing
by itself. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21 to 1.36.
"""

from __future__ import annotations

import msgspec

from kubeledger.ingest.correlate.assembler import Entry, reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.resource_managers import (
    Allocation,
    Holder,
    ResourceManagerAssembler,
)
from kubeledger.ingest.messages.cpu_machine import CpuMachine, from_file, sound_set
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of
from kubeledger.ingest.sources.items import CpuManagerState
from kubeledger.kubelet.cpumanager.checkpoint import read_cpu_manager_state
from kubeledger.model.bodies.cpumanager import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
)
from kubeledger.model.units import NS_PER_S

_FILE, _POLICY = "cpu_manager.go", "policy_static.go"
_START_NS = 2 * NS_PER_S


class _Allocation(Allocation):
    """An allocation under way.

    Attributes:
        requested: None until the lines show, as for the others.
        waiting: the decision, once it is made.
    """

    numa_nodes: tuple[int, ...] | None = None
    requested: int | None = None
    default_cpu_set: str | None = None
    waiting: Waiting[CpusAllocated | CpuAllocationFailed] | None = None


class CpuAssembler(ResourceManagerAssembler[str]):
    """Starts of the CPU manager, CPUs given and taken back, refusals and the state file."""

    time_passes = HEARTBEAT

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._machine = CpuMachine()
        self._started: Waiting[CpuManagerStarted] | None = None
        self._allocation: _Allocation | None = None
        self._removing: Allocation | None = None

    @reads("Detected CPU topology")
    def _topology(self, entry: Entry) -> None:
        self._machine.topology(entry.values.get("topology"))

    @reads("Static policy created with configuration")
    def _options(self, entry: Entry) -> None:
        self._machine.options(entry.values.get("options"))

    @reads("Reserved CPUs not available for exclusive assignment")
    def _reserve(self, entry: Entry) -> None:
        self._machine.reserve(entry.get("reserved"))

    @reads("Starting CPU manager")
    def _starting(self, entry: Entry) -> None:
        if entry.line.file != _FILE:
            return
        self._allocation = self._removing = None
        policy = entry.get("policy") or "none"
        if policy != "static":
            return  # the settings show it, and this policy does nothing
        body = CpuManagerStarted(policy=policy, **self._machine.reported)
        self._started = self.queue.hold(shown(entry, body), _START_NS)

    @reads("Updated CPUSet assignments")
    def _restored(self, entry: Entry) -> None:
        """The state file's assignments replace what the new process began with."""
        self._record_start(entry, restored=True)

    def _record_start(self, entry: Entry, **found: object) -> None:
        """The first shared pool of a new process, or that its assignments are from a file."""
        started = self._started
        if started is not None and started.is_open:
            started.learn(**found)
            started.join(entry.evidence)
            if started.body.restored is False:
                self.drop_before(started.fact.ts_ns)

    @reads(
        "Could not initialize checkpoint manager, please drain node and remove policy state file",
        "Static policy invalid state, please drain node and remove policy state file",
    )
    def _refused_state(self, entry: Entry) -> None:
        """The file could not be read, or does not fit; the memory manager says so alike."""
        if entry.line.file in (_FILE, _POLICY):
            body = CpuStateRefused(error=entry.text("err"))
            self.refused_state = self.queue.add(shown(entry, body))

    @reads("Static policy: Allocate")
    def _allocate(self, entry: Entry) -> None:
        self._allocation = _Allocation(self.subject_of(entry), (entry.evidence,))

    @reads("Static policy: container already present in state, skipping")
    def _present(self, entry: Entry) -> None:
        self._allocation = None

    @reads("Topology Affinity", "Topology Affinity of CPUs")
    def _affinity(self, entry: Entry) -> None:
        """The topology manager writes the same words, and not here."""
        hint = hint_of(entry.values.get("affinity")) if entry.line.file == _POLICY else None
        if self._allocation is not None and hint is not None:
            self._allocation.numa_nodes = hint.numa_nodes
            self._allocation.evidence += (entry.evidence,)

    @reads("AllocateCPUs")
    def _allocate_cpus(self, entry: Entry) -> None:
        allocation, result = self._allocation, entry.get("result")
        if allocation is None:
            self._removing = None  # a pod gets CPUs as a whole
        if allocation is None or allocation.waiting is not None:
            return
        if result:
            self._result(entry, allocation, sound_set(result))
        else:
            allocation.requested = entry.number("numCPUs")
            allocation.evidence += (entry.evidence,)

    @reads("Updated default CPUSet")
    def _default(self, entry: Entry) -> None:
        """The shared pool has changed: a container got CPUs, gave some back, or all begins."""
        cpus = sound_set(entry.get("cpuSet"))
        allocation, removing, started = self._allocation, self._removing, self._started
        if allocation is not None and allocation.requested is not None:
            if allocation.waiting is None:
                allocation.default_cpu_set = cpus
                allocation.evidence += (entry.evidence,)
        elif removing is not None and removing.subject.uid is not None:
            self._removing = None
            holder = removing.subject.holder
            self.give_back(holder, entry, *removing.evidence, default_cpu_set=cpus)
        elif cpus is not None and started is not None:
            # Without a file the pool is set to all CPUs; from one, the assignments follow.
            restored = from_file(started.body, cpus)
            self._record_start(entry, default_cpu_set=cpus, restored=restored)

    def _result(self, entry: Entry, allocation: _Allocation, cpus: str | None) -> None:
        if not cpus:
            return
        subject = allocation.subject
        body = CpusAllocated(
            **subject.names,
            cpu_set=cpus,
            requested=allocation.requested,
            numa_nodes=allocation.numa_nodes,
            default_cpu_set=allocation.default_cpu_set,
        )
        allocation.waiting = self.queue.hold(shown(entry, body, *allocation.evidence))
        if subject.uid is not None:
            self.take(subject.holder, cpus, entry.ts_ns)

    @reads("Updated desired CPUSet")
    def _desired(self, entry: Entry) -> None:
        """The set of a container is written: the one just decided ends with it."""
        subject, cpus = self.subject_of(entry), sound_set(entry.get("cpuSet"))
        waiting = self._allocation.waiting if self._allocation is not None else None
        if waiting is None or not waiting.is_open or not isinstance(waiting.body, CpusAllocated):
            return
        body = waiting.body
        named = body.pod is None or subject.pod in (None, body.pod)
        if not named or (subject.container, cpus) != (body.container, body.cpu_set):
            return
        waiting.join(entry.evidence)
        waiting.learn(
            namespace=subject.namespace or body.namespace,
            pod=subject.pod or body.pod,
            pod_uid=subject.uid,
        )
        waiting.settle()
        self._allocation = None
        if subject.uid is not None:
            self.take(subject.holder, body.cpu_set, entry.ts_ns)

    @reads("Unable to allocate CPUs", "Allocate error")
    def _failed(self, entry: Entry) -> None:
        """Two lines report one failure: the policy's and the manager's."""
        allocation = self._allocation
        if allocation is None or entry.line.file not in (_FILE, _POLICY):
            return
        if allocation.waiting is not None:
            allocation.waiting.join(entry.evidence)
            return
        body = CpuAllocationFailed(
            **allocation.subject.names,
            requested=allocation.requested,
            numa_nodes=allocation.numa_nodes,
            error=entry.text("err"),
        )
        allocation.waiting = self.queue.hold(shown(entry, body, *allocation.evidence))

    @reads("Static policy: RemoveContainer")
    def _remove(self, entry: Entry) -> None:
        self._allocation = None
        self._removing = Allocation(self.subject_of(entry), (entry.evidence,))

    @takes(CpuManagerState)
    def _state_file(self, item: CpuManagerState) -> None:
        body = self.read_file(item, lambda data: self._named(read_cpu_manager_state(data)))
        if body is not None:
            sets = ((uid, *of) for uid, found in body.assignments.items() for of in found.items())
            self.compare(item, {(uid, container): cpus for uid, container, cpus in sets if uid})

    def released(self, holder: Holder, *, inferred: bool = False) -> CpusReleased:
        """CPUs go back to the shared pool."""
        cpus = self.held(holder)
        return CpusReleased(**self.names_of(holder), cpu_set=cpus, inferred=inferred)

    def given_by_file(self, holder: Holder, what: str) -> CpusAllocated:
        """CPUs that a container has by the state file."""
        return CpusAllocated(**self.names_of(holder), cpu_set=what, told_by="state_file")

    def _named(self, body: CpuManagerStateRead) -> CpuManagerStateRead:
        """Container IDs of the v1 form replaced by pod UID and name, where they are known."""
        assignments = {uid: dict(sets) for uid, sets in body.assignments.items() if uid}
        for container_id, cpus in body.assignments.get("", {}).items():
            whose = self.context.container(container_id)
            if whose is None or whose.container is None:
                assignments.setdefault("", {})[container_id] = cpus
            else:
                assignments.setdefault(whose.pod_uid, {})[whose.container] = cpus
        return msgspec.structs.replace(body, assignments=assignments)
