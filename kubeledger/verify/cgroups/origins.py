"""Which kubelet process made a cgroup, and so by which settings and version.

A pod's cgroup is made at the pod's first sync, a container's when it is created, and both
keep what was written then. A later process, with other settings or of another version, finds
them there and leaves them as they are (but for resizes in place).

Source: v1.36.2 pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.records import ContainerStarted, PodListed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, parse_ts
from kubeledger.verify.cgroups.pods import Rules

__all__ = ["Origins"]

_RELIST_NS: Final = 10 * NS_PER_S
"""So long after its start a process may tell of containers that ran before it."""
_STATIC_NS: Final = 60 * NS_PER_S
"""A static pod's start time may be that of a process that found it running."""
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class _Process(msgspec.Struct):
    """A kubelet process; ``began_ns`` None where its log begins in the middle."""

    told_ns: int
    began_ns: int | None
    rules: Rules | None = None


class Origins:
    """The processes of a node, and when its pods and containers came to be."""

    def __init__(self) -> None:
        self._processes: list[_Process] = []
        self._synced_ns: dict[str, int] = {}
        self._static: set[str] = set()
        self._synced: dict[str, int] = {}
        self._began_ns: dict[str, int] = {}
        self._told: dict[str, int] = {}

    # First reading ----------------------------------------------------------------------

    def foresee(self, record: Record) -> None:
        """A list tells when a pod was synced first, by its start time or its containers'."""
        body = record.body
        assert isinstance(body, PodListed)
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        status = body.status or {}
        times = [record.ts_ns, *_times([status.get("startTime")])]
        for name in _STATUSES:
            for entry in status.get(name) or ():
                times += self._instance(entry)
        if key is not None:
            self._synced_ns[key] = min(self._synced_ns.get(key, record.ts_ns), *times)
            if body.created_ts_ns is None:
                self._static.add(key)

    def _instance(self, entry: Any) -> Iterator[int]:  # noqa: ANN401 - any JSON value
        """Times of a container status; when the instance that runs began is taken down."""
        if not isinstance(entry, dict):
            return
        for name in ("state", "lastState"):
            for state in (entry.get(name) or {}).values():
                yield from _times([state.get("startedAt"), state.get("finishedAt")])
        container_id = str(entry.get("containerID") or "").rpartition("://")[2]
        state = entry.get("state") or {}
        for told in (state.get("running"), state.get("terminated")):
            for began_ns in _times([(told or {}).get("startedAt")]) if container_id else ():
                self._began_ns[container_id] = began_ns

    # Second reading ---------------------------------------------------------------------

    def kubelet_started(self, ts_ns: int, *, from_start: bool) -> None:
        """Another process runs, or the log begins within one."""
        self._processes.append(_Process(ts_ns, ts_ns if from_start else None))

    def use(self, rules: Rules) -> None:
        """The rules of the process that runs."""
        if self._processes:
            self._processes[-1].rules = rules

    def container_started(self, record: Record, body: ContainerStarted) -> None:
        """The pod's cgroup is there, and the container's."""
        self.shown(pod_key(body.pod_uid, body.namespace, body.pod))
        process = self._processes[-1] if self._processes else None
        if process is not None and record.ts_ns - process.told_ns > _RELIST_NS:
            self._told.setdefault(body.container_id, len(self._processes) - 1)

    def shown(self, key: str | None) -> None:
        """The pod's cgroup is there: no later process makes it."""
        if key is not None and self._processes:
            self._synced.setdefault(key, len(self._processes) - 1)

    def of_pod(self, key: str, now: Rules) -> list[Rules | None]:
        """By which rules a pod's cgroup may have been made, the likeliest first.

        None among them stands for a process of which nothing is known.
        """
        if not self._processes:
            return [now]
        return self._rules(self._first_of(key), self._synced.get(key))

    def of_container(self, container_id: str, key: str, now: Rules) -> list[Rules | None]:
        """The same of a container's cgroup."""
        if not self._processes:
            return [now]
        told = self._told.get(container_id)
        if told is not None:
            return self._rules(told, told)
        began_ns = self._began_ns.get(container_id)
        if began_ns is None:
            return self._rules(self._first_of(key), None)
        # Lists tell it to the second.
        return self._rules(self._first(began_ns), self._first(began_ns + NS_PER_S))

    def _first_of(self, key: str) -> int:
        """The first process that can have made the pod's cgroup."""
        synced_ns = self._synced_ns.get(key)
        first = self._first(synced_ns)
        if first > 0 and synced_ns is not None and key in self._static:
            return self._first(synced_ns - _STATIC_NS)
        return first

    def _first(self, ts_ns: int | None) -> int:
        """The process that ran at a time; -1 for one before those that are known."""
        for index in range(len(self._processes) - 1, -1, -1):
            began_ns = self._processes[index].began_ns
            if began_ns is None:
                began_ns = self._processes[index].told_ns
            if ts_ns is not None and began_ns <= ts_ns:
                return index
        return -1

    def _rules(self, first: int, last: int | None) -> list[Rules | None]:
        last = len(self._processes) - 1 if last is None else last
        found: list[Rules | None] = []
        for index in range(max(last, first), first - 1, -1):
            rules = self._processes[index].rules if index >= 0 else None
            if rules not in found:
                found.append(rules)
        return found


def _times(texts: list[object]) -> Iterator[int]:
    """Those that are times; a runtime writes 1970 for a container that never started."""
    for text in texts:
        try:
            ts_ns = parse_ts(str(text or ""))
        except ValueError:
            continue
        if ts_ns > 0:
            yield ts_ns
