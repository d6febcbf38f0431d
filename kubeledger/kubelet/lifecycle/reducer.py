"""Pods and containers: records to state.

Only a record that shows a pod on the node makes it known. One that could also come after
the pod went (an event, a death, an end) changes a pod that is there, and nothing else.
"""

from __future__ import annotations

from typing import Protocol

from kubeledger.kubelet.kube.reducing import Handlers
from kubeledger.kubelet.lifecycle.state import (
    TERMINAL_PHASES,
    ContainerState,
    LifecycleState,
    PodState,
    apply_spec,
    apply_status,
    drop,
    key_of,
    known,
    meet,
    settle_presence,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodStarted,
    PodTerminated,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import PodStageFailed

_FIRST_BACK_OFF_S = 10
"""No kubelet waits longer after the first restart."""


class AboutPod(Protocol):
    """What the bodies of this subsystem have in common."""

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""

    @property
    def pod(self) -> str:
        """Name of the pod."""

    @property
    def pod_uid(self) -> str | None:
        """UID of the pod, None when not known."""


def _count(state: LifecycleState, word: str) -> None:
    state.counts[word] = state.counts.get(word, 0) + 1


def _settle(state: LifecycleState, body: AboutPod) -> None:
    key = key_of(state, body.pod_uid, body.namespace, body.pod)
    if key is not None:
        settle_presence(state, key)


def _move_phase_on(pod: PodState) -> None:
    """Running once every container of the pod itself has started (the kubelet's getPhase)."""
    if pod.phase in TERMINAL_PHASES:
        return
    own = [c for c in pod.containers.values() if not c.init]
    if any(c.running for c in own) and all(c.container_id is not None for c in own):
        pod.phase = "Running"


def _pod_listed(state: LifecycleState, ts_ns: int, body: PodListed) -> None:
    if body.gone:
        _pod_unlisted(state, body)
        return
    if body.listed_by == "manifest":
        # A manifest is a wish: it describes a pod, but puts none on the node.
        pod = known(state, body.pod_uid, body.namespace, body.pod)
    else:
        pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod, revive=True)
    if pod is None:
        return
    if body.spec is not None:
        apply_spec(pod, body.spec)
    if body.status is not None:
        phase, ended = pod.phase, pod.ended
        apply_status(pod, body.status)
        if ended and pod.phase not in TERMINAL_PHASES:
            pod.phase = phase
        _move_phase_on(pod)


def _pod_unlisted(state: LifecycleState, body: PodListed) -> None:
    key = key_of(state, body.pod_uid, body.namespace, body.pod)
    if key is None or key not in state.pods:
        return
    if body.listed_by == "kubelet":
        drop(state, key)
    elif body.listed_by == "api":
        state.pods[key].removed = True
        settle_presence(state, key)


def _pod_config_changed(state: LifecycleState, ts_ns: int, body: PodConfigChanged) -> None:
    if body.operation == "REMOVE":
        pod = known(state, body.pod_uid, body.namespace, body.pod)
        if pod is not None:
            pod.removed = True
            _settle(state, body)
        return
    adds = body.operation == "ADD"
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod, revive=adds)
    if pod is None:
        return
    if body.source is not None:
        pod.source = body.source
    if body.operation == "DELETE":
        pod.deleting = True
    elif adds:
        pod.removed = False


def _pod_admitted(state: LifecycleState, ts_ns: int, body: PodAdmitted) -> None:
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod, revive=True)
    _count(state, "admitted")
    if pod is None:
        return
    pod.admitted, pod.decided_ts_ns = True, ts_ns
    pod.reason = pod.message = None
    if pod.terminated:
        # A static pod keeps its UID when its manifest comes back.
        pod.containers.clear()
        pod.terminated, pod.terminated_ts_ns = False, None
    if pod.phase is None or pod.phase in TERMINAL_PHASES:
        pod.phase = "Pending"
    _move_phase_on(pod)


def _pod_rejected(state: LifecycleState, ts_ns: int, body: PodRejected) -> None:
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod, revive=True)
    _count(state, "rejected")
    if pod is None:
        return
    pod.admitted, pod.decided_ts_ns = False, ts_ns
    pod.reason, pod.message = body.reason, body.message
    pod.phase = "Failed"


def _pod_evicted(state: LifecycleState, ts_ns: int, body: PodEvicted) -> None:
    """Its phase is final at once; what runs of it ends with the kills."""
    _count(state, "evicted")
    pod = known(state, body.pod_uid, body.namespace, body.pod)
    if pod is not None:
        pod.reason, pod.message = "Evicted", body.message
        pod.phase = "Failed"


def _pod_terminating(state: LifecycleState, ts_ns: int, body: PodTerminating) -> None:
    pod = known(state, body.pod_uid, body.namespace, body.pod)
    if pod is not None and body.reason == "deleted":
        pod.deleting = True


def _pod_started(state: LifecycleState, ts_ns: int, body: PodStarted) -> None:
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod)
    if pod is not None and pod.phase not in TERMINAL_PHASES:
        pod.phase = "Running"


def _pod_terminated(state: LifecycleState, ts_ns: int, body: PodTerminated) -> None:
    _count(state, "terminated")
    pod = known(state, body.pod_uid, body.namespace, body.pod)
    if pod is None:
        return
    if not pod.terminated:
        pod.terminated, pod.terminated_ts_ns = True, ts_ns
    pod.unnamed.clear()
    for container in pod.containers.values():
        if container.running:
            _stop(container, ts_ns, None)
    exit_codes = [c.exit_code for c in pod.containers.values() if not c.init]
    if pod.phase not in TERMINAL_PHASES and exit_codes and None not in exit_codes:
        pod.phase = "Failed" if any(exit_codes) else "Succeeded"
    _settle(state, body)


def _container_started(state: LifecycleState, ts_ns: int, body: ContainerStarted) -> None:
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod)
    if pod is None:
        return
    if body.sandbox:
        pod.sandbox_id = body.container_id
    elif body.container is not None:
        _start(pod, body.container, body.container_id, ts_ns)
    elif not _find(pod, body.container_id):
        pod.unnamed[body.container_id] = ContainerState(
            container_id=body.container_id, running=True, started_ts_ns=ts_ns
        )


def _container_restarted(state: LifecycleState, ts_ns: int, body: ContainerRestarted) -> None:
    _count(state, "restarted")
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod)
    if pod is None:
        return
    container = pod.containers.setdefault(body.container, ContainerState())
    if body.container_id is not None:
        _start(pod, body.container, body.container_id, ts_ns)
        container.restart_count = max(container.restart_count, 1)
    elif not container.running:
        # No ID marks this run as a new one: the start that follows is not a second one.
        container.container_id = None
        container.restart_count += 1
    if body.restart_count is not None:
        container.restart_count = body.restart_count


def _start(pod: PodState, name: str, container_id: str, ts_ns: int) -> None:
    """``name`` runs as ``container_id``; another ID than before is a restart."""
    container = pod.containers.setdefault(name, ContainerState())
    if container.container_id != container_id:
        known_before = pod.unnamed.pop(container_id, None)
        if container.container_id is not None:
            container.restart_count += 1
        container.container_id = container_id
        container.running = True
        container.started_ts_ns = known_before.started_ts_ns if known_before else ts_ns
        container.finished_ts_ns = container.exit_code = None
        container.kill_reason = container.killed_ts_ns = container.back_off_s = None
    _move_phase_on(pod)


def _find(pod: PodState, container_id: str) -> ContainerState | None:
    for name in sorted(pod.containers):
        if pod.containers[name].container_id == container_id:
            return pod.containers[name]
    return None


def _container_died(state: LifecycleState, ts_ns: int, body: ContainerDied) -> None:
    pod = known(state, body.pod_uid, body.namespace, body.pod)
    if pod is None:
        return
    pod.unnamed.pop(body.container_id, None)
    if pod.sandbox_id == body.container_id:
        pod.sandbox_id = None
    container = _find(pod, body.container_id)
    if container is None and body.container is not None and not body.sandbox:
        container = pod.containers.setdefault(body.container, ContainerState())
        if container.container_id is None:
            container.container_id = body.container_id
    if container is not None and container.container_id == body.container_id:
        _stop(container, ts_ns, body.exit_code)
    _settle(state, body)


def _stop(container: ContainerState, ts_ns: int, exit_code: int | None) -> None:
    container.running = False
    if container.finished_ts_ns is None:
        container.finished_ts_ns = ts_ns
    if exit_code is not None:
        container.exit_code = exit_code


def _container_killed(state: LifecycleState, ts_ns: int, body: ContainerKilled) -> None:
    _count(state, "killed")
    pod = known(state, body.pod_uid, body.namespace, body.pod)
    if pod is None:
        return
    for container in _killed(pod, body):
        if container.kill_reason is None:
            container.kill_reason = body.reason or "unknown"
            container.killed_ts_ns = ts_ns


def _killed(pod: PodState, body: ContainerKilled) -> list[ContainerState]:
    """The one the record names, by ID or name; all that run when it names none."""
    if body.container_id is None and body.container is None:
        return [container for container in pod.containers.values() if container.running]
    container = _find(pod, body.container_id) if body.container_id is not None else None
    if container is None and body.container is not None:
        container = pod.containers.setdefault(body.container, ContainerState())
        if container.container_id is None:
            container.container_id = body.container_id
        elif body.container_id is not None:
            return []  # an earlier run of this container, already replaced
    return [] if container is None else [container]


def _restart_backed_off(state: LifecycleState, ts_ns: int, body: RestartBackedOff) -> None:
    """The kubelet puts a restart off while it syncs the pod: the pod is on the node."""
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod)
    if pod is not None:
        container = pod.containers.setdefault(body.container, ContainerState())
        container.back_off_s = body.back_off_s
        if pod.qos_class is None:  # no list counts them; starts that fail double it, too
            implied = _restarts_behind(body.back_off_s)
            container.restart_count = max(container.restart_count, implied)


def _restarts_behind(back_off_s: int) -> int:
    """As many restarts as a back-off implies: the first makes it, each doubles it."""
    return 1 + max(-(-back_off_s // _FIRST_BACK_OFF_S) - 1, 0).bit_length()


def _stage_failed(state: LifecycleState, ts_ns: int, body: PodStageFailed) -> None:
    """The kubelet syncs the pod in vain: the pod is on the node."""
    if body.stage in ("stop", "teardown") or not (body.namespace and body.pod):
        return
    pod = meet(state, ts_ns, body.pod_uid, body.namespace, body.pod)
    if pod is not None and body.container is not None:
        pod.containers.setdefault(body.container, ContainerState())


def _reason_reported(state: LifecycleState, ts_ns: int, body: KubernetesEvent) -> None:
    if body.object_kind != "Pod":
        return
    pod = known(state, body.pod_uid, body.namespace, body.pod)
    if pod is not None:
        pod.reasons[body.reason] = pod.reasons.get(body.reason, 0) + body.count


HANDLERS: Handlers[LifecycleState] = {
    ContainerDied: _container_died,
    ContainerKilled: _container_killed,
    ContainerRestarted: _container_restarted,
    ContainerStarted: _container_started,
    PodAdmitted: _pod_admitted,
    PodConfigChanged: _pod_config_changed,
    PodEvicted: _pod_evicted,
    PodListed: _pod_listed,
    PodRejected: _pod_rejected,
    PodStageFailed: _stage_failed,
    PodStarted: _pod_started,
    PodTerminated: _pod_terminated,
    PodTerminating: _pod_terminating,
    KubernetesEvent: _reason_reported,
    RestartBackedOff: _restart_backed_off,
}
"""Body type -> what it does to the state."""
