"""Which pods are on the node: meeting, naming and dropping them."""

from __future__ import annotations

from kubeledger.kubelet.kube.keys import name_key, pod_key
from kubeledger.kubelet.lifecycle.state import GONE_MAX, LifecycleState, PodState


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
