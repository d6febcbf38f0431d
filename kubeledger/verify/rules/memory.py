"""Memory of NUMA nodes: given and taken back as the memory manager's static policy must.

A container of a Guaranteed pod gets what it requests of each type, on the NUMA nodes of the
topology manager's affinity or more. It is given back when the pod is not active any more, an init
container's when the next container starts. Sizes are told by the state file behind a grant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from kubeledger.errors import BadInputError
from kubeledger.kube.pod import SIDECAR
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
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.assignments import NOTICED_NS, AssignmentRule, Holder, Spec, whose
from kubeledger.verify.rules.numa_memory import Blocks, NumaMemory, reserved_bytes
from kubeledger.verify.verifier import Foresee, See

__all__ = ["MemoryRule"]

_FILE: Final = "pkg/kubelet/cm/memorymanager/"
_RELEASE: Final = f"{_FILE}memory_manager.go removeStaleState"
_REUSED: Final = f"{_FILE}memory_manager.go AddContainer"
_VALIDATE: Final = f"{_FILE}policy_static.go validateState"
_NONE_FITS: Final = "no NUMA nodes with enough memory is available"


class MemoryRule(AssignmentRule[Blocks]):
    """The memory manager's decisions; no blocks where no file shows what a container has."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        MemoryAllocated,
        MemoryReleased,
        MemoryAllocationFailed,
        MemoryStateRefused,
    )
    rule = f"{_FILE}policy_static.go Allocate"
    file = "memory_manager_state"
    denied = "memory_manager_state lacks a container that got memory by the lines"
    grants, releases, files = MemoryAllocated, MemoryReleased, MemoryManagerStateRead

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._numa = NumaMemory()
        self._admitted_ns = 0

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Which pods were alive by when, and what memory the machine has."""
        return {**super().foresees(), KubeletStarted: self._numa.foresee}

    def foresee_file(self, record: Record) -> None:
        """First reading of a state file."""
        super().foresee_file(record)
        self._numa.foresee(record)

    def sees(self) -> Mapping[type[Body], See]:
        """Decisions, what the manager began with, its file, and the ends of pods."""
        return {
            **super().sees(),
            KubeletStarted: self._process_started,
            MemoryAllocated: self._allocated,
            MemoryAllocationFailed: self._failed,
            MemoryManagerStarted: self._started,
            MemoryManagerStateRead: self._file_read,
            MemoryReleased: self._released,
            MemoryStateRefused: self._state_refused,
        }

    def text(self, value: Blocks) -> str:
        """What a container has."""
        return f"of {_sizes(value)}"

    def shown_by(self, body: MemoryManagerStateRead) -> dict[Holder, Blocks]:
        """Containers and their blocks."""
        entries = body.assignments.items()
        return {(uid, name): blocks for uid, sets in entries for name, blocks in sets.items()}

    def _process_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.process_started()
        self._numa.enter(record)
        if not body.from_start:
            self.reset()

    def _started(self, record: Record, body: MemoryManagerStarted, state: NodeState) -> None:
        restored = (self.complete or self.was_complete) and body.restored is True
        if body.restored is False:
            self.reset()
        self.complete = body.restored is False or restored
        self.was_complete = False

    def _file_read(self, record: Record, body: MemoryManagerStateRead, state: NodeState) -> None:
        self.compare(record.ts_ns)
        if not self.relied_on(record, body.checksum, body.checksum_ok):
            return
        shown = self.shown_by(body)
        if not self.complete:
            self.adopt(record, shown)
            return
        for holder in self.held:
            # Blocks shrink while later containers use them again: only a missing entry denies.
            value = self.held[holder].value if holder in shown else ()
            self.show(record, holder, value, f"the file has no entry for container {holder[1]}")
        self._overdue(record, shown)

    def _allocated(self, record: Record, body: MemoryAllocated, state: NodeState) -> None:
        self.compare(record.ts_ns)
        about, facts = whose(state, body), self.facts()
        held = self.held.get(about.holder)
        alien = self.foreign(record, body)
        found = alien or lacks([self.bench.missing_profile])
        if alien is None and held is not None and self.complete and body.told_by == "log":
            found = self._twice(record, about.holder, held.seq)
        elif alien is None and facts is not None:
            found = self._judge(record, body, about.holder, facts)
        recorded = _plain(body) if alien is None and found.verdict != "unverifiable" else None
        self.conclude(record, about.subject, found, recorded=recorded)
        self._admitted_ns = record.ts_ns
        self.take(record, about.holder, body.blocks or ())

    def _twice(self, record: Record, holder: Holder, seq: int) -> Judgement:
        """What the state holds is left as it is, unless it was given back in a lost line."""
        why = "it had memory already, and what the state holds is left as it is"
        if self.activity.came_back(holder[0]) and not self.surely_has(holder, record.ts_ns):
            return open_to("the release of what it had", denied=why, inputs=[seq])
        return same(False, why, inputs=[seq])

    def _judge(
        self, record: Record, body: MemoryAllocated, holder: Holder, facts: ResourceManagerFacts
    ) -> Judgement:
        specs = [s for s in self.specs(record, body) if _gets(s, facts) is not None]
        seqs = [*(seq for spec in specs[:1] for seq in spec.seqs), *self._numa.seqs]
        wrong = ""
        if specs and not any(_gets(spec, facts) for spec in specs):
            wrong = "only containers of Guaranteed pods get memory of NUMA nodes"
        if wrong := wrong or _wrong_blocks(body, specs, facts) or self._wrong_nodes(body):
            return same(False, wrong, inputs=seqs, certain=True)
        others = {key: held.value for key, held in self.held.items() if key != holder}
        if wrong := self._numa.too_much(body, others):
            sure = {key: v for key, v in others.items() if self.surely_has(key, record.ts_ns)}
            if self._numa.too_much(body, sure):
                return same(False, wrong, inputs=seqs)
            return open_to("the releases of memory until then", denied=wrong, inputs=seqs)
        inputs = {
            "the pod's spec": specs,
            "memory_manager_state behind it": body.blocks is not None and self._numa.nodes,
        }
        if missing := [name for name, value in inputs.items() if not value]:
            return lacks(missing)
        only = len(self._numa.nodes) == 1 or body.affinity is not None
        asked, blocks = requested_memory(specs[0].container), body.blocks or ()
        left = any(block.size_bytes != asked.get(block.type) for block in blocks)
        why = (
            "it is in a Guaranteed pod and got what it requests, "
            f"{'what later containers do not use again, ' if left else ''}{_sizes(blocks)}, "
            f"{self._room(body)}{'' if only else '; others with room may be given as well'}"
        )
        ruling = Ruling(allowed=True, chosen=only, why=why, expected=_plain(body),
                        inputs=tuple(seqs))  # fmt: skip
        return judge([ruling])

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
        chosen = f"{'no' if body.affinity is None else 'the'} affinity was decided"
        table = self._numa.nodes[str(nodes[0])].memory.get("memory") if len(nodes) == 1 else None
        room = f", {table.allocatable_bytes} bytes allocatable there" if table is not None else ""
        if table is not None and table.allocatable_bytes < 0:
            room = (
                f"; of its {table.total_bytes} bytes {table.system_reserved_bytes} are reserved, "
                "which leaves nearly 2^64 by the kubelet's unsigned numbers"
            )
        return f"on NUMA node {_list(nodes)} ({chosen}{room})"

    def _released(self, record: Record, body: MemoryReleased, state: NodeState) -> None:
        self.compare(record.ts_ns)
        about = whose(state, body)
        found, rule = self._judge_release(record, body, about.holder, state)
        found = self.foreign(record, body) or found
        self.conclude(record, about.subject, found, rule=rule)
        self.lose(record, about.holder)

    def _judge_release(
        self, record: Record, body: MemoryReleased, holder: Holder, state: NodeState
    ) -> tuple[Judgement, str]:
        held, facts = self.held.get(holder), self.facts()
        ended = self.activity.inactive(state, holder[0])
        specs = self.specs(record, body)
        if held is None:
            gets = facts is None or not specs or any(_gets(spec, facts) for spec in specs)
            if self.complete and not body.inferred and not (gets and self.may_have_got(holder)):
                return same(False, "it had no memory that could be given back"), _RELEASE
            return lacks(["what it had before"]), _RELEASE
        seqs = (held.seq,)
        if ended is not None or any(_is_past_init(spec, facts) for spec in specs):
            rule = _RELEASE if ended is not None else _REUSED
            why = ended or "the pod's next container starts, so this init container is done"
            return same(True, f"{why}; {_sizes(held.value)} given back", inputs=seqs), rule
        if alive := self.activity.surely_alive(state, holder[0], record.ts_ns):
            why = f"memory is taken from pods that are not active any more, and {alive}"
            return same(False, why, inputs=seqs), _RELEASE
        return lacks(["the end of the pod"]), _RELEASE

    def _failed(self, record: Record, body: MemoryAllocationFailed, state: NodeState) -> None:
        about = whose(state, body)
        specs = self.specs(record, body)
        room = None
        if self.complete and all(held.value for held in self.held.values()):
            room = self._numa.free(held.value for held in self.held.values())
        if _NONE_FITS not in body.error or not specs or room is None:
            inputs = {"the pod's spec": specs, "the memory of the NUMA nodes": room}
            missing = [name for name, value in inputs.items() if not value]
            found = lacks(missing or ["the hints of the memory manager"])
            self.conclude(record, about.subject, found)
            return
        asked = requested_memory(specs[0].container)
        why = ", ".join(
            f"{size} bytes of {name} are requested and {room.get(name, 0)} free"
            for name, size in sorted(asked.items())
        )
        found = same(any(size > room.get(name, 0) for name, size in asked.items()), why,
                     inputs=self._numa.seqs)  # fmt: skip
        if found.verdict == "impossible" and len(self._numa.nodes) > 1:
            # No group of nodes may have room even though the sum has.
            found = open_to("the hints of the memory manager", denied=why)
        self.conclude(record, about.subject, found)

    def _state_refused(self, record: Record, body: MemoryStateRefused, state: NodeState) -> None:
        if body.stored is None or body.expected is None:
            found = lacks(["what memory_manager_state held"])
            self.conclude(record, "node", found, rule=_VALIDATE)
            return
        where = f"NUMA node {body.numa_node}" if body.numa_node is not None else "a NUMA node"
        differs = [
            f"{name.removesuffix('_bytes').replace('_', ' ')} {getattr(body.stored, name)} in the "
            f"file and {getattr(body.expected, name)} by the machine and its settings"
            for name in body.stored.__struct_fields__
            if getattr(body.stored, name) != getattr(body.expected, name)
        ]
        reserved = reserved_bytes(self.bench.settings.get("reservedMemory"), body)
        why = f"memory_manager_state does not fit {where}: {body.type} {', '.join(differs)}"
        wrong = "" if differs else "both tables are the same, so the file fits"
        if reserved not in (None, body.expected.system_reserved_bytes):
            wrong = f"{reserved} bytes are reserved by the settings"
        inputs = () if wrong else self._numa.seqs
        found = same(not wrong, wrong or why, inputs=inputs)
        self.conclude(record, "node", found, rule=_VALIDATE)

    def _overdue(self, record: Record, shown: Mapping[Holder, Blocks]) -> None:
        """Who still stands in a file although the pod ended long before an admission."""
        for holder in sorted(self.held.keys() & shown.keys()):
            ended, seq = self.end_of(holder), self.held[holder].seq
            if ended is None or self._admitted_ns <= ended.ts_ns + NOTICED_NS:
                continue
            blocks = self.held.pop(holder).value
            self.bench.absent(
                record,
                MemoryReleased.kind,
                subject=f"container/{self.pod(holder)}/{holder[1]}",
                expected={"pod_uid": holder[0], "container": holder[1]},
                why=f"pod {self.pod(holder)} ended, and its memory ({_sizes(blocks)}) was not "
                "given back at the next admission",
                rule=_RELEASE,
                inputs=[seq, ended.seq],
            )


def _gets(spec: Spec, facts: ResourceManagerFacts) -> bool | None:
    """Whether the pod's containers get memory; None where its spec does not tell."""
    try:
        found = gets_memory(spec.pod, facts)
        requested_memory(spec.container)
    except BadInputError:
        return None
    return found if found or spec.defaulted else None


def _is_past_init(spec: Spec, facts: ResourceManagerFacts | None) -> bool:
    """An init container that is no sidecar, or was none for this version."""
    keeps = facts is None or facts.sidecars_keep_resources
    is_init = spec.container in (spec.pod.spec.init_containers or ())
    return is_init and not (spec.container.restart_policy == SIDECAR and keeps)


def _wrong_blocks(body: MemoryAllocated, specs: list[Spec], facts: ResourceManagerFacts) -> str:
    """Words for types and sizes that were not asked for; "" where all is well."""
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


def _plain(body: MemoryAllocated) -> dict[str, Any]:
    blocks = [
        {"type": b.type, "size_bytes": b.size_bytes, "numa_nodes": list(b.numa_nodes)}
        for b in body.blocks or ()
    ]
    return {"blocks": blocks}


def _sizes(blocks: Blocks) -> str:
    told = ", ".join(f"{block.size_bytes} bytes of {block.type}" for block in blocks)
    return told or "its memory"


def _list(nodes: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
