"""What pod lists show of single instances of containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.kube.statuses import ShownInstance, instances_in
from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts


class ListedInstance(msgspec.Struct):
    """One instance of a container as lists show it.

    Attributes:
        name: of the container.
        seen_ns: when it is shown first, by the record ``seq``.
        began_ns, ended_ns: when it was started and ended, to the second; None when no list says.
        ended: (time, record) of the first list that shows it ended; None when none does.
        ran: (time, record) of the last list of the kubelet that shows it running.
    """

    name: str
    seen_ns: int
    seq: int
    began_ns: int | None = None
    ended_ns: int | None = None
    ended: tuple[int, int] | None = None
    ran: tuple[int, int] = (0, 0)


class ListedInstances:
    """What pod lists show of instances: when they ran, how often they had been restarted."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._restart_counts: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}
        self._of_pods: dict[str, dict[str, ListedInstance]] = {}
        self._by_id: dict[str, ListedInstance] = {}
        self._known_ns: dict[str, int] = {}
        self._over: dict[str, tuple[int, int]] = {}

    def note(self, record: Record) -> None:
        """Take in a list of the first reading."""
        body = record.body
        assert isinstance(body, PodListed)
        key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
        if body.gone or (body.status or {}).get("phase") in TERMINAL_PHASES:
            at = record.ts_ns, record.seq
            self._over[key] = min(self._over.get(key, at), at)
        times = [record.ts_ns, *_times(body.status, "startTime")]
        for shown in instances_in(body.status):
            times += _times(shown.shown, "startedAt", "finishedAt")
            self._note_instance(record, key, shown)
            if shown.restart_count is not None:
                subject = f"container/{body.namespace}/{body.pod}/{shown.name}"
                self._counts.setdefault(shown.container_id, Counter())[shown.restart_count] += 1
                self._restart_counts.setdefault(shown.container_id, {}).setdefault(
                    (subject, shown.restart_count), (record.seq, record.ts_ns)
                )
        self._known_ns[key] = min(self._known_ns.get(key, record.ts_ns), *times)

    def _note_instance(self, record: Record, key: str, shown: ShownInstance) -> None:
        own = self._instance(key, shown.container_id, shown.name, record)
        own.began_ns = shown.time("startedAt") or own.began_ns
        if shown.state == "terminated":
            at = record.ts_ns, record.seq
            own.ended = min(own.ended or at, at)
            own.ended_ns = shown.time("finishedAt") or own.ended_ns
        if shown.state == "running" and getattr(record.body, "listed_by", None) == "kubelet":
            own.ran = max(own.ran, (record.ts_ns, record.seq))

    def _instance(self, key: str, of: str, name: str, record: Record) -> ListedInstance:
        known = self._of_pods.setdefault(key, {})
        found = known.setdefault(of, ListedInstance(name, record.ts_ns, record.seq))
        self._by_id[of] = found
        at = record.ts_ns, record.seq
        found.seen_ns, found.seq = min((found.seen_ns, found.seq), at)
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

    def over(self, key: str) -> tuple[int, int] | None:
        """(time, record) of the first list that shows a pod ended, or gone; None when none does."""
        return self._over.get(key)

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


def _times(counts: object, *names: str) -> Iterator[int]:
    """Those that are times; a runtime writes 1970 for a container that never started."""
    for name in names if isinstance(counts, dict) else ():
        with suppress(ValueError):
            ts_ns = parse_ts(str(counts.get(name) or ""))  # type: ignore[attr-defined]
            if ts_ns > 0:
                yield ts_ns
