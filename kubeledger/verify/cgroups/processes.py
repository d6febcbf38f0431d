"""How many processes the cgroups of the node and of pods may hold (``pids.max``).

The kubelet writes the machine's limit less what is reserved of it for all pods, and the
setting podPidsLimit for a pod. It writes none for the QoS classes, which keep the kernel's
``max``, and none for containers, whose limit is the runtime's own affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.cgroups.node_config import kubepods_resources
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.quantity import Quantity
from kubeledger.machine import Record
from kubeledger.verify.cgroups.pods import Rules

__all__ = ["MISSING_PIDS", "PID_SIGNAL", "ProcessIDs", "node_pids"]

MISSING_PIDS: Final = "the machine's limit of process IDs (signal pid.available)"

PID_SIGNAL: Final = "pid.available"
"""The eviction manager's signal that tells of the limit."""
_RESOURCE: Final = "pid"
_MOST: Final = 16
"""So many limits are remembered; a machine's hardly ever changes."""


class ProcessIDs:
    """The machine's limit of process IDs as the eviction manager tells it.

    A kubelet reads it when it starts, and the eviction manager at each signal, so that each
    limit that was ever told may be the one that a kubelet wrote.
    """

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, int]] = {}

    def foresee(self, record: Record) -> None:
        """Take in a record of that signal in the first reading."""
        body = record.body
        assert isinstance(body, EvictionSignalObserved)
        capacity, told = body.capacity, self._told
        if capacity not in told and capacity > 0 and len(told) < _MOST:
            told[capacity] = (record.ts_ns, record.seq)

    def at(self, ts_ns: int) -> list[tuple[int, int]]:
        """(limit, seq of the record that told it first): the last before a time comes first."""
        told = [(first, limit, seq) for limit, (first, seq) in self._told.items()]
        before = sorted((t for t in told if t[0] <= ts_ns), reverse=True)
        after = sorted(t for t in told if t[0] > ts_ns)
        return [(limit, seq) for _, limit, seq in (*before, *after)]


def node_pids(limits: Sequence[int], rules: Rules) -> tuple[str, ...]:
    """What ``pids.max`` of the cgroup of all pods can hold; empty where nothing tells.

    Args:
        limits: the machine's, the likeliest first.
        rules: of the kubelet.

    Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go getCgroupConfigInternal
    """
    settings = rules.settings
    if not rules.node_pids_written:
        return ("max",)
    if rules.missing_for_node:
        return ()
    values: dict[str, None] = {}
    for limit in limits:
        left = {_RESOURCE: Quantity.of(limit)}
        if settings.enforce_pods:
            assert settings.reservation is not None
            left = kubepods_resources(left, settings.reservation)
        # A limit of 0 is not written, or written as 1, as the runtime's library has it.
        most = left[_RESOURCE].value()
        values |= dict.fromkeys([str(most)] if most > 0 else ["max", "0", "1"])
    return tuple(values)
