"""What the device manager holds: devices by holder, and what the plugins reported."""

from __future__ import annotations

import msgspec


class HeldDevices(msgspec.Struct, kw_only=True):
    """Devices of one resource in the hands of one container.

    Attributes:
        namespace, pod: the pod's name, which may be gone from the node; None when not known.
        device_ids: sorted IDs.
        numa: NUMA node (decimal text) -> sorted IDs; None when no checkpoint shows it.
        since_ts_ns: when they were allocated.
    """

    namespace: str | None
    pod: str | None
    device_ids: tuple[str, ...]
    numa: dict[str, tuple[str, ...]] | None
    since_ts_ns: int


class ResourceState(msgspec.Struct, kw_only=True):
    """One resource and the plugin that serves it.

    Attributes:
        registered_ts_ns: last registration of a plugin; None when none was seen.
        stopped_ts_ns: when the endpoint stopped; None while it runs.
        error: why it stopped; None without a reason.
        reported_ts_ns: last time anything was seen of its devices.
        total, healthy: devices in the plugin's last list; None when not known.
        device_ids: sorted IDs of the last list that showed them; None when none did.
    """

    registered_ts_ns: int | None = None
    stopped_ts_ns: int | None = None
    error: str | None = None
    reported_ts_ns: int | None = None
    total: int | None = None
    healthy: int | None = None
    device_ids: tuple[str, ...] | None = None


class CheckpointState(msgspec.Struct, kw_only=True):
    """The last ``kubelet_internal_checkpoint`` that was read."""

    read_ts_ns: int
    entries: int
    checksum: int
    checksum_ok: bool | None


class FailureState(msgspec.Struct, kw_only=True):
    """The last refusal of the device manager."""

    ts_ns: int
    pod: str | None
    container: str | None
    resource: str | None
    error: str


class DeviceManagerState(msgspec.Struct, kw_only=True):
    """The device manager's memory.

    Attributes:
        pods: pod key -> container -> resource -> devices held.
        resources: resource name -> plugin and device list.
        allocations, failures: decisions so far.
    """

    pods: dict[str, dict[str, dict[str, HeldDevices]]] = {}
    resources: dict[str, ResourceState] = {}
    checkpoint: CheckpointState | None = None
    last_failure: FailureState | None = None
    allocations: int = 0
    failures: int = 0
