"""Memory manager: records to state.

Assignments outlive the kubelet process, because its state file keeps them. The file alone
gives and takes no memory here, but it shows what a container has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.memorymanager.state import HeldMemory, MemoryManagerState
from kubeledger.model.bodies.memorymanager import (
    MemoryAllocated,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
)
from kubeledger.model.record import Body


def _started(state: MemoryManagerState, ts_ns: int, body: MemoryManagerStarted) -> None:
    state.policy = body.policy
    if body.restored is False:
        state.pods.clear()
        state.machine = {}


def _allocated(state: MemoryManagerState, ts_ns: int, body: MemoryAllocated) -> None:
    key = pod_key(body.pod_uid, body.namespace, body.pod)
    if key is not None:
        state.pods.setdefault(key, {})[body.container] = HeldMemory(
            namespace=body.namespace, pod=body.pod, blocks=body.blocks, since_ts_ns=ts_ns
        )


def _released(state: MemoryManagerState, ts_ns: int, body: MemoryReleased) -> None:
    containers = state.pods.get(body.pod_uid, {})
    containers.pop(body.container, None)
    if not containers:
        state.pods.pop(body.pod_uid, None)


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


HANDLERS: Mapping[type[Body], Callable[[MemoryManagerState, int, Any], None]] = {
    MemoryAllocated: _allocated,
    MemoryManagerStarted: _started,
    MemoryManagerStateRead: _state_read,
    MemoryReleased: _released,
}
"""Body type -> what it does to the state; what was refused changes nothing."""
