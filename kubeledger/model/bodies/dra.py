"""Observations and decisions of the DRA manager: claims that pods use."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = ["ClaimPrepared", "ClaimReleased", "DraManagerStateRead"]


class ClaimDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that a driver prepared for a claim.

    Attributes:
        pool, device: its name; None up to 1.30, which kept only what the runtime is told.
        requests: of the claim that it is for; empty: all.
        cdi_device_ids: what the runtime is told.
    """

    pool: str | None = None
    device: str | None = None
    requests: tuple[str, ...] = ()
    cdi_device_ids: tuple[str, ...] = ()


class HeldClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim as the kubelet holds it.

    Attributes:
        pod_uids: (n,) pods that refer to it, sorted.
        drivers: driver -> devices that it prepared; none while it has not.
    """

    namespace: str
    name: str
    uid: str
    pod_uids: tuple[str, ...] = ()
    drivers: dict[str, tuple[ClaimDevice, ...]] = {}


class ClaimPrepared(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim is prepared for a pod, by all drivers that it needs.

    Attributes:
        drivers: driver -> devices that it prepared; the same ones twice where it was asked twice.
        told_by: ``log``: lines of that moment; ``state_file``: only ``dra_manager_state`` shows
            it, which was read later.
    """

    kind: ClassVar[str] = "dra.ClaimPrepared"
    namespace: str
    pod: str | None
    pod_uid: str
    claim: str
    claim_uid: str
    drivers: dict[str, tuple[ClaimDevice, ...]]
    told_by: Literal["log", "state_file"] = "log"


class ClaimReleased(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod no longer holds a claim.

    Attributes:
        unprepared: the claim's drivers unprepared it; False: other pods refer to it.
        inferred: seen only as an entry missing in a later ``dra_manager_state``.
    """

    kind: ClassVar[str] = "dra.ClaimReleased"
    namespace: str
    pod: str | None
    pod_uid: str
    claim: str
    claim_uid: str
    unprepared: bool
    inferred: bool = False


class DraManagerStateRead(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``dra_manager_state`` as it was on disk, recorded when it changed.

    Attributes:
        claims: (n,) sorted by namespace and name.
        checksum: as stored; ``checksum_ok`` says whether it fits the data, None when the
            form of the file is one whose checksum cannot be computed.
    """

    kind: ClassVar[str] = "dra.DraManagerStateRead"
    claims: tuple[HeldClaim, ...] = ()
    checksum: int
    checksum_ok: bool | None
