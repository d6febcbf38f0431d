"""What the memory manager holds: memory of NUMA nodes by container."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.memorymanager import MemoryBlock, NUMANodeMemory


class HeldMemory(msgspec.Struct, kw_only=True):
    """Memory of one container.

    Attributes:
        namespace, pod: the pod's name, which may be gone from the node; None when not known.
        blocks: by type; None while no state file shows them.
        since_ts_ns: when it was given.
    """

    namespace: str | None
    pod: str | None
    blocks: tuple[MemoryBlock, ...] | None
    since_ts_ns: int


class MemoryManagerState(msgspec.Struct, kw_only=True):
    """The memory manager's memory, which its state file keeps across restarts.

    Attributes:
        policy: None when not known.
        machine: NUMA node (decimal text) -> its memory by the last sound state file.
        file_read_ts_ns: when ``memory_manager_state`` was last read; ``file_checksum_ok`` as
            there.
        pods: pod key -> container -> memory.
    """

    policy: str | None = None
    machine: dict[str, NUMANodeMemory] = {}
    file_read_ts_ns: int | None = None
    file_checksum_ok: bool | None = None
    pods: dict[str, dict[str, HeldMemory]] = {}
