"""What lists and snapshots of a whole ledger tell of cgroups: when they were made, and by whom.

A pod's cgroup is made at the pod's first sync, a container's when it is created, and both
keep what was written then. A later process, with other settings or of another version, finds
them there and leaves them as they are (but for resizes in place).

Source: v1.36.2 pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.cgroups import CgroupRemoved, CgroupUpdated
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.processes import Process

__all__ = ["ListedContainer", "Sightings"]

_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_RELIST_NS: Final = 10 * NS_PER_S
"""So long after its start a process may tell of containers that ran before it."""
_STATIC_NS: Final = 60 * NS_PER_S
"""A static pod's start time may be that of a process that found it running."""
_TELLS_NS: Final = 60 * NS_PER_S
"""So long after its start a process tells of itself, at any verbosity."""


class ListedContainer(msgspec.Struct):
    """One instance of a container as lists and snapshots show it.

    Attributes:
        name: of the container.
        seen_ns: when it is shown first.
        began_ns: when it was started; None when no list tells.
        ended: a list shows that it ended.
        ran: (time, record) of the last list of the kubelet that shows it running.
    """

    name: str
    seen_ns: int
    began_ns: int | None = None
    ended: bool = False
    ran: tuple[int, int] = (0, 0)


class Sightings:
    """Filled by the first reading.

    Attributes:
        containers: UID of a pod -> ID -> instance.
        over_ns: pod -> when a list shows first that it has ended, or is gone.
        made_ns: UID of a pod -> when a snapshot shows its cgroup first.
        shown: path of a cgroup -> (time, record) of the last snapshot that tells of it.
        levels: (path of a QoS class, time of a snapshot that tells of it).
        removed: time of a snapshot -> records of cgroups that it shows no more.
        last_ns: the last snapshot that tells anything.
    """

    def __init__(self, bench: Bench) -> None:
        self._timeline = bench.timeline
        self._synced_ns: dict[str, int] = {}
        self.containers: dict[str | None, dict[str, ListedContainer]] = {}
        self.over_ns: dict[str, int] = {}
        self.made_ns: dict[str, int] = {}
        self.shown: dict[str, tuple[int, int]] = {}
        self.levels: set[tuple[str, int]] = set()
        self.removed: dict[int, list[Record]] = {}
        self.last_ns = 0

    def foresee(self, record: Record) -> None:
        """Take in a record of the first reading."""
        match record.body:
            case CgroupUpdated() as body:
                self.last_ns = max(self.last_ns, record.ts_ns)
                seen = (record.ts_ns, record.seq)
                self.shown[body.cgroup] = max(self.shown.get(body.cgroup, seen), seen)
                if body.container_id and body.container and body.created:
                    self._instance(body.pod_uid, body.container_id, body.container, record)
                if body.level == "qos":
                    self.levels.add((body.cgroup, record.ts_ns))
                if body.level == "pod" and body.pod_uid:
                    first = self.made_ns.get(body.pod_uid, record.ts_ns)
                    self.made_ns[body.pod_uid] = min(first, record.ts_ns)
            case CgroupRemoved():
                self.last_ns = max(self.last_ns, record.ts_ns)
                self.removed.setdefault(record.ts_ns, []).append(record)
            case PodListed() as body:
                status = body.status or {}
                times = [record.ts_ns, *_times(status, "startTime")]
                for entry in (each for name in _STATUSES for each in status.get(name) or ()):
                    times += self._listed(record, body, entry) if isinstance(entry, dict) else ()
                if key := pod_key(body.pod_uid, body.namespace, body.pod):
                    if body.gone or status.get("phase") in TERMINAL_PHASES:
                        self.over_ns[key] = min(self.over_ns.get(key, record.ts_ns), record.ts_ns)
                    self._synced_ns[key] = min(self._synced_ns.get(key, record.ts_ns), *times)

    def _instance(self, uid: str | None, of: str, name: str, record: Record) -> ListedContainer:
        known = self.containers.setdefault(uid, {})
        found = known.setdefault(of, ListedContainer(name, record.ts_ns))
        found.seen_ns = min(found.seen_ns, record.ts_ns)
        return found

    def _listed(self, record: Record, body: PodListed, entry: dict[str, Any]) -> Iterator[int]:
        """Times that a container's status tells."""
        name, uid = str(entry.get("name") or ""), body.pod_uid
        state, last = (
            found if isinstance(found := entry.get(key), dict) else {}
            for key in ("state", "lastState")
        )
        for told in (*state.values(), *last.values()):
            yield from _times(told, "startedAt", "finishedAt")
        if isinstance(before := last.get("terminated"), dict) and (of := _id_of(before)):
            self._instance(uid, of, name, record).ended = True
        if not (of := _id_of(entry)):
            return
        known = self._instance(uid, of, name, record)
        for told in (state.get("running"), state.get("terminated")):
            for began_ns in _times(told, "startedAt"):
                known.began_ns = began_ns
        known.ended = known.ended or state.get("terminated") is not None
        if state.get("running") is not None and body.listed_by == "kubelet":
            known.ran = max(known.ran, (record.ts_ns, record.seq))

    # Who made it --------------------------------------------------------------------------

    def makers_of_pod(self, key: str, ts_ns: int) -> list[Process | None]:
        """The processes that may have made the cgroup of a pod that a snapshot shows at a time.

        The likeliest comes first; None stands for a process of which nothing is known.
        """
        pod = self._timeline.pods.get(key)
        ran = [run.started_ns for run in pod.runs if run.started_ns] if pod is not None else []
        made_ns = min((*ran, self.made_ns.get(key, ts_ns), ts_ns))
        return self._between(self._synced(key), made_ns)

    def makers_of_container(self, of: str, key: str, ts_ns: int) -> list[Process | None]:
        """The same of a container's."""
        pod, listed = self._timeline.pods.get(key), self.containers.get(key, {}).get(of)
        for run in pod.runs if pod is not None else ():
            if run.container_id == of and run.started_ns is not None:
                process = self._timeline.process(run.started_ns)
                if process is not None and run.started_ns - process.started_ns > _RELIST_NS:
                    return [process]
        if listed is None or listed.began_ns is None:
            return self._between(self._synced(key), ts_ns)
        return self._between(listed.began_ns, listed.began_ns + NS_PER_S)  # told to the second

    def _synced(self, key: str) -> int | None:
        """When the first sync of a pod was at the latest; None when no list tells."""
        synced_ns, pod = self._synced_ns.get(key), self._timeline.pods.get(key)
        if synced_ns is None or (pod is not None and pod.created_ns is not None):
            return synced_ns
        return synced_ns - _STATIC_NS if self._number(synced_ns) > 0 else synced_ns

    def _between(self, start_ns: int | None, end_ns: int) -> list[Process | None]:
        """The processes that may have run in a span; its start may be told by none."""
        processes, coverage = self._timeline.processes.all, self._timeline.coverage
        first = -1 if start_ns is None else self._number(start_ns)
        last = max(first, self._number(end_ns))
        following = processes[last + 1 : last + 2]
        if following and not following[0].from_start and coverage.silent(end_ns, end_ns):
            last += 1  # nobody knows since when it ran
        found = [processes[n] if n >= 0 else None for n in range(last, first - 1, -1)]
        known_ns = end_ns if start_ns is None else min(start_ns, end_ns)
        told_ns = processes[-1].started_ns + _TELLS_NS if processes else known_ns
        dark = known_ns > told_ns and coverage.is_past(known_ns)
        # Behind the end of the log another one may have begun.
        return [*found, None] if dark and None not in found else found

    def _number(self, ts_ns: int) -> int:
        """The process that ran last by a time; -1 for one before those known."""
        return bisect_right(self._timeline.processes.all, ts_ns, key=lambda p: p.started_ns) - 1


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
