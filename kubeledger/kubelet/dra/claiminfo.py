"""What the DRA manager knows of claims, also in ``dra_manager_state``, and what drivers answer.

Source: v1.36.2 pkg/kubelet/cm/dra/claiminfo.go, state/state.go
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

from kubeledger.kubelet.kube.containermanager import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_list,
    optional_object,
    string_of,
    strings_of,
)
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.resourceclaim import ResourceClaim
from kubeledger.kubelet.profile.devices import DraFacts
from kubeledger.model.bodies.devicemanager import ClaimDevice, DraManagerStateRead, HeldClaim


class Device(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A device as its driver described it when it prepared a claim."""

    pool_name: str = msgspec.field(name="PoolName")
    device_name: str = msgspec.field(name="DeviceName")
    share_id: str | None = msgspec.field(default=None, name="ShareID")
    request_names: tuple[str, ...] | None = msgspec.field(default=None, name="RequestNames")
    cdi_device_ids: tuple[str, ...] | None = msgspec.field(default=None, name="CDIDeviceIDs")


class DriverState(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a driver prepared for a claim; None: nothing yet."""

    devices: tuple[Device, ...] | None = msgspec.field(default=None, name="Devices")


class ClaimInfoState(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A claim, its pods and its drivers, each in the order in which they were noted."""

    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str = msgspec.field(name="ClaimName")
    namespace: str = msgspec.field(name="Namespace")
    pod_uids: tuple[str, ...] = msgspec.field(default=(), name="PodUIDs")
    drivers: dict[str, DriverState] = msgspec.field(default_factory=dict, name="DriverState")

    def with_pod(self, uid: str) -> ClaimInfoState:
        """With a reference of a pod."""
        pods = self.pod_uids
        return self if uid in pods else self._replaced((*pods, uid), self.drivers)

    def without_pod(self, uid: str) -> ClaimInfoState:
        """Without the reference of a pod."""
        return self._replaced(tuple(pod for pod in self.pod_uids if pod != uid), self.drivers)

    def with_devices(self, driver: str, devices: Sequence[Device]) -> ClaimInfoState:
        """With devices that a driver prepared, behind those that it prepared before."""
        if not devices:
            return self
        before = self.drivers[driver].devices if driver in self.drivers else None
        state = DriverState((*(before or ()), *devices))
        return self._replaced(self.pod_uids, self.drivers | {driver: state})

    def as_written(self) -> ClaimInfoState:
        """With pods and drivers sorted, as Go writes and then reads them."""
        pods, names = tuple(sorted(self.pod_uids)), sorted(self.drivers)
        if pods == self.pod_uids and names == [*self.drivers]:
            return self
        return self._replaced(pods, {name: self.drivers[name] for name in names})

    def cdi_devices(self, request: str) -> list[str]:
        """CDI names of the devices for one request of the claim, or for all.

        Source: v1.36.2 pkg/kubelet/cm/dra/claiminfo.go cdiDevicesAsList
        """
        return [
            name
            for driver in self.drivers.values()
            for device in driver.devices or ()
            if not request or not device.request_names or request in device.request_names
            for name in device.cdi_device_ids or ()
        ]

    def _replaced(self, pods: tuple[str, ...], drivers: dict[str, DriverState]) -> ClaimInfoState:
        return ClaimInfoState(self.claim_uid, self.claim_name, self.namespace, pods, drivers)


def new_claim_info(claim: ResourceClaim) -> ClaimInfoState | None:
    """A claim that no pod refers to yet; None where it is not allocated.

    Source: v1.36.2 pkg/kubelet/cm/dra/claiminfo.go newClaimInfoFromClaim
    """
    meta, allocation = claim.metadata, claim.status.allocation
    if allocation is None:
        return None
    drivers = {each.driver or "": DriverState() for each in allocation.devices.results or ()}
    return ClaimInfoState(meta.uid or "", meta.name or "", meta.namespace or "", (), drivers)


class ClaimInfoCache:
    """Claims by namespace and name.

    Attributes:
        claims: what is in memory.
        checkpoint: what the file holds.
        prepared: keys of claims whose drivers have all prepared them, since the kubelet started.
    """

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], ClaimInfoState] = {}
        self.checkpoint: dict[tuple[str, str], ClaimInfoState] = {}
        self.prepared: set[tuple[str, str]] = set()

    def put(self, claim: ClaimInfoState) -> None:
        """Hold a claim as it is now."""
        self.claims[claim.namespace, claim.claim_name] = claim

    def delete(self, key: tuple[str, str]) -> None:
        """Forget a claim."""
        self.claims.pop(key, None)
        self.prepared.discard(key)

    def sync_to_checkpoint(self) -> None:
        """Write the file."""
        self.checkpoint = self.claims.copy()

    def restart(self) -> None:
        """Read the file; nothing counts as prepared."""
        self.checkpoint = {key: claim.as_written() for key, claim in self.checkpoint.items()}
        self.claims = self.checkpoint.copy()
        self.prepared = set()


# ``dra_manager_state``: parsing and checksum.
#
# Since 1.31 the content is a text inside of the file, of which the checksum is, with the devices of
# each driver; before, the claims stood in the file itself, with what the runtime was told alone.

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


# What drivers answer, and where the kubelet gives up over an answer.

Verb = Literal["prepare", "unprepare"]


class DraError(Exception):
    """An error as the kubelet returns it."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """What a driver says of one claim: an error, or its devices."""

    error: str = ""
    devices: tuple[Device, ...] = ()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A driver's answer to a call.

    Attributes:
        error: the call failed, with this text.
        results: claim UID -> what is said of it if it is asked for.
        unasked: UIDs of claims of which it speaks, too.
    """

    error: str = ""
    results: dict[str, Result] = {}
    unasked: tuple[str, ...] = ()

    def said(self, asked: Sequence[ClaimInfoState]) -> dict[str, Result]:
        """What it says to a call: claim UID -> result."""
        uids = [claim.claim_uid for claim in asked if claim.claim_uid in self.results]
        return {uid: self.results[uid] for uid in uids} | dict.fromkeys(self.unasked, Result())


NOTHING = Answer()
"""A driver that answers, and says nothing of any claim."""


def fails(asked: Sequence[ClaimInfoState], answer: Answer) -> bool:
    """Whether the kubelet gives up over this answer."""
    said = answer.said(asked)
    return bool(answer.error or _failing(asked, said) or len(asked) != len(said))


def read(
    verb: Verb, asked: Sequence[ClaimInfoState], answer: Answer, order: MapOrder, facts: DraFacts
) -> Iterator[tuple[ClaimInfoState, Result]]:
    """Claims with what a driver says of them, one after the other.

    Raises:
        DraError: where the kubelet gives up.

    Source: v1.36.2 pkg/kubelet/cm/dra/manager.go prepareResources, unprepareResources
    """
    call = "NodePrepareResources" if verb == "prepare" else "NodeUnprepareResources"
    if answer.error:
        failed = "" if facts.errors_for_users else " failed"
        raise DraError(f"{call}{failed}: {answer.error}")
    results = answer.said(asked)
    written = [*results][::-1] if facts.answers_written_backwards else results
    by_uid = {claim.claim_uid: claim for claim in asked}
    for uid in order.until_failure(written, _failing(asked, results)):
        claim, result = by_uid.get(uid), results[uid]
        if claim is None:
            raise DraError(f"{call} returned result for unknown claim UID {uid}")
        if result.error:
            of = (
                f"ResourceClaim {claim.claim_name}"
                if facts.errors_for_users
                else f"claim {claim.namespace}/{claim.claim_name}"
            )
            raise DraError(f"{call} failed for {of}: {result.error}")
        yield claim, result
    unfinished = len(asked) - len(results)
    if unfinished:
        skipped = (
            f"skipped {unfinished} ResourceClaims"
            if facts.errors_for_users
            else f"left out {unfinished} claims"
        )
        raise DraError(f"{call} {skipped}")


def _failing(asked: Sequence[ClaimInfoState], results: Mapping[str, Result]) -> Collection[str]:
    uids = {claim.claim_uid for claim in asked}
    return [uid for uid, result in results.items() if uid not in uids or result.error]
