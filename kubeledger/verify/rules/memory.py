"""Memory of NUMA nodes: given and taken back as the memory manager's static policy must.

A container of a Guaranteed pod gets what it requests of each type, on the NUMA nodes of the
topology manager's affinity or more. It is given back when the pod is not active any more, an init
container's when the next container starts. Sizes are shown by the state file after a grant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final

from kubeledger.kubelet.memorymanager.checkpoint import recorded_state
from kubeledger.kubelet.memorymanager.machine import KubeletPanicError
from kubeledger.kubelet.memorymanager.memory_manager import restarts
from kubeledger.model.bodies.resourcemanagers import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryReleased,
    MemoryStateRefused,
)
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.evidence.pod_objects import Spec
from kubeledger.verify.rules.activity import came_back, is_active
from kubeledger.verify.rules.assignments import Holder
from kubeledger.verify.rules.memory_table import (
    Blocks,
    Given,
    MemoryTableVerifier,
    reserves_of,
    sizes,
)

_FILE: Final = "pkg/kubelet/cm/memorymanager/"
_DIFFERENT: Final = "the expected machine state is different from the real one"
_GETS: Final = "by its affinity and what is free it gets memory of NUMA node "
_NONE_FITS: Final = "no NUMA nodes with enough memory is available"


class MemoryVerifier(MemoryTableVerifier):
    """The memory manager's decisions."""

    rule = f"{_FILE}policy_static.go Allocate"
    released = f"{_FILE}memory_manager.go removeStaleState"
    validated = f"{_FILE}policy_static.go validateState"

    def judge(self, record: Record, holder: Holder, state: NodeState) -> Judgement:
        body, held = record.body, self.held.get(holder)
        self.find_machine(record.ts_ns)
        if isinstance(body, MemoryReleased):
            return self._judge_release(record, holder, state)
        if isinstance(body, MemoryAllocationFailed):
            return self._judge_shortage(record, body, holder)
        assert isinstance(body, MemoryAllocated)
        if held is None or not self.complete or body.told_by != "log":
            return self._judge_grant(record, body, holder)
        why = "it had memory already, and its entry is left as it is"
        if came_back(self.context, holder[0]) and not self.surely_has(holder, record.ts_ns):
            return open_to("the release of what it had", denied=why, inputs=[held.seq])
        return same(False, why, inputs=[held.seq])

    def _judge_grant(self, record: Record, body: MemoryAllocated, holder: Holder) -> Judgement:
        specs = [spec for spec in self.specs(record) if self.gets(spec) is not None]
        seqs = [*(spec.seq for spec in specs[:1]), *self.seqs]
        wrong = ""
        if specs and not any(map(self.gets, specs)):
            wrong = "only containers of Guaranteed pods get memory of NUMA nodes"
        if wrong := wrong or self._wrong_blocks(body, specs) or self._wrong_nodes(body):
            return same(False, wrong, inputs=seqs, certain=True)
        nodes, again = tuple(sorted(_nodes_of(body))), self.again(holder, specs)
        if body.blocks is not None and again and nodes not in again:
            return self._judge_another(record, body, holder, next(iter(again)), seqs)
        # Containers of a pod that has memory as a whole share it.
        shared = () if self.last_file is None else self.last_file.pods
        others = {k: h.value for k, h in self.held.items() if k != holder and k[0] not in shared}
        if not again and (wrong := self._too_much(body, others.values())):
            sure = [v for key, v in others.items() if self.surely_has(key, record.ts_ns)]
            if self._too_much(body, sure):
                return same(False, wrong, inputs=seqs)
            return open_to("the releases of memory until then", denied=wrong, inputs=seqs)
        shown = body.blocks is not None and self.nodes
        inputs = {"the pod's spec": specs, "memory_manager_state after it": shown}
        if missing := [name for name, value in inputs.items() if not value]:
            return lacks(missing)
        only = bool(again) or len(self.nodes) == 1 or body.affinity is not None
        asked, blocks = self.asked.of_container(specs[0].pod, specs[0].container), body.blocks or ()
        left = any(block.size_bytes != asked.get(block.type) for block in blocks)
        why = (
            "it is in a Guaranteed pod and got what it requests, "
            f"{'what later containers do not use again, ' if left else ''}{sizes(blocks)}, "
            f"on NUMA node {_list(_nodes_of(body))}{'' if only else '; others may be given, too'}"
        )
        ruling = Ruling(allowed=True, chosen=only, why=why, expected={"blocks": _plain(body)},
                        inputs=tuple(seqs))  # fmt: skip
        return judge([ruling])

    def _judge_another(
        self, record: Record, body: MemoryAllocated, holder: Holder, instead: Given, seqs: list[int]
    ) -> Judgement:
        """Judge a grant where the policy gives memory of other NUMA nodes, or refuses."""
        blocks, why = None, f"it is to be refused: {instead}"
        if isinstance(instead, tuple):
            blocks, why = _plain(body, instead), f"{_GETS}{_list(instead)}, not "
            why += _list(_nodes_of(body))
        if not self.is_sure(holder, record.ts_ns):
            return open_to("what other containers had", denied=why, inputs=seqs)
        return same(False, why, expected={"blocks": blocks}, inputs=seqs)

    def _wrong_blocks(self, body: MemoryAllocated, specs: list[Spec]) -> str:
        """Words for types and sizes that were not asked for; "" where all is well."""
        if body.blocks is None or not specs:
            return ""
        given = {block.type: block.size_bytes for block in body.blocks}
        for spec in specs:
            asks = self.asked
            if given.keys() == asks.of_container(spec.pod, spec.container).keys() and all(
                size in asks.sizes_after_reuse(spec.pod, body.container, name)
                for name, size in given.items()
            ):
                return ""
        asked = self.asked.of_container(specs[0].pod, specs[0].container)
        wanted = ", ".join(f"{size} bytes of {name}" for name, size in sorted(asked.items()))
        return f"it requests {wanted or 'no memory'}, and got {sizes(body.blocks)}"

    def _wrong_nodes(self, body: MemoryAllocated) -> str:
        """The nodes are those of the affinity, or more where these have too little."""
        nodes, machine = _nodes_of(body), set(map(int, self.nodes))
        if machine and nodes - machine:
            return f"the machine has NUMA nodes {_list(machine)}, not {_list(nodes)}"
        if body.affinity is None or not body.blocks or set(body.affinity) <= nodes:
            return ""
        return f"the affinity is NUMA node {_list(body.affinity)}, but it is on {_list(nodes)}"

    def _too_much(self, body: MemoryAllocated, held: Iterable[Blocks]) -> str:
        """Words where a group of nodes would give more than is allocatable on it; "" else."""
        others = [block for blocks in held for block in blocks]
        for block in body.blocks or ():
            group = set(block.numa_nodes)
            nodes = (self.nodes.get(str(node)) for node in group)
            tables = [None if node is None else node.memory.get(block.type) for node in nodes]
            if any(table is None or table.allocatable_bytes < 0 for table in tables):
                continue
            own = (other for other in others if other.type == block.type)
            inside = (other.size_bytes for other in own if set(other.numa_nodes) <= group)
            given = block.size_bytes + sum(inside)
            allocatable = sum(table.allocatable_bytes for table in tables if table is not None)
            if given > allocatable:
                has = f"NUMA node {_list(group)} has {allocatable} bytes of {block.type} to give"
                return f"{has}, and with this {given} would be given"
        return ""

    def _judge_release(self, record: Record, holder: Holder, state: NodeState) -> Judgement:
        held, specs = self.held.get(holder), self.specs(record)
        keeps = self.facts.sidecars_keep_resources
        if held is not None and any(s.is_init and not (s.is_sidecar and keeps) for s in specs):
            why = "the pod's next container starts, so this init container is done"
            if is_active(state, self.context.pods, holder[0])[0] is not False:
                rule = f"{_FILE}memory_manager.go AddContainer"
                return same(True, why, inputs=[held.seq], rule=rule)
        return self.given_back(record, holder, state, asks=not specs or any(map(self.gets, specs)))

    def _judge_shortage(
        self, record: Record, body: MemoryAllocationFailed, holder: Holder
    ) -> Judgement:
        """No group of nodes has as much as is requested, or none that goes with the affinity."""
        if again := self.again(holder, self.specs(record)):
            instead = next(iter(again))
            if body.error in again:
                why = f"by its affinity and what is free it is refused: {body.error}"
                return same(True, why, inputs=self.seqs)
            if isinstance(instead, tuple) and self.is_sure(holder, record.ts_ns):
                return same(False, f"{_GETS}{_list(instead)}", inputs=self.seqs)
        specs, tables = self.specs(record), [node.memory for node in self.nodes.values()]
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
        asked = sorted(self.asked.of_container(specs[0].pod, specs[0].container).items())
        why = ", ".join(f"{size} of {name} requested, {free[name]} free" for name, size in asked)
        short = any(size > free[name] for name, size in asked)
        if not short and len(tables) > 1:
            # No group of nodes may have room even though the sum has.
            return open_to("the hints of the memory manager", denied=why)
        return same(short, why, inputs=self.seqs)

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
        reserves = reserves_of(self.context.settings.get("reservedMemory")) or {}
        reserved = reserves.get((body.numa_node or 0, body.type or ""))
        if reserved not in (None, expected.system_reserved_bytes):
            return same(False, f"{reserved} bytes are reserved by the settings")
        where = f"NUMA node {body.numa_node}" if body.numa_node is not None else "a NUMA node"
        why = f"memory_manager_state does not fit {where}: {body.type} {', '.join(differs)}"
        return same(bool(differs), why if differs else "both tables are the same")

    def _judge_order(self, body: MemoryStateRefused) -> Judgement:
        """Entries in overlapping groups of NUMA nodes are accepted or refused by their order."""
        last = self.last_file
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


def _nodes_of(body: MemoryAllocated) -> set[int]:
    return {node for block in body.blocks or () for node in block.numa_nodes}


def _plain(body: MemoryAllocated, nodes: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Its blocks as they are recorded, or on other nodes."""
    blocks = [(b, list(b.numa_nodes if nodes is None else nodes)) for b in body.blocks or ()]
    return [{"type": b.type, "size_bytes": b.size_bytes, "numa_nodes": on} for b, on in blocks]


def _list(nodes: Collection[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
