"""Cases of the CPU manager as they are written: input, steps and outcome."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import Strict
from kubeledger.kubelet.cases.hints import HintOutcome
from kubeledger.kubelet.cpumanager.cpu_manager import ContainerState
from kubeledger.kubelet.cpumanager.topology import MachineInfo
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.resources import Amount
from kubeledger.kubelet.topologymanager.policy import BITS_MAX

InitialContainer = tuple[str, str, str]
"""Pod UID, container, container ID."""
NodeIds = list[Annotated[int, msgspec.Meta(ge=0, le=BITS_MAX - 1)]]


class StepCase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
    tag_field="op",
):
    """A step; active pods and readiness of sources hold from it on."""

    active_pods: list[str] | None = None
    sources_ready: bool | None = None


class Allocate(StepCase, frozen=True, kw_only=True, tag="allocate"):
    """Allocate for a container, with the affinity stored for it; None for any."""

    pod: str
    container: str
    affinity: NodeIds | None
    preferred: bool


class AllocatePod(StepCase, frozen=True, kw_only=True, tag="allocatePod"):
    """Allocate for a pod as a whole."""

    pod: str
    affinity: NodeIds | None
    preferred: bool


class Hints(StepCase, frozen=True, kw_only=True, tag="hints"):
    """Hints of a container."""

    pod: str
    container: str


class PodHints(StepCase, frozen=True, kw_only=True, tag="podHints"):
    """Hints of a pod."""

    pod: str


class AddContainer(StepCase, frozen=True, kw_only=True, tag="addContainer"):
    """A container starts."""

    pod: str
    container: str
    container_id: str = msgspec.field(name="containerID")


class RemoveContainer(StepCase, frozen=True, kw_only=True, tag="removeContainer"):
    """A container is gone."""

    container_id: str = msgspec.field(name="containerID")


class RemoveStaleState(StepCase, frozen=True, kw_only=True, tag="removeStaleState"):
    """What no active pod has goes back."""


class Reconcile(StepCase, frozen=True, kw_only=True, tag="reconcile"):
    """The runtime is told; a pod without statuses has none."""

    statuses: dict[str, dict[str, tuple[ContainerState, str]]]
    update_errors: list[str] | None = None


class Restart(StepCase, frozen=True, kw_only=True, tag="restart"):
    """A new process; what is given is new from then on, and the file is overwritten before."""

    state_file: str | UnsetType | None = UNSET
    topology: MachineInfo | None = None
    reserved_cpu: Amount | UnsetType = msgspec.field(name="reservedCPU", default=UNSET)
    reserved_system_cpus: str | None = msgspec.field(name="reservedSystemCPUs", default=None)
    options: dict[str, str] | None = None
    initial_containers: list[InitialContainer] | None = None


Step = (
    Allocate
    | AllocatePod
    | Hints
    | PodHints
    | AddContainer
    | RemoveContainer
    | RemoveStaleState
    | Reconcile
    | Restart
)


Entries = dict[str, dict[str, str]]
"""Pod UID -> container -> its CPUs."""


class CpuCase(Strict, frozen=True, kw_only=True):
    """Input: a machine, a configuration, pods, and steps.

    Attributes:
        active_pods: UIDs, until a step names others; so with ``sources_ready``.
        initial_containers: what the runtime lists at the start.
        state_file: text of ``cpu_manager_state``; None: no file.
        feature_gates: those that are not at their default.
    """

    topology: MachineInfo
    reserved_cpu: Amount = msgspec.field(name="reservedCPU", default=None)
    reserved_system_cpus: str = msgspec.field(name="reservedSystemCPUs")
    options: dict[str, str]
    topology_policy: str
    pods: dict[str, Pod]
    active_pods: list[str]
    sources_ready: bool
    initial_containers: list[InitialContainer]
    state_file: str | None = None
    steps: list[Step]
    feature_gates: dict[str, bool] | None = None


class StepOutcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What came of a step, and who has which CPUs after it; after a failed restart nobody does."""

    default: str | UnsetType = UNSET
    entries: Entries | UnsetType = UNSET
    pod_entries: dict[str, str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    cpus: str | UnsetType = UNSET
    hints: dict[str, list[HintOutcome]] | UnsetType | None = UNSET
    updates: list[tuple[str, str]] | UnsetType = UNSET


class Outcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What came of the start and of each step, and the file at the end."""

    start_error: str
    default: str | UnsetType = UNSET
    entries: Entries | UnsetType = UNSET
    pod_entries: dict[str, str] | UnsetType = UNSET
    steps: list[StepOutcome]
    state_file: str | None
