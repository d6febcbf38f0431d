"""The node of a scenario: machine, device plugins, images, disks, the kubelet's restarts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kubeledger.simulate.scenario.models_base import Model
from kubeledger.simulate.scenario.values import Duration, OneOrMore, Size, SizeChange, Span

__all__ = [
    "Device",
    "Disk",
    "DiskChanges",
    "Image",
    "Node",
    "Plugin",
    "PluginEvent",
    "Restart",
    "RuntimeFailure",
    "Taint",
]

_Text = Annotated[str, Field(min_length=1)]
_Numa = Annotated[int, Field(ge=0, le=255)]


class Disk(Model):
    """A file system."""

    size: Size = 100 << 30
    """What it holds when it is empty."""
    used: Size = 0
    """Used at the start by all that is no image: system, logs, volumes."""


class Taint(Model):
    """A taint of the node."""

    key: _Text
    """Its key."""
    value: str = ""
    """Its value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What it does to pods that do not tolerate it."""


class Node(Model):
    """The machine."""

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", examples=["node-1"])
    ] = "node-1"
    """Name of the node, in the ledger too."""
    cpus: Annotated[int, Field(ge=1, le=4096)] = 4
    """Logical CPUs."""
    memory: Size = 16 << 30
    """Memory, as a quantity."""
    numa_nodes: Annotated[list[_Numa], Field(min_length=1, max_length=64)] = [0]
    """Numbers of the NUMA nodes."""
    cgroup_version: Literal[1, 2] = 2
    """Version of the kernel's cgroups."""
    cgroup_driver: Literal["cgroupfs", "systemd"] | None = None
    """Sets the kubelet's `cgroupDriver`, where `config` does not."""
    disk: Disk = Disk()
    """The kubelet's file system (`nodefs`)."""
    image_disk: Disk | None = None
    """A file system of its own for images and containers (`imagefs`); left out: they are on
    `disk`."""
    labels: dict[str, str] = {}
    """Labels of the node object."""
    taints: list[Taint] = []
    """Taints of the node object."""


class Device(Model):
    """A device that a plugin offers."""

    id: _Text
    """The plugin's name for it."""
    numa: OneOrMore[_Numa] | None = None
    """NUMA node, or several; left out: the plugin has no topology."""


class PluginEvent(Model):
    """Something that happens to a plugin; exactly one of the four is given."""

    at: Duration
    """When, since the start."""
    unhealthy: Annotated[list[_Text], Field(min_length=1)] | None = None
    """Devices that are reported unhealthy from then on."""
    healthy: Annotated[list[_Text], Field(min_length=1)] | None = None
    """Devices that are healthy again."""
    crash: Literal[True] | None = None
    """The plugin's process ends, and with it its connection."""
    register_: Annotated[Literal[True] | None, Field(alias="register")] = None
    """The plugin registers (again), with all its devices."""


class Plugin(Model):
    """A device plugin."""

    resource: Annotated[str, Field(examples=["nvidia.com/gpu"])]
    """The extended resource that it offers."""
    devices: Annotated[list[Device], Field(min_length=1)]
    """Its devices."""
    preferred: Literal["first", "last", "spread", "packed"] | None = None
    """How it answers GetPreferredAllocation: the `first` or the `last` of its list, NUMA
    nodes in turn (`spread`), as few NUMA nodes as possible (`packed`); left out: it offers no
    such call."""
    any_numa: bool = False
    """Its devices may name NUMA nodes that the machine has not; a kubelet believes them."""
    registers: Duration = 0
    """When it registers for the first time."""
    events: list[PluginEvent] = []
    """What happens to it later."""


class Image(Model):
    """An image in the runtime's store. Containers do not pull: what they run must be here."""

    name: _Text
    """As containers name it."""
    size: Size = 100 << 20
    """What it takes on disk."""
    id: Annotated[str, Field(pattern=r"^(sha256:)?[0-9a-f]{64}$")] | None = None
    """Its ID; left out: drawn from the seed."""
    pinned: bool = False
    """The runtime pins it: it is never collected."""
    at: Duration = 0
    """When it appears in the store."""
    again: list[Duration] = []
    """When somebody loads it again, in case that it was removed."""


class DiskChanges(Model):
    """The use of a disk changes: at once (`bytes`), steadily (`perHour`), or both."""

    at: Duration = 0
    """From when on."""
    disk: Literal["node", "image"] = "node"
    """Which disk; `image` needs an `imageDisk`."""
    bytes: SizeChange = 0
    """Added at once; negative: freed."""
    per_hour: SizeChange = 0
    """Added each hour from then on; several add up, a negative one ends another."""


class RuntimeFailure(Model):
    """The container runtime starts no sandboxes for a while."""

    from_: Annotated[Duration, Field(alias="from")] = 0
    """From when on."""
    for_: Annotated[Span | None, Field(alias="for")] = None
    """How long; left out: for good."""


class Restart(Model):
    """The kubelet's process ends; containers continue; another process begins."""

    at: Duration
    """When it ends."""
    down: Duration = 10_000_000_000
    """How long no kubelet runs."""
    kubelet_version: str | None = None
    """Version of the new process; left out: as before."""
    error: str = ""
    """The process gave up by itself, with this error; left out: somebody stopped it."""
