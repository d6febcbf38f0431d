"""A pod's status as probe workers and the prober see it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kubeledger.prober import objects
from kubeledger.prober.records import ProbeType
from kubeledger.prober.worker import ran_before_kubelet
from kubeledger.simulate.runtime import Instance
from kubeledger.simulate.world import SimContainer, SimPod
from kubeledger.units import format_ts

__all__ = ["RUNTIME", "is_older", "probe_spec", "seen_by_workers", "status_of"]

RUNTIME = "containerd://"
"""Before a container's ID."""


def status_of(pod: SimPod, published: Iterable[Instance]) -> objects.PodStatus:
    """The pod's status as the kubelet generates it from its containers.

    Args:
        pod: its containers are as they are.
        published: as the kubelet last saw them; what has ended since runs for it still.
    """
    running = {instance.container_id for instance in published if instance.running}
    groups: tuple[list[objects.ContainerStatus], list[objects.ContainerStatus]] = ([], [])
    for container in pod.containers:
        groups[container.init].append(_container_status(container, running))
    return objects.PodStatus(
        phase=pod.phase,
        container_statuses=groups[False],
        init_container_statuses=groups[True] or None,
    )


@lru_cache(maxsize=1 << 12)
def _written(ts_ns: int) -> str:
    # The same instants are told with each sync.
    return format_ts(ts_ns)


def _container_status(container: SimContainer, running: set[str]) -> objects.ContainerStatus:
    state = objects.State()
    if container.state == "running" or container.container_id in running:
        started_ns = container.started_ns
        at = None if started_ns is None else _written(started_ns)
        state = objects.State(running=objects.Running(at))
    elif container.state == "terminated":
        state = objects.State(terminated=objects.Terminated(exit_code=container.exit_code or 0))
    return objects.ContainerStatus(
        name=container.name,
        container_id=f"{RUNTIME}{container.container_id}" if container.container_id else "",
        state=state,
        ready=container.ready,
        started=container.started,
    )


def is_older(container: SimContainer, kubelet_started_ns: int) -> bool:
    """Whether workers take it for a container from before the kubelet's start."""
    running = {container.container_id}
    return ran_before_kubelet(_container_status(container, running), kubelet_started_ns)


def seen_by_workers(status: objects.PodStatus) -> object:
    """What workers read of a status."""
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return status.phase, [(s.container_id, s.state, s.started) for s in statuses]


def probe_spec(pod: SimPod, name: str, probe_type: ProbeType) -> dict[str, object]:
    """The API's JSON of a probe; empty where there is none."""
    for key in ("containers", "initContainers"):
        for container in pod.spec.get(key) or ():
            if container.get("name") == name:
                return container.get(f"{probe_type}Probe") or {}
    return {}
