"""What a listed pod object adds to the state: phase, QoS class, containers.

The objects are the API's JSON as some file held it; whatever has not the expected form is
passed over. A list may lag behind the log: a container that it shows under an older ID than
the state has is left as it is, and what has died under an ID stays dead.
"""

from __future__ import annotations

from typing import Any

from kubeledger.kubelet.kube.statuses import objects_of, statuses_in
from kubeledger.kubelet.lifecycle.state import ContainerState, PodState
from kubeledger.model.units import NS_PER_S, parse_ts

__all__ = ["apply_spec", "apply_status", "objects_of"]


def apply_spec(pod: PodState, spec: dict[str, Any]) -> None:
    """Take restart policy and container names."""
    policy = spec.get("restartPolicy")
    if isinstance(policy, str):
        pod.restart_policy = policy
    for field, init in (("initContainers", True), ("containers", False)):
        for container in objects_of(spec.get(field)):
            name = container.get("name")
            if isinstance(name, str):
                _container(pod, name).init = init


def apply_status(pod: PodState, status: dict[str, Any]) -> None:
    """Take phase, QoS class, reason and the containers' states."""
    for field, attribute in (("phase", "phase"), ("qosClass", "qos_class")):
        if isinstance(status.get(field), str):
            setattr(pod, attribute, status[field])
    if pod.phase == "Failed" and pod.reason is None and isinstance(status.get("reason"), str):
        pod.reason = status["reason"]
        message = status.get("message")
        pod.message = message if isinstance(message, str) else None
    for item in statuses_in(status):
        name = item.get("name")
        if isinstance(name, str):
            _apply_container(pod, name, item)


def _container(pod: PodState, name: str) -> ContainerState:
    return pod.containers.setdefault(name, ContainerState())


def _apply_container(pod: PodState, name: str, status: dict[str, Any]) -> None:
    container = _container(pod, name)
    full_id, restart_count = status.get("containerID"), status.get("restartCount")
    if not isinstance(full_id, str) or not full_id:
        return
    container_id = full_id.rpartition("://")[2]
    restarts = restart_count if isinstance(restart_count, int) else 0
    word, detail = _current(status, full_id)
    started_ts_ns = _time(detail.get("startedAt"))
    if container_id != container.container_id:
        if _older(container, restarts, started_ts_ns):
            return
        named = pod.unnamed.pop(container_id, None)
        _renew(container, container_id, named, started_ts_ns)
        container.running = word == "running"
    container.restart_count = restarts
    if container.started_ts_ns is None:
        container.started_ts_ns = started_ts_ns
    if word == "terminated":
        _finish(container, detail)


def _current(status: dict[str, Any], full_id: str) -> tuple[str | None, dict[str, Any]]:
    """State word and detail of ``full_id``; a waiting container has ended in ``lastState``."""
    state = status.get("state")
    for word in ("running", "terminated"):
        detail = state.get(word) if isinstance(state, dict) else None
        if isinstance(detail, dict):
            return word, detail
    last = status.get("lastState")
    detail = last.get("terminated") if isinstance(last, dict) else None
    if isinstance(detail, dict) and detail.get("containerID", full_id) == full_id:
        return "terminated", detail
    return None, {}


def _older(container: ContainerState, restarts: int, started_ts_ns: int | None) -> bool:
    """Whether the listed container comes before the one in the state."""
    if container.container_id is None:
        return False
    if restarts != container.restart_count:
        return restarts < container.restart_count
    if started_ts_ns is None or container.started_ts_ns is None:
        return container.running
    # Lists hold whole seconds.
    return started_ts_ns < container.started_ts_ns // NS_PER_S * NS_PER_S


def _renew(
    container: ContainerState,
    container_id: str,
    named: ContainerState | None,
    started_ts_ns: int | None,
) -> None:
    container.container_id = container_id
    container.started_ts_ns = named.started_ts_ns if named is not None else started_ts_ns
    container.finished_ts_ns = container.exit_code = None
    container.kill_reason = container.killed_ts_ns = container.back_off_s = None


def _finish(container: ContainerState, detail: dict[str, Any]) -> None:
    container.running = False
    if container.finished_ts_ns is None:
        container.finished_ts_ns = _time(detail.get("finishedAt"))
    exit_code = detail.get("exitCode")
    if container.exit_code is None and isinstance(exit_code, int):
        container.exit_code = exit_code


def _time(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_ts(value)
    except ValueError:
        return None
