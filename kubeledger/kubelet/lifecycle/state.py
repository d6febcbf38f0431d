"""The pods that are on the node, and their containers; what a listed pod and an exit code add.

A pod is kept under its key: its UID, or ``namespace/name`` until the UID is known.
It stays while the kubelet has it, a rejected or terminated one too, and goes when

* no config source has it any more and nothing of it runs, or
* the kubelet's own pod list no longer holds it, or
* a whole kubelet process went by without a word of it.

The keys of pods that went are kept in ``gone`` (the newest ``GONE_MAX``), so that a line that
comes late does not bring them back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubeledger.kubelet.kube.resources import name_key, pod_key
from kubeledger.kubelet.kube.statuses import LOST_EXIT_CODE, objects_of, statuses_in
from kubeledger.model.units import NS_PER_S, parse_ts

UNKNOWN_KILLER = "what killed it is not recorded"
_FROM_OUTSIDE = {137: "SIGKILL", 143: "SIGTERM"}
"""128 and the number of a signal that a process gets from another: its end was not its own."""


def how_it_ended(exit_code: int | None, times: str = "") -> str:
    """How a container ended that nothing recorded has killed.

    Args:
        times: how often, as in `` 3×``.

    Returns:
        ``ended by itself with exit code 3``, or ``was found ended (exit code 137, SIGKILL)``;
        exit code 255 may be the runtime's, for what it had lost.
    """
    if exit_code == LOST_EXIT_CODE:
        return f"was found ended{times} (exit code {exit_code}: its own, or of what was lost)"
    signal = _FROM_OUTSIDE.get(exit_code or 0)
    if signal is not None:
        return f"was found ended{times} (exit code {exit_code}, {signal})"
    code = "" if exit_code is None else f" with exit code {exit_code}"
    return f"ended by itself{times}{code}"


def killer_unknown(exit_code: int | None) -> bool:
    """Whether something not recorded ended it."""
    return exit_code in _FROM_OUTSIDE


GONE_MAX = 512
"""How many keys of pods that went are remembered."""

TERMINAL_PHASES = ("Succeeded", "Failed")
"""Phases that a pod never leaves."""


class ContainerState(msgspec.Struct, kw_only=True):
    """One container of a pod, as far as it has come.

    Attributes:
        container_id: the newest one; None before the first.
        init: it is an init container; None until a pod list says so.
        running: the newest one runs.
        started_ts_ns, finished_ts_ns: of the newest one; None when not known.
        exit_code: None when not known, and while it runs.
        restart_count: as last listed, and one for each restart since; of a pod that no list shows
            at least what a back-off implies.
        kill_reason: why the kubelet killed the newest one (or ``unknown``); None when it
            did not.
        oom_kills: how often the kernel killed a process of it, in any of its runs;
            ``oom_killed_ts_ns`` when it last did.
        back_off_s: back-off that a restart waits for; None when none does.
    """

    container_id: str | None = None
    init: bool | None = None
    running: bool = False
    started_ts_ns: int | None = None
    finished_ts_ns: int | None = None
    exit_code: int | None = None
    restart_count: int = 0
    kill_reason: str | None = None
    killed_ts_ns: int | None = None
    oom_kills: int = 0
    oom_killed_ts_ns: int | None = None
    back_off_s: int | None = None


class PodState(msgspec.Struct, kw_only=True):
    """One pod on the node.

    Attributes:
        uid: None until known.
        phase: as last listed, moved on by what happened since; None when not known.
        admitted: None until the kubelet decided.
        reason, message: of a rejection or an eviction.
        since_ts_ns: the first record about it.
        decided_ts_ns: when it was last admitted or rejected.
        qos_class: None until listed.
        restart_policy: as in the spec; None until listed.
        source: config source, ``api``, ``file`` or ``http``; None when not known.
        containers: name -> container, init containers included.
        unnamed: ID -> container that runs but whose name is not known.
        sandbox_id: None when not known.
        deleting: its deletion has begun.
        removed: no config source has it any more.
        terminated: all its containers are down for good.
        reasons: reason of an API event about it -> how many.
        kubelet_run: number of the kubelet process that last logged it.
    """

    namespace: str
    name: str
    uid: str | None
    phase: str | None = None
    admitted: bool | None = None
    reason: str | None = None
    message: str | None = None
    since_ts_ns: int
    decided_ts_ns: int | None = None
    qos_class: str | None = None
    restart_policy: str | None = None
    source: str | None = None
    containers: dict[str, ContainerState] = {}
    unnamed: dict[str, ContainerState] = {}
    sandbox_id: str | None = None
    deleting: bool = False
    removed: bool = False
    terminated: bool = False
    terminated_ts_ns: int | None = None
    reasons: dict[str, int] = {}
    kubelet_run: int = 0

    @property
    def ended(self) -> bool:
        """Rejected, terminated or in a final phase: it holds nothing and is probed no more."""
        return self.terminated or self.phase in TERMINAL_PHASES

    def runs(self) -> bool:
        """Whether any container is known to run (the sandbox does not count)."""
        return bool(self.unnamed) or any(c.running for c in self.containers.values())


class LifecycleState(msgspec.Struct, kw_only=True):
    """All pods on the node.

    Attributes:
        pods: pod key -> pod.
        names: ``namespace/name`` -> key of the newest pod of that name.
        without_uid: how many pods are kept under their name.
        gone: (<= GONE_MAX,) keys of pods that went, oldest first.
        kubelet_run: number of the kubelet process, from 0.
        counts: what happened (``admitted``, ``rejected``, ``evicted``, ``killed``,
            ``restarted``, ``terminated``) -> how often.
    """

    pods: dict[str, PodState] = {}
    names: dict[str, str] = {}
    without_uid: int = 0
    gone: list[str] = []
    kubelet_run: int = 0
    counts: dict[str, int] = {}


def key_of(
    state: LifecycleState, uid: str | None, namespace: str | None, name: str | None
) -> str | None:
    """Key of the pod that a record speaks of; without a UID the newest pod of that name."""
    key = pod_key(uid, namespace, name)
    return key if uid or key is None else state.names.get(key, key)


def known(
    state: LifecycleState, uid: str | None, namespace: str | None, name: str | None
) -> PodState | None:
    """The pod if it is on the node."""
    key = key_of(state, uid, namespace, name)
    return None if key is None else state.pods.get(key)


def meet(
    state: LifecycleState,
    ts_ns: int,
    uid: str | None,
    namespace: str | None,
    name: str | None,
    *,
    revive: bool = False,
) -> PodState | None:
    """The pod of a record that shows it on the node; made when it was not known.

    Args:
        revive: a pod that went may come back by this record.

    Returns:
        None when the record does not identify a pod, or comes late about one that went.
    """
    key = key_of(state, uid, namespace, name)
    if key is None:
        return None
    pod = state.pods.get(key)
    if pod is not None:
        pod.kubelet_run = state.kubelet_run
        if not pod.name and namespace and name:
            pod.namespace, pod.name = namespace, name
            state.names[name_key(namespace, name)] = key
        return pod
    if key in state.gone:
        if not revive:
            return None
        state.gone.remove(key)
    pod = _named_before(state, uid, namespace, name) or PodState(
        namespace=namespace or "", name=name or "", uid=uid, since_ts_ns=ts_ns
    )
    pod.kubelet_run = state.kubelet_run
    state.pods[key] = pod
    if not uid:
        state.without_uid += 1
    if namespace and name:
        state.names[name_key(namespace, name)] = key
    return pod


def _named_before(
    state: LifecycleState, uid: str | None, namespace: str | None, name: str | None
) -> PodState | None:
    """Take out the pod that stood under its name until now, when its UID becomes known."""
    key = name_key(namespace or "", name or "")
    pod = state.pods.pop(key, None) if state.without_uid else None
    if pod is not None:
        state.without_uid -= 1
        pod.uid = uid
    return pod


def drop(state: LifecycleState, key: str) -> None:
    """The pod is no longer on the node."""
    pod = state.pods.pop(key, None)
    if pod is None:
        return
    state.without_uid -= pod.uid is None
    name = name_key(pod.namespace, pod.name)
    state.gone.append(key)
    if state.names.get(name) == key:
        del state.names[name]
        if name != key:
            state.gone.append(name)
    del state.gone[:-GONE_MAX]


def settle_presence(state: LifecycleState, key: str) -> None:
    """Drop the pod if no config source has it and nothing of it runs."""
    pod = state.pods.get(key)
    if pod is not None and pod.removed and (pod.ended or not pod.runs()):
        drop(state, key)


def drop_silent(state: LifecycleState) -> list[str]:
    """A kubelet process begins: drop pods that the one before never spoke of.

    Returns:
        their keys, sorted.
    """
    silent = sorted(k for k, pod in state.pods.items() if pod.kubelet_run < state.kubelet_run)
    for key in silent:
        drop(state, key)
    state.kubelet_run += 1
    return silent


# What a listed pod object adds to the state: phase, QoS class, containers.
#
# The objects are the API's JSON as some file held it; whatever has not the expected form is
# passed over. A list may lag behind the log: a container that it shows under an older ID than
# the state has is left as it is, and what has died under an ID stays dead.


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
