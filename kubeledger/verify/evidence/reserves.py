"""What ``reservedMemory`` keeps of each NUMA node, and tables of a machine with another reserve."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.bodies.memorymanager import MemoryTable, NUMANodeMemory

Reserves = Mapping[tuple[int, str], int]
"""(NUMA node, type) -> bytes."""


def reserves_of(setting: object) -> Reserves | None:
    """The setting as it is recorded or asked for; None where it cannot be read."""
    found: dict[tuple[int, str], int] = {}
    try:
        for entry in setting if isinstance(setting, list) else ():
            for name, amount in (entry.get("limits") or {}).items():
                found[int(entry["numaNode"]), name] = Quantity.from_api(amount).value()
    except (QuantityError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return found if isinstance(setting, list) else None


def with_reserves(
    machine: Mapping[str, NUMANodeMemory], reserves: Reserves
) -> dict[str, NUMANodeMemory]:
    """The NUMA nodes if the kubelet kept as much of each as this; what containers have stays."""
    return {
        node: msgspec.structs.replace(
            state,
            memory={
                name: _with_reserve(table, reserves.get((int(node), name), 0))
                for name, table in state.memory.items()
            },
        )
        for node, state in machine.items()
    }


def _with_reserve(table: MemoryTable, reserved_bytes: int) -> MemoryTable:
    more = table.system_reserved_bytes - reserved_bytes
    return msgspec.structs.replace(
        table,
        system_reserved_bytes=reserved_bytes,
        allocatable_bytes=table.allocatable_bytes + more,
        free_bytes=table.free_bytes + more,
    )
