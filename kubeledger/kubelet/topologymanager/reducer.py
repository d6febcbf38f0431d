"""Topology manager: the affinities that it holds in memory, from records.

An affinity lives as long as its pod and its kubelet process.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.reducing import Handlers
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.model.bodies.resourcemanagers import AffinityDecided

POD_SCOPE = ""
"""Key of an affinity that holds for the whole pod."""


class AffinityState(msgspec.Struct, kw_only=True):
    """The merged hint of one container.

    Attributes:
        numa_nodes: sorted NUMA nodes; None means any.
        preferred: the hint was a preferred one.
        policy: the policy that merged it; None when not known.
        admit: None when not known.
    """

    numa_nodes: tuple[int, ...] | None
    preferred: bool
    policy: str | None
    admit: bool | None
    since_ts_ns: int


class TopologyManagerState(msgspec.Struct, kw_only=True):
    """All affinities that the kubelet process has in memory.

    Attributes:
        pods: pod key -> container (``POD_SCOPE`` in pod scope) -> affinity.
    """

    pods: dict[str, dict[str, AffinityState]] = {}


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


HANDLERS: Handlers[TopologyManagerState] = {AffinityDecided: _affinity_decided}
"""Body type -> what it does to the state; hints are input of a decision, no state."""
