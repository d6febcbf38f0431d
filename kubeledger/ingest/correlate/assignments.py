"""From lines and state files of the CPU and the memory manager to their records."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import ends, reads, takes
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.state_files import Allocation, Holder, ResourceManagerAssembler
from kubeledger.ingest.messages.container_manager import CpuMachine, from_file, hint_of, sound_set
from kubeledger.ingest.messages.noise import HEARTBEAT
from kubeledger.ingest.sources.items import CpuManagerState, MemoryManagerState
from kubeledger.kubelet.cpumanager.state_checkpoint import read_cpu_manager_state
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryReleased,
    MemoryStateRefused,
    MemoryTable,
)
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

# From lines and state files of the CPU manager to its observations and decisions.
#
# An allocation is reported by five lines or so: Allocate, the affinity, AllocateCPUs with the
# number,
# the shared pool, AllocateCPUs with the result, the container's set. A release is reported by
# RemoveContainer and, if the container had CPUs of its own, the shared pool. The container's set
# is written again by the loop that reconciles cgroups, for every container, and so shows nothing
# by itself. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21 to 1.36.

_FILE, _POLICY = "cpu_manager.go", "policy_static.go"
_START_NS = 2 * NS_PER_S


class _CpuAllocation(Allocation):
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

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._machine = CpuMachine()
        self._started: Waiting[CpuManagerStarted] | None = None
        self._allocation: _CpuAllocation | None = None
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
            self.registers.refused_state = self.queue.add(shown(entry, body))

    @reads("Static policy: Allocate")
    def _allocate(self, entry: Entry) -> None:
        self._allocation = _CpuAllocation(self.subject_of(entry), (entry.evidence,), entry.ts_ns)

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
        elif removing is not None and removing.ends_with(entry):
            self._removing = None
            holder = removing.subject.holder
            self.give_back(holder, entry, *removing.evidence, default_cpu_set=cpus)
        elif cpus is not None and started is not None:
            # Without a file the pool is set to all CPUs; from one, the assignments follow.
            restored = from_file(started.body, cpus)
            self._record_start(entry, default_cpu_set=cpus, restored=restored)

    def _result(self, entry: Entry, allocation: _CpuAllocation, cpus: str | None) -> None:
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
        self._removing = Allocation(self.subject_of(entry), (entry.evidence,), entry.ts_ns)

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


# From lines and state files of the memory manager to its observations and decisions.
#
# Lines show who got memory and which affinity it had; how much, and on which nodes, only the
# state file shows. All its lines are structured, for it came with 1.21.

_MANAGER = "memory_manager.go"
_MEMORY_POLICY = "policy_static.go"
_MEMORY_START_NS = 5 * NS_PER_S
_TABLE_KEYS = ("total", "systemReserved", "allocatable", "reserved", "free")
_TABLE_TEXT = regex(
    r"\{TotalMemSize:(\d+) SystemReserved:(\d+) Allocatable:(\d+) Reserved:(\d+) Free:(\d+)\}"
)
Blocks = tuple[MemoryBlock, ...]


class _MemoryAllocation(Allocation):
    """An allocation under way, with its NUMA nodes once they are logged."""

    affinity: tuple[int, ...] | None = None


class MemoryAssembler(ResourceManagerAssembler[Blocks]):
    """Starts of the memory manager, memory given and taken back, refusals and the state file."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._started: Waiting[MemoryManagerStarted] | None = None
        self._allocating: _MemoryAllocation | None = None
        self._removing: Allocation | None = None
        self._difference: tuple[Evidence, dict[str, Any]] | None = None

    @reads("Starting memorymanager")
    def _starting(self, entry: Entry) -> None:
        self._allocating = self._removing = self._difference = None
        policy = entry.text("policy")
        if policy != "None":  # which does nothing, and the settings show it
            body = MemoryManagerStarted(policy=policy)
            self._started = self.queue.hold(shown(entry, body), _MEMORY_START_NS)

    @reads("State checkpoint: restored state from checkpoint")
    def _restored(self, entry: Entry) -> None:
        """The CPU manager's line is the same, and stands before the memory manager starts."""
        self._record_start(restored=True)
        if self._started is not None:
            self._started.join(entry.evidence)

    def is_quiet(self) -> bool:
        """Whether it has not started."""
        return self._started is None and self.queue.is_empty

    @ends(*HEARTBEAT)
    def _beat(self, entry: Entry) -> None:
        """A line of greater verbosity than that of a file restored: there was none."""
        self._record_start(restored=False)

    def _record_start(self, *, restored: bool) -> None:
        started = self._started
        if started is not None and started.is_open and started.body.restored is None:
            started.learn(restored=restored)
            started.settle()
            if not restored:
                self.drop_before(started.fact.ts_ns)

    @reads("Memory states for the NUMA node and resource are different")
    def _differs(self, entry: Entry) -> None:
        """Each table that differs is reported; the first is enough."""
        fields = {
            "numa_node": entry.number("node"),
            "type": entry.get("resource"),
            "stored": _table(entry.values.get("memoryState1")),
            "expected": _table(entry.values.get("memoryState2")),
        }
        self._difference = self._difference or (entry.evidence, fields)

    @reads("Invalid state, please drain node and remove policy state file")
    def _refused_state(self, entry: Entry) -> None:
        found, self._difference = self._difference, None
        body = MemoryStateRefused(error=entry.text("err"), **(found[1] if found else {}))
        evidence = (found[0],) if found else ()
        self.registers.refused_state = self.queue.add(shown(entry, body, *evidence))

    @reads("Allocate")
    def _allocate(self, entry: Entry) -> None:
        if entry.line.file == _MEMORY_POLICY:
            self._allocating = _MemoryAllocation(
                self.subject_of(entry), (entry.evidence,), entry.ts_ns
            )
            self._removing = None

    @reads("Container already present in state, skipping")
    def _present(self, entry: Entry) -> None:
        self._allocating = None

    @reads("Got topology affinity")
    def _aligned(self, entry: Entry) -> None:
        current, hint = self._allocating, hint_of(entry.values.get("hint"))
        if current is not None:
            uid = self.subject_of(entry).uid or current.subject.uid
            current.subject = msgspec.structs.replace(current.subject, uid=uid)
            current.evidence += (entry.evidence,)
            current.affinity = hint.numa_nodes if hint is not None else None

    @reads("Updated machine memory state")
    def _machine(self, entry: Entry) -> None:
        """The tables of the NUMA nodes have changed: so a removal was one of something held."""
        removing, self._removing = self._removing, None
        if removing is not None and removing.ends_with(entry):
            self.give_back(removing.subject.holder, entry, *removing.evidence)

    @reads("Updated memory state")
    def _updated(self, entry: Entry) -> None:
        """A container's blocks are written; those of init containers again, for their reuse."""
        subject, current = self.subject_of(entry), self._allocating
        if current is None or subject.container != current.subject.container:
            return
        if current.subject.uid not in (None, subject.uid):
            return
        self._allocating = None
        blocks = self.context.memory_of(*subject.holder, entry.ts_ns)
        body = MemoryAllocated(
            namespace=subject.namespace or current.subject.namespace,
            pod=subject.pod or current.subject.pod,
            pod_uid=subject.uid,
            container=subject.holder[1],
            affinity=current.affinity,
            blocks=blocks.blocks if blocks is not None else None,
        )
        from_file = (blocks.evidence,) if blocks is not None else ()
        self.take(subject.holder, body.blocks or (), entry.ts_ns)
        self.queue.add(shown(entry, body, *current.evidence, *from_file))

    @reads("Allocate error")
    def _failed(self, entry: Entry) -> None:
        current = self._allocating
        if entry.line.file == _MANAGER and current is not None:
            self._allocating = None
            body = MemoryAllocationFailed(**current.subject.names, error=entry.text("err"))
            self.queue.add(shown(entry, body, *current.evidence))

    @reads("RemoveContainer")
    def _remove(self, entry: Entry) -> None:
        """The topology manager writes the same word, and not here."""
        if entry.line.file == _MEMORY_POLICY:
            self._removing = Allocation(self.subject_of(entry), (entry.evidence,), entry.ts_ns)

    @takes(MemoryManagerState)
    def _state_file(self, item: MemoryManagerState) -> None:
        from kubeledger.kubelet.memorymanager.checkpoint import read_memory_manager_state

        body = self.read_file(item, read_memory_manager_state)
        if body is not None:
            from_file = {
                (uid, container): blocks
                for uid, containers in body.assignments.items()
                for container, blocks in containers.items()
            }
            self.compare(item, from_file)

    def released(self, holder: Holder, *, inferred: bool = False) -> MemoryReleased:
        """Memory is given back."""
        return MemoryReleased(**self.names_of(holder), inferred=inferred)

    def given_by_file(self, holder: Holder, what: Blocks) -> MemoryAllocated:
        """Memory that a container has by the state file."""
        return MemoryAllocated(**self.names_of(holder), blocks=what, told_by="state_file")


def _table(value: object) -> MemoryTable | None:
    """A table as JSON, or as Go prints it, up to 1.26."""
    if match := _TABLE_TEXT.fullmatch(str(value)):
        value = {key: int(number) for key, number in zip(_TABLE_KEYS, match.groups(), strict=True)}
    if not isinstance(value, dict):
        return None
    from kubeledger.kubelet.memorymanager.checkpoint import memory_table  # few lines have one

    try:
        return memory_table(value)
    except MalformedCheckpointError:
        return None
