"""What pod lists show of single instances of containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts

__all__ = ["ListedInstance", "ListedInstances"]

_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class ListedInstance(msgspec.Struct):
    """One instance of a container as lists show it.

    Attributes:
        name: of the container.
        seen_ns: when it is shown first.
        began_ns, ended_ns: when it was started and ended, to the second; None when no list says.
        ended: a list shows that it ended.
        ran: (time, record) of the last list of the kubelet that shows it running.
    """

    name: str
    seen_ns: int
    began_ns: int | None = None
    ended_ns: int | None = None
    ended: bool = False
    ran: tuple[int, int] = (0, 0)


class ListedInstances:
    """What pod lists show of instances: when they ran, how often they had been restarted."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._restart_counts: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}
        self._of_pods: dict[str, dict[str, ListedInstance]] = {}
        self._by_id: dict[str, ListedInstance] = {}
        self._known_ns: dict[str, int] = {}
        self._over_ns: dict[str, int] = {}

    def note(self, record: Record) -> None:
        """Take in a list of the first reading."""
        body = record.body
        assert isinstance(body, PodListed)
        key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
        if body.gone or (body.status or {}).get("phase") in TERMINAL_PHASES:
            self._over_ns[key] = min(self._over_ns.get(key, record.ts_ns), record.ts_ns)
        times = [record.ts_ns, *_times(body.status, "startTime")]
        for status in _statuses(body):
            times += self._note_instances(record, key, status)
            subject = f"container/{body.namespace}/{body.pod}/{status.get('name')}"
            for container_id, count in _counted(status):
                self._counts.setdefault(container_id, Counter())[count] += 1
                self._restart_counts.setdefault(container_id, {}).setdefault(
                    (subject, count), (record.seq, record.ts_ns)
                )
        self._known_ns[key] = min(self._known_ns.get(key, record.ts_ns), *times)

    def _note_instances(self, record: Record, key: str, status: dict[str, Any]) -> Iterator[int]:
        """Those of one container; yields the times that its status says."""
        state, last = _part(status, "state"), _part(status, "lastState")
        for each in (*state.values(), *last.values()):
            yield from _times(each, "startedAt", "finishedAt")
        name, before = str(status.get("name") or ""), _part(last, "terminated")
        if former := _bare(before.get("containerID")):
            _end(self._instance(key, former, name, record), before)
        if not (container_id := _bare(status.get("containerID"))):
            return
        own = self._instance(key, container_id, name, record)
        for began_ns in _times(_part(state, "running"), "startedAt"):
            own.began_ns = began_ns
        if "terminated" in state:
            _end(own, _part(state, "terminated"))
        if "running" in state and getattr(record.body, "listed_by", None) == "kubelet":
            own.ran = max(own.ran, (record.ts_ns, record.seq))

    def _instance(self, key: str, of: str, name: str, record: Record) -> ListedInstance:
        known = self._of_pods.setdefault(key, {})
        found = known.setdefault(of, ListedInstance(name, record.ts_ns))
        self._by_id[of] = found
        found.seen_ns = min(found.seen_ns, record.ts_ns)
        return found

    def of_pod(self, key: str) -> Mapping[str, ListedInstance]:
        """ID -> instance, of the containers of a pod."""
        return self._of_pods.get(key, {})

    def instance(self, container_id: str | None) -> ListedInstance | None:
        """The instance with that ID; None when no list shows it."""
        return self._by_id.get(container_id or "")

    def known_ns(self, key: str) -> int | None:
        """The earliest time at which a list, or a status in it, has a pod; None without one."""
        return self._known_ns.get(key)

    def over_ns(self, key: str) -> int | None:
        """When a list shows first that a pod has ended, or is gone; None when none does."""
        return self._over_ns.get(key)

    def knows(self, container_id: str | None, subject: str = "") -> bool:
        """Whether a list shows the instance; as one of that container, if it is given."""
        counts = self._restart_counts.get(container_id or "", {})
        return bool(counts) and subject in {"", *(of for of, _ in counts)}

    def count(self, container_id: str | None) -> int | None:
        """Restarts up to an instance, as most lists show; None when none does."""
        counts = self._counts.get(container_id or "")
        return counts.most_common(1)[0][0] if counts else None

    def disputed(self) -> Iterator[tuple[str, str, list[tuple[int, int, int]]]]:
        """Instances of which lists count different restarts, though a restart makes another one.

        Yields:
            its container as a subject, its ID, and of each count the first list: (record, time,
            count).
        """
        for container_id, counts in self._restart_counts.items():
            if len(self._counts[container_id]) > 1:
                sides = [(*first, count) for (_, count), first in counts.items()]
                yield next(iter(counts))[0], container_id, sides


def _end(instance: ListedInstance, terminated: dict[str, Any]) -> None:
    instance.ended = True
    for began_ns in _times(terminated, "startedAt"):
        instance.began_ns = began_ns
    for ended_ns in _times(terminated, "finishedAt"):
        instance.ended_ns = ended_ns


def _statuses(body: PodListed) -> Iterator[dict[str, Any]]:
    for group in _STATUSES:
        for status in (body.status or {}).get(group) or ():
            if isinstance(status, dict):
                yield status


def _counted(status: dict[str, Any]) -> Iterator[tuple[str, int]]:
    count, container_id = status.get("restartCount"), _bare(status.get("containerID"))
    if not isinstance(count, int) or not container_id:
        return
    yield container_id, count
    try:
        before = _bare(status["lastState"]["terminated"]["containerID"])
    except (KeyError, TypeError):
        return
    # One that waits for its back-off is its own last state.
    if before and before != container_id and count:
        yield before, count - 1


def _part(status: dict[str, Any], name: str) -> dict[str, Any]:
    found = status.get(name)
    return found if isinstance(found, dict) else {}


def _times(counts: object, *names: str) -> Iterator[int]:
    """Those that are times; a runtime writes 1970 for a container that never started."""
    for name in names if isinstance(counts, dict) else ():
        with suppress(ValueError):
            ts_ns = parse_ts(str(counts.get(name) or ""))  # type: ignore[attr-defined]
            if ts_ns > 0:
                yield ts_ns


def _bare(container_id: object) -> str:
    return str(container_id or "").rpartition("//")[2]
