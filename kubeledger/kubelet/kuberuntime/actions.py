"""What a sync of a pod is to do, and what it goes by."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kuberuntime.objects import Pod, PodStatus, ProbeResults
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts


class ContainerToKill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A container to kill.

    Attributes:
        reason: ``LivenessProbe``, ``StartupProbe``, ``Unknown``, or empty for a changed
            definition or size. Kubelets before 1.21 know none.
    """

    name: str
    reason: str
    message: str


class PodActions(msgspec.Struct, kw_only=True):
    """What to do; indices are those of the spec's lists.

    Attributes:
        kill_pod: stop the sandbox and all that runs in it.
        create_sandbox: make another one then.
        sandbox_id: the sandbox to use, or the one that is replaced; empty for none.
        attempt: of the sandbox to use or to make.
        init_containers_to_start, containers_to_start, ephemeral_containers_to_start: indices,
            in order.
        containers_to_kill: container ID -> kill.
        containers_to_update: resource -> names of containers, in the order of the updates.
        containers_to_reset: IDs of containers to remove, in order.
        update_pod_level_resources: the pod's own requests or limits are to be written.
        sandbox_why: why another sandbox is, or is not, needed. Like the next three, a part of a
            sentence, after "because".
        create_why: why another is, or is not, made.
        pod_why: why the pod is, or is not, killed.
        why: container name -> why it is, or is not, started or killed; a container that is
            not there was not looked at, for the reason that ``pod_why`` gives.
    """

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    init_containers_to_start: list[int] = []
    containers_to_start: list[int] = []
    ephemeral_containers_to_start: list[int] = []
    containers_to_kill: dict[str, ContainerToKill] = {}
    containers_to_update: dict[str, list[str]] = {}
    containers_to_reset: list[str] = []
    update_pod_level_resources: bool = False
    sandbox_why: str = ""
    create_why: str = ""
    pod_why: str = ""
    why: dict[str, str] = {}


class Sync(msgspec.Struct, kw_only=True):
    """What a sync goes by, and the actions so far.

    Attributes:
        status: as listed before the sync.
        liveness, startup: what the probe manager has cached.
        actuated: container name -> resources that were last given to the runtime.
        actuated_pod: the pod's own that were last written; None for none.
    """

    pod: Pod
    status: PodStatus
    liveness: ProbeResults
    startup: ProbeResults
    actuated: Mapping[str, ResourceRequirements]
    actuated_pod: ResourceRequirements | None
    facts: KuberuntimeFacts
    actions: PodActions = msgspec.field(default_factory=PodActions)

    @property
    def restart_policy(self) -> str:
        """Of the pod."""
        return self.pod.spec.restart_policy or ""
