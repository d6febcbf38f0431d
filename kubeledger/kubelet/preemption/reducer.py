"""Preemptions whose victims are still on the node, and how many there were: records to state.

A victim stays until its pod is gone from the node; it is awaited until its containers are known to
be down (:func:`pod_ended`).
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers, as_told
from kubeledger.kubelet.kube.resources import name_key, pod_key
from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted, PreemptionFailed


class VictimState(msgspec.Struct, kw_only=True):
    """A pod that was preempted and is not gone yet.

    Attributes:
        preemptor: ``namespace/name``; None when not known.
        preemptor_uid: None when not known.
        insufficient: (n,) what was missing.
        evicted: the kill succeeded; None when not known.
        awaiting: its containers are not yet known to be down.
    """

    namespace: str
    pod: str
    preemptor: str | None
    preemptor_uid: str | None
    insufficient: tuple[InsufficientResource, ...]
    evicted: bool | None
    awaiting: bool
    since_ts_ns: int


class PreemptionFailureState(msgspec.Struct, kw_only=True):
    """The last critical pod for which no victims were found."""

    ts_ns: int
    preemptor: str
    preemptor_uid: str | None
    insufficient: tuple[InsufficientResource, ...]
    error: str


class PreemptionState(msgspec.Struct, kw_only=True):
    """Preemptions so far.

    Attributes:
        victims: pod key -> victim that is still on the node.
        preempted, failed: decisions so far.
    """

    victims: dict[str, VictimState] = {}
    last_failure: PreemptionFailureState | None = None
    preempted: int = 0
    failed: int = 0


def pod_ended(state: PreemptionState, key: str) -> None:
    """All containers of a pod are down: nothing waits for it any more."""
    victim = state.victims.get(key)
    if victim is not None:
        victim.awaiting = False


def _pod_preempted(state: PreemptionState, ts_ns: int, body: PodPreempted) -> None:
    state.preempted += 1
    key = pod_key(body.victim_uid, body.victim_namespace, body.victim_pod)
    if key is None:
        return
    state.victims[key] = as_told(
        VictimState,
        body,
        namespace=body.victim_namespace,
        pod=body.victim_pod,
        preemptor=pod_key(None, body.preemptor_namespace, body.preemptor_pod),
        awaiting=body.evicted is not False,
        since_ts_ns=ts_ns,
    )


def _preemption_failed(state: PreemptionState, ts_ns: int, body: PreemptionFailed) -> None:
    state.failed += 1
    preemptor = name_key(body.preemptor_namespace, body.preemptor_pod)
    state.last_failure = as_told(PreemptionFailureState, body, ts_ns=ts_ns, preemptor=preemptor)


HANDLERS: Handlers[PreemptionState] = {
    PodPreempted: _pod_preempted,
    PreemptionFailed: _preemption_failed,
}
"""Body type -> what it does to the state."""
