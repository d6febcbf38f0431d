"""Topology manager: records to state.

An affinity lives as long as its pod and its kubelet process: :func:`forget_pod` and
:func:`forget_all` are called when either ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.topologymanager.state import POD_SCOPE, AffinityState, TopologyManagerState
from kubeledger.model.bodies.topologymanager import AffinityDecided
from kubeledger.model.record import Body, Record


def evolve(state: TopologyManagerState, record: Record) -> TopologyManagerState:
    """Apply one record in place; a kind of another subsystem changes nothing."""
    handler = HANDLERS.get(type(record.body))
    if handler is not None:
        handler(state, record.ts_ns, record.body)
    return state


def forget_pod(state: TopologyManagerState, key: str) -> None:
    """Drop the affinities of a pod that ended."""
    state.pods.pop(key, None)


def forget_all(state: TopologyManagerState) -> None:
    """A new kubelet process begins with no affinity."""
    state.pods.clear()


def rename_pod(state: TopologyManagerState, old: str, new: str) -> None:
    """The UID of a pod became known: what stood under its name moves there."""
    held = state.pods.pop(old, None)
    if held is not None:
        state.pods[new] = held | state.pods.get(new, {})


def _affinity_decided(state: TopologyManagerState, ts_ns: int, body: AffinityDecided) -> None:
    key = pod_key(body.pod_uid, body.namespace, body.pod)
    if key is None:
        return
    state.pods.setdefault(key, {})[body.container or POD_SCOPE] = AffinityState(
        numa_nodes=body.hint.numa_nodes,
        preferred=body.hint.preferred,
        policy=body.policy,
        admit=body.admit,
        since_ts_ns=ts_ns,
    )


HANDLERS: Mapping[type[Body], Callable[[TopologyManagerState, int, Any], None]] = {
    AffinityDecided: _affinity_decided,
}
"""Body type -> what it does to the state; hints are input of a decision, no state."""
