"""From lines and state files of the CPU manager to its observations and decisions.

An allocation is told by five lines or so: Allocate, the affinity, AllocateCPUs with the number,
the shared pool, AllocateCPUs with the result, the container's set. A release is told by
RemoveContainer and, if the container had CPUs of its own, the shared pool. The container's set
is written again by the loop that reconciles cgroups, for every container, and so tells nothing
by itself. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21 to 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.ingest.correlate.assembler import ItemHandler, StructuredHandler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.queued import LineMethod, nothing
from kubeledger.ingest.correlate.resource_managers import ResourceManagerAssembler, Subject
from kubeledger.ingest.klog.line_values import integer, text_of
from kubeledger.ingest.messages.cpu_machine import CpuMachine, from_file, sound_set
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import CpuManagerState, Item, LogLine
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

__all__ = ["CpuAssembler"]

_FILE = "cpu_manager.go"
_START_NS = 2 * NS_PER_S


class _Allocation(msgspec.Struct):
    """An allocation under way.

    Attributes:
        requested: None until the lines tell, as for the others.
        waiting: the decision, once it is made.
    """

    subject: Subject
    numa_nodes: tuple[int, ...] | None = None
    requested: int | None = None
    default_cpu_set: str | None = None
    waiting: Waiting | None = None


class CpuAssembler(ResourceManagerAssembler[str]):
    """Starts of the CPU manager, CPUs given and taken back, refusals and the state file."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._machine = CpuMachine()
        self._started: Waiting | None = None
        self._allocation: _Allocation | None = None
        self._removing: Subject | None = None

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method for structured lines."""
        methods: dict[str, LineMethod] = dict.fromkeys(HEARTBEAT, nothing)
        methods |= {
            "Detected CPU topology": lambda line: self._machine.topology(
                line, (line.values or {}).get("topology")
            ),
            "Static policy created with configuration": self._machine.options,
            "created with configuration": self._machine.options,
            "Reserved CPUs not available for exclusive assignment": (
                lambda line: self._machine.reserve(line, text_of(line, "reserved"))
            ),
            "Starting CPU manager": self._starting,
            "Starting": self._starting,
            "Updated CPUSet assignments": self._restored,
            "Static policy invalid state, please drain node and remove policy state file": (
                lambda line: self._refuse_state(line, text_of(line, "err") or "")
            ),
            "invalid state, please drain node and remove policy state file": (
                lambda line: self._refuse_state(line, text_of(line, "err") or "")
            ),
            "Static policy: Allocate": lambda line: self._allocate(self.subject_of(line)),
            "Allocate start": lambda line: self._allocate(self.subject_of(line)),
            "Static policy: container already present in state, skipping": (
                lambda line: self._allocate(None)
            ),
            "Topology Affinity": self._affinity,
            "Topology Affinity of CPUs": self._aligned,
            "AllocateCPUs": self._allocate_cpus,
            "Updated default CPUSet": lambda line: self._default(line, text_of(line, "cpuSet")),
            "Updated desired CPUSet": self._desired,
            "Unable to allocate CPUs": self._failed,
            "Allocate error": self._failed,
            "policy error": self._failed,
            "Static policy: RemoveContainer": lambda line: self._remove(self.subject_of(line)),
            "RemoveContainer start": lambda line: self._remove(self.subject_of(line)),
        }
        return self.then_release(methods)

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type -> method."""
        return {CpuManagerState: self._state_file}

    def _starting(self, line: LogLine) -> None:
        if line.file == _FILE:
            self._start(line, text_of(line, "policy") or "none")

    def _start(self, line: LogLine, policy: str) -> None:
        self._allocation = self._removing = None
        if policy != "static":
            return  # the settings tell it, and this policy does nothing
        body = CpuManagerStarted(policy=policy, **self._machine.told)
        fact = Fact(line.ts_ns, body, (line.evidence,))
        self._started = self.queue.hold(fact, _START_NS)

    def _restored(self, line: LogLine) -> None:
        """The state file's assignments replace what the new process began with."""
        self._tell_start(line, None)

    def _tell_start(self, line: LogLine, default: str | None) -> None:
        """The first shared pool of a new process; None: its assignments, from a file."""
        fact = self._started.fact if self._started is not None else None
        if self._started is None or fact is None:
            return
        assert isinstance(fact.body, CpuManagerStarted)
        if default is None:
            fact.body = msgspec.structs.replace(fact.body, restored=True)
        else:
            restored = from_file(fact.body, default)
            fact.body = msgspec.structs.replace(
                fact.body, default_cpu_set=default, restored=restored
            )
        self._started.join(line.evidence)
        if fact.body.restored is False:
            self.drop_before(fact.ts_ns)

    def _refuse_state(self, line: LogLine, error: str) -> None:
        fact = Fact(line.ts_ns, CpuStateRefused(error=error), (line.evidence,))
        self.context.links.refused_state = self.queue.add(fact)

    def _allocate(self, subject: Subject | None) -> None:
        self._allocation = None if subject is None else _Allocation(subject)

    def _affinity(self, line: LogLine) -> None:
        """The topology manager writes the same words, and not here."""
        if line.file == "policy_static.go":
            self._aligned(line)

    def _aligned(self, line: LogLine) -> None:
        hint = hint_of((line.values or {}).get("affinity"))
        if self._allocation is not None and hint is not None:
            self._allocation.numa_nodes = hint.numa_nodes
            self._allocation.subject.evidence += (line.evidence,)

    def _allocate_cpus(self, line: LogLine) -> None:
        if result := text_of(line, "result"):
            self._result(line, result)
        else:
            self._asked(line, text_of(line, "numCPUs"))

    def _asked(self, line: LogLine, count: str | None) -> None:
        if self._allocation is not None and self._allocation.waiting is None:
            self._allocation.requested = integer(count)
            self._allocation.subject.evidence += (line.evidence,)

    def _default(self, line: LogLine, text: str | None) -> None:
        """The shared pool has changed: a container got CPUs, gave some back, or all begins."""
        cpus = sound_set(text)
        allocation, removing = self._allocation, self._removing
        if allocation is not None and allocation.requested is not None:
            if allocation.waiting is None:
                allocation.default_cpu_set = cpus
                allocation.subject.evidence += (line.evidence,)
        elif removing is not None and removing.uid is not None:
            self._removing = None
            body = self.released(removing.uid, removing.container)
            body = msgspec.structs.replace(body, default_cpu_set=cpus)
            self.drop(removing.uid, removing.container)
            self.queue.add(Fact(line.ts_ns, body, (*removing.evidence, line.evidence)))
        elif cpus is not None:
            # Without a file the pool is set to all CPUs; from one, the assignments follow.
            self._tell_start(line, cpus)

    def _result(self, line: LogLine, text: str | None) -> None:
        allocation, cpus = self._allocation, sound_set(text)
        if allocation is None or allocation.waiting is not None or not cpus:
            return
        subject = allocation.subject
        body = CpusAllocated(
            namespace=subject.namespace,
            pod=subject.pod,
            pod_uid=subject.uid,
            container=subject.container,
            cpu_set=cpus,
            requested=allocation.requested,
            numa_nodes=allocation.numa_nodes,
            default_cpu_set=allocation.default_cpu_set,
        )
        evidence = (line.evidence, *subject.evidence)
        allocation.waiting = self.queue.hold(Fact(line.ts_ns, body, evidence))
        if subject.uid is not None:
            self.take(subject.uid, subject.container, cpus, line.ts_ns)

    def _desired(self, line: LogLine) -> None:
        subject = self.subject_of(line)
        if subject is not None:
            self._confirm(line, subject, text_of(line, "cpuSet"))

    def _confirm(self, line: LogLine, subject: Subject, cpus: str | None) -> None:
        """The set of a container is written: the one just decided ends with it."""
        allocation = self._allocation
        fact = allocation.waiting.fact if allocation and allocation.waiting else None
        body = fact.body if fact is not None else None
        if allocation is None or allocation.waiting is None or fact is None:
            return
        if not isinstance(body, CpusAllocated):
            return
        named = body.pod is None or subject.pod in (None, body.pod)
        if not named or (subject.container, sound_set(cpus)) != (body.container, body.cpu_set):
            return
        allocation.waiting.join(line.evidence)
        fact.body = msgspec.structs.replace(
            body,
            namespace=subject.namespace or body.namespace,
            pod=subject.pod or body.pod,
            pod_uid=subject.uid,
        )
        allocation.waiting.settle()
        self._allocation = None
        if subject.uid is not None:
            self.take(subject.uid, body.container, body.cpu_set, line.ts_ns)

    def _failed(self, line: LogLine) -> None:
        if line.file in (_FILE, "policy_static.go"):
            self._fail(line, text_of(line, "err") or "")

    def _fail(self, line: LogLine, error: str) -> None:
        """Two lines tell of one failure: the policy's and the manager's."""
        allocation = self._allocation
        if allocation is None:
            return
        if allocation.waiting is not None:
            allocation.waiting.join(line.evidence)
            return
        subject = allocation.subject
        body = CpuAllocationFailed(
            namespace=subject.namespace,
            pod=subject.pod,
            pod_uid=subject.uid,
            container=subject.container,
            requested=allocation.requested,
            error=error,
        )
        evidence = (line.evidence, *subject.evidence)
        allocation.waiting = self.queue.hold(Fact(line.ts_ns, body, evidence))

    def _remove(self, subject: Subject | None) -> None:
        self._allocation = None
        self._removing = subject

    def _state_file(self, item: Item) -> Facts:
        assert isinstance(item, CpuManagerState)
        due = self.queue.release(item.ts_ns)
        body = self.read_file(item, lambda data: self._named(read_cpu_manager_state(data)))
        if body is not None:
            sets = ((uid, *of) for uid, found in body.assignments.items() for of in found.items())
            self.compare(item, {(uid, container): cpus for uid, container, cpus in sets if uid})
        return [*due, *self.queue.release(item.ts_ns)]

    def released(self, uid: str, container: str, *, inferred: bool = False) -> CpusReleased:
        """CPUs go back to the shared pool."""
        namespace, pod = self.name_of(uid)
        return CpusReleased(
            namespace=namespace,
            pod=pod,
            pod_uid=uid,
            container=container,
            cpu_set=self.held(uid, container),
            inferred=inferred,
        )

    def given_by_file(self, uid: str, container: str, what: str) -> CpusAllocated:
        """CPUs that a container has by the state file."""
        namespace, pod = self.name_of(uid)
        return CpusAllocated(
            namespace=namespace,
            pod=pod,
            pod_uid=uid,
            container=container,
            cpu_set=what,
            told_by="state_file",
        )

    def _named(self, body: CpuManagerStateRead) -> CpuManagerStateRead:
        """Container IDs of the v1 form replaced by pod UID and name, where they are known."""
        assignments = {uid: dict(sets) for uid, sets in body.assignments.items() if uid}
        for container_id, cpus in body.assignments.get("", {}).items():
            whose = self.context.containers.get(container_id)
            if whose is None or whose.container is None:
                assignments.setdefault("", {})[container_id] = cpus
            else:
                assignments.setdefault(whose.pod_uid, {})[whose.container] = cpus
        return msgspec.structs.replace(body, assignments=assignments)
