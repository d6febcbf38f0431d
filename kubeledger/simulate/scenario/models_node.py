"""The node of a scenario: machine, plugins, images, disks, claims, failures, restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic.alias_generators import to_camel

from kubeledger.kubelet.kube.resources import is_extended_resource
from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.scenario.problems import Fault, in_order, refuse, rule, suggestion, twice
from kubeledger.simulate.scenario.values import (
    Duration,
    Moment,
    OneOrMore,
    Size,
    SizeChange,
    Span,
    Version,
    room,
)


class Model(BaseModel):
    """Keys in camelCase as in Kubernetes; no key that is not known; no value of another type."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        strict=True,
        use_attribute_docstrings=True,
    )


# Resource claims of a scenario.

DRIVER: Final = "dra.example.com"
"""Of claims that pods name and the scenario does not."""
_Text = Annotated[str, Field(min_length=1)]


class Claim(Model):
    """A resource claim that pods name in `resourceClaims`, or that is made for one of a template.

    One that pods name and that is not here is allocated one device of the driver `dra.example.com`.
    """

    name: _Text
    """Its name; of one that is made of a template: the pod's, a dash, and the name in its spec."""
    namespace: _Text = "default"
    """Its namespace."""
    drivers: Annotated[dict[_Text, list[_Text]], Field(min_length=1)]
    """Driver -> devices that are allocated to it."""
    reserved_for: list[_Text] | None = None
    """Names of pods that may use it; left out: all that name it."""


def claim_name(pod: str, claim: Mapping[str, Any]) -> str:
    """The name of a pod's claim; of one that is made of a template as here all are called."""
    return str(claim.get("resourceClaimName") or f"{pod}-{claim.get('name')}")


# What fails outside of the kubelet, so that pods do not start or the node is not ready.

_NODE_WIDE = ("network", "runtime", "apiServer")
UNNAMED = (*_NODE_WIDE, "cgroup", "sandbox")


class Failure(Model):
    """Something fails for a while, and the kubelet tries again until it does not.

    What waits for it, and how the kubelet says so, follows from the version and from pods' specs.
    """

    what: Failing
    """`network` is not ready for pods; a pod's `cgroup` cannot be made; a `volume` is not mounted;
    a `secret` or `configMap` is not there, for volumes and environments; a `claim` of
    `resourceClaims` is not prepared, or its `driver` is not registered; a `sandbox` is not
    started; an `image` cannot be pulled; a
    container cannot be made (`create`) or run (`start`), or its post-start `hook` fails; the
    container `runtime` is down; the `apiServer` is gone."""
    of: Annotated[str, Field(min_length=1)] | None = None
    """Its name: of an image, secret, config map, volume or claim as pods' specs name it, of the
    driver, or of the container; left out: each (an image has to be named)."""
    pods: list[str] = []
    """For these pods alone, `namespace/name`, or `name` in namespace `default`."""
    from_: Annotated[Duration, Field(alias="from")] = 0
    """From when on."""
    for_: Annotated[Span | None, Field(alias="for")] = None
    """How long; left out: for good."""
    words: str = ""
    """What the runtime, the registry, the driver or the network says; left out: the usual words."""

    @rule
    def _is_named(self) -> Iterator[Fault]:
        if self.what == "image" and self.of is None:
            yield (), "names no image", "give its name as `of`"
        if self.what in UNNAMED and self.of is not None:
            yield ("of",), f"{self.what} has no name", "leave it out"
        if self.what in _NODE_WIDE and self.pods:
            yield ("pods",), f"{self.what} fails for the whole node", "leave it out"


_Numa = Annotated[int, Field(ge=0, le=255)]


def _extended(name: str, info: ValidationInfo) -> str:
    if not is_extended_resource(name):
        refuse([((), f"{name!r} is not an extended resource", "write e.g. example.com/gpu")], info)
    return name


class Disk(Model):
    """A file system."""

    size: Annotated[Size, room("a disk needs a size", "write e.g. 100Gi")] = 100 << 30
    """What it holds when it is empty."""
    used: Size = 0
    """Used at the start by all that is no image: system, logs, volumes."""

    @rule
    def _fits(self) -> Iterator[Fault]:
        if self.used > self.size:
            text = f"{self.used} bytes are more than the disk's {self.size}"
            yield ("used",), text, "use less, or make the disk larger"


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
    memory: Annotated[Size, room("a node needs memory", "write e.g. 8Gi")] = 16 << 30
    """Memory, as a quantity."""
    numa_nodes: Annotated[list[_Numa], Field(min_length=1, max_length=64)] = [0]
    """Numbers of the NUMA nodes."""
    sockets: Annotated[int, Field(ge=1, le=64)] = 1
    """Sockets, over which the cores are dealt out evenly, as over NUMA nodes."""
    threads_per_core: Annotated[int, Field(ge=1, le=8)] = 1
    """Logical CPUs of a core: CPU 0 and, of 8 with two threads, CPU 4 are one core."""
    uncore_caches: Annotated[int | None, Field(ge=1, le=256)] = None
    """Last-level caches; left out: one a socket."""
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

    @rule
    def _numbers(self) -> Iterator[Fault]:
        cores, rest = divmod(self.cpus, self.threads_per_core)
        if rest:
            text = f"{self.cpus} CPUs are not {self.threads_per_core} a core"
            yield ("threadsPerCore",), text, "choose another number of `cpus`"
        for name, number in (("sockets", self.sockets), ("uncoreCaches", self.uncore_caches or 1)):
            if number > cores:
                yield (name,), f"{number} are more than the {cores} cores", "choose fewer"
        numbered = [(("numaNodes", index), each) for index, each in enumerate(self.numa_nodes)]
        yield from twice(numbered, lambda each: f"NUMA node {each} is there twice")


class Device(Model):
    """A device that a plugin offers."""

    id: _Text
    """The plugin's name for it."""
    numa: OneOrMore[_Numa] | None = None
    """NUMA node, or several; left out: the plugin has no topology."""


class PluginEvent(Model):
    """Something that happens to a plugin; exactly one of the four is given."""

    at: Moment
    """When, since the start."""
    unhealthy: Annotated[list[_Text], Field(min_length=1)] | None = None
    """Devices that are reported unhealthy from then on."""
    healthy: Annotated[list[_Text], Field(min_length=1)] | None = None
    """Devices that are healthy again."""
    crash: Literal[True] | None = None
    """The plugin's process ends, and with it its connection."""
    register_: Annotated[Literal[True] | None, Field(alias="register")] = None
    """The plugin registers (again), with all its devices."""

    @rule
    def _says_one_thing(self) -> Iterator[Fault]:
        kinds = (self.unhealthy, self.healthy, self.crash, self.register_)
        if sum(each is not None for each in kinds) != 1:
            advice = "give one of unhealthy, healthy, crash, register"
            yield (), "must say one thing that happens", advice


class Plugin(Model):
    """A device plugin."""

    resource: Annotated[str, AfterValidator(_extended), Field(examples=["nvidia.com/gpu"])]
    """The extended resource that it offers."""
    devices: Annotated[list[Device], Field(min_length=1)]
    """Its devices."""
    preferred: Literal["first", "last", "spread", "packed"] | None = None
    """How it answers GetPreferredAllocation: the `first` or the `last` of its list, NUMA
    nodes in turn (`spread`), as few NUMA nodes as possible (`packed`); left out: it offers no
    such call."""
    any_numa: bool = False
    """Its devices may name NUMA nodes that the machine has not; a kubelet believes them."""
    registers: Moment = 0
    """When it registers for the first time."""
    events: list[PluginEvent] = []
    """What happens to it later."""

    @rule
    def _devices_differ(self) -> Iterator[Fault]:
        ids = [(("devices", index, "id"), each.id) for index, each in enumerate(self.devices)]
        return twice(ids, lambda name: f"device {name!r} is there twice")

    @rule
    def _events_are_possible(self) -> Iterator[Fault]:
        known = {device.id for device in self.devices}
        yield from in_order(
            (("events", index, "at"), event.at) for index, event in enumerate(self.events)
        )
        for index, event in enumerate(self.events):
            if event.at < self.registers:
                text = "is before the plugin registers"
                yield ("events", index, "at"), text, "choose a later time"
            for kind, names in (("unhealthy", event.unhealthy), ("healthy", event.healthy)):
                for number, name in enumerate(names or ()):
                    if name not in known:
                        text = f"{self.resource} has no device {name!r}"
                        advice = suggestion(name, known, "device")
                        yield ("events", index, kind, number), text, advice


class Image(Model):
    """An image in the runtime's store. Containers pull only what `failures` names."""

    name: _Text
    """As containers name it."""
    size: Size = 100 << 20
    """What it takes on disk."""
    id: Annotated[str, Field(pattern=r"^(sha256:)?[0-9a-f]{64}$")] | None = None
    """Its ID; left out: drawn from the seed."""
    pinned: bool = False
    """The runtime pins it: it is never collected."""
    at: Moment = 0
    """When it appears in the store."""
    again: list[Duration] = []
    """When somebody loads it again, in case that it was removed."""


class DiskChanges(Model):
    """The use of a disk changes: at once (`bytes`), steadily (`perHour`), or both."""

    at: Moment = 0
    """From when on."""
    disk: Literal["node", "image"] = "node"
    """Which disk; `image` needs an `imageDisk`."""
    bytes: SizeChange = 0
    """Added at once; negative: freed."""
    per_hour: SizeChange = 0
    """Added each hour from then on; several add up, a negative one ends another."""

    @rule
    def _says_something(self) -> Iterator[Fault]:
        if not self.bytes and not self.per_hour:
            yield (), "changes nothing", "give `bytes` or `perHour`"


class RuntimeFailure(Model):
    """The container runtime starts no sandboxes for a while."""

    from_: Annotated[Duration, Field(alias="from")] = 0
    """From when on."""
    for_: Annotated[Span | None, Field(alias="for")] = None
    """How long; left out: for good."""


class Restart(Model):
    """The kubelet's process ends; containers continue; another process begins."""

    at: Moment
    """When it ends."""
    down: Duration = 10_000_000_000
    """How long no kubelet runs."""
    kubelet_version: Version | None = None
    """Version of the new process; left out: as before."""
    error: str = ""
    """The process gave up by itself, with this error; left out: somebody stopped it."""
