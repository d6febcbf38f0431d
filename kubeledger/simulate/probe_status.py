"""A pod's status as probe workers and the prober see it."""

from __future__ import annotations

from kubeledger.prober import objects
from kubeledger.prober.records import ProbeType
from kubeledger.simulate.world import SimContainer, SimPod
from kubeledger.units import format_ts

__all__ = ["RUNTIME", "probe_spec", "seen_by_workers", "status_of"]

RUNTIME = "containerd://"
"""Before a container's ID."""


def status_of(pod: SimPod) -> objects.PodStatus:
    """The pod's status as the kubelet generates it from its containers."""
    groups: tuple[list[objects.ContainerStatus], list[objects.ContainerStatus]] = ([], [])
    for container in pod.containers:
        groups[container.init].append(_container_status(container))
    return objects.PodStatus(
        phase=pod.phase,
        container_statuses=groups[False],
        init_container_statuses=groups[True] or None,
    )


def _container_status(container: SimContainer) -> objects.ContainerStatus:
    state = objects.State()
    if container.state == "running":
        started_ns = container.started_ns
        at = None if started_ns is None else format_ts(started_ns)
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
