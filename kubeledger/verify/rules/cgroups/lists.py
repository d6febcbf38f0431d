"""What lists and snapshots of a whole ledger tell of when cgroups were made, and were there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubeledger.cgroups.records import CgroupRemoved, CgroupUpdated
from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.records import PodListed
from kubeledger.lifecycle.state import TERMINAL_PHASES
from kubeledger.machine import Record
from kubeledger.units import parse_ts

__all__ = ["ListedContainer", "Sightings"]

_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class ListedContainer(msgspec.Struct):
    """One instance of a container as lists and snapshots show it.

    Attributes:
        uid: of its pod.
        name: of the container.
        seen_ns: when it is shown first.
        began_ns: when it was started; None when no list tells.
        ended: a list shows that it ended.
        ran: (time, record) of the last list of the kubelet that shows it running.
    """

    uid: str | None
    name: str
    seen_ns: int
    began_ns: int | None = None
    ended: bool = False
    ran: tuple[int, int] | None = None


class Sightings:
    """Filled by the first reading.

    Attributes:
        synced_ns: pod -> the earliest time by which it was synced, as its lists tell.
        over_ns: pod -> when a list shows first that it has ended, or is gone.
        static: pods that no API server made.
        containers: ID -> instance.
        made_ns: UID of a pod -> when a snapshot shows its cgroup first.
        shown: path of a cgroup -> (time, record) of the last snapshot that tells of it.
        changed: path of a QoS class -> times of snapshots that tell of it.
        removed: time of a snapshot -> records of cgroups that it shows no more.
        last_ns: the last snapshot that tells anything.
    """

    def __init__(self) -> None:
        self.synced_ns: dict[str, int] = {}
        self.over_ns: dict[str, int] = {}
        self.static: set[str] = set()
        self.containers: dict[str, ListedContainer] = {}
        self._of_name: dict[tuple[str | None, str], list[str]] = {}
        self.made_ns: dict[str, int] = {}
        self.shown: dict[str, tuple[int, int]] = {}
        self.changed: dict[str, set[int]] = {}
        self.removed: dict[int, list[Record]] = {}
        self.last_ns = 0

    def foresee(self, record: Record) -> None:
        """Take in a record of the first reading."""
        match record.body:
            case CgroupUpdated() as body:
                self.last_ns = max(self.last_ns, record.ts_ns)
                self.shown[body.cgroup] = max(
                    self.shown.get(body.cgroup, (0, 0)), (record.ts_ns, record.seq)
                )
                if body.container_id and body.container and body.created:
                    self._instance_of(body.container_id, record.ts_ns, body.pod_uid, body.container)
                if body.level == "qos":
                    self.changed.setdefault(body.cgroup, set()).add(record.ts_ns)
                if body.level == "pod" and body.pod_uid:
                    first = self.made_ns.get(body.pod_uid, record.ts_ns)
                    self.made_ns[body.pod_uid] = min(first, record.ts_ns)
            case CgroupRemoved():
                self.last_ns = max(self.last_ns, record.ts_ns)
                self.removed.setdefault(record.ts_ns, []).append(record)
            case PodListed() as body:
                self._listed(record, body)

    def of_name(self, uid: str | None, name: str) -> dict[str, ListedContainer]:
        """ID -> instance of all that are shown of one container."""
        return {i: self.containers[i] for i in self._of_name.get((uid, name), ())}

    def _instance_of(
        self, container_id: str, ts_ns: int, uid: str | None, name: str
    ) -> ListedContainer:
        known = self.containers.get(container_id)
        if known is None:
            known = self.containers[container_id] = ListedContainer(uid, name, ts_ns)
            self._of_name.setdefault((uid, name), []).append(container_id)
        known.seen_ns = min(known.seen_ns, ts_ns)
        return known

    def _listed(self, record: Record, body: PodListed) -> None:
        key, status = pod_key(body.pod_uid, body.namespace, body.pod), body.status or {}
        times = [record.ts_ns, *_times(status, "startTime")]
        for name in _STATUSES:
            for entry in status.get(name) or ():
                if isinstance(entry, dict):
                    times += self._instance(record, body, entry)
        if key is not None and (body.gone or status.get("phase") in TERMINAL_PHASES):
            self.over_ns[key] = min(self.over_ns.get(key, record.ts_ns), record.ts_ns)
        if key is not None:
            self.synced_ns[key] = min(self.synced_ns.get(key, record.ts_ns), *times)
            if body.created_ts_ns is None:
                self.static.add(key)

    def _instance(self, record: Record, body: PodListed, entry: dict[str, Any]) -> Iterator[int]:
        """Times that a container's status tells."""
        state, last = (
            found if isinstance(found := entry.get(name), dict) else {}
            for name in ("state", "lastState")
        )
        for told in (*state.values(), *last.values()):
            yield from _times(told, "startedAt", "finishedAt")
        name = str(entry.get("name") or "")
        if isinstance(before := last.get("terminated"), dict) and (of := _id_of(before)):
            self._instance_of(of, record.ts_ns, body.pod_uid, name).ended = True
        container_id = _id_of(entry)
        if not container_id:
            return
        known = self._instance_of(container_id, record.ts_ns, body.pod_uid, name)
        for told in (state.get("running"), state.get("terminated")):
            for began_ns in _times(told, "startedAt"):
                known.began_ns = began_ns
        known.ended = known.ended or state.get("terminated") is not None
        if state.get("running") is not None and body.listed_by == "kubelet":
            known.ran = max(known.ran or (0, 0), (record.ts_ns, record.seq))


def _id_of(entry: dict[str, Any]) -> str:
    return str(entry.get("containerID") or "").rpartition("/")[2]


def _times(told: object, *names: str) -> Iterator[int]:
    """Those that are times; a runtime writes 1970 for a container that never started."""
    for name in names if isinstance(told, dict) else ():
        try:
            ts_ns = parse_ts(str(told.get(name) or ""))  # type: ignore[attr-defined]
        except ValueError:
            continue
        if ts_ns > 0:
            yield ts_ns
