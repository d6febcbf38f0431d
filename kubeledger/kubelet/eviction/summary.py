"""The slice of the stats summary API (``/stats/summary``) that the eviction manager reads.

Typed for decoding from the API's own JSON; other keys are passed over, ``null`` is the same as
absent. Numbers are unsigned 64-bit integers, times are texts.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Uint64 = Annotated[int, msgspec.Meta(ge=0)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


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
