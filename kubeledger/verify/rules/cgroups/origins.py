"""Which kubelet process made a cgroup, and so by which settings and version.

A pod's cgroup is made at the pod's first sync, a container's when it is created, and both
keep what was written then. A later process, with other settings or of another version, finds
them there and leaves them as they are (but for resizes in place).

Source: v1.36.2 pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists
"""

from __future__ import annotations

from typing import Final

from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.lists import Sightings

__all__ = ["Origins"]

_RELIST_NS: Final = 10 * NS_PER_S
"""So long after its start a process may tell of containers that ran before it."""
_STATIC_NS: Final = 60 * NS_PER_S
"""A static pod's start time may be that of a process that found it running; and so long after
its start a process tells of itself, at any verbosity."""


class Origins:
    """The processes that may have made a cgroup, the likeliest first.

    None among them stands for a process of which nothing is known.
    """

    def __init__(self, bench: Bench, seen: Sightings) -> None:
        self._timeline = bench.timeline
        self._seen = seen
        self._alive: dict[int, int] = {}
        self._until: dict[int, int] = {}

    def alive(self, ts_ns: int) -> None:
        """First reading: the log goes on."""
        minute = ts_ns // _STATIC_NS
        self._alive[minute] = max(self._alive.get(minute, 0), ts_ns)

    def of_pod(self, key: str, ts_ns: int) -> list[Process | None]:
        """Of a pod's own cgroup, which a snapshot shows at a time."""
        pod = self._timeline.pods.get(key)
        ran = [run.started_ns for run in pod.runs if run.started_ns] if pod is not None else []
        made_ns = min((*ran, self._seen.made_ns.get(key, ts_ns), ts_ns))
        found = self._between(self._first_of(key), self._last(made_ns))
        dark = self._is_dark(made_ns) and self._is_dark(self._seen.synced_ns.get(key, made_ns))
        return [*found, None] if dark and None not in found else found

    def of_container(self, container_id: str, key: str, ts_ns: int) -> list[Process | None]:
        """Of a container's."""
        pod = self._timeline.pods.get(key)
        for run in pod.runs if pod is not None else ():
            if run.container_id == container_id and run.started_ns is not None:
                process = self._timeline.process(run.started_ns)
                if process is not None and run.started_ns - process.started_ns > _RELIST_NS:
                    return [process]
        listed = self._seen.containers.get(container_id)
        if listed is None or listed.began_ns is None:
            return self._between(self._first_of(key), self._last(ts_ns))
        # Lists tell it to the second.
        began_ns = listed.began_ns
        found = self._between(self._first(began_ns), self._last(began_ns + NS_PER_S))
        return [*found, None] if self._is_dark(began_ns) and None not in found else found

    def _is_dark(self, ts_ns: int) -> bool:
        """Behind the end of the log another process may have begun."""
        processes = self._timeline.processes.all
        return bool(processes) and ts_ns > self._alive_until(len(processes) - 1)

    def _alive_until(self, number: int) -> int:
        """The last that the log tells of a process."""
        if number not in self._until:
            process = self._timeline.processes.all[number]
            start_ns, end_ns = process.started_ns, process.ended_ns
            told = [t for t in self._alive.values() if t >= start_ns and (not end_ns or t < end_ns)]
            self._until[number] = max((start_ns + _STATIC_NS, *told))
        return self._until[number]

    def _first_of(self, key: str) -> int:
        """The first process that can have made the pod's cgroup."""
        synced_ns = self._seen.synced_ns.get(key)
        first = self._first(synced_ns)
        if first > 0 and synced_ns is not None and key in self._seen.static:
            return self._first(synced_ns - _STATIC_NS)
        return first

    def _first(self, ts_ns: int | None) -> int:
        """The first process that may have run at a time; -1 for one before those known."""
        for process in reversed(self._timeline.processes.all):
            if ts_ns is not None and process.started_ns <= ts_ns:
                return process.number
        return -1

    def _last(self, ts_ns: int) -> int:
        """The last one: where a log begins in the middle nobody knows since when it ran."""
        first = self._first(ts_ns)
        following = self._timeline.processes.all[first + 1 : first + 2]
        gap = first < 0 or ts_ns > self._alive_until(first)
        return first + 1 if gap and following and not following[0].from_start else first

    def _between(self, first: int, last: int) -> list[Process | None]:
        processes = self._timeline.processes.all
        return [processes[n] if n >= 0 else None for n in range(max(last, first), first - 1, -1)]
