"""A scenario: a node, its kubelet, its pods, and what happens to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from kubeledger.model.units import format_go_duration
from kubeledger.simulate.scenario.models_node import (
    Claim,
    DiskChanges,
    Failure,
    Image,
    Model,
    Node,
    Plugin,
    Restart,
    RuntimeFailure,
)
from kubeledger.simulate.scenario.problems import Fault, rule
from kubeledger.simulate.scenario.values import (
    Amount,
    Duration,
    Instant,
    Moment,
    OneOrMore,
    Size,
    Span,
    Version,
)

Result = Literal["success", "failure", "warning", "unknown", "error"]


def _increasing(key: str, items: Sequence[Step | Use], before: str) -> Iterator[Fault]:
    for index, (last, item) in enumerate(pairwise(items), 1):
        if item.from_ <= last.from_:
            yield (key, index, "from"), f"is not after {before}", "put them in the order of time"


class Exit(Model):
    """An instance of the container ends by itself."""

    after: Duration
    """How long it ran."""
    code: Annotated[int, Field(ge=0, le=255)] = 0
    """Its exit code."""


class Use(Model):
    """What the container uses from a time on."""

    from_: Annotated[Moment, Field(alias="from")] = 0
    """Since the start of the simulation."""
    memory: Size = 0
    """Working set."""
    disk: Size = 0
    """Writable layer and logs."""


class Step(Model):
    """What a probe finds from a time on, until the next step."""

    from_: Annotated[Moment, Field(alias="from")]
    """From when on."""
    result: Result
    """What each execution returns."""
    output: str = ""
    """What it says."""


class Fails(Model):
    """The probe fails from a time on, for a while."""

    from_: Annotated[Moment, Field(alias="from")] = 0
    """From when on."""
    for_: Annotated[Span | None, Field(alias="for")] = None
    """How long; left out: for good."""


class Flaps(Model):
    """The probe succeeds and fails in turn."""

    every: Span
    """How long each lasts; it begins with success."""
    from_: Annotated[Duration, Field(alias="from")] = 0
    """When the first success begins to count."""


class Probe(Model):
    """What a probe finds; exactly one of `steps`, `fails` and `flaps`."""

    since: Literal["container", "start"] = "container"
    """Times count from the start of each instance of the container, or of the simulation."""
    steps: Annotated[list[Step], Field(min_length=1)] | None = None
    """Results one after the other; before the first: success."""
    fails: OneOrMore[Fails] | None = None
    """When it fails; success otherwise."""
    flaps: Flaps | None = None
    """Success and failure in turn."""
    result: Literal["failure", "unknown", "error"] = "failure"
    """What an execution returns while `fails` or `flaps` says that it fails."""
    output: str = ""
    """What it says then."""

    @rule
    def _says_one_thing(self) -> Iterator[Fault]:
        given = [key for key in ("steps", "fails", "flaps") if getattr(self, key) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "says nothing"
            yield (), what, "give one of steps, fails, flaps"

    @rule
    def _goes_on(self) -> Iterator[Fault]:
        yield from _increasing("steps", self.steps or (), "the step before it")
        end_ns = -1
        for index, span in enumerate(self.fails if isinstance(self.fails, list) else ()):
            if span.from_ <= end_ns:
                text = "begins before the failure before it ends"
                yield ("fails", index, "from"), text, "keep them apart"
            end_ns = span.from_ + span.for_ if span.for_ is not None else 2**63


class Probes(Model):
    """By type. A probe without a script succeeds always."""

    liveness: Probe | None = None
    """The liveness probe's."""
    readiness: Probe | None = None
    """The readiness probe's."""
    startup: Probe | None = None
    """The startup probe's."""


class Container(Model):
    """What a container does; without a script it runs until it is stopped."""

    exits: list[Exit] = []
    """How its instances end, one after the other; later ones run until they are stopped. An
    init container without any ends well after a second."""
    exits_repeat: bool = False
    """All later instances end as the last of `exits`."""
    stops_after: Duration = 0
    """How long it takes to end when stopped; longer than its grace: it is killed."""
    usage: list[Use] = []
    """What it uses, in the order of time."""
    child: bool = False
    """Its memory is held by a child of its main process; the child is started again, with
    nothing, when the kernel kills it alone."""
    post_start_failures: Annotated[int, Field(ge=0)] = 0
    """Of how many of its first instances the post-start hook fails, which its spec has."""
    probes: Probes = Probes()
    """What its probes find."""

    @rule
    def _can_be(self) -> Iterator[Fault]:
        yield from _increasing("usage", self.usage, "the one before it")
        if self.exits_repeat and not self.exits:
            yield ("exitsRepeat",), "there is nothing to repeat", "give `exits`"


class Resources(Model):
    """What a container asks for from then on; what is left out stays as it is."""

    requests: dict[Literal["cpu", "memory"], Amount] = {}
    """Requests."""
    limits: dict[Literal["cpu", "memory"], Amount] = {}
    """Limits."""


class Update(Model):
    """Containers get other images or resources.

    With other images the kubelet kills them and starts them again; other resources are a resize in
    place. Of a static pod it is another manifest, which makes it another pod, with another UID.
    """

    at: Moment
    """When, since the start."""
    images: dict[str, str] = {}
    """Container name -> its image from then on."""
    resources: dict[str, Resources] = {}
    """Container name -> what it asks for from then on."""

    @rule
    def _says_something(self) -> Iterator[Fault]:
        if not (self.images or self.resources):
            yield (), "changes nothing", "give `images` or `resources`"


class Pods(Model):
    """Pods that come together; exactly one of `pod` and `manifests`."""

    pod: dict[str, Any] | None = None
    """A pod in Kubernetes' own form: `metadata`, `spec`; `apiVersion` and `kind` may be left
    out."""
    manifests: OneOrMore[str] | None = None
    """Files with pods (also several documents, or a List), relative to the scenario."""
    arrives: Moment = 0
    """When the kubelet receives it, since the start."""
    deleted: Moment | None = None
    """When its deletion is requested; left out: never."""
    updates: list[Update] = []
    """Changes of its spec, in the order of time."""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many; more than one: their names end with -0, -1, ..."""
    every: Duration = 0
    """Time between the arrivals of replicas."""
    source: Literal["api", "file"] = "api"
    """`api`: from the API server; `file`: a static pod."""
    containers: dict[str, Container] = {}
    """Container name -> what it does."""

    @property
    def suffixes(self) -> list[str]:
        """What the names of its replicas end with."""
        return [f"-{number}" for number in range(self.replicas)] if self.replicas > 1 else [""]

    @property
    def arrived(self) -> int:
        """When the last of its replicas arrives."""
        return self.arrives + (self.replicas - 1) * self.every

    @rule
    def _has_pods(self) -> Iterator[Fault]:
        if (self.pod is None) == (self.manifests is None):
            what = "has no pod" if self.pod is None else "has both `pod` and `manifests`"
            yield (), what, "give `pod:` with a manifest, or `manifests:` with files"

    @rule
    def _goes_on(self) -> Iterator[Fault]:
        last = self.arrived
        if self.deleted is not None and self.deleted <= last:
            is_at, after = format_go_duration(self.deleted), format_go_duration(last)
            text = f"is at {is_at}, not after it arrives at {after}"
            yield ("deleted",), text, "choose a later time"
        for index, update in enumerate(self.updates):
            if update.at <= last or (self.deleted is not None and update.at >= self.deleted):
                text = f"is at {format_go_duration(update.at)}, not after what comes before it"
                advice = "choose a time between the pod's arrival and its deletion"
                yield ("updates", index, "at"), text, advice
            last = max(last, update.at)


class Scenario(Model):
    """What is to be simulated.

    Times are durations since the start (`90s`, `1h30m`), sizes are quantities (`512Mi`).
    """

    description: str = ""
    """For readers."""
    kubelet_version: Annotated[Version, Field(examples=["1.36.2"])]
    """Version of the kubelet, 1.19 to 1.37 (1.37 by its source alone)."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of all that is drawn: UIDs, container IDs, jitter. The same seed gives the same bytes."""
    start: Instant = 1_767_225_600_000_000_000
    """The first instant, RFC 3339."""
    duration: Span
    """How long the simulation runs."""
    node: Node = Node()
    """What the node is and has."""
    config: dict[str, Any] | None = None
    """A KubeletConfiguration as it is; fields that it leaves out have the defaults of the
    version."""
    config_file: str | None = None
    """A file with one, relative to the scenario; in place of `config`."""
    plugins: list[Plugin] = []
    """Device plugins."""
    claims: list[Claim] = []
    """Resource claims."""
    images: list[Image] | None = None
    """The runtime's images; left out altogether: each image that a pod runs is there, of
    100Mi."""
    pods: list[Pods] = []
    """Pods."""
    disk_changes: list[DiskChanges] = []
    """Changes of what is used on disks, in the order of time."""
    runtime_failures: list[RuntimeFailure] = []
    """Times in which the container runtime starts no sandboxes."""
    failures: list[Failure] = []
    """What else fails for a while, so that pods do not start or the node is not ready."""
    kubelet_restarts: list[Restart] = []
    """Restarts of the kubelet, in the order of time."""
    node_shutdown: Moment | None = None
    """When the node begins to shut down: pods get the time that `shutdownGracePeriod` and its
    kin in `config` give them, and new ones are refused; the node stays up. Left out: never."""
    snapshot_every: Span = 15_000_000_000
    """How often the agent on the node reads lists, counters, cgroups and files."""
    every_tick: bool = False
    """Write each probe tick instead of folding equal ones."""
    shuffle: bool = False
    """Draw where the kubelet is free to choose (the order of its maps); else it sorts."""
