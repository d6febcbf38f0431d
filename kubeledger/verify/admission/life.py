"""Until when each pod is shown to have been alive, whatever the log lost.

A log that lost lines may have lost the end of a pod, too. What shows that it had not come
by some time: a list holds it then, a container of it is killed or dies later, it is itself
chosen as a victim.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from kubeledger.kube.keys import name_key, pod_key
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodEvicted,
    PodListed,
)
from kubeledger.lifecycle.state import TERMINAL_PHASES
from kubeledger.machine import Record
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S

__all__ = ["SIGNS", "Life"]

SIGNS: Final = (ContainerDied, ContainerKilled, ContainerStarted, PodEvicted)
"""Records of what only a pod can meet that has not ended."""
_LAG_NS: Final = 10 * NS_PER_S
"""A list may show the status of so much earlier."""


class Life:
    """Filled in a first reading; it grows with pods and lists, not with records."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._lists: dict[str, list[int]] = {}
        self._listed: dict[tuple[str, str], list[tuple[int, bool]]] = {}
        self._ends: dict[str, dict[str, tuple[int, bool]]] = {}

    def sign(self, record: Record) -> None:
        """Take in one of ``SIGNS``."""
        body = record.body
        assert isinstance(body, SIGNS)
        if isinstance(body, ContainerDied | ContainerStarted) and body.sandbox:
            return  # a sandbox may outlive its pod
        self._note(body.pod_uid, body.namespace, body.pod, record.ts_ns)
        if isinstance(body, ContainerDied | ContainerStarted) and body.container is not None:
            ends = self._ends.setdefault(_key(body.pod_uid, body.namespace, body.pod), {})
            last = (record.ts_ns, isinstance(body, ContainerDied))
            ends[body.container] = max(ends.get(body.container, last), last)

    def preempted(self, record: Record) -> None:
        """Take in a victim: victims are chosen among active pods."""
        body = record.body
        assert isinstance(body, PodPreempted)
        self._note(body.victim_uid, body.victim_namespace, body.victim_pod, record.ts_ns)

    def _note(self, uid: str | None, namespace: str, pod: str, ts_ns: int) -> None:
        for key in (uid, name_key(namespace, pod)):
            if key:
                self._seen[key] = max(self._seen.get(key, 0), ts_ns)

    def listed(self, record: Record) -> None:
        """Take in an entry of a list; a list that shows the same again leaves no record."""
        body = record.body
        assert isinstance(body, PodListed)
        if body.listed_by == "manifest":
            return
        times = self._lists.setdefault(body.listed_by, [])
        if not times or times[-1] != record.ts_ns:
            times.append(record.ts_ns)
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        if key is None:
            return
        alive = not body.gone and (body.status or {}).get("phase") not in TERMINAL_PHASES
        shown = self._listed.setdefault((body.listed_by, key), [])
        if not shown or shown[-1][1] != alive:
            shown.append((record.ts_ns, alive))

    def settle(self) -> None:
        """All was taken in."""
        for times in self._lists.values():
            times.sort()
        for (source, key), shown in self._listed.items():
            shown.sort()
            times = self._lists[source]
            for index, (_, alive) in enumerate(shown):
                if alive:
                    later = shown[index + 1][0] if index + 1 < len(shown) else times[-1] + 1
                    last = times[bisect_left(times, later) - 1]
                    self._seen[key] = max(self._seen.get(key, 0), last - _LAG_NS)
        self._listed.clear()

    def next_list(self, ts_ns: int) -> int | None:
        """When the kubelet's pods were listed next; None when they never were."""
        times = self._lists.get("kubelet", ())
        index = bisect_left(times, ts_ns)
        return times[index] if index < len(times) else None

    def until(self, uid: str | None, namespace: str, pod: str) -> int:
        """The last time at which the pod is shown alive; 0 when nothing shows it."""
        return self._seen.get(_key(uid, namespace, pod), 0)

    def dead_by(
        self, uid: str | None, namespace: str, pod: str, containers: Iterable[str]
    ) -> int | None:
        """When the last of some containers is told to have died for good; None: one is not."""
        ends = self._ends.get(_key(uid, namespace, pod), {})
        told = [ends.get(container, (0, False)) for container in containers]
        return max(ts_ns for ts_ns, _ in told) if told and all(died for _, died in told) else None


def _key(uid: str | None, namespace: str, pod: str) -> str:
    return uid or name_key(namespace, pod)
