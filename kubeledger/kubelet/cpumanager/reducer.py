"""What the CPU manager holds, the shared pool and the CPUs of containers: records to state.

Assignments outlive the kubelet process, because its state file keeps them. The file alone
gives and takes no CPU here: what follows from it is a record of its own.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers, as_told, let_go
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.model.bodies.resourcemanagers import (
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
)


class HeldCpus(msgspec.Struct, kw_only=True):
    """CPUs of one container.

    Attributes:
        namespace, pod: the pod's name, which may be gone from the node; None when not known.
        cpu_set: in the kubelet's notation.
    """

    namespace: str | None
    pod: str | None
    cpu_set: str
    since_ts_ns: int


class CpuManagerState(msgspec.Struct, kw_only=True):
    """The CPU manager's memory, which its state file keeps across restarts.

    Attributes:
        policy: None when not known, as for the sets.
        file_read_ts_ns: when ``cpu_manager_state`` was last read; ``file_checksum_ok`` as there.
        pods: pod key -> container -> CPUs.
    """

    policy: str | None = None
    reserved_cpu_set: str | None = None
    default_cpu_set: str | None = None
    file_read_ts_ns: int | None = None
    file_checksum_ok: bool | None = None
    pods: dict[str, dict[str, HeldCpus]] = {}


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
    state.pods.setdefault(key, {})[body.container] = as_told(HeldCpus, body, since_ts_ns=ts_ns)
    if body.default_cpu_set is not None:
        state.default_cpu_set = body.default_cpu_set


def _released(state: CpuManagerState, ts_ns: int, body: CpusReleased) -> None:
    let_go(state.pods, body.pod_uid, body.container)
    if body.default_cpu_set is not None:
        state.default_cpu_set = body.default_cpu_set


def _state_read(state: CpuManagerState, ts_ns: int, body: CpuManagerStateRead) -> None:
    state.file_read_ts_ns = ts_ns
    state.file_checksum_ok = body.checksum_ok
    if body.checksum_ok is not False:
        state.policy = body.policy
        state.default_cpu_set = body.default_cpu_set


HANDLERS: Handlers[CpuManagerState] = {
    CpuManagerStarted: _started,
    CpuManagerStateRead: _state_read,
    CpusAllocated: _allocated,
    CpusReleased: _released,
}
"""Body type -> what it does to the state; a refusal changes nothing."""
