"""The cgroup tree with its values, and what the kubelet did to the QoS level: records to state."""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.kubelet.cgroups.paths import observed_in
from kubeledger.kubelet.kube.reducing import Handlers, as_told
from kubeledger.model.bodies.cgroups import (
    CgroupObserved,
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSClass,
    QOSReserveComputed,
)


class CgroupState(msgspec.Struct, kw_only=True):
    """One cgroup; values as in ``CgroupUpdated``, None where no file was read.

    ``unified`` and ``other`` hold its counters, too.

    Attributes:
        since_ts_ns: the snapshot that showed it first.
        changed_ts_ns: the last snapshot in which a value was new.
    """

    level: Literal["node", "qos", "pod", "container"]
    qos_class: QOSClass | None
    pod_uid: str | None
    container_id: str | None
    sandbox: bool | None
    cpu_shares: int | None
    cpu_quota_us: int | None
    cpu_period_us: int | None
    memory_limit_bytes: int | None
    hugetlb_limit_bytes: dict[str, int]
    unified: dict[str, str]
    other: dict[str, str]
    since_ts_ns: int
    changed_ts_ns: int


class QOSReserveState(msgspec.Struct, kw_only=True):
    """What a class requested when its reserve was last computed."""

    computed_ts_ns: int
    requested_bytes: int
    reserve_percent: int


class CgroupsState(msgspec.Struct, kw_only=True):
    """All cgroups of the kubelet.

    Attributes:
        cgroups: path below the controller -> values.
        qos_updated_ts_ns: last time the kubelet wrote the QoS level; None when not seen.
        reserves: QoS class -> its reserve.
    """

    cgroups: dict[str, CgroupState] = {}
    qos_updated_ts_ns: int | None = None
    qos_updates: int = 0
    reserves: dict[str, QOSReserveState] = {}


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
    state.reserves[body.qos_class] = as_told(QOSReserveState, body, computed_ts_ns=ts_ns)


HANDLERS: Handlers[CgroupsState] = {
    CgroupObserved: _cgroup_observed,
    CgroupRemoved: _cgroup_removed,
    CgroupUpdated: _cgroup_updated,
    QOSCgroupsUpdated: _qos_cgroups_updated,
    QOSReserveComputed: _qos_reserve_computed,
}
"""Body type -> what it does to the state."""
