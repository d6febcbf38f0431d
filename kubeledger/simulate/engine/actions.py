"""The runtime's list of a simulated pod as the kubelet's runtime manager reads it."""

from __future__ import annotations

from kubeledger.kubelet.kuberuntime.kuberuntime_manager import compute_pod_actions
from kubeledger.kubelet.kuberuntime.objects import (
    EXITED,
    RUNNING,
    ContainerStatus,
    PodActions,
    PodStatus,
    ProbeResults,
    SandboxStatus,
)
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts
from kubeledger.simulate.engine.instances import Instance
from kubeledger.simulate.engine.probe_status import RUNTIME
from kubeledger.simulate.engine.world import SimPod

_IP = "10.0.0.1"
"""Every sandbox gets an address at once; which one matters to nobody here."""


def actions_of(
    pod: SimPod,
    listed: tuple[Instance, ...],
    liveness: ProbeResults,
    startup: ProbeResults,
    facts: KuberuntimeFacts,
) -> PodActions:
    """What a sync does with a pod that is to run.

    Args:
        pod: to be synced.
        listed: its instances as of the last relist, oldest first.
        liveness: cached results by container ID, with the runtime's name.
        startup: likewise.
    """
    newest_first = listed[::-1]
    sandboxes = [i for i in newest_first if i.container is None]
    count = len(sandboxes)
    status = PodStatus(
        tuple(
            SandboxStatus(
                id=instance.container_id,
                state="ready" if instance.running else "notready",
                attempt=count - 1 - index,
                ip=_IP,
                host_network=bool(pod.synced.spec.host_network),
            )
            for index, instance in enumerate(sandboxes)
        ),
        tuple(
            ContainerStatus(
                id=f"{RUNTIME}{instance.container_id}",
                name=instance.container,
                state=RUNNING if instance.running else EXITED,
                exit_code=instance.exit_code or 0,
                # Of what its hash covers only the image can change here.
                hash_matches=instance.image == pod.image(instance.container),
            )
            for instance in newest_first
            if instance.container is not None
        ),
    )
    return compute_pod_actions(
        pod.synced,
        status,
        liveness,
        startup,
        facts,
        actuated=pod.actuated,
        # A pod's own resources are never resized here.
        actuated_pod=pod.synced.spec.resources,
    )
