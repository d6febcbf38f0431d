"""What the DRA manager knows of claims: in memory, and in ``dra_manager_state``.

Source: v1.36.2 pkg/kubelet/cm/dra/claiminfo.go, state/state.go
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.kube.resourceclaim import ResourceClaim


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

    def copy(self) -> ClaimInfoCache:
        """Another one that holds the same."""
        other = ClaimInfoCache()
        other.claims, other.checkpoint = self.claims.copy(), self.checkpoint.copy()
        other.prepared = self.prepared.copy()
        return other

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
