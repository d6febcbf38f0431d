"""The memory of the NUMA nodes, as state files of the running process show it.

Totals, reserves and what is allocatable do not change while a process runs, so a file that is
read behind a decision tells of them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.machine import Record
from kubeledger.memorymanager.records import (
    MemoryAllocated,
    MemoryBlock,
    MemoryManagerStateRead,
    MemoryStateRefused,
    NUMANodeMemory,
)
from kubeledger.verify.rules.assignments import Holder

__all__ = ["Blocks", "NumaMemory", "reserved_bytes"]

Blocks = tuple[MemoryBlock, ...]


class NumaMemory:
    """Tables by NUMA node.

    Attributes:
        nodes: NUMA node (decimal text) -> its tables; empty where no file of this process is.
        seqs: the record that shows them.
    """

    def __init__(self) -> None:
        self.nodes: Mapping[str, NUMANodeMemory] = {}
        self.seqs: tuple[int, ...] = ()
        self._process: int | None = None
        self._shown: dict[int | None, tuple[Mapping[str, NUMANodeMemory], int]] = {}

    def foresee(self, record: Record) -> None:
        """First reading: starts of processes, and the first file that each shows."""
        body = record.body
        if not isinstance(body, MemoryManagerStateRead):
            self._process = record.seq
        elif body.checksum_ok is not False and body.machine:
            self._shown.setdefault(self._process, (body.machine, record.seq))
            if self._process is None:
                self.enter(None)

    def enter(self, record: Record | None) -> None:
        """A process started; None: the one that ran when the records begin."""
        found = self._shown.get(record.seq if record is not None else None)
        self.nodes, self.seqs = (found[0], (found[1],)) if found is not None else ({}, ())

    def too_much(self, body: MemoryAllocated, held: Mapping[Holder, Blocks]) -> str:
        """Words where a group of nodes would give more than is allocatable on it; "" else."""
        for block in body.blocks or ():
            group = set(block.numa_nodes)
            tables = [
                node.memory[block.type]
                for name, node in self.nodes.items()
                if int(name) in group and block.type in node.memory
            ]
            if len(tables) < len(group) or any(table.allocatable_bytes < 0 for table in tables):
                continue
            given = block.size_bytes + sum(
                other.size_bytes
                for blocks in held.values()
                for other in blocks
                if other.type == block.type and set(other.numa_nodes) <= group
            )
            allocatable = sum(table.allocatable_bytes for table in tables)
            if given > allocatable:
                return (
                    f"NUMA node {', '.join(map(str, sorted(group)))} has {allocatable} bytes of "
                    f"{block.type} to give, and with this {given} would be given"
                )
        return ""

    def free(self, held: Iterable[Blocks]) -> dict[str, int] | None:
        """Type -> bytes that no container has, over all nodes; None where it is not known."""
        if not self.nodes:
            return None
        free: dict[str, int] = {}
        for node in self.nodes.values():
            for name, table in node.memory.items():
                if table.allocatable_bytes < 0:
                    return None
                free[name] = free.get(name, 0) + table.allocatable_bytes
        for blocks in held:
            for block in blocks:
                free[block.type] = free.get(block.type, 0) - block.size_bytes
        return free


def reserved_bytes(setting: Any, body: MemoryStateRefused) -> int | None:  # noqa: ANN401
    """Bytes that ``reservedMemory`` keeps of a node and type; None where it does not tell."""
    for entry in setting if isinstance(setting, list) else ():
        if isinstance(entry, dict) and entry.get("numaNode") == body.numa_node:
            try:
                amount = (entry.get("limits") or {}).get(body.type)
                return None if amount is None else Quantity.from_api(amount).value()
            except (QuantityError, AttributeError):
                return None
    return None
