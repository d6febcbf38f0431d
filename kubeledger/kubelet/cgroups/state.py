"""The cgroup tree with its values, and what the kubelet did to the QoS level."""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.model.bodies.cgroups import QOSClass


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
        qos_updates: how often it did so in the records.
        reserves: QoS class -> its reserve.
    """

    cgroups: dict[str, CgroupState] = {}
    qos_updated_ts_ns: int | None = None
    qos_updates: int = 0
    reserves: dict[str, QOSReserveState] = {}
