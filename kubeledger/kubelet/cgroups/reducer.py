"""Cgroups: records to state.

The tree is what the cgroup files last showed: a cgroup goes when its files go (and with it
all below it, for the kernel removes none that has children), not when its pod ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.kubelet.cgroups.observed import observed_in
from kubeledger.kubelet.cgroups.state import CgroupsState, CgroupState, QOSReserveState
from kubeledger.model.bodies.cgroups import (
    CgroupObserved,
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.model.record import Body, Record


def evolve(state: CgroupsState, record: Record) -> CgroupsState:
    """Apply one record in place; a kind of another subsystem changes nothing."""
    handler = HANDLERS.get(type(record.body))
    if handler is not None:
        handler(state, record.ts_ns, record.body)
    return state


def _cgroup_updated(state: CgroupsState, ts_ns: int, body: CgroupUpdated) -> None:
    known = None if body.created else state.cgroups.get(body.cgroup)
    state.cgroups[body.cgroup] = CgroupState(
        level=body.level,
        qos_class=body.qos_class,
        pod_uid=body.pod_uid,
        container_id=body.container_id,
        sandbox=body.sandbox,
        cpu_shares=body.cpu_shares,
        cpu_quota_us=body.cpu_quota_us,
        cpu_period_us=body.cpu_period_us,
        memory_limit_bytes=body.memory_limit_bytes,
        hugetlb_limit_bytes=body.hugetlb_limit_bytes,
        unified=body.unified if known is None else observed_in(known.unified) | body.unified,
        other=body.other if known is None else observed_in(known.other) | body.other,
        since_ts_ns=ts_ns if known is None else known.since_ts_ns,
        changed_ts_ns=ts_ns,
    )


def _cgroup_observed(state: CgroupsState, ts_ns: int, body: CgroupObserved) -> None:
    known = state.cgroups.get(body.cgroup)
    if known is not None:
        known.unified = known.unified | body.unified
        known.other = known.other | body.other
        known.changed_ts_ns = ts_ns


def _cgroup_removed(state: CgroupsState, ts_ns: int, body: CgroupRemoved) -> None:
    state.cgroups.pop(body.cgroup, None)
    below = body.cgroup + "/"
    for path in [path for path in state.cgroups if path.startswith(below)]:
        del state.cgroups[path]


def _qos_cgroups_updated(state: CgroupsState, ts_ns: int, body: QOSCgroupsUpdated) -> None:
    if body.failed:
        return
    state.qos_updated_ts_ns = ts_ns
    state.qos_updates += 1


def _qos_reserve_computed(state: CgroupsState, ts_ns: int, body: QOSReserveComputed) -> None:
    state.reserves[body.qos_class] = QOSReserveState(
        computed_ts_ns=ts_ns,
        requested_bytes=body.requested_bytes,
        reserve_percent=body.reserve_percent,
    )


HANDLERS: Mapping[type[Body], Callable[[CgroupsState, int, Any], None]] = {
    CgroupObserved: _cgroup_observed,
    CgroupRemoved: _cgroup_removed,
    CgroupUpdated: _cgroup_updated,
    QOSCgroupsUpdated: _qos_cgroups_updated,
    QOSReserveComputed: _qos_reserve_computed,
}
"""Body type -> what it does to the state."""
