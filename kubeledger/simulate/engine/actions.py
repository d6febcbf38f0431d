"""A simulated pod as the prober and the kubelet's runtime manager read it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

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
from kubeledger.kubelet.prober import objects
from kubeledger.kubelet.prober.worker import ran_before_kubelet
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.units import format_ts
from kubeledger.simulate.engine.world import Instance, SimContainer, SimPod

RUNTIME = "containerd://"
"""Before a container's ID."""


def take_up(pod: SimPod, published: Iterable[Instance]) -> None:
    """What was published as started and ready of another instance, or one that ran, is over."""
    newest = _newest(published)
    for container in pod.containers:
        instance = newest.get(container.name)
        container_id = "" if instance is None else instance.container_id
        if container.published_id != container_id or instance is None or not instance.running:
            container.started = container.ready = False
        container.published_id = container_id


def status_of(pod: SimPod, published: Iterable[Instance]) -> objects.PodStatus:
    """The pod's status as the kubelet generates it from its containers.

    Args:
        published: as the kubelet last saw them, oldest first; what has ended since runs for it
            still, and what has begun since is not there.
    """
    newest = _newest(published)
    groups: tuple[list[objects.ContainerStatus], list[objects.ContainerStatus]] = ([], [])
    for container in pod.containers:
        groups[container.init].append(_container_status(container, newest.get(container.name)))
    return objects.PodStatus(
        phase=pod.phase,
        container_statuses=groups[False],
        init_container_statuses=groups[True] or None,
    )


def _newest(published: Iterable[Instance]) -> dict[str, Instance]:
    return {i.container: i for i in published if i.container is not None}


@lru_cache(maxsize=1 << 12)
def _written(ts_ns: int) -> str:
    # Each sync writes the same instants.
    return format_ts(ts_ns)


def _container_status(
    container: SimContainer, instance: Instance | None
) -> objects.ContainerStatus:
    if instance is None:
        return objects.ContainerStatus(name=container.name, started=False)
    if instance.running:
        state = objects.State(running=objects.Running(_written(instance.started_ns)))
    else:
        state = objects.State(terminated=objects.Terminated(exit_code=instance.exit_code or 0))
    return objects.ContainerStatus(
        name=container.name,
        container_id=f"{RUNTIME}{instance.container_id}",
        state=state,
        ready=container.ready,
        started=container.started,
    )


def is_older(status: objects.PodStatus | None, name: str, kubelet_started_ns: int) -> bool:
    """Whether workers take a container for one from before the kubelet's start."""
    if status is None:
        return False
    groups = (status.container_statuses, status.init_container_statuses)
    found = (objects.status_named(group, name) for group in groups)
    return any(each is not None and ran_before_kubelet(each, kubelet_started_ns) for each in found)


def seen_by_workers(status: objects.PodStatus) -> object:
    """What workers read of a status."""
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return status.phase, [(s.container_id, s.state, s.started) for s in statuses]


def probe_spec(pod: SimPod, name: str, probe_type: ProbeType) -> dict[str, object]:
    """The API's JSON of a probe; empty where there is none."""
    return pod.spec_of(name).get(f"{probe_type}Probe") or {}


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
        listed: its instances as of the last relist, oldest first.
        liveness: cached results by container ID, with the runtime's name.
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
