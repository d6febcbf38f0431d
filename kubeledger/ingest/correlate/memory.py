"""From lines and state files of the memory manager to its observations and decisions.

Lines show who got memory and which affinity it had; how much, and on which nodes, only the
state file shows. All its lines are structured, for it came with 1.21.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Method
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.resource_managers import ResourceManagerAssembler, Subject
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import MemoryManagerState
from kubeledger.kubelet.kube.checkpoints import MalformedCheckpointError
from kubeledger.kubelet.memorymanager.checkpoint import memory_table, read_memory_manager_state
from kubeledger.model.bodies.memorymanager import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryReleased,
    MemoryStateRefused,
    MemoryTable,
)
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["MemoryAssembler"]

_MANAGER = "memory_manager.go"
_POLICY = "policy_static.go"
_START_NS = 5 * NS_PER_S
_TABLE_KEYS = ("total", "systemReserved", "allocatable", "reserved", "free")
_TABLE_TEXT = re.compile(
    r"\{TotalMemSize:(\d+) SystemReserved:(\d+) Allocatable:(\d+) Reserved:(\d+) Free:(\d+)\}"
)
Blocks = tuple[MemoryBlock, ...]


class _Refusal(msgspec.Struct):
    """A difference between the state file and the machine."""

    evidence: Evidence
    numa_node: int | None
    type: str | None
    stored: MemoryTable | None
    expected: MemoryTable | None


class MemoryAssembler(ResourceManagerAssembler[Blocks]):
    """Starts of the memory manager, memory given and taken back, refusals and the state file."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._started: Waiting | None = None
        self._allocating: Subject | None = None
        self._affinity: tuple[int, ...] | None = None
        self._removing: Subject | None = None
        self._difference: _Refusal | None = None

    def messages(self) -> Mapping[str, Method]:
        """Message -> method for structured lines."""
        return {
            **dict.fromkeys(HEARTBEAT, self._beat),
            "Starting memorymanager": self._starting,
            "State checkpoint: restored state from checkpoint": self._restored,
            "Memory states for the NUMA node and resource are different": self._differs,
            "Invalid state, please drain node and remove policy state file": self._refused_state,
            "Allocate": self._allocate,
            "Container already present in state, skipping": self._present,
            "Got topology affinity": self._aligned,
            "Updated machine memory state": self._machine,
            "Updated memory state": self._updated,
            "Allocate error": self._failed,
            "RemoveContainer": self._remove,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """The state file."""
        return {MemoryManagerState: self._state_file}

    def _starting(self, entry: Entry) -> None:
        self._allocating = self._removing = self._difference = None
        policy = entry.get("policy")
        if policy in (None, "None"):
            return  # the settings show it, and this policy does nothing
        body = MemoryManagerStarted(policy=policy)
        self._started = self.queue.hold(Fact(entry.ts_ns, body, (entry.evidence,)), _START_NS)

    def _restored(self, entry: Entry) -> None:
        """The CPU manager's line is the same, and stands before the memory manager starts."""
        self._record_start(restored=True)
        if self._started is not None:
            self._started.join(entry.evidence)

    def _beat(self, entry: Entry) -> None:
        """A line of greater verbosity than that of a file restored: there was none."""
        self._record_start(restored=False)

    def _record_start(self, *, restored: bool) -> None:
        started, fact = self._started, self._started.fact if self._started else None
        if started is None or fact is None:
            return
        assert isinstance(fact.body, MemoryManagerStarted)
        if fact.body.restored is None:
            fact.body = msgspec.structs.replace(fact.body, restored=restored)
            started.settle()
            if not restored:
                self.drop_before(fact.ts_ns)

    def _differs(self, entry: Entry) -> None:
        """Each table that differs is reported; the first is enough."""
        values = entry.values
        if self._difference is None:
            self._difference = _Refusal(
                entry.evidence,
                entry.number("node"),
                entry.get("resource"),
                _table(values.get("memoryState1")),
                _table(values.get("memoryState2")),
            )

    def _refused_state(self, entry: Entry) -> None:
        found, self._difference = self._difference, None
        body = MemoryStateRefused(error=entry.get("err") or "")
        evidence: tuple[Evidence, ...] = (entry.evidence,)
        if found is not None:
            fields = msgspec.structs.asdict(found)
            evidence = (entry.evidence, fields.pop("evidence"))
            body = msgspec.structs.replace(body, **fields)
        self.refused_state = self.queue.add(Fact(entry.ts_ns, body, evidence))

    def _allocate(self, entry: Entry) -> None:
        if entry.line.file == _POLICY:
            self._allocating = self.subject_of(entry)
            self._affinity = self._removing = None

    def _present(self, entry: Entry) -> None:
        self._allocating = None

    def _aligned(self, entry: Entry) -> None:
        subject, hint = self.subject_of(entry), hint_of(entry.values.get("hint"))
        if self._allocating is None or subject is None:
            return
        self._allocating.uid = subject.uid or self._allocating.uid
        self._allocating.evidence += (entry.evidence,)
        self._affinity = hint.numa_nodes if hint is not None else None

    def _machine(self, entry: Entry) -> None:
        """The tables of the NUMA nodes have changed: so a removal was one of something held."""
        subject, self._removing = self._removing, None
        if subject is None or subject.uid is None:
            return
        body = self.released(subject.uid, subject.container)
        self.drop(subject.uid, subject.container)
        self.queue.add(Fact(entry.ts_ns, body, (*subject.evidence, entry.evidence)))

    def _updated(self, entry: Entry) -> None:
        """A container's blocks are written; those of init containers again, for their reuse."""
        subject, current = self.subject_of(entry), self._allocating
        if subject is None or current is None or subject.container != current.container:
            return
        if current.uid is not None and subject.uid != current.uid:
            return
        self._allocating = None
        uid = subject.uid or ""
        blocks = self.context.memory_of(uid, subject.container, entry.ts_ns)
        body = MemoryAllocated(
            namespace=subject.namespace or current.namespace,
            pod=subject.pod or current.pod,
            pod_uid=subject.uid,
            container=subject.container,
            affinity=self._affinity,
            blocks=blocks.blocks if blocks is not None else None,
        )
        from_file = (blocks.evidence,) if blocks is not None else ()
        evidence = (entry.evidence, *current.evidence, *from_file)
        self.take(uid, subject.container, body.blocks or (), entry.ts_ns)
        self.queue.add(Fact(entry.ts_ns, body, evidence))

    def _failed(self, entry: Entry) -> None:
        subject = self._allocating
        if entry.line.file != _MANAGER or subject is None:
            return
        self._allocating = None
        body = MemoryAllocationFailed(
            **subject.names,
            error=entry.get("err") or "",
        )
        self.queue.add(Fact(entry.ts_ns, body, (entry.evidence, *subject.evidence)))

    def _remove(self, entry: Entry) -> None:
        """The topology manager writes the same word, and not here."""
        if entry.line.file == _POLICY:
            self._removing = self.subject_of(entry)

    def _state_file(self, item: MemoryManagerState) -> None:
        body = self.read_file(item, read_memory_manager_state)
        if body is not None:
            from_file = {
                (uid, container): blocks
                for uid, containers in body.assignments.items()
                for container, blocks in containers.items()
            }
            self.compare(item, from_file)

    def released(self, uid: str, container: str, *, inferred: bool = False) -> MemoryReleased:
        """Memory is given back."""
        return MemoryReleased(**self.names_of(uid, container), inferred=inferred)

    def given_by_file(self, uid: str, container: str, what: Blocks) -> MemoryAllocated:
        """Memory that a container has by the state file."""
        return MemoryAllocated(**self.names_of(uid, container), blocks=what, told_by="state_file")


def _table(value: object) -> MemoryTable | None:
    """A table as JSON, or as Go prints it, up to 1.26."""
    if match := _TABLE_TEXT.fullmatch(str(value)):
        value = {key: int(number) for key, number in zip(_TABLE_KEYS, match.groups(), strict=True)}
    if not isinstance(value, dict):
        return None
    try:
        return memory_table(value)
    except MalformedCheckpointError:
        return None
