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
"""A static pod's start time may be that of a process that found it running; and so long after
its start a process tells of itself, at any verbosity."""
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class _Process(msgspec.Struct):
    """A kubelet process.

    Attributes:
        told_ns: the first that its log tells.
        from_start: it began then; else the log begins in the middle.
        alive_ns: the last time at which its log goes on.
    """

    told_ns: int
    from_start: bool
    alive_ns: int
    rules: Rules | None = None


class Origins:
    """The processes of a node, and when its pods and containers came to be."""

    def __init__(self) -> None:
        self._known: list[_Process] = []
        self._processes: list[_Process] = []
        self._synced_ns: dict[str, int] = {}
        self._static: set[str] = set()
        self._synced: dict[str, int] = {}
        self._began_ns: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._unseen: set[str] = set()

    # First reading ----------------------------------------------------------------------

    def kubelet_foreseen(self, ts_ns: int, *, from_start: bool) -> None:
        """Another process runs from some time on."""
        self._known.append(_Process(ts_ns, from_start, ts_ns + _STATIC_NS))

    def alive(self, ts_ns: int) -> None:
        """The log goes on."""
        if self._known:
            self._known[-1].alive_ns = max(self._known[-1].alive_ns, ts_ns)

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

    def kubelet_started(self) -> None:
        """Another process runs, or the log begins within one."""
        self._processes = self._known[: len(self._processes) + 1]

    def use(self, rules: Rules, told_ns: int | None) -> None:
        """The rules of the process that runs; ``told_ns``: only its settings tell of it, then."""
        index = len(self._processes) - 1
        if told_ns is not None and self._is_dark(told_ns):
            self._known.append(_Process(told_ns, from_start=False, alive_ns=told_ns, rules=rules))
            self._processes = list(self._known)
        elif index >= 0:
            self._processes[index].rules = rules

    def _is_dark(self, ts_ns: int) -> bool:
        """Behind the end of the log another process may have begun."""
        return bool(self._known) and ts_ns > self._known[-1].alive_ns

    def container_started(self, record: Record, body: ContainerStarted) -> None:
        """The pod's cgroup is there, and the container's."""
        self.shown(pod_key(body.pod_uid, body.namespace, body.pod), record.ts_ns)
        process = self._processes[-1] if self._processes else None
        if process is not None and record.ts_ns - process.told_ns > _RELIST_NS:
            self._told.setdefault(body.container_id, len(self._processes) - 1)

    def shown(self, key: str | None, ts_ns: int) -> None:
        """The pod's cgroup is there: no later process makes it."""
        if key is not None and self._processes and key not in self._synced:
            self._synced[key] = self._last(ts_ns)
            if self._is_dark(ts_ns) and self._is_dark(self._synced_ns.get(key, ts_ns)):
                self._unseen.add(key)

    def of_pod(self, key: str, now: Rules) -> list[Rules | None]:
        """By which rules a pod's cgroup may have been made, the likeliest first.

        None among them stands for a process of which nothing is known.
        """
        if not self._processes:
            return [now]
        found = self._rules(self._first_of(key), self._synced.get(key))
        return [*found, None] if key in self._unseen and None not in found else found

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
        found = self._rules(self._first(began_ns), self._last(began_ns + NS_PER_S))
        return [*found, None] if self._is_dark(began_ns) and None not in found else found

    def _first_of(self, key: str) -> int:
        """The first process that can have made the pod's cgroup."""
        synced_ns = self._synced_ns.get(key)
        first = self._first(synced_ns)
        if first > 0 and synced_ns is not None and key in self._static:
            return self._first(synced_ns - _STATIC_NS)
        return first

    def _first(self, ts_ns: int | None) -> int:
        """The first process that may have run at a time; -1 for one before those known."""
        for index in range(len(self._known) - 1, -1, -1):
            if ts_ns is not None and self._known[index].told_ns <= ts_ns:
                return index
        return -1

    def _last(self, ts_ns: int) -> int:
        """The last one: where a log begins in the middle nobody knows since when it ran."""
        first = self._first(ts_ns)
        following = self._known[first + 1 : first + 2]
        gap = first < 0 or ts_ns > self._known[first].alive_ns
        return first + 1 if gap and following and not following[0].from_start else first

    def _rules(self, first: int, last: int | None) -> list[Rules | None]:
        """Of these processes, the last first; None for one that is not known, or not yet."""
        last = len(self._processes) - 1 if last is None else last
        found: list[Rules | None] = []
        for index in range(max(last, first), first - 1, -1):
            rules = self._known[index].rules if index >= 0 else None
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
