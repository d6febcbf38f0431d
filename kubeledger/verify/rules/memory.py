"""Memory of NUMA nodes: given and taken back as the memory manager's static policy must.

A container of a Guaranteed pod gets what it requests of each type, on the NUMA nodes of the
topology manager's affinity or more. It is given back when the pod is not active any more, an init
container's when the next container starts. Sizes are shown by the state file after a grant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.memorymanager.checkpoint import recorded_state
from kubeledger.kubelet.memorymanager.decider import (
    gets_memory,
    requested_memory,
    sizes_after_reuse,
)
from kubeledger.kubelet.memorymanager.hints import KubeletPanicError
from kubeledger.kubelet.memorymanager.validate import restarts
from kubeledger.kubelet.topologymanager.bitmask import mask_of
from kubeledger.kubelet.topologymanager.hint import TopologyHint
from kubeledger.kubelet.topologymanager.scope import NO_AFFINITY
from kubeledger.kubelet.topologymanager.state import POD_SCOPE
from kubeledger.model.bodies.memorymanager import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
    NUMANodeMemory,
)
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Decision, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.followed_memory import FollowedMemory
from kubeledger.verify.rules.activity import came_back, is_active
from kubeledger.verify.rules.assignments import AssignmentVerifier, Holder, Spec

_FILE: Final = "pkg/kubelet/cm/memorymanager/"
_DIFFERENT: Final = "the expected machine state is different from the real one"
_NONE_FITS: Final = "no NUMA nodes with enough memory is available"

_Blocks = tuple[MemoryBlock, ...]
_Nodes = Mapping[str, NUMANodeMemory]


class MemoryVerifier(AssignmentVerifier[_Blocks]):
    """The memory manager's decisions; no blocks where no file shows what a container has.

    Totals, reserves and what is allocatable do not change while a process runs, so a file that is
    read after a decision shows them as well.
    """

    decides: ClassVar[tuple[type[Decision], ...]] = (
        MemoryAllocated,
        MemoryReleased,
        MemoryAllocationFailed,
        MemoryStateRefused,
    )
    rule = f"{_FILE}policy_static.go Allocate"
    released = f"{_FILE}memory_manager.go removeStaleState"
    file = "memory_manager_state"
    denied = "memory_manager_state lacks a container that got memory in the log"
    validated = f"{_FILE}policy_static.go validateState"
    grants, releases, shortages, refusals = decides
    starts, files = MemoryManagerStarted, MemoryManagerStateRead
    none: _Blocks = ()

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._nodes: _Nodes = {}
        self._seqs: tuple[int, ...] = ()
        self._files: list[tuple[int, int, _Nodes]] = []
        self._followed = FollowedMemory()
        self._followed_ns = 0
        self._last: MemoryManagerStateRead | None = None

    def foresee_file(self, record: Record, body: MemoryManagerStateRead) -> None:
        """First reading of a state file, which shows the machine as well."""
        super().foresee_file(record, body)
        if body.checksum_ok is not False and body.machine:
            self._files.append((record.ts_ns, record.seq, body.machine))

    def text(self, value: _Blocks) -> str:
        """What a container has."""
        return _sizes(value)

    def contents_of(self, body: MemoryManagerStateRead) -> dict[Holder, _Blocks]:
        """Containers and their blocks."""
        entries = body.assignments.items()
        return {(uid, name): blocks for uid, sets in entries for name, blocks in sets.items()}

    def compared(self, given: _Blocks, reading: _Blocks | None) -> _Blocks:
        """Blocks shrink while later containers use them again: only a missing entry denies."""
        return () if reading is None else given

    def _find_machine(self, ts_ns: int) -> None:
        """The first file of the process that runs shows its machine."""
        process = self.context.timeline.process
        now = process(ts_ns)
        files = (file for file in self._files if process(file[0]) == now)
        _, seq, self._nodes = min(files, key=lambda file: file[:2], default=(0, 0, {}))
        self._seqs = (seq,) if seq else ()

    def started(self, record: Record, body: MemoryManagerStarted, state: NodeState) -> None:
        """A new process has the file's assignments, or none."""
        self.begin(body.restored)
        self._followed.restart()
        if not self.complete:
            self._followed.forget()
        elif body.restored is False:
            self._followed.forget()
            self._find_machine(record.ts_ns)
            self._begin_followed(record.ts_ns)

    def reset(self) -> None:
        """Nothing is known of the table."""
        super().reset()
        self._followed.forget()

    def note_file(self, record: Record, body: MemoryManagerStateRead) -> None:
        """A file that no change is near shows the whole manager."""
        profile, self._last = self.context.profile, body
        if profile is not None and body.machine and not any(self.meanwhile(record)):
            self._followed.adopt(profile, body)
            self._followed_ns = record.ts_ns

    def _begin_followed(self, ts_ns: int) -> None:
        profile = self.context.profile
        if profile is not None and self._nodes:
            self._followed.begin(profile, self._nodes)
            self._followed_ns = ts_ns

    def take(self, record: Record, holder: Holder, value: _Blocks) -> None:
        """A container has it from now on."""
        super().take(record, holder, value)
        nodes = frozenset(node for block in value for node in block.numa_nodes)
        specs = self.specs(record)
        if specs and nodes:
            self._followed.give(specs[0].pod, specs[0].container, nodes)
        else:
            self._followed.forget()

    def lose(self, record: Record, holder: Holder) -> None:
        """A container has nothing any more."""
        super().lose(record, holder)
        self._followed.take_back(*holder)

    def given(self, body: MemoryAllocated) -> _Blocks:
        """The blocks of a grant, where a file shows them."""
        return body.blocks or ()

    def judge(self, record: Record, holder: Holder, state: NodeState) -> Judgement:
        """Judge a grant, a release, or that there was too little."""
        body, held = record.body, self.held.get(holder)
        self._find_machine(record.ts_ns)
        if isinstance(body, MemoryReleased):
            return self._judge_release(record, body, holder, state)
        if isinstance(body, MemoryAllocationFailed):
            return self._judge_shortage(record, body, holder, state)
        assert isinstance(body, MemoryAllocated)
        if held is None or not self.complete or body.told_by != "log":
            return self._judge_grant(record, body, holder, state)
        why = "it had memory already, and its entry is left as it is"
        if came_back(self.context, holder[0]) and not self.surely_has(holder, record.ts_ns):
            return open_to("the release of what it had", denied=why, inputs=[held.seq])
        return same(False, why, inputs=[held.seq])

    def _judge_grant(
        self, record: Record, body: MemoryAllocated, holder: Holder, state: NodeState
    ) -> Judgement:
        specs = [spec for spec in self.specs(record) if self._gets(spec) is not None]
        seqs = [*(spec.seq for spec in specs[:1]), *self._seqs]
        wrong = ""
        if specs and not any(map(self._gets, specs)):
            wrong = "only containers of Guaranteed pods get memory of NUMA nodes"
        if wrong := wrong or self._wrong_blocks(body, specs) or self._wrong_nodes(body):
            return same(False, wrong, inputs=seqs, certain=True)
        others = {key: held.value for key, held in self.held.items() if key != holder}
        if wrong := self._too_much(body, others.values()):
            sure = [v for key, v in others.items() if self.surely_has(key, record.ts_ns)]
            if self._too_much(body, sure):
                return same(False, wrong, inputs=seqs)
            return open_to("the releases of memory until then", denied=wrong, inputs=seqs)
        inputs = {
            "the pod's spec": specs,
            "memory_manager_state after it": body.blocks is not None and self._nodes,
        }
        if missing := [name for name, value in inputs.items() if not value]:
            return lacks(missing)
        nodes, again = tuple(sorted(_nodes_of(body))), self._again(holder, state, specs)
        if again and nodes not in again:
            instead = next(iter(again))
            why = f"it is to be refused: {instead}"
            if isinstance(instead, tuple):
                why = "by its affinity and what is free it gets memory of NUMA node "
                why += f"{_list(instead)}, not {_list(nodes)}"
            if not self._is_sure(holder, record.ts_ns):
                return open_to("what other containers had", denied=why, inputs=seqs)
            expected = {"blocks": _plain(body, instead)} if isinstance(instead, tuple) else None
            return same(False, why, expected=expected, inputs=seqs)
        only = bool(again) or len(self._nodes) == 1 or body.affinity is not None
        asked, blocks = requested_memory(specs[0].container), body.blocks or ()
        left = any(block.size_bytes != asked.get(block.type) for block in blocks)
        why = (
            "it is in a Guaranteed pod and got what it requests, "
            f"{'what later containers do not use again, ' if left else ''}{_sizes(blocks)}, "
            f"on NUMA node {_list(_nodes_of(body))}{'' if only else '; others may be given, too'}"
        )
        ruling = Ruling(allowed=True, chosen=only, why=why, expected={"blocks": _plain(body)},
                        inputs=tuple(seqs))  # fmt: skip
        return judge([ruling])

    def _again(
        self, holder: Holder, state: NodeState, specs: Iterable[Spec]
    ) -> dict[tuple[int, ...] | str, None]:
        """NUMA nodes that a container gets by each version of its spec, or why it gets none.

        Empty where it is not known what the manager holds, or which affinity was stored.
        """
        affinity = self._affinity(holder, state)
        if not (self.complete and self._followed.is_known) or affinity is None:
            return {}
        would_give = self._followed.would_give
        return {would_give(spec.pod, spec.container, affinity): None for spec in specs}

    def _affinity(self, holder: Holder, state: NodeState) -> TopologyHint | None:
        """What the topology manager stored for a container; None where that is not known."""
        stored = state.topologymanager.pods.get(holder[0], {})
        found = stored.get(holder[1]) or stored.get(POD_SCOPE)
        if found is not None:
            nodes = found.numa_nodes
            return TopologyHint(None if nodes is None else mask_of(nodes), found.preferred)
        none = self.context.settings.get("topologyManagerPolicy") == "none"
        return NO_AFFINITY if none else None

    def _is_sure(self, holder: Holder, ts_ns: int) -> bool:
        """Whether nothing that is lost can have changed what the manager holds."""
        lost = self.context.coverage.missing(min(self._followed_ns, ts_ns), ts_ns)
        return lost is None and all(
            self.surely_has(other, ts_ns) for other in self.held if other != holder
        )

    def _gets(self, spec: Spec) -> bool | None:
        """Whether the pod's containers get memory; None where its spec does not say."""
        try:
            found = gets_memory(spec.pod, self.facts)
            requested_memory(spec.container)
        except BadInputError:
            return None
        return found if found or spec.defaulted else None

    def _wrong_blocks(self, body: MemoryAllocated, specs: list[Spec]) -> str:
        """Words for types and sizes that were not asked for; "" where all is well."""
        if body.blocks is None or not specs:
            return ""
        given = {block.type: block.size_bytes for block in body.blocks}
        for spec in specs:
            if given.keys() == requested_memory(spec.container).keys() and all(
                size in sizes_after_reuse(spec.pod, body.container, name, self.facts)
                for name, size in given.items()
            ):
                return ""
        asked = requested_memory(specs[0].container)
        wanted = ", ".join(f"{size} bytes of {name}" for name, size in sorted(asked.items()))
        return f"it requests {wanted or 'no memory'}, and got {_sizes(body.blocks)}"

    def _wrong_nodes(self, body: MemoryAllocated) -> str:
        """The nodes are those of the affinity, or more where these have too little."""
        nodes, machine = _nodes_of(body), set(map(int, self._nodes))
        if machine and nodes - machine:
            return f"the machine has NUMA nodes {_list(machine)}, not {_list(nodes)}"
        if body.affinity is None or body.blocks is None or set(body.affinity) <= nodes:
            return ""
        return f"the affinity is NUMA node {_list(body.affinity)}, but it is on {_list(nodes)}"

    def _too_much(self, body: MemoryAllocated, held: Iterable[_Blocks]) -> str:
        """Words where a group of nodes would give more than is allocatable on it; "" else."""
        others = [block for blocks in held for block in blocks]
        for block in body.blocks or ():
            group = set(block.numa_nodes)
            sizes = [self._allocatable(str(node), block.type) for node in sorted(group)]
            if any(size is None or size < 0 for size in sizes):
                continue
            given = block.size_bytes + sum(
                other.size_bytes
                for other in others
                if other.type == block.type and set(other.numa_nodes) <= group
            )
            allocatable = sum(filter(None, sizes))
            if given > allocatable:
                return (
                    f"NUMA node {_list(group)} has {allocatable} bytes of {block.type} to give, "
                    f"and with this {given} would be given"
                )
        return ""

    def _allocatable(self, node: str, memory_type: str) -> int | None:
        table = self._nodes[node].memory.get(memory_type) if node in self._nodes else None
        return None if table is None else table.allocatable_bytes

    def _judge_release(
        self, record: Record, body: MemoryReleased, holder: Holder, state: NodeState
    ) -> Judgement:
        held, specs = self.held.get(holder), self.specs(record)
        if held is not None and any(map(self._is_past_init, specs)):
            why = "the pod's next container starts, so this init container is done"
            if is_active(state, self.context.pods, holder[0])[0] is not False:
                rule = f"{_FILE}memory_manager.go AddContainer"
                return same(True, why, inputs=[held.seq], rule=rule)
        return self.given_back(record, holder, state, asks=not specs or any(map(self._gets, specs)))

    def _is_past_init(self, spec: Spec) -> bool:
        """An init container that is no sidecar, or was none for this version."""
        return spec.is_init and not (spec.is_sidecar and self.facts.sidecars_keep_resources)

    def _judge_shortage(
        self, record: Record, body: MemoryAllocationFailed, holder: Holder, state: NodeState
    ) -> Judgement:
        """No group of nodes has as much as is requested, or none that goes with the affinity."""
        if again := self._again(holder, state, self.specs(record)):
            instead = next(iter(again))
            if body.error in again:
                why = f"by its affinity and what is free it is refused: {body.error}"
                return same(True, why, inputs=self._seqs)
            if isinstance(instead, tuple) and self._is_sure(holder, record.ts_ns):
                why = "by its affinity and what is free it gets memory of NUMA node "
                return same(False, f"{why}{_list(instead)}", inputs=self._seqs)
        specs, tables = self.specs(record), [node.memory for node in self._nodes.values()]
        held = [has.value for has in self.held.values()]
        # A reserve above the total leaves nearly 2^64 bytes by the kubelet's unsigned numbers.
        odd = any(table.allocatable_bytes < 0 for types in tables for table in types.values())
        known = tables and self.complete and all(held) and not odd
        if _NONE_FITS not in body.error or not specs or not known:
            inputs = {"the pod's spec": specs, "the memory of the NUMA nodes": known}
            missing = [name for name, value in inputs.items() if not value]
            return lacks(missing or ["the hints of the memory manager"])
        free: Counter[str] = Counter()
        for types in tables:
            free.update({name: table.allocatable_bytes for name, table in types.items()})
        for block in (block for blocks in held for block in blocks):
            free[block.type] -= block.size_bytes
        asked = sorted(requested_memory(specs[0].container).items())
        why = ", ".join(f"{size} of {name} requested, {free[name]} free" for name, size in asked)
        short = any(size > free[name] for name, size in asked)
        if not short and len(tables) > 1:
            # No group of nodes may have room even though the sum has.
            return open_to("the hints of the memory manager", denied=why)
        return same(short, why, inputs=self._seqs)

    def judge_file(self, body: MemoryStateRefused) -> Judgement:
        """The file's table of a node differs from the one by the machine and the settings."""
        stored, expected = body.stored, body.expected
        if stored is None or expected is None:
            return self._judge_order(body)
        differs = [
            f"{name.removesuffix('_bytes').replace('_', ' ')} {getattr(stored, name)} in the "
            f"file and {getattr(expected, name)} by the machine and its settings"
            for name in stored.__struct_fields__
            if getattr(stored, name) != getattr(expected, name)
        ]
        reserved = _reserved_bytes(self.context.settings.get("reservedMemory"), body)
        if reserved not in (None, expected.system_reserved_bytes):
            return same(False, f"{reserved} bytes are reserved by the settings")
        where = f"NUMA node {body.numa_node}" if body.numa_node is not None else "a NUMA node"
        why = f"memory_manager_state does not fit {where}: {body.type} {', '.join(differs)}"
        return same(bool(differs), why if differs else "both tables are the same")

    def _judge_order(self, body: MemoryStateRefused) -> Judgement:
        """Entries in overlapping groups of NUMA nodes are accepted or refused by their order."""
        last = self._last
        if last is None or self.context.profile is None or _DIFFERENT not in body.error:
            return lacks(["what memory_manager_state held"])
        with suppress(KubeletPanicError):
            fits = restarts(recorded_state(last), self.facts)
            if False in fits:
                why = "its entries do not give the NUMA nodes that memory_manager_state shows"
                if True in fits:
                    why = f"{why}, or do, by the order in which the kubelet reads them"
                return judge([Ruling(allowed=True, chosen=True not in fits, why=why)])
        return lacks(["the memory of the machine when the kubelet started"])


def _reserved_bytes(setting: Any, body: MemoryStateRefused) -> int | None:  # noqa: ANN401
    """Bytes that ``reservedMemory`` keeps of a node and type; None where it does not say."""
    for entry in setting if isinstance(setting, list) else ():
        if isinstance(entry, dict) and entry.get("numaNode") == body.numa_node:
            try:
                amount = (entry.get("limits") or {}).get(body.type)
                return None if amount is None else Quantity.from_api(amount).value()
            except (QuantityError, AttributeError):
                return None
    return None


def _nodes_of(body: MemoryAllocated) -> set[int]:
    return {node for block in body.blocks or () for node in block.numa_nodes}


def _plain(body: MemoryAllocated, nodes: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Its blocks as they are recorded, or on other nodes."""
    return [
        {
            "type": block.type,
            "size_bytes": block.size_bytes,
            "numa_nodes": list(block.numa_nodes if nodes is None else nodes),
        }
        for block in body.blocks or ()
    ]


def _sizes(blocks: _Blocks) -> str:
    given = ", ".join(f"{block.size_bytes} bytes of {block.type}" for block in blocks)
    return given or "its memory"


def _list(nodes: Collection[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
