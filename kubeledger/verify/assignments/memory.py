"""Memory of NUMA nodes: given and taken back as the static policy could have done it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kubeledger.errors import BadInputError
from kubeledger.kube.pod import SIDECAR
from kubeledger.lifecycle.records import PodConfigChanged, PodTerminated
from kubeledger.machine import Body, Decision, Record
from kubeledger.memorymanager.decider import gets_memory, requested_memory, sizes_after_reuse
from kubeledger.memorymanager.records import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
)
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.verify.assignments.common import (
    FILE_NS,
    AssignmentVerifier,
    Holder,
    Spec,
    Whose,
    spec_of,
    whose,
)
from kubeledger.verify.assignments.numa_memory import Blocks, NumaMemory, reserved_bytes
from kubeledger.verify.bench import Bench
from kubeledger.verify.verifier import Foresee, See

__all__ = ["MemoryAssignmentVerifier"]

_FILE = "pkg/kubelet/cm/memorymanager/"
_ALLOCATE = f"{_FILE}policy_static.go Allocate"
_RELEASE = f"{_FILE}memory_manager.go removeStaleState"
_REUSED = f"{_FILE}memory_manager.go AddContainer"
_VALIDATE = f"{_FILE}policy_static.go validateState"
_NONE_FITS = "no NUMA nodes with enough memory is available"


class MemoryAssignmentVerifier(AssignmentVerifier):
    """The memory manager's decisions, judged again."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        MemoryAllocated,
        MemoryReleased,
        MemoryAllocationFailed,
        MemoryStateRefused,
    )

    file = "memory_manager_state"
    denied = "memory_manager_state lacks a container that got memory by the lines"

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._held: dict[Holder, tuple[Blocks | None, int]] = {}
        self._numa = NumaMemory()
        self._complete = False
        self._changed_ns = 0

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Which pods were alive by when, and what memory the machine has."""
        return {
            **super().foresees(),
            KubeletStarted: self._numa.foresee,
            MemoryManagerStateRead: self._numa.foresee,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """Decisions, what the manager began with, its file, and the ends of pods."""
        return {
            KubeletStarted: self._process_started,
            MemoryAllocated: self._allocated,
            MemoryAllocationFailed: self._failed,
            MemoryManagerStarted: self._started,
            MemoryManagerStateRead: self._file_read,
            MemoryReleased: self._released,
            MemoryStateRefused: self._state_refused,
            PodConfigChanged: lambda record, body, state: self._pods.added(body),
            PodTerminated: lambda record, body, state: self._pods.terminated(record, body),
        }

    def _process_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._pods.forget()
        self._numa.enter(record)
        if not body.from_start:
            # What it began with, and did until here, no line tells.
            self._held.clear()
            self._complete = False

    def _started(self, record: Record, body: MemoryManagerStarted, state: NodeState) -> None:
        if body.restored is False:
            self._held.clear()
        self._complete = body.restored is False or (self._complete and body.restored is True)

    def _file_read(self, record: Record, body: MemoryManagerStateRead, state: NodeState) -> None:
        if not self._relied_on(record, body.checksum, body.checksum_ok):
            return
        shown = {
            (uid, name): blocks
            for uid, containers in body.assignments.items()
            for name, blocks in containers.items()
        }
        if not self._complete:
            self._held = {holder: (blocks, record.seq) for holder, blocks in shown.items()}
            return
        sides = []
        for holder, (blocks, seq) in sorted(self._held.items()):
            if holder in shown:
                self._held[holder] = shown[holder], seq
            else:
                name = f"container {holder[1]} of {self._pod(holder)}"
                sides.append((seq, f"{name} has {_sizes(blocks)}"))
        if sides and record.ts_ns - self._changed_ns >= FILE_NS:
            self._doubt.raise_(record.ts_ns, (record.seq, "the file has no entry"), *sides)

    def _allocated(self, record: Record, body: MemoryAllocated, state: NodeState) -> None:
        self._overdue(record)
        self._doubt.decided(record.ts_ns)
        about, facts = whose(state, body), self._facts()
        if facts is None:
            self._unknown(record, about, _ALLOCATE, [self.bench.missing_profile])
        elif about.holder in self._held and self._complete and body.told_by == "log":
            why = "it had memory already, and what the state holds is left as it is"
            self._impossible(record, about, why, [self._held[about.holder][1]])
        else:
            self._judge(record, body, about, facts)
        self._held[about.holder] = body.blocks, record.seq
        self._changed_ns = record.ts_ns

    def _judge(
        self, record: Record, body: MemoryAllocated, about: Whose, facts: ResourceManagerFacts
    ) -> None:
        specs = spec_of(self.bench, record, body)
        seqs = [*(seq for spec in specs[:1] for seq in spec.seqs), *self._numa.seqs]
        readable = [spec for spec in specs if _gets(spec, facts) is not None]
        if readable and not any(_gets(spec, facts) for spec in readable):
            why = "only containers of Guaranteed pods get memory of NUMA nodes"
            self._impossible(record, about, why, seqs, certain=True)
            return
        wrong = self._wrong_blocks(body, readable, facts) or self._wrong_nodes(body)
        if wrong:
            self._impossible(record, about, wrong, seqs, certain=True, body=body)
        elif wrong := self._numa.too_much(body, about.holder, self._held):
            self._impossible(record, about, wrong, seqs, body=body)
        elif body.blocks is None or not readable or not self._numa.nodes:
            inputs = {
                "the pod's spec": readable,
                "memory_manager_state behind it": body.blocks is not None and self._numa.nodes,
            }
            missing = [name for name, value in inputs.items() if not value]
            self._unknown(record, about, _ALLOCATE, missing)
        else:
            only = len(self._numa.nodes) == 1 or body.affinity is not None
            choice = "" if only else "; others with room may be given as well"
            asked = requested_memory(readable[0].container)
            left = any(block.size_bytes != asked.get(block.type) for block in body.blocks)
            sizes = f"{'what later containers do not use again, ' if left else ''}"
            why = (
                f"it is in a Guaranteed pod and got what it requests, {sizes}"
                f"{_sizes(body.blocks)}, {self._room(body)}{choice}"
            )
            recorded = _plain(body)
            self.bench.find(record, "match" if only else "admissible", subject=about.subject,
                            why=why, rule=_ALLOCATE, inputs=seqs, expected=recorded,
                            recorded=recorded)  # fmt: skip

    def _wrong_blocks(
        self, body: MemoryAllocated, specs: list[Spec], facts: ResourceManagerFacts
    ) -> str:
        """Words for types and sizes that were not asked for; "" where all is well, as below."""
        if body.blocks is None or not specs:
            return ""
        told = {block.type: block.size_bytes for block in body.blocks}
        for spec in specs:
            asked = requested_memory(spec.container)
            if told.keys() == asked.keys() and all(
                size in sizes_after_reuse(spec.pod, body.container, name, facts)
                for name, size in told.items()
            ):
                return ""
        asked = requested_memory(specs[0].container)
        wanted = ", ".join(f"{size} bytes of {name}" for name, size in sorted(asked.items()))
        return f"it requests {wanted or 'no memory'}, and got {_sizes(body.blocks)}"

    def _wrong_nodes(self, body: MemoryAllocated) -> str:
        """The nodes are those of the affinity, or more where these have too little."""
        nodes = {node for block in body.blocks or () for node in block.numa_nodes}
        machine = {int(node) for node in self._numa.nodes}
        if machine and nodes - machine:
            return f"the machine has NUMA nodes {_list(machine)}, not {_list(nodes)}"
        if body.affinity is None or body.blocks is None or set(body.affinity) <= nodes:
            return ""
        return f"the affinity is NUMA node {_list(body.affinity)}, and it lies on {_list(nodes)}"

    def _room(self, body: MemoryAllocated) -> str:
        nodes = sorted({node for block in body.blocks or () for node in block.numa_nodes})
        chosen = "no affinity" if body.affinity is None else "the affinity"
        chosen += " was decided"
        table = self._numa.nodes[str(nodes[0])].memory.get("memory") if len(nodes) == 1 else None
        room = f", {table.allocatable_bytes} bytes allocatable there" if table is not None else ""
        if table is not None and table.allocatable_bytes < 0:
            room = (
                f"; of its {table.total_bytes} bytes {table.system_reserved_bytes} are reserved, "
                "which leaves nearly 2^64 by the kubelet's unsigned numbers"
            )
        return f"on NUMA node {_list(nodes)} ({chosen}{room})"

    def _released(self, record: Record, body: MemoryReleased, state: NodeState) -> None:
        self._doubt.decided(record.ts_ns)
        about = whose(state, body)
        held = self._held.get(about.holder)
        seqs = [held[1]] if held is not None else []
        ended = self._pods.inactive(state, about.holder[0])
        if held is None and self._complete and not body.inferred:
            self._impossible(record, about, "it had no memory that could be given back", (),
                             rule=_RELEASE)  # fmt: skip
        elif held is None:
            self._unknown(record, about, _RELEASE, ["what it had before"])
        elif ended is not None or self._is_past_init(record, body):
            rule = _RELEASE if ended is not None else _REUSED
            why = ended or "the pod's next container starts, so this init container is done"
            self.bench.find(record, "match", subject=about.subject, rule=rule, inputs=seqs,
                            why=f"{why}; {_sizes(held[0])} given back")  # fmt: skip
        elif alive := self._pods.surely_alive(state, about.holder[0], record.ts_ns):
            why = f"memory is taken from pods that are not active any more, and {alive}"
            self._impossible(record, about, why, seqs, rule=_RELEASE)
        else:
            self._unknown(record, about, _RELEASE, ["the end of the pod"])
        self._held.pop(about.holder, None)
        self._changed_ns = record.ts_ns

    def _is_past_init(self, record: Record, body: MemoryReleased) -> bool:
        """An init container that is no sidecar, or was none for this version."""
        facts = self._facts()
        return any(
            spec.container in (spec.pod.spec.init_containers or ())
            and not (
                spec.container.restart_policy == SIDECAR
                and (facts is None or facts.sidecars_keep_resources)
            )
            for spec in spec_of(self.bench, record, body)
        )

    def _failed(self, record: Record, body: MemoryAllocationFailed, state: NodeState) -> None:
        about = whose(state, body)
        specs = spec_of(self.bench, record, body)
        room = self._numa.free(self._held) if self._complete else None
        if _NONE_FITS not in body.error or not specs or room is None:
            inputs = {"the pod's spec": specs, "the memory of the NUMA nodes": room}
            missing = [name for name, value in inputs.items() if not value]
            self._unknown(record, about, _ALLOCATE, missing or ["the hints of the memory manager"])
            return
        asked = requested_memory(specs[0].container)
        why = ", ".join(
            f"{size} bytes of {name} are requested and {room.get(name, 0)} free"
            for name, size in sorted(asked.items())
        )
        if any(size > room.get(name, 0) for name, size in asked.items()):
            self.bench.find(record, "match", subject=about.subject, why=why, rule=_ALLOCATE,
                            inputs=self._numa.seqs)  # fmt: skip
        elif len(self._numa.nodes) == 1:
            self._impossible(record, about, why, self._numa.seqs)
        else:  # no group of nodes may have room even though the sum has
            self._unknown(record, about, _ALLOCATE, ["the hints of the memory manager"])

    def _state_refused(self, record: Record, body: MemoryStateRefused, state: NodeState) -> None:
        about = Whose(("", ""), "node")
        if body.stored is None or body.expected is None:
            self._unknown(record, about, _VALIDATE, ["what memory_manager_state held"])
            return
        where = f"NUMA node {body.numa_node}" if body.numa_node is not None else "a NUMA node"
        differs = [
            f"{name.removesuffix('_bytes').replace('_', ' ')} {getattr(body.stored, name)} in the "
            f"file and {getattr(body.expected, name)} by the machine and its settings"
            for name in body.stored.__struct_fields__
            if getattr(body.stored, name) != getattr(body.expected, name)
        ]
        reserved = reserved_bytes(self.bench.settings.get("reservedMemory"), body)
        wrong = "both tables are the same, so the file fits" if not differs else ""
        if reserved not in (None, body.expected.system_reserved_bytes):
            wrong = f"{reserved} bytes are reserved by the settings"
        if wrong:
            self._impossible(record, about, wrong, (), rule=_VALIDATE)
            return
        why = f"memory_manager_state does not fit {where}: {body.type} {', '.join(differs)}"
        self.bench.find(record, "match", subject="node", why=why, rule=_VALIDATE,
                        inputs=self._numa.seqs)  # fmt: skip

    def _overdue(self, record: Record) -> None:
        """Who still holds memory at an admission although its pod ended long before."""
        if not self._complete:
            return
        for holder, ended in self._pods.overdue(self._held, record.ts_ns):
            blocks, seq = self._held.pop(holder)
            self.bench.absent(
                record,
                MemoryReleased.kind,
                subject=f"container/{self._pod(holder)}/{holder[1]}",
                expected={"pod_uid": holder[0], "container": holder[1]},
                why=f"pod {self._pod(holder)} ended, and its memory ({_sizes(blocks)}) was not "
                "given back at the next admission",
                rule=_RELEASE,
                inputs=[seq, ended.seq],
            )

    def _pod(self, holder: Holder) -> str:
        listed = self.bench.pods.at(0, holder[0])
        return f"{listed.namespace}/{listed.name}" if listed is not None else holder[0]

    def _impossible(
        self,
        record: Record,
        about: Whose,
        why: str,
        inputs: Sequence[int],
        *,
        rule: str = _ALLOCATE,
        certain: bool = False,
        body: MemoryAllocated | None = None,
    ) -> None:
        self.bench.find(record, "impossible", subject=about.subject, why=why, rule=rule,
                        inputs=inputs, certain=certain,
                        recorded=_plain(body) if body is not None else None)  # fmt: skip


def _gets(spec: Spec, facts: ResourceManagerFacts) -> bool | None:
    """Whether the pod's containers get memory; None where its spec does not tell."""
    try:
        found = gets_memory(spec.pod, facts)
        requested_memory(spec.container)
    except BadInputError:
        return None
    return found if found or spec.defaulted else None


def _plain(body: MemoryAllocated) -> dict[str, Any]:
    blocks = [
        {"type": b.type, "size_bytes": b.size_bytes, "numa_nodes": list(b.numa_nodes)}
        for b in body.blocks or ()
    ]
    return {"blocks": blocks}


def _sizes(blocks: Blocks | None) -> str:
    if blocks is None:
        return "its memory"
    return ", ".join(f"{block.size_bytes} bytes of {block.type}" for block in blocks) or "nothing"


def _list(nodes: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
