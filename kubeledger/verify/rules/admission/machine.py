"""The machine's size from what shows it indirectly, where no line and no node object tells.

The eviction signals hold the capacity of memory and disk. The cgroup of all pods has the CPU
shares of what the reserves leave, and only one whole number of CPUs gives these.
"""

from __future__ import annotations

import msgspec

from kubeledger.node.state import NodeState
from kubeledger.verify.cpus import cpus_by_shares

__all__ = ["Clues", "clues"]


class Clues(msgspec.Struct, frozen=True):
    """What is shown indirectly; None where nothing shows it.

    Attributes:
        cpus: whole CPUs.
        memory_bytes: of the machine.
        disk_bytes: of the node's own filesystem.
    """

    cpus: int | None
    memory_bytes: int | None
    disk_bytes: int | None


def clues(state: NodeState, *, told: bool) -> Clues:
    """What the state shows.

    Args:
        state: of the node.
        told: some record tells CPUs and memory, so only the disk is asked for.
    """
    signals = state.images.signals
    disk, memory = signals.get("nodefs.available"), signals.get("memory.available")
    return Clues(
        cpus=None if told else _cpus(state),
        memory_bytes=None if told or memory is None else memory.capacity,
        disk_bytes=None if disk is None else disk.capacity,
    )


def _cpus(state: NodeState) -> int | None:
    """By the recorded settings: they gave the cgroup its value, whatever is asked for now."""
    for group in state.cgroups.cgroups.values():
        if group.level == "node" and group.cpu_shares is not None:
            return cpus_by_shares(group.cpu_shares, state.settings)
    return None
