"""The pods that are on the node, and their containers.

A pod is kept under its key: its UID, or ``namespace/name`` until the UID is known.
It stays while the kubelet has it, a rejected or terminated one too, and goes when

* no config source has it any more and nothing of it runs, or
* the kubelet's own pod list no longer holds it, or
* a whole kubelet process went by without a word of it.

The keys of pods that went are kept in ``gone`` (the newest ``GONE_MAX``), so that a line that
comes late does not bring them back.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.keys import name_key, pod_key

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
        restart_count: as last listed, and one for each restart since.
        kill_reason: why the kubelet killed the newest one (or ``unknown``); None when it
            did not.
        killed_ts_ns: when it decided so.
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
        return self.terminated or self.admitted is False or self.phase in TERMINAL_PHASES

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
        state: changed in place when the pod, or its UID, is new.
        ts_ns: time of the record.
        uid: as recorded, or None.
        namespace: as recorded.
        name: as recorded.
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
    if not uid or not state.without_uid or not namespace or not name:
        return None
    pod = state.pods.pop(name_key(namespace, name), None)
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
