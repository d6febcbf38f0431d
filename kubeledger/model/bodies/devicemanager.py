"""Observations and decisions of the device manager (pkg/kubelet/cm/devicemanager).

NUMA nodes are integers; -1 stands for devices without topology in versions that
record them so. Device lists are sorted unless the docstring says otherwise.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = [
    "NO_HINTS",
    "AllocationFailed",
    "AllocationRequested",
    "CheckpointEntry",
    "CheckpointRead",
    "DevicesAllocated",
    "DevicesReleased",
    "DevicesReported",
    "EndpointStopped",
    "PluginRegistered",
]


class PluginRegistered(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device plugin registered for a resource."""

    kind: ClassVar[str] = "devicemanager.PluginRegistered"
    resource: str


class DevicesReported(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class EndpointStopped(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin's endpoint went away; its devices count as unhealthy."""

    kind: ClassVar[str] = "devicemanager.EndpointStopped"
    resource: str
    error: str | None = None


class AllocationRequested(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container asks for devices.

    Attributes:
        needed: devices still needed after what it already holds or may reuse, as the
            kubelet logged it.
    """

    kind: ClassVar[str] = "devicemanager.AllocationRequested"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str
    resource: str
    needed: int


class DevicesAllocated(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str
    resource: str
    device_ids: tuple[str, ...]
    numa: dict[str, tuple[str, ...]] | None = None
    told_by: Literal["call", "checkpoint", "restore"] = "call"


NO_HINTS = "Unable to generate topology hints: requested number of devices unavailable"
"""Error of a refusal that topology hints showed first."""


class AllocationFailed(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    resource: str | None
    requested: int | None = None
    available: int | None = None
    hints_requested: int | None = None
    hints_available: int | None = None
    error: str
    told_by: Literal["log", "event", "status"] = "log"


class DevicesReleased(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class CheckpointRead(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
