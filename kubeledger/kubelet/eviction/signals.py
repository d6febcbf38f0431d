"""Signals of the eviction manager: what each measures, shows in a summary, and is reclaimed by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kubelet.kube.pod import Int64
from kubeledger.kubelet.kube.quantity import Format, wrapped
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import parse_api_ts

DiskLayout = Literal["shared", "dedicated", "split", "containers"]
"""Where images and containers are: on the kubelet's own disk (shared); both on one of their own
(dedicated); images on one of their own (split); containers on one of their own, which is treated
as shared but for the thresholds of containerfs (containers)."""

MEMORY: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
PIDS: Final = "pid.available"

RESOURCE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        MEMORY: "memory",
        ALLOCATABLE_MEMORY: "memory",
        "imagefs.available": "ephemeral-storage",
        "imagefs.inodesFree": "inodes",
        "containerfs.available": "ephemeral-storage",
        "containerfs.inodesFree": "inodes",
        "nodefs.available": "ephemeral-storage",
        "nodefs.inodesFree": "inodes",
        PIDS: "pids",
    }
)
"""Signal -> what is short.

Source: v1.36.2 pkg/kubelet/eviction/helpers.go signalToResource
"""

CONDITION_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        signal: {"memory": "MemoryPressure", "pids": "PIDPressure"}.get(resource, "DiskPressure")
        for signal, resource in RESOURCE_OF.items()
    }
)
"""Signal -> condition of the node."""


def is_known(signal: str, facts: EvictionFacts) -> bool:
    """Whether a threshold may be set for a signal."""
    return signal in RESOURCE_OF and (
        facts.split_disk_known or not signal.startswith("containerfs.")
    )


def format_of(resource: str) -> Format:
    """Notation of amounts of a resource in messages."""
    return Format.BINARY_SI if resource in ("memory", "ephemeral-storage") else Format.DECIMAL_SI


# What the eviction manager tries before it evicts pods: which signal reclaims what.
#
# This is the other caller of image GC. It knows no thresholds of the image GC policy, so that
# images
# go even with a high threshold of 100, and it asks for *everything* unused to be
# removed; the minimum age still protects.


class ReclaimFunction(StrEnum):
    """A function of the container GC or the image GC, by its Go name."""

    CONTAINERS = "DeleteAllUnusedContainers"
    IMAGES = "DeleteUnusedImages"


SPLIT_DISK_ERROR = "KubeletSeparateDiskGC is turned off but we still have a split filesystem"

_BOTH = (ReclaimFunction.CONTAINERS, ReclaimFunction.IMAGES)
_CONTAINERS = (ReclaimFunction.CONTAINERS,)
_IMAGES = (ReclaimFunction.IMAGES,)

_BY_DISK: dict[DiskLayout, dict[str, tuple[ReclaimFunction, ...]]] = {
    "shared": {"nodefs": _BOTH, "imagefs": _BOTH, "containerfs": _BOTH},
    "containers": {"nodefs": _BOTH, "imagefs": _BOTH, "containerfs": _BOTH},
    # The kubelet's own disk then holds logs and volumes only, which no function removes.
    "dedicated": {"nodefs": (), "imagefs": _BOTH, "containerfs": _BOTH},
    "split": {"nodefs": _CONTAINERS, "imagefs": _IMAGES, "containerfs": _CONTAINERS},
}


def reclaim_functions(
    signal: str, layout: DiskLayout, facts: EvictionFacts
) -> tuple[ReclaimFunction, ...]:
    """What is called, in this order, when a threshold of ``signal`` is met.

    Args:
        signal: e.g. ``nodefs.available``; memory and process signals reclaim nothing.
        layout: as the disks are; a kubelet that does not know split disks takes
            them for dedicated ones.

    Returns:
        Empty when there is nothing to try and a pod is evicted at once.

    Source: v1.20.2 pkg/kubelet/eviction/helpers.go:1019 buildSignalToNodeReclaimFuncs;
        v1.36.2 the same
    Differs: one row a disk, as space and inodes of a disk always reclaim alike.
    """
    disk, _, amount = signal.partition(".")
    if amount not in ("available", "inodesFree"):
        return ()
    if disk == "containerfs" and not facts.containerfs_reclaims:
        return ()
    if layout == "split" and not facts.split_disk_known:
        layout = "dedicated"
    return _BY_DISK[layout].get(disk, ())


def split_disk_error(layout: DiskLayout, facts: EvictionFacts) -> str:
    """Why the eviction manager does nothing at all on this node; empty when it works.

    Source: v1.29.0 pkg/kubelet/eviction/eviction_manager.go:263 synchronize
    """
    refused = (
        layout in ("split", "containers")
        and facts.split_disk_known
        and not facts.split_disk_gate_on
    )
    return SPLIT_DISK_ERROR if refused else ""


# The slice of the stats summary API (``/stats/summary``) that the eviction manager reads.
#
# Typed for decoding from the API's own JSON; other keys are passed over, ``null`` is the same as
# absent. Numbers are unsigned 64-bit integers, times are texts.

Uint64 = Annotated[int, msgspec.Meta(ge=0)]


class MemoryStats(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Memory of a node, a container, a pod or all pods."""

    time: str | None = None
    available_bytes: Uint64 | None = None
    working_set_bytes: Uint64 | None = None


class FsStats(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A filesystem, or what something uses of one."""

    time: str | None = None
    available_bytes: Uint64 | None = None
    capacity_bytes: Uint64 | None = None
    used_bytes: Uint64 | None = None
    inodes: Uint64 | None = None
    inodes_free: Uint64 | None = None
    inodes_used: Uint64 | None = None


class VolumeStats(FsStats, frozen=True, gc=False, rename="camel"):
    """A volume of a pod."""

    name: str | None = ""


class ContainerStats(msgspec.Struct, frozen=True, gc=False):
    """A container, or all pods as the system container ``pods``."""

    name: str | None = ""
    memory: MemoryStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None


class ProcessStats(msgspec.Struct, frozen=True, gc=False):
    """How many processes a pod has."""

    process_count: Uint64 | None = None


class PodReference(msgspec.Struct, frozen=True, gc=False):
    """Which pod."""

    name: str | None = ""
    namespace: str | None = ""
    uid: str | None = ""


class PodStats(msgspec.Struct, frozen=True, gc=False):
    """A pod."""

    pod_ref: PodReference = msgspec.field(name="podRef")
    containers: tuple[ContainerStats, ...] | None = None
    memory: MemoryStats | None = None
    process_stats: ProcessStats | None = None
    ephemeral_storage: FsStats | None = msgspec.field(default=None, name="ephemeral-storage")
    volumes: tuple[VolumeStats, ...] | None = msgspec.field(default=None, name="volume")


class RlimitStats(msgspec.Struct, frozen=True, gc=False):
    """Process IDs of the node."""

    time: str | None = None
    max_pid: Int64 | None = msgspec.field(default=None, name="maxpid")
    running: Int64 | None = msgspec.field(default=None, name="curproc")


class RuntimeStats(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Filesystems of the container runtime."""

    image_fs: FsStats | None = None
    container_fs: FsStats | None = None


class NodeStats(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The node."""

    memory: MemoryStats | None = None
    fs: FsStats | None = None
    runtime: RuntimeStats | None = None
    rlimit: RlimitStats | None = None
    system_containers: tuple[ContainerStats, ...] | None = None


class Summary(msgspec.Struct, frozen=True, gc=False):
    """The node and its pods."""

    node: NodeStats
    pods: tuple[PodStats, ...] | None = None


# What the signals say, read from a stats summary.

_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
_PODS: Final = "pods"


class SignalObservation(msgspec.Struct, frozen=True, gc=False):
    """A signal as it was read: bytes, inodes or process IDs, within signed 64 bits.

    Attributes:
        time_ns: when it was measured; None where the summary does not say.
    """

    available: int
    capacity: int
    time_ns: int | None = None


def make_signal_observations(
    summary: Summary, facts: EvictionFacts
) -> dict[str, SignalObservation]:
    """Signal -> observation, of the signals that the summary has.

    Raises:
        BadInputError: a number does not fit 64 bits, or a time is none.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go makeSignalObservations; v1.19
    Differs: Linux only; on Windows memory is read from another system container.
    """
    node = summary.node
    found: dict[str, SignalObservation] = {}
    _add_memory(found, MEMORY, node.memory)
    for container in node.system_containers or ():
        if container.name == _PODS:
            _add_memory(found, ALLOCATABLE_MEMORY, container.memory)
            break
    _add_disk(found, "nodefs", node.fs)
    if node.runtime is not None:
        _add_disk(found, "imagefs", node.runtime.image_fs)
        if facts.split_disk_known:
            _add_disk(found, "containerfs", node.runtime.container_fs)
    rlimit = node.rlimit
    if rlimit is not None and rlimit.running is not None and rlimit.max_pid is not None:
        found[PIDS] = SignalObservation(
            wrapped(rlimit.max_pid - rlimit.running), rlimit.max_pid, _time_ns(rlimit.time)
        )
    return found


def int64(number: int) -> int:
    """``int64(uint64)``: what is beyond 63 bits becomes negative.

    Raises:
        BadInputError: it does not fit 64 bits.
    """
    if number <= _INT64_MAX:
        return number
    if number > _UINT64_MAX:
        raise BadInputError(f"{number} does not fit 64 bits")
    return number - _UINT64_MAX - 1


def _add_memory(
    found: dict[str, SignalObservation], signal: str, stats: MemoryStats | None
) -> None:
    if stats is None:
        return
    available, used = stats.available_bytes, stats.working_set_bytes
    if available is not None and used is not None:
        capacity = wrapped(int64(available) + int64(used))
        found[signal] = SignalObservation(int64(available), capacity, _time_ns(stats.time))


def _add_disk(found: dict[str, SignalObservation], name: str, stats: FsStats | None) -> None:
    if stats is None:
        return
    time_ns = _time_ns(stats.time)
    for signal, available, capacity in (
        (f"{name}.available", stats.available_bytes, stats.capacity_bytes),
        (f"{name}.inodesFree", stats.inodes_free, stats.inodes),
    ):
        if available is not None and capacity is not None:
            found[signal] = SignalObservation(int64(available), int64(capacity), time_ns)


@lru_cache(maxsize=1 << 10)
def _time_ns(text: str | None) -> int | None:
    """None also for Go's zero time, which JSON of the API writes as null."""
    if text is None or text.startswith("0001-01-01T00:00:00Z"):
        return None
    try:
        return parse_api_ts(text)
    except ValueError:
        raise BadInputError(f"not an RFC 3339 time: {text[:80]!r}") from None
