"""``dra_manager_state``: parsing and checksum.

Since 1.31 the content is a text inside of the file, of which the checksum is, with the devices of
each driver; before, the claims stood in the file itself, with what the runtime was told alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from zlib import crc32

import msgspec

from kubeledger.kubelet.dra.claiminfo import ClaimInfoState
from kubeledger.kubelet.kube.checkpoints import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_list,
    optional_object,
    string_of,
    strings_of,
)
from kubeledger.model.bodies.dra import ClaimDevice, DraManagerStateRead, HeldClaim

_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"


def read_dra_manager_state(data: object) -> DraManagerStateRead:
    """The record of a decoded ``dra_manager_state``.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.36.2 pkg/kubelet/cm/dra/state/checkpoint.go Checkpoint; v1.30.0 the same,
        DRAManagerCheckpoint
    Differs: a wrong checksum is recorded instead of refusing the file, and the checksum up to
        1.30 is not computed.
    """
    top = object_of(data, "the state")
    if "Data" not in top:
        claims = optional_list(top.get("entries"), "entries") or ()
        checksum = checksum_of(top.get("checksum"))
        return _state(map(_claim_of_1_30, claims), checksum, checksum_ok=None)
    text, checksum = string_of(top["Data"], "Data"), checksum_of(top.get("Checksum"))
    try:
        content = object_of(msgspec.json.decode(text), "Data")
    except msgspec.DecodeError as error:
        raise MalformedCheckpointError(f"Data is not JSON: {error}") from None
    claims = optional_list(content.get("ClaimInfoStateList"), "ClaimInfoStateList") or ()
    fits = checksum == crc32(text.encode("utf-8", "surrogatepass"))
    return _state(map(_claim, claims), checksum, checksum_ok=fits)


def dra_manager_document(claims: Iterable[ClaimInfoState]) -> dict[str, object]:
    """The file as a kubelet since 1.31 writes it.

    Source: v1.36.2 pkg/kubelet/cm/dra/state/checkpoint.go NewCheckpoint
    """
    listed = [
        msgspec.to_builtins(claim.as_written()) | {"PodUIDs": {uid: {} for uid in claim.pod_uids}}
        for claim in claims
    ]
    content = {"kind": "DRACheckpoint", "apiVersion": _VERSION, "ClaimInfoStateList": listed}
    text = msgspec.json.encode(content).decode()
    return {"Data": text, "Checksum": crc32(text.encode())}


def _state(
    claims: Iterable[HeldClaim], checksum: int, *, checksum_ok: bool | None
) -> DraManagerStateRead:
    ordered = sorted(claims, key=lambda claim: (claim.namespace, claim.name))
    return DraManagerStateRead(claims=tuple(ordered), checksum=checksum, checksum_ok=checksum_ok)


def _claim(entry: object) -> HeldClaim:
    claim = object_of(entry, "a claim")
    drivers = optional_object(claim.get("DriverState"), "DriverState") or {}
    return _held(claim, {name: _devices(state) for name, state in sorted(drivers.items())})


def _claim_of_1_30(entry: object) -> HeldClaim:
    claim = object_of(entry, "a claim")
    devices = optional_object(claim.get("CDIDevices"), "CDIDevices") or {}
    told = {name: strings_of(ids, "CDIDevices") or () for name, ids in sorted(devices.items())}
    drivers: dict[str, tuple[ClaimDevice, ...]] = {
        name: (ClaimDevice(cdi_device_ids=tuple(ids)),) if ids else () for name, ids in told.items()
    }
    if not drivers and claim.get("DriverName"):
        drivers = {string_of(claim["DriverName"], "DriverName"): ()}
    return _held(claim, drivers)


def _held(claim: dict[str, Any], drivers: dict[str, tuple[ClaimDevice, ...]]) -> HeldClaim:
    pods = optional_object(claim.get("PodUIDs"), "PodUIDs") or {}
    return HeldClaim(
        namespace=string_of(claim.get("Namespace"), "Namespace"),
        name=string_of(claim.get("ClaimName"), "ClaimName"),
        uid=string_of(claim.get("ClaimUID"), "ClaimUID"),
        pod_uids=tuple(sorted(pods)),
        drivers=drivers,
    )


def _devices(state: object) -> tuple[ClaimDevice, ...]:
    listed = optional_list(object_of(state, "a driver").get("Devices"), "Devices") or ()
    return tuple(_device(object_of(device, "a device")) for device in listed)


def _device(device: dict[str, Any]) -> ClaimDevice:
    return ClaimDevice(
        pool=string_of(device.get("PoolName"), "PoolName"),
        device=string_of(device.get("DeviceName"), "DeviceName"),
        requests=tuple(strings_of(device.get("RequestNames"), "RequestNames") or ()),
        cdi_device_ids=tuple(strings_of(device.get("CDIDeviceIDs"), "CDIDeviceIDs") or ()),
    )
