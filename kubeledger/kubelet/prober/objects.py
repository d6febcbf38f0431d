"""The slice of the Kubernetes API that the prober reads, and the cache that its workers write.

Pods and statuses are as the kubelet got them: nothing is defaulted, so an absent threshold
is 0 here although the API server would have made it 1 or 3. Only :class:`ProbeSpec` is filled in:
a manifest or list that a log comes with leaves out what it pleases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kubelet.kube.pod import PROBE, Int32
from kubeledger.kubelet.kube.statuses import RestartRule
from kubeledger.model.bodies.prober import ProbeResult
from kubeledger.model.units import NS_PER_S

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Probe(msgspec.Struct, rename="camel", gc=False):
    """Times in seconds, thresholds in probes; who is asked and how does not matter here."""

    initial_delay_seconds: Count = 0
    success_threshold: Count = 0
    failure_threshold: Count = 0
    period_seconds: Count = 0
    timeout_seconds: Count = 0


class ProbeSpec(msgspec.Struct, rename="camel", frozen=True):
    """A probe; what a manifest leaves out is as the kubelet's own decoder would fill it in."""

    initial_delay_seconds: int = 0
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None
    termination_grace_period_seconds: int | None = None

    @property
    def delay_ns(self) -> int:
        """From the start of its container to its first tick."""
        return self.initial_delay_seconds * NS_PER_S

    @property
    def period_s(self) -> int:
        """Seconds between ticks."""
        return self.period_seconds or PROBE["periodSeconds"]

    @property
    def period_ns(self) -> int:
        """Between two ticks."""
        return self.period_s * NS_PER_S

    @property
    def break_ns(self) -> int:
        """A longer time between two ticks hides one."""
        return max(self.period_s, self.timeout_s) * NS_PER_S * 9 // 5

    @property
    def timeout_s(self) -> int:
        """Seconds that one execution may take."""
        return self.timeout_seconds or PROBE["timeoutSeconds"]

    @property
    def successes(self) -> int:
        """Successes in a row that count."""
        return self.success_threshold or PROBE["successThreshold"]

    @property
    def failures(self) -> int:
        """Failures in a row that count."""
        return self.failure_threshold or PROBE["failureThreshold"]

    def threshold(self, result: ProbeResult) -> int:
        """Ticks in a row that store that result."""
        return self.failures if result == "failure" else self.successes


class Container(msgspec.Struct, rename="camel"):
    """A container or init container of the pod's spec."""

    name: str
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None


class PodMeta(msgspec.Struct, rename="camel", gc=False):
    """Identity and whether deletion was asked for."""

    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class PodSpec(msgspec.Struct, rename="camel"):
    """Containers in the order of the spec."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    restart_policy: str = ""


class Condition(msgspec.Struct, rename="camel", gc=False):
    """A pod condition; status ``True``, ``False`` or ``Unknown``."""

    type: str = ""
    status: str = ""


class Running(msgspec.Struct, rename="camel", gc=False):
    """A container that runs since ``started_at`` (RFC 3339; None is Go's zero time)."""

    started_at: str | None = None


class Terminated(msgspec.Struct, rename="camel", gc=False):
    """A container that ended, and when (RFC 3339; only checked)."""

    exit_code: Int32 = 0
    started_at: str | None = None
    finished_at: str | None = None


class State(msgspec.Struct, rename="camel", frozen=True):
    """At most one is set; neither means waiting."""

    running: Running | None = None
    terminated: Terminated | None = None


_WAITING = State()


class ContainerStatus(msgspec.Struct, rename="camel"):
    """What the kubelet knows of one container.

    Attributes:
        container_id: ``containerd://...``; empty before the container exists.
        started: whether its startup probe succeeded, as last published; None when unset.
    """

    name: str
    container_id: str = msgspec.field(default="", name="containerID")
    state: State = _WAITING
    ready: bool = False
    started: bool | None = None


class PodStatus(msgspec.Struct, rename="camel", frozen=True):
    """A pod's status; ``phase`` is empty when unset."""

    phase: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    conditions: list[Condition] | None = None


_NO_STATUS = PodStatus()


class Pod(msgspec.Struct, rename="camel"):
    """A pod as a worker holds it: never refreshed after the worker began."""

    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = _NO_STATUS


def status_named(statuses: list[ContainerStatus] | None, name: str) -> ContainerStatus | None:
    """The first status of that container name.

    Source: v1.20.2 pkg/api/v1/pod/util.go GetContainerStatus
    Differs: None instead of an empty status and false.
    """
    for status in statuses or ():
        if status.name == name:
            return status
    return None


def condition_is_true(status: PodStatus, kind: str) -> bool:
    """Whether the status has that condition with status ``True``."""
    return any(c.type == kind and c.status == "True" for c in status.conditions or ())


# The results cache that workers write and the rest of the kubelet reads.

Result = Literal["Success", "Failure", "UNKNOWN"]

SUCCESS: Final = "Success"
FAILURE: Final = "Failure"
UNKNOWN: Final = "UNKNOWN"

INITIAL: dict[str, Result] = {"liveness": SUCCESS, "readiness": FAILURE, "startup": UNKNOWN}
"""What a worker caches when it meets a container (a startup probe is not yet started)."""

NO_CONTAINER: Final = "://"
"""How the kubelet writes the container ID of a worker that has seen no container."""


class Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A change of a cached result, on its way to the sync loop."""

    container_id: str = msgspec.field(name="containerID")
    result: Result


class Results:
    """Results by container ID of one probe type, with the updates not yet taken.

    An update is sent only when the cached value changes; removing sends none, so a result
    set again after a removal is sent again.

    Source: v1.20.2 pkg/kubelet/prober/results/results_manager.go manager
    Differs: updates are kept in a list; the kubelet's channel of 20 blocks its writers.
    """

    __slots__ = ("cache", "updates")

    def __init__(self) -> None:
        self.cache: dict[str, Result] = {}
        self.updates: list[Update] = []

    def set(self, container_id: str, result: Result) -> None:
        """Store a result; a change becomes an update."""
        if self.cache.get(container_id) != result:
            self.cache[container_id] = result
            self.updates.append(Update(container_id, result))

    def remove(self, container_id: str) -> None:
        self.cache.pop(container_id, None)

    def take_updates(self) -> Sequence[Update]:
        """The updates since the last call, oldest first."""
        if not self.updates:
            return ()
        taken = self.updates
        self.updates = []
        return taken


def parse_container_id(text: str) -> str:
    """The ID as the kubelet holds it; anything but ``type://id`` becomes the empty ID.

    Source: v1.20.2 pkg/kubelet/container/runtime.go ContainerID.ParseString
    Differs: the ID stays text in the form that String gives.
    """
    parts = text.strip('"').split("://")
    return f"{parts[0]}://{parts[1]}" if len(parts) == 2 else NO_CONTAINER
