"""What the memory manager holds, memory of NUMA nodes by container: records to state.

Assignments outlive the kubelet process, because its state file keeps them. The file alone
gives and takes no memory here, but it shows what a container has of it.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers, as_told, let_go
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.model.bodies.resourcemanagers import (
    MemoryAllocated,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    NUMANodeMemory,
)


class HeldMemory(msgspec.Struct, kw_only=True):
    """Memory of one container.

    Attributes:
        namespace, pod: the pod's name, which may be gone from the node; None when not known.
        blocks: by type; None while no state file shows them.
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


def _started(state: MemoryManagerState, ts_ns: int, body: MemoryManagerStarted) -> None:
    state.policy = body.policy
    if body.restored is False:
        state.pods.clear()
        state.machine = {}


def _allocated(state: MemoryManagerState, ts_ns: int, body: MemoryAllocated) -> None:
    key = pod_key(body.pod_uid, body.namespace, body.pod)
    if key is not None:
        state.pods.setdefault(key, {})[body.container] = as_told(
            HeldMemory, body, since_ts_ns=ts_ns
        )


def _released(state: MemoryManagerState, ts_ns: int, body: MemoryReleased) -> None:
    let_go(state.pods, body.pod_uid, body.container)


def _state_read(state: MemoryManagerState, ts_ns: int, body: MemoryManagerStateRead) -> None:
    state.file_read_ts_ns = ts_ns
    state.file_checksum_ok = body.checksum_ok
    if body.checksum_ok is False:
        return
    state.policy = body.policy
    state.machine = dict(body.machine)
    for uid, containers in body.assignments.items():
        for name, blocks in containers.items():
            held = state.pods.get(uid, {}).get(name)
            if held is not None:
                held.blocks = blocks


HANDLERS: Handlers[MemoryManagerState] = {
    MemoryAllocated: _allocated,
    MemoryManagerStarted: _started,
    MemoryManagerStateRead: _state_read,
    MemoryReleased: _released,
}
"""Body type -> what it does to the state; what was refused changes nothing."""
