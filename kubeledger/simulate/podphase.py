"""Phase and status of a pod, from what is known of its containers."""

from __future__ import annotations

from typing import Any, Literal

from kubeledger.simulate.pleg import View
from kubeledger.simulate.runtime import Instance
from kubeledger.simulate.world import SimContainer, SimPod
from kubeledger.units import NS_PER_S, format_ts

__all__ = ["Phase", "init_failed", "phase_of", "status_of"]

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


def init_failed(pod: SimPod, view: View) -> bool:
    """An init container failed for good."""
    return restart_policy(pod) == "Never" and any(
        (instance := view.get(c.name)) is not None and bool(instance.exit_code)
        for c in pod.containers
        if c.init and not c.sidecar
    )


def restart_policy(pod: SimPod) -> str:
    """Of the pod."""
    return pod.probed.spec.restart_policy or "Always"


def phase_of(pod: SimPod, view: View) -> Phase:
    """The phase by the states of the containers, a container by its newest instance.

    Source: v1.36.2 pkg/kubelet/kubelet_pods.go getPhase
    Differs: restart rules of single containers are not asked.
    """
    apps = [c for c in pod.containers if not c.init]
    policy = restart_policy(pod)
    if init_failed(pod, view):
        return "Failed"
    if not any(c.name in view for c in apps):
        return "Pending"
    if any(c.name not in view for c in apps):
        return "Pending"
    ended = [view[c.name] for c in apps if not view[c.name].running]
    if len(ended) < len(apps) or policy == "Always":
        return "Running"
    if all(instance.exit_code == 0 for instance in ended):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def status_of(pod: SimPod, instances: tuple[Instance, ...]) -> dict[str, Any]:
    """The status as the kubelet's own list of pods shows it.

    Args:
        pod: its readiness is as the prober published.
        instances: all of it that the last sync saw, oldest first.
    """
    view = {i.container: i for i in instances if i.container is not None}
    groups: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for container in pod.containers:
        groups[container.init].append(_container(pod, container, instances, view))
    apps = [c for c in pod.containers if not c.init]
    all_ready = bool(apps) and all(c.ready for c in apps) and pod.phase == "Running"
    initialized = any(c.name in view for c in apps) or not groups[True]
    conditions = {
        "Initialized": initialized,
        "Ready": all_ready,
        "ContainersReady": all_ready,
        "PodScheduled": True,
    }
    status: dict[str, Any] = {
        "phase": pod.phase,
        "conditions": [
            {"type": kind, "status": "True" if holds else "False"}
            for kind, holds in conditions.items()
        ],
        "qosClass": pod.qos_class,
        "startTime": _second(pod.added_ns),
    }
    if pod.reason:
        status |= {"reason": pod.reason, "message": pod.message}
    if pod.admitted is False:
        return {k: v for k, v in status.items() if k != "conditions"}
    if groups[True]:
        status["initContainerStatuses"] = groups[True]
    status["containerStatuses"] = groups[False]
    return status


def _container(
    pod: SimPod, container: SimContainer, instances: tuple[Instance, ...], view: View
) -> dict[str, Any]:
    newest = view.get(container.name)
    spec = next(
        c
        for c in (*(pod.spec.get("initContainers") or ()), *pod.spec["containers"])
        if c["name"] == container.name
    )
    shown: dict[str, Any] = {
        "name": container.name,
        "image": spec.get("image", ""),
        "ready": container.ready and newest is not None and newest.running,
        "started": container.started and newest is not None and newest.running,
        "restartCount": 0 if newest is None else newest.restarts,
        "lastState": {},
    }
    if container.init and not container.sidecar:
        shown["ready"] = newest is not None and newest.exit_code == 0
    if newest is None:
        why = "PodInitializing" if pod.sandbox_id else "ContainerCreating"
        return shown | {"imageID": "", "state": {"waiting": {"reason": why}}}
    shown |= {
        "containerID": f"containerd://{newest.container_id}",
        "imageID": "",
        "state": _state(newest),
    }
    if container.back_off_ns and not newest.running and not pod.terminated and not pod.deleting:
        shown["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        shown["lastState"] = _state(newest)
        return shown
    before = [i for i in instances if i.container_id == newest.previous_id]
    if before and not before[0].running:
        shown["lastState"] = _state(before[0])
    return shown


def _state(instance: Instance) -> dict[str, Any]:
    started = _second(instance.started_ns)
    if instance.finished_ns is None:
        return {"running": {"startedAt": started}}
    return {
        "terminated": {
            "exitCode": instance.exit_code,
            "reason": "Error" if instance.exit_code else "Completed",
            "startedAt": started,
            "finishedAt": _second(instance.finished_ns),
            "containerID": f"containerd://{instance.container_id}",
        }
    }


def _second(ts_ns: int) -> str:
    """Times in the API are whole seconds."""
    return format_ts(ts_ns // NS_PER_S * NS_PER_S)
