"""From lines and state files of the memory manager to its observations and decisions.

Lines show who got memory and which affinity it had; how much, and on which nodes, only the
state file shows. All its lines are structured, for it came with 1.21.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Entry, reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.resource_managers import (
    Allocation,
    Holder,
    ResourceManagerAssembler,
)
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of
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

_MANAGER = "memory_manager.go"
_POLICY = "policy_static.go"
_START_NS = 5 * NS_PER_S
_TABLE_KEYS = ("total", "systemReserved", "allocatable", "reserved", "free")
_TABLE_TEXT = re.compile(
    r"\{TotalMemSize:(\d+) SystemReserved:(\d+) Allocatable:(\d+) Reserved:(\d+) Free:(\d+)\}"
)
Blocks = tuple[MemoryBlock, ...]


class _Allocation(Allocation):
    """An allocation under way, with its NUMA nodes once they are logged."""

    affinity: tuple[int, ...] | None = None


class MemoryAssembler(ResourceManagerAssembler[Blocks]):
    """Starts of the memory manager, memory given and taken back, refusals and the state file."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._started: Waiting[MemoryManagerStarted] | None = None
        self._allocating: _Allocation | None = None
        self._removing: Allocation | None = None
        self._difference: tuple[Evidence, dict[str, Any]] | None = None

    @reads("Starting memorymanager")
    def _starting(self, entry: Entry) -> None:
        self._allocating = self._removing = self._difference = None
        policy = entry.text("policy")
        if policy != "None":  # which does nothing, and the settings show it
            body = MemoryManagerStarted(policy=policy)
            self._started = self.queue.hold(shown(entry, body), _START_NS)

    @reads("State checkpoint: restored state from checkpoint")
    def _restored(self, entry: Entry) -> None:
        """The CPU manager's line is the same, and stands before the memory manager starts."""
        self._record_start(restored=True)
        if self._started is not None:
            self._started.join(entry.evidence)

    @reads(*HEARTBEAT)
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
        self.refused_state = self.queue.add(shown(entry, body, *evidence))

    @reads("Allocate")
    def _allocate(self, entry: Entry) -> None:
        if entry.line.file == _POLICY:
            self._allocating = _Allocation(self.subject_of(entry), (entry.evidence,), entry.ts_ns)
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
        if entry.line.file == _POLICY:
            self._removing = Allocation(self.subject_of(entry), (entry.evidence,), entry.ts_ns)

    @takes(MemoryManagerState)
    def _state_file(self, item: MemoryManagerState) -> None:
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
    try:
        return memory_table(value)
    except MalformedCheckpointError:
        return None
