"""CPU manager: records to state.

Assignments outlive the kubelet process, because its state file keeps them. The file alone
gives and takes no CPU here: what follows from it is a record of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.kubelet.cpumanager.state import CpuManagerState, HeldCpus
from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.model.bodies.cpumanager import (
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
)
from kubeledger.model.record import Body


def _started(state: CpuManagerState, ts_ns: int, body: CpuManagerStarted) -> None:
    state.policy = body.policy
    state.reserved_cpu_set = body.reserved_cpu_set
    state.default_cpu_set = body.default_cpu_set
    if body.restored is False:
        state.pods.clear()


def _allocated(state: CpuManagerState, ts_ns: int, body: CpusAllocated) -> None:
    key = pod_key(body.pod_uid, body.namespace, body.pod)
    if key is None:
        return
    state.pods.setdefault(key, {})[body.container] = HeldCpus(
        namespace=body.namespace, pod=body.pod, cpu_set=body.cpu_set, since_ts_ns=ts_ns
    )
    if body.default_cpu_set is not None:
        state.default_cpu_set = body.default_cpu_set


def _released(state: CpuManagerState, ts_ns: int, body: CpusReleased) -> None:
    containers = state.pods.get(body.pod_uid, {})
    containers.pop(body.container, None)
    if not containers:
        state.pods.pop(body.pod_uid, None)
    if body.default_cpu_set is not None:
        state.default_cpu_set = body.default_cpu_set


def _state_read(state: CpuManagerState, ts_ns: int, body: CpuManagerStateRead) -> None:
    state.file_read_ts_ns = ts_ns
    state.file_checksum_ok = body.checksum_ok
    if body.checksum_ok is not False:
        state.policy = body.policy
        state.default_cpu_set = body.default_cpu_set


HANDLERS: Mapping[type[Body], Callable[[CpuManagerState, int, Any], None]] = {
    CpuManagerStarted: _started,
    CpuManagerStateRead: _state_read,
    CpusAllocated: _allocated,
    CpusReleased: _released,
}
"""Body type -> what it does to the state; a refusal changes nothing."""
