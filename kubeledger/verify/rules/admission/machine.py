"""The machine's size from what shows it indirectly, where no line and no node object tells.

The eviction signals hold the capacity of memory and disk. The cgroup of all pods has the CPU
shares of what the reserves leave, and only one whole number of CPUs gives these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeledger.kubelet.cgroups.conversions import shares_of_milli_cpu
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.bodies.node import Setting
from kubeledger.replay.node.state import NodeState

__all__ = ["by_signs"]

_CPUS_MAX: Final = 1024


def by_signs(state: NodeState, inferred: bool) -> dict[str, int | None]:
    """Resource -> whole units that the state shows, None where it shows none.

    CPUs follow from the recorded settings, which gave the cgroup its value, whatever is asked now.

    Args:
        state: of the node.
        inferred: no record tells CPUs and memory, so not only the disk is asked for.
    """
    signals = state.images.signals
    disk, memory = signals.get("nodefs.available"), signals.get("memory.available")
    found = {"ephemeral-storage": None if disk is None else disk.capacity}
    if inferred:
        shares = [
            group.cpu_shares
            for group in state.cgroups.cgroups.values()
            if group.level == "node" and group.cpu_shares is not None
        ]
        found["cpu"] = _cpus_by_shares(shares[0], state.settings) if shares else None
        found["memory"] = None if memory is None else memory.capacity
    return found


def _cpus_by_shares(shares: int, settings: Mapping[str, Setting]) -> int | None:
    """Whole CPUs; None where a setting is not known, or no number or several give the shares.

    Args:
        shares: ``cpu.shares`` of the cgroup of all pods.
        settings: the recorded ones, which gave the cgroup its value.
    """
    reserved_milli = _reserved_milli(settings)
    if reserved_milli is None:
        return None
    fitting = [
        cpus
        for cpus in range(1, _CPUS_MAX + 1)
        if cpus * 1000 > reserved_milli
        and shares_of_milli_cpu(cpus * 1000 - reserved_milli) == shares
    ]
    return fitting[0] if len(fitting) == 1 else None


def _reserved_milli(settings: Mapping[str, Setting]) -> int | None:
    """What both reserves take off the cgroup; None when a setting is not known."""
    if _value(settings, "reservedSystemCPUs") or "enforceNodeAllocatable" not in settings:
        return None
    total = 0
    for name in ("systemReserved", "kubeReserved"):
        if name not in settings:
            return None
        table = _value(settings, name) or {}
        try:
            amount = table.get("cpu") if isinstance(table, dict) else None
            total += Quantity.from_api(amount).milli_value() if amount is not None else 0
        except QuantityError:
            return None
    return total if "pods" in (_value(settings, "enforceNodeAllocatable") or ()) else 0


def _value(settings: Mapping[str, Setting], name: str) -> Any:  # noqa: ANN401 # any JSON value
    return settings[name].decoded() if name in settings else None
