"""Observations and decisions about devices, claims and the pod-resources API.

NUMA nodes are integers; -1 stands for devices without topology in versions that
record them so. Device lists are sorted unless the docstring says otherwise.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.bodies.resourcemanagers import MemoryBlock
from kubeledger.model.record import Decision, Observation, OfSomePod


class PluginRegistered(Observation, frozen=True, kw_only=True):
    """A device plugin registered for a resource."""

    kind: ClassVar[str] = "devicemanager.PluginRegistered"
    resource: str


class DevicesReported(Observation, frozen=True, kw_only=True):
    """A plugin sent its device list, as far as the source shows it.

    Attributes:
        total: devices in the list, None when not known.
        healthy: healthy ones, None when not known.
        device_ids: all IDs (from the checkpoint's registered devices), None when not known.
    """

    kind: ClassVar[str] = "devicemanager.DevicesReported"
    resource: str
    total: int | None = None
    healthy: int | None = None
    device_ids: tuple[str, ...] | None = None


class EndpointStopped(Observation, frozen=True, kw_only=True):
    """A plugin's endpoint went away; its devices count as unhealthy."""

    kind: ClassVar[str] = "devicemanager.EndpointStopped"
    resource: str
    error: str | None = None


class AllocationRequested(OfSomePod, Observation, frozen=True, kw_only=True):
    """A container asks for devices.

    Attributes:
        needed: devices still needed after what it already holds or may reuse, as the
            kubelet logged it.
    """

    kind: ClassVar[str] = "devicemanager.AllocationRequested"
    container: str
    resource: str
    needed: int


class DevicesAllocated(OfSomePod, Decision, frozen=True, kw_only=True):
    """A container got devices of one resource.

    Attributes:
        device_ids: sorted IDs.
        numa: NUMA node (as decimal text) -> sorted IDs, from the checkpoint; None when no
            checkpoint shows this allocation.
        told_by: ``call``: the plugin was asked just then; ``checkpoint``: only a checkpoint
            shows it, which was read later; ``restore``: the kubelet found it, allocated by
            a process before.
    """

    kind: ClassVar[str] = "devicemanager.DevicesAllocated"
    container: str
    resource: str
    device_ids: tuple[str, ...]
    numa: dict[str, tuple[str, ...]] | None = None
    told_by: Literal["call", "checkpoint", "restore"] = "call"


NO_HINTS = "Unable to generate topology hints: requested number of devices unavailable"
"""Error of a refusal that topology hints showed first."""


class AllocationFailed(OfSomePod, Decision, frozen=True, kw_only=True):
    """The device manager refused a container.

    Attributes:
        container: None when the message does not name it.
        requested, available: counts from the message; None when it holds none.
        hints_requested, hints_available: counts from the line of the same admission about
            topology hints, where they are others; None where they are the same.
        error: the device manager's error text.
        told_by: ``log``: a line of that moment; ``event``: an API event, whose time is of
            whole seconds; ``status``: a pod list of any time later.
    """

    kind: ClassVar[str] = "devicemanager.AllocationFailed"
    container: str | None
    resource: str | None
    requested: int | None = None
    available: int | None = None
    hints_requested: int | None = None
    hints_available: int | None = None
    error: str
    told_by: Literal["log", "event", "status"] = "log"


class DevicesReleased(Decision, frozen=True, kw_only=True):
    """Devices of a gone pod were given back (UpdateAllocatedDevices, or absent in a checkpoint).

    Attributes:
        container, resource: None: all of the pod's.
        inferred: seen only as an entry missing in a later checkpoint.
    """

    kind: ClassVar[str] = "devicemanager.DevicesReleased"
    pod_uid: str
    container: str | None = None
    resource: str | None = None
    inferred: bool = False


class CheckpointEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``kubelet_internal_checkpoint``.

    Attributes:
        numa: NUMA node (as decimal text) -> sorted IDs; key ``""`` for checkpoints of
            versions that keep a flat list.
    """

    pod_uid: str
    container: str
    resource: str
    numa: dict[str, tuple[str, ...]]
    alloc_response_b64: str = ""


class CheckpointRead(Observation, frozen=True, kw_only=True):
    """``kubelet_internal_checkpoint`` as it was on disk, recorded when it changed.

    Attributes:
        entries: sorted by pod UID, container, resource.
        registered: resource -> sorted device IDs.
        checksum: as stored; ``checksum_ok`` says whether it fits the data, None when the
            form of the checkpoint is one whose checksum cannot be computed.
    """

    kind: ClassVar[str] = "devicemanager.CheckpointRead"
    entries: tuple[CheckpointEntry, ...]
    registered: dict[str, tuple[str, ...]]
    checksum: int
    checksum_ok: bool | None


# Observations and decisions of the DRA manager: claims that pods use.


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


class ClaimPrepared(Decision, frozen=True, kw_only=True):
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


class ClaimReleased(Decision, frozen=True, kw_only=True):
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


class DraManagerStateRead(Observation, frozen=True, kw_only=True):
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


# What the kubelet's pod-resources API reports (pkg/kubelet/apis/podresources, v1).
#
# It is asked on the node, over a socket. Sets of CPUs are text in the kubelet's notation
# (``0-3,7``).


class ListedDevices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices of one resource on the same NUMA nodes.

    Attributes:
        numa_nodes: sorted; empty where the plugin reports none.
        device_ids: sorted.
    """

    resource: str
    numa_nodes: tuple[int, ...] = ()
    device_ids: tuple[str, ...]


class ContainerResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one container has for itself.

    Attributes:
        pod_uid: None where no other source shows it: the API names pods only.
        devices: sorted by resource and NUMA nodes.
        cpu_set: CPUs that no other container may use; until 1.22 those of the shared pool
            for any other container. Empty for none.
        memory: sorted by type and NUMA nodes.
        claims: NAMESPACE/NAME of a resource claim -> sorted DRIVER/POOL/DEVICE.
    """

    namespace: str
    pod: str
    pod_uid: str | None
    container: str
    devices: tuple[ListedDevices, ...] = ()
    cpu_set: str = ""
    memory: tuple[MemoryBlock, ...] = ()
    claims: dict[str, tuple[str, ...]] = {}


class PodResourcesListed(Observation, frozen=True, kw_only=True):
    """The answer to ``List``, recorded when it changed.

    Attributes:
        containers: that have something for themselves, sorted by namespace, pod and name. Init
            containers that end are never listed.
    """

    kind: ClassVar[str] = "devicemanager.PodResourcesListed"
    containers: tuple[ContainerResources, ...]


class AllocatableResourcesListed(Observation, frozen=True, kw_only=True):
    """The answer to ``GetAllocatableResources``, recorded when it changed.

    Attributes:
        devices: healthy ones, until 1.22 all; sorted by resource and NUMA nodes.
        cpu_set: CPUs that containers may get for themselves.
        memory: sorted by type and NUMA nodes.
    """

    kind: ClassVar[str] = "devicemanager.AllocatableResourcesListed"
    devices: tuple[ListedDevices, ...] = ()
    cpu_set: str = ""
    memory: tuple[MemoryBlock, ...] = ()
