"""From lines and state files of the CPU manager to its observations and decisions.

An allocation is reported by five lines or so: Allocate, the affinity, AllocateCPUs with the number,
the shared pool, AllocateCPUs with the result, the container's set. A release is reported by
RemoveContainer and, if the container had CPUs of its own, the shared pool. The container's set
is written again by the loop that reconciles cgroups, for every container, and so shows nothing
by itself. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21 to 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Method, nothing
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.resource_managers import ResourceManagerAssembler, Subject
from kubeledger.ingest.messages.cpu_machine import CpuMachine, from_file, sound_set
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of
from kubeledger.ingest.sources.facts import Fact
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

__all__ = ["CpuAssembler"]

_FILE, _POLICY = "cpu_manager.go", "policy_static.go"
_START_NS = 2 * NS_PER_S


class _Allocation(msgspec.Struct):
    """An allocation under way.

    Attributes:
        requested: None until the lines show, as for the others.
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

    def messages(self) -> Mapping[str, Method]:
        """Message -> method for structured lines."""
        return {
            **dict.fromkeys(HEARTBEAT, nothing),
            "Starting CPU manager": self._starting,
            "Static policy created with configuration": self._options,
            "Static policy invalid state, please drain node and remove policy state file": (
                self._refused_state
            ),
            "Static policy: Allocate": self._allocate,
            "Unable to allocate CPUs": self._failed,
            "Allocate error": self._failed,
            "Static policy: RemoveContainer": self._remove,
            "Detected CPU topology": self._topology,
            "Reserved CPUs not available for exclusive assignment": self._reserve,
            "Updated CPUSet assignments": self._restored,
            "Static policy: container already present in state, skipping": self._present,
            "Topology Affinity": self._affinity,
            "Topology Affinity of CPUs": self._affinity,
            "AllocateCPUs": self._allocate_cpus,
            "Updated default CPUSet": self._default,
            "Updated desired CPUSet": self._desired,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """The state file."""
        return {CpuManagerState: self._state_file}

    def _topology(self, entry: Entry) -> None:
        self._machine.topology(entry.values.get("topology"))

    def _options(self, entry: Entry) -> None:
        self._machine.options(entry.values.get("options"))

    def _reserve(self, entry: Entry) -> None:
        self._machine.reserve(entry.get("reserved"))

    def _starting(self, entry: Entry) -> None:
        if entry.line.file != _FILE:
            return
        self._allocation = self._removing = None
        policy = entry.get("policy") or "none"
        if policy != "static":
            return  # the settings show it, and this policy does nothing
        body = CpuManagerStarted(policy=policy, **self._machine.reported)
        fact = Fact(entry.ts_ns, body, (entry.evidence,))
        self._started = self.queue.hold(fact, _START_NS)

    def _restored(self, entry: Entry) -> None:
        """The state file's assignments replace what the new process began with."""
        self._record_start(entry, None)

    def _record_start(self, entry: Entry, default: str | None) -> None:
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
        self._started.join(entry.evidence)
        if fact.body.restored is False:
            self.drop_before(fact.ts_ns)

    def _refused_state(self, entry: Entry) -> None:
        fact = Fact(entry.ts_ns, CpuStateRefused(error=entry.text("err")), (entry.evidence,))
        self.refused_state = self.queue.add(fact)

    def _allocate(self, entry: Entry) -> None:
        self._begin(self.subject_of(entry))

    def _present(self, entry: Entry) -> None:
        self._begin(None)

    def _begin(self, subject: Subject | None) -> None:
        self._allocation = None if subject is None else _Allocation(subject)

    def _affinity(self, entry: Entry) -> None:
        """The topology manager writes the same words, and not here."""
        hint = hint_of(entry.values.get("affinity")) if entry.line.file == _POLICY else None
        if self._allocation is not None and hint is not None:
            self._allocation.numa_nodes = hint.numa_nodes
            self._allocation.subject.evidence += (entry.evidence,)

    def _allocate_cpus(self, entry: Entry) -> None:
        if result := entry.get("result"):
            self._result(entry, result)
        elif self._allocation is not None and self._allocation.waiting is None:
            self._allocation.requested = entry.number("numCPUs")
            self._allocation.subject.evidence += (entry.evidence,)

    def _default(self, entry: Entry) -> None:
        """The shared pool has changed: a container got CPUs, gave some back, or all begins."""
        cpus = sound_set(entry.get("cpuSet"))
        allocation, removing = self._allocation, self._removing
        if allocation is not None and allocation.requested is not None:
            if allocation.waiting is None:
                allocation.default_cpu_set = cpus
                allocation.subject.evidence += (entry.evidence,)
        elif removing is not None and removing.uid is not None:
            self._removing = None
            body = self.released(removing.uid, removing.container)
            body = msgspec.structs.replace(body, default_cpu_set=cpus)
            self.drop(removing.uid, removing.container)
            self.queue.add(Fact(entry.ts_ns, body, (*removing.evidence, entry.evidence)))
        elif cpus is not None:
            # Without a file the pool is set to all CPUs; from one, the assignments follow.
            self._record_start(entry, cpus)

    def _result(self, entry: Entry, text: str) -> None:
        allocation, cpus = self._allocation, sound_set(text)
        if allocation is None or allocation.waiting is not None or not cpus:
            return
        subject = allocation.subject
        body = CpusAllocated(
            **subject.names,
            cpu_set=cpus,
            requested=allocation.requested,
            numa_nodes=allocation.numa_nodes,
            default_cpu_set=allocation.default_cpu_set,
        )
        evidence = (entry.evidence, *subject.evidence)
        allocation.waiting = self.queue.hold(Fact(entry.ts_ns, body, evidence))
        if subject.uid is not None:
            self.take(subject.uid, subject.container, cpus, entry.ts_ns)

    def _desired(self, entry: Entry) -> None:
        subject = self.subject_of(entry)
        if subject is not None:
            self._confirm(entry, subject)

    def _confirm(self, entry: Entry, subject: Subject) -> None:
        """The set of a container is written: the one just decided ends with it."""
        allocation = self._allocation
        fact = allocation.waiting.fact if allocation and allocation.waiting else None
        body = fact.body if fact is not None else None
        if allocation is None or allocation.waiting is None or fact is None:
            return
        if not isinstance(body, CpusAllocated):
            return
        named = body.pod is None or subject.pod in (None, body.pod)
        cpus = sound_set(entry.get("cpuSet"))
        if not named or (subject.container, cpus) != (body.container, body.cpu_set):
            return
        allocation.waiting.join(entry.evidence)
        fact.body = msgspec.structs.replace(
            body,
            namespace=subject.namespace or body.namespace,
            pod=subject.pod or body.pod,
            pod_uid=subject.uid,
        )
        allocation.waiting.settle()
        self._allocation = None
        if subject.uid is not None:
            self.take(subject.uid, body.container, body.cpu_set, entry.ts_ns)

    def _failed(self, entry: Entry) -> None:
        """Two lines report one failure: the policy's and the manager's."""
        allocation = self._allocation
        if allocation is None or entry.line.file not in (_FILE, _POLICY):
            return
        if allocation.waiting is not None:
            allocation.waiting.join(entry.evidence)
            return
        subject = allocation.subject
        body = CpuAllocationFailed(
            **subject.names,
            requested=allocation.requested,
            error=entry.text("err"),
        )
        evidence = (entry.evidence, *subject.evidence)
        allocation.waiting = self.queue.hold(Fact(entry.ts_ns, body, evidence))

    def _remove(self, entry: Entry) -> None:
        self._allocation, self._removing = None, self.subject_of(entry)

    def _state_file(self, item: CpuManagerState) -> None:
        body = self.read_file(item, lambda data: self._named(read_cpu_manager_state(data)))
        if body is not None:
            sets = ((uid, *of) for uid, found in body.assignments.items() for of in found.items())
            self.compare(item, {(uid, container): cpus for uid, container, cpus in sets if uid})

    def released(self, uid: str, container: str, *, inferred: bool = False) -> CpusReleased:
        """CPUs go back to the shared pool."""
        cpus = self.held(uid, container)
        return CpusReleased(**self.names_of(uid, container), cpu_set=cpus, inferred=inferred)

    def given_by_file(self, uid: str, container: str, what: str) -> CpusAllocated:
        """CPUs that a container has by the state file."""
        return CpusAllocated(**self.names_of(uid, container), cpu_set=what, told_by="state_file")

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
