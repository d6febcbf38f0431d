"""DRA manager: records to state.

Claims outlive the kubelet process, because its state file keeps them. The file alone gives and
takes none here; what follows from it is a record of its own.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers, as_told, let_go
from kubeledger.model.bodies.devicemanager import (
    ClaimDevice,
    ClaimPrepared,
    ClaimReleased,
    DraManagerStateRead,
)


class PreparedClaim(msgspec.Struct, kw_only=True):
    """A claim that is prepared for a pod.

    Attributes:
        claim: its name; ``namespace`` and ``pod`` of the pod, None when not known.
        drivers: driver -> devices that it prepared.
    """

    namespace: str
    claim: str
    pod: str | None
    drivers: dict[str, tuple[ClaimDevice, ...]]
    since_ts_ns: int


class DraManagerState(msgspec.Struct, kw_only=True):
    """The DRA manager's memory, which its state file keeps across restarts.

    Attributes:
        file_read_ts_ns: when ``dra_manager_state`` was last read; ``file_checksum_ok`` as there.
        pods: pod UID -> claim UID -> the claim.
    """

    file_read_ts_ns: int | None = None
    file_checksum_ok: bool | None = None
    pods: dict[str, dict[str, PreparedClaim]] = {}


def _prepared(state: DraManagerState, ts_ns: int, body: ClaimPrepared) -> None:
    claim = as_told(PreparedClaim, body, since_ts_ns=ts_ns)
    state.pods.setdefault(body.pod_uid, {})[body.claim_uid] = claim


def _released(state: DraManagerState, ts_ns: int, body: ClaimReleased) -> None:
    let_go(state.pods, body.pod_uid, body.claim_uid)


def _state_read(state: DraManagerState, ts_ns: int, body: DraManagerStateRead) -> None:
    state.file_read_ts_ns, state.file_checksum_ok = ts_ns, body.checksum_ok


HANDLERS: Handlers[DraManagerState] = {
    ClaimPrepared: _prepared,
    ClaimReleased: _released,
    DraManagerStateRead: _state_read,
}
"""Body type -> what it does to the state."""
