"""Observations and decisions about cgroup values, and about what is allocated to pods."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

QOSClass = Literal["Guaranteed", "Burstable", "BestEffort"]
"""The classes of pods by what their containers ask for."""


class CgroupObserved(Observation, frozen=True, kw_only=True):
    """Files of a cgroup that no decision about it sets were found changed.

    The kernel counts in them, or they are CPU sets, which follow from what the CPU and the
    memory manager gave to containers. All of them are there, those that did not change, too.

    Attributes:
        cgroup: as in ``CgroupUpdated``.
        unified: such files of cgroup v2 (``memory.current`` ...) -> text.
        other: such files of cgroup v1 (``memory.usage_in_bytes`` ...) -> text.
    """

    kind: ClassVar[str] = "cgroups.CgroupObserved"
    cgroup: str
    pod_uid: str | None
    unified: dict[str, str] = {}
    other: dict[str, str] = {}


class CgroupUpdated(Decision, frozen=True, kw_only=True):
    """A cgroup appeared, or what was written to it changed, between two snapshots of its files.

    All values are those after the change, so one record holds the cgroup whole. A file
    that the snapshot does not hold is None; what nobody decides here is in ``CgroupObserved``.

    Attributes:
        cgroup: path below the controller, e.g. ``kubepods/burstable/pod<uid>``.
        level: which of the kubelet's four levels the path is.
        qos_class: of the level or pod; None for the root.
        container_id: last path element of a container's cgroup.
        container: its name; None when no source says, and for a sandbox.
        sandbox: the container is the pod's sandbox; None when not known.
        cpu_quota_us: -1 is no quota, in v2 (``max``) as in v1.
        memory_limit_bytes: as the kernel shows it; 9223372036854771712 is no limit in v1,
            -1 is no limit in v2 (``max``).
        hugetlb_limit_bytes: page size as in the file name (``2MB``) -> bytes.
        unified: cgroup v2 files (``cpu.weight``, ``memory.high`` ...) -> text.
        other: cgroup v1 files without a field of their own -> text.
        created: the cgroup was not in the previous snapshot.
        changed: (n,) sorted names of the fields whose values are new.
    """

    kind: ClassVar[str] = "cgroups.CgroupUpdated"
    cgroup: str
    level: Literal["node", "qos", "pod", "container"]
    qos_class: QOSClass | None
    pod_uid: str | None
    container_id: str | None = None
    container: str | None = None
    sandbox: bool | None = None
    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit_bytes: int | None = None
    hugetlb_limit_bytes: dict[str, int] = {}
    unified: dict[str, str] = {}
    other: dict[str, str] = {}
    created: bool
    changed: tuple[str, ...]


class CgroupValues(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of ``CgroupUpdated`` that are values."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit_bytes: int | None = None
    hugetlb_limit_bytes: dict[str, int] = {}
    unified: dict[str, str] = {}
    other: dict[str, str] = {}

    def changed(self, before: CgroupValues) -> tuple[str, ...]:
        """Sorted names of the fields whose values are new."""
        names = sorted(self.__struct_fields__)
        return tuple(name for name in names if getattr(self, name) != getattr(before, name))


class CgroupRemoved(Decision, frozen=True, kw_only=True):
    """A cgroup of the previous snapshot is gone."""

    kind: ClassVar[str] = "cgroups.CgroupRemoved"
    cgroup: str
    pod_uid: str | None


class QOSCgroupsUpdated(Decision, frozen=True, kw_only=True):
    """The kubelet wrote the QoS level cgroups (its log line holds no values).

    Attributes:
        failed: the kernel took not all of the values.
    """

    kind: ClassVar[str] = "cgroups.QOSCgroupsUpdated"
    failed: bool = False


class QOSReserveComputed(Observation, frozen=True, kw_only=True):
    """What a class requests, as the QoS reserve computation logged it.

    Attributes:
        qos_class: class whose requests are summed.
        requested_bytes: their memory requests.
        reserve_percent: the configured reserve.
    """

    kind: ClassVar[str] = "cgroups.QOSReserveComputed"
    qos_class: QOSClass
    requested_bytes: int
    reserve_percent: int


# Observations of what is allocated to pods, and of what their containers got of it.

Amounts = dict[str, str]
"""Resource -> quantity."""


class ResourceAmounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests and limits; None where the file holds none."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class PodResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pod has: by container, and as a whole where the version resizes that."""

    containers: dict[str, ResourceAmounts]
    pod_level: ResourceAmounts | None = None


class PodsStateRead(Observation, frozen=True, kw_only=True):
    """``allocated_pods_state`` or ``actuated_pods_state`` as it was, recorded when it changed.

    Attributes:
        which: ``allocated``: what the kubelet gave to pods; ``actuated``: what the runtime was
            last told. Up to 1.32 there is only the first, ``pod_status_manager_state``.
        pods: pod UID -> what it has.
        checksum: as stored; ``checksum_ok`` says whether it fits the data, None when the
            form of the file is one whose checksum cannot be computed.
    """

    kind: ClassVar[str] = "allocation.PodsStateRead"
    which: Literal["allocated", "actuated"]
    pods: dict[str, PodResources]
    checksum: int
    checksum_ok: bool | None
