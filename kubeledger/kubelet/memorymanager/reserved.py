"""``reservedMemory``: what the node keeps of each NUMA node, and whether it adds up.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/memory_manager.go
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.names import HUGE_PAGES
from kubeledger.kubelet.kube.quantity import ZERO, Quantity
from kubeledger.kubelet.kube.requests import Amount, ResourceList
from kubeledger.kubelet.memorymanager.machine import MEMORY, UINT64, MemoryManagerError


class MemoryReservation(NamedTuple):
    """One entry of ``reservedMemory``."""

    numa_node: int
    limits: ResourceList


def get_system_reserved_memory(
    nodes: Collection[int],
    reservation: ResourceList,
    reserved: Sequence[MemoryReservation],
    order: MapOrder = FIRST_ORDER,
) -> dict[int, dict[str, int]]:
    """NUMA node -> type -> bytes; of two entries for one node and type the later one stands.

    Args:
        nodes: of the machine.
        reservation: what the node keeps by Node Allocatable.
        reserved: the setting.
        order: of the types, of which the first that does not add up is reported.

    Raises:
        MemoryManagerError: the kubelet does not start with it.
    """
    _validate_reserved_memory(nodes, reservation, reserved, order)
    converted: dict[int, dict[str, int]] = {node: {} for node in nodes}
    for entry in reserved:
        for name, amount in entry.limits.items():
            size = _quantity(amount).as_int64()
            if size is None:
                raise MemoryManagerError(
                    "could not covert a variable of type Quantity to int64"  # the kubelet's text
                )
            converted[entry.numa_node][name] = size & UINT64
    if not sum(types.get(MEMORY, 0) for types in converted.values()) & UINT64:
        raise MemoryManagerError("[memorymanager] you should specify the system reserved memory")
    return converted


def _validate_reserved_memory(
    nodes: Collection[int],
    reservation: ResourceList,
    reserved: Sequence[MemoryReservation],
    order: MapOrder,
) -> None:
    """By type, all NUMA nodes together keep what Node Allocatable keeps."""
    total: dict[str, Quantity] = {}
    for entry in reserved:
        if entry.numa_node not in nodes:
            raise MemoryManagerError(
                "the reserved memory configuration references a NUMA node "
                f"{entry.numa_node} that does not exist on this machine"
            )
        for name, amount in entry.limits.items():
            quantity = _quantity(amount)
            total[name] = quantity.add(total[name]) if name in total else quantity
    wanted = {
        name: _quantity(amount)
        for name, amount in reservation.items()
        if name == MEMORY or name.startswith(HUGE_PAGES)
    }
    sums = {
        name: (ZERO.add(total.get(name, ZERO)), ZERO.add(wanted.get(name, ZERO)))
        for name in {**total, **wanted}
    }
    wrong = [name for name, (given, needed) in sums.items() if given != needed]
    if wrong:
        name = order.of(wrong)[0]
        given, needed = sums[name]
        raise MemoryManagerError(
            f'the total amount "{given}" of type "{name}" is not equal to the value "{needed}" '
            "determined by Node Allocatable feature"
        )


@lru_cache(maxsize=1 << 12)
def _quantity(amount: Amount) -> Quantity:
    return Quantity.from_api(amount)
