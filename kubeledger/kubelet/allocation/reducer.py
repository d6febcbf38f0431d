"""What records show of what is allocated to pods: state and reducer.

Allocations outlive the kubelet process, because their file keeps them; what a pod had is there
until a later file lacks it.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers
from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead


class AllocationState(msgspec.Struct, kw_only=True):
    """By the last sound state files.

    Attributes:
        allocated, actuated: pod UID -> what the kubelet gave it, and what the runtime was told.
        file_read_ts_ns: when ``allocated_pods_state`` was last read; ``file_checksum_ok`` as there.
    """

    allocated: dict[str, PodResources] = {}
    actuated: dict[str, PodResources] = {}
    file_read_ts_ns: int | None = None
    file_checksum_ok: bool | None = None


def _state_read(state: AllocationState, ts_ns: int, body: PodsStateRead) -> None:
    if body.which == "allocated":
        state.file_read_ts_ns, state.file_checksum_ok = ts_ns, body.checksum_ok
    if body.checksum_ok is not False:
        setattr(state, body.which, dict(body.pods))


HANDLERS: Handlers[AllocationState] = {PodsStateRead: _state_read}
"""Body type -> what it does to the state."""
