"""What the topology manager holds in memory: the affinity of each container."""

from __future__ import annotations

import msgspec

POD_SCOPE = ""
"""Key of an affinity that holds for the whole pod."""


class AffinityState(msgspec.Struct, kw_only=True):
    """The merged hint of one container.

    Attributes:
        numa_nodes: sorted NUMA nodes; None means any.
        preferred: the hint was a preferred one.
        policy: the policy that merged it; None when not known.
        admit: None when not known.
        since_ts_ns: when it was settled.
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
