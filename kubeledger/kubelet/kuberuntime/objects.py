"""What a sync of a pod reads: the pod, and what the runtime lists of it.

Pods are as the kubelet got them: nothing is defaulted, so an absent restart policy is empty
here, which counts as Always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kubelet.kube.pod import ResizePolicy, ResourceRequirements
from kubeledger.kubelet.kube.restartpolicy import RestartRule

ContainerState = Literal["created", "running", "exited", "unknown"]
ProbeResult = Literal["Success", "Failure", "UNKNOWN"]
ProbeResults = Mapping[str, ProbeResult]
"""Container ID -> cached result of one probe type."""

CREATED: Final = "created"
RUNNING: Final = "running"
EXITED: Final = "exited"
UNKNOWN: Final = "unknown"

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Uint32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Probe(msgspec.Struct, frozen=True, gc=False):
    """That there is one is all that matters."""


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container or init container of the pod's spec."""

    name: str = ""
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ResizePolicy, ...] | None = None


class EphemeralContainer(msgspec.Struct, frozen=True, gc=False):
    """An ephemeral container of the pod's spec."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Containers in the order of the spec."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] | None = None
    restart_policy: str | None = None
    active_deadline_seconds: int | None = None
    host_network: bool | None = None
    resources: ResourceRequirements | None = None


class PodMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Identity, whether deletion was asked for (RFC 3339), and where the pod came from."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Pod(msgspec.Struct, frozen=True):
    """A pod as it is to be."""

    metadata: PodMeta
    spec: PodSpec


class SandboxStatus(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """A sandbox that the runtime lists.

    Attributes:
        attempt: how many sandboxes of the pod there were before.
        ip: empty while it has none.
        host_network: it uses the node's network.
    """

    id: str
    state: Literal["ready", "notready"]
    attempt: _Uint32
    ip: str
    host_network: bool


class ContainerStatus(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """A container that the runtime lists.

    Attributes:
        id: with the runtime's name: ``containerd://…``.
        created_at, started_at, finished_at: RFC 3339; Go's zero time where there is none.
        hash_matches: it was made of the definition that the spec holds now.
        reason: of its end, as the runtime reports it.
    """

    id: str
    name: str
    state: ContainerState
    exit_code: _Int32 = 0
    created_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    restart_count: _Int32 = 0
    hash_matches: bool = True
    reason: str = ""


class PodStatus:
    """What the runtime lists of a pod, newest first.

    Attributes:
        sandboxes, containers: (n,) each.
    """

    __slots__ = ("_newest", "containers", "sandboxes")

    def __init__(
        self,
        sandboxes: tuple[SandboxStatus, ...] = (),
        containers: tuple[ContainerStatus, ...] = (),
    ) -> None:
        self.sandboxes = sandboxes
        self.containers = containers
        self._newest: dict[str, ContainerStatus] = {}
        for status in containers:
            self._newest.setdefault(status.name, status)

    def find(self, name: str) -> ContainerStatus | None:
        """The newest status of a container.

        Source: v1.36.2 pkg/kubelet/container/runtime.go FindContainerStatusByName
        Differs: nothing.
        """
        return self._newest.get(name)
