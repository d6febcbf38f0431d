"""What is to be simulated, checked and with all defaults: times from the start, sizes in bytes.

A scenario (YAML, for people) becomes a plan (for the engine). Nothing in a plan contradicts itself.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kubeledger.model.bodies.prober import ProbeType, TickResult


class DeviceScript(msgspec.Struct, frozen=True, kw_only=True):
    """A device that a plugin offers; ``numa`` None for one without topology."""

    id: str
    numa: tuple[int, ...] | None = None


class PluginStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to a plugin.

    Attributes:
        at_ns: since the start of the simulation.
        does: ``register`` (with its whole list), ``unhealthy`` or ``healthy`` (the devices
            named), ``crash`` (its endpoint stops).
    """

    at_ns: int
    does: Literal["register", "unhealthy", "healthy", "crash"]
    devices: tuple[str, ...] = ()


class PluginScript(msgspec.Struct, frozen=True, kw_only=True):
    """A device plugin.

    Attributes:
        preferred: None: it offers no GetPreferredAllocation; ``first`` prefers the first of
            its list, ``last`` the last, ``spread`` takes NUMA nodes in turn, ``packed`` as few as
            possible.
    """

    resource: str
    devices: tuple[DeviceScript, ...]
    preferred: Literal["first", "last", "spread", "packed"] | None = None
    steps: tuple[PluginStep, ...]


class ProbeStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe finds from a time on.

    Attributes:
        from_ns: since the container's instance began to run (``since`` container) or since
            the start of the simulation (``since`` start).
    """

    from_ns: int
    since: Literal["container", "start"] = "container"
    result: TickResult
    output: str = ""


class ExitStep(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of a container ends by itself; the n-th step is for the n-th instance."""

    after_ns: int
    code: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a container uses from a time after the start of the simulation on."""

    from_ns: int
    memory_bytes: int = 0
    disk_bytes: int = 0


class ContainerScript(msgspec.Struct, frozen=True, kw_only=True):
    """What a container does.

    Attributes:
        exits: for its first instances; further ones do as the last if ``exits_repeat``.
        probes: probe type -> steps in the order of time; without: every execution succeeds.
        child: a child of its main process holds the memory that ``usage`` gives.
        hook_failures: of how many of its first instances the post-start hook fails.
        stop_ns: how long it takes to end when it is stopped; longer than the grace it was
            given: it is killed then.
    """

    exits: tuple[ExitStep, ...] = ()
    exits_repeat: bool = False
    probes: dict[ProbeType, tuple[ProbeStep, ...]] = {}
    usage: tuple[Usage, ...] = ()
    child: bool = False
    hook_failures: int = 0
    stop_ns: int = 0


class PlannedUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's spec changes, as far as the API server lets it."""

    at_ns: int
    manifest: dict[str, Any]


class PlannedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A resource claim that a pod names.

    Attributes:
        in_spec: what the pod's spec calls it; ``name`` is its own.
        drivers: driver -> devices that are allocated to it.
        is_made: of a template, for this pod.
        is_reserved: the pod may use it.
    """

    in_spec: str
    name: str
    uid: str
    drivers: dict[str, tuple[str, ...]]
    is_made: bool = False
    is_reserved: bool = True


class PlannedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that comes, and what becomes of it.

    Attributes:
        place: in the scenario, e.g. ``pods[3]``.
        manifest: the pod as the API server would show it: defaulted, with UID.
        arrives_ns, deleted_ns: since the start; ``deleted_ns`` None: never.
        scripts: container name -> what it does; without one it runs until it is stopped.
    """

    place: str
    manifest: dict[str, Any]
    source: Literal["api", "file"] = "api"
    arrives_ns: int
    deleted_ns: int | None = None
    updates: tuple[PlannedUpdate, ...] = ()
    claims: tuple[PlannedClaim, ...] = ()
    scripts: dict[str, ContainerScript] = {}


class ImageArrival(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is in the runtime's store from a time on; containers do not pull."""

    name: str
    image_id: str
    size_bytes: int
    pinned: bool = False
    at_ns: int = 0


class DiskChange(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on a disk change at once (``per_hour`` 0) or grow from a time on."""

    at_ns: int
    disk: Literal["node", "image"]
    bytes: int = 0
    bytes_per_hour: int = 0


Failing = Literal[
    "network", "cgroup", "volume", "secret", "configMap", "claim", "driver", "sandbox", "image",
    "create", "start", "hook", "runtime", "apiServer",
]  # fmt: skip
"""What can fail outside of the kubelet; see ``scenario.models_node``."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Something outside of the kubelet that fails for a while.

    Attributes:
        of: its name: an image, a secret, a volume, a container ...; None: each.
        pods: ``namespace/name`` of those that it fails for; empty: all.
        from_ns, until_ns: since the start.
        words: what the runtime, the registry or the driver says; empty: the usual.
    """

    what: Failing
    of: str | None = None
    pods: tuple[str, ...] = ()
    from_ns: int = 0
    until_ns: int
    words: str = ""


class KubeletRestart(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet's process ends, and another begins later, perhaps of another version.

    Attributes:
        error: it gave up with this error; empty: it was stopped.
        settings: of the new process; None: as before.
    """

    at_ns: int
    down_ns: int
    error: str = ""
    kubelet_version: str | None = None
    settings: dict[str, Any] | None = None


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The machine.

    Attributes:
        numa_nodes: sorted.
        sockets, threads_per_core, uncore_caches: how the CPUs lie; no number of uncore caches:
            one a socket.
        image_disk_bytes: None: images are on the kubelet's.
    """

    name: str
    cpus: int
    memory_bytes: int
    numa_nodes: tuple[int, ...] = (0,)
    sockets: int = 1
    threads_per_core: int = 1
    uncore_caches: int | None = None
    cgroup_version: Literal[1, 2] = 1
    disk_bytes: int
    disk_used_bytes: int
    image_disk_bytes: int | None = None
    image_disk_used_bytes: int = 0
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run needs.

    Attributes:
        settings: effective KubeletConfiguration: field -> value, defaults of the version
            included.
        given_settings: names of those that the configuration gives; all others are defaults.
        sandbox_failures: from and until when the runtime starts no sandboxes.
        shutdown_ns: when the node begins to shut down, since the start; None: never.
        snapshot_ns: how often the agent reads files, lists and counters.
        every_tick: write each probe tick instead of folding equal ones.
        shuffle: draw where the kubelet is free (map order); otherwise sorted choices.
    """

    kubelet_version: str
    seed: int
    start_ns: int
    duration_ns: int
    node: NodePlan
    settings: dict[str, Any]
    given_settings: tuple[str, ...] = ()
    plugins: tuple[PluginScript, ...] = ()
    images: tuple[ImageArrival, ...] = ()
    pods: tuple[PlannedPod, ...] = ()
    disk_changes: tuple[DiskChange, ...] = ()
    sandbox_failures: tuple[tuple[int, int], ...] = ()
    failures: tuple[Failure, ...] = ()
    kubelet_restarts: tuple[KubeletRestart, ...] = ()
    shutdown_ns: int | None = None
    snapshot_ns: int = 15_000_000_000
    every_tick: bool = False
    shuffle: bool = False
