"""What later records tell of earlier admissions: how each ADD was decided, how old pods are.

That a pod was admitted shows only when something of it is heard, which may be after the
kubelet has admitted others. Whether a pod counts for those is asked of this index.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgspec

from kubeledger.kube.critical import CONFIG_MIRROR
from kubeledger.kube.keys import name_key, pod_key
from kubeledger.lifecycle.listing import objects_of
from kubeledger.lifecycle.records import PodAdmitted, PodConfigChanged, PodListed, PodRejected
from kubeledger.lifecycle.state import TERMINAL_PHASES
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, parse_ts
from kubeledger.verify.admission.life import Life

__all__ = ["Decided", "Foresight", "ListedFacts", "Place"]

Place = tuple[int, int]
"""Time and number of a record: the order in which things happened."""

Who = tuple[str, str, str | None]
"""Namespace, name and UID of a pod."""

_WHOLE_SECONDS_NS: Final = 2 * NS_PER_S
"""The time of a list may be one of whole seconds."""
_WHILE_IT_RAN: Final = (None, "DeadlineExceeded", "Evicted", "Preempting", "Terminated")
"""Reasons of a failed pod that had been let in."""
_END: Final[Place] = (1 << 63, 0)


class Decided(msgspec.Struct, frozen=True):
    """How an admission was decided."""

    at: Place
    admitted: bool


class ListedFacts(msgspec.Struct):
    """What lists tell of a pod, besides its spec.

    Attributes:
        created_ns: when the API server made it; None for a pod of a manifest.
        mirror: it is the API's image of a static pod.
        ended_ns: it had come to a final phase no earlier than this, and no later than the list
            that shows it so; None while no list does.
        since_ns: the first list that shows it.
        node: the node it is bound to; None when no list tells.
        rejections: time and record of a list, reason and message of the status it shows, where
            that had failed and was another before. A static pod may fail once a process.
    """

    created_ns: int | None = None
    mirror: bool = False
    ended_ns: int | None = None
    since_ns: int = 0
    node: str | None = None
    rejections: list[tuple[int, int, str, str]] = []


class Foresight:
    """The index; it grows with admissions and pods, not with records.

    Attributes:
        life: until when pods are shown alive.
    """

    def __init__(self) -> None:
        self.life = Life()
        self.listed: dict[str, ListedFacts] = {}
        self._names: set[str] = set()
        self._stems: set[str] = set()
        self._adds: dict[str, list[tuple[int, int, str | None]]] = {}
        self._decided: dict[str, list[tuple[int, int, str | None, bool]]] = {}
        self._starts: list[Place] = []
        self._by_first_list: list[tuple[int, str]] = []
        self._sorted = False
        self._node: str | None = None

    def config_changed(self, record: Record) -> None:
        """Take in an ADD."""
        body = record.body
        assert isinstance(body, PodConfigChanged)
        if body.operation == "ADD":
            entry = (record.ts_ns, record.seq, body.pod_uid)
            self._adds.setdefault(name_key(body.namespace, body.pod), []).append(entry)

    def decided(self, record: Record) -> None:
        """Take in a decision."""
        body = record.body
        assert isinstance(body, PodAdmitted | PodRejected)
        entry = (record.ts_ns, record.seq, body.pod_uid, isinstance(body, PodAdmitted))
        self._decided.setdefault(name_key(body.namespace, body.pod), []).append(entry)

    def started(self, record: Record) -> None:
        """Take in the start of a kubelet: what was undecided stays so."""
        self._starts.append((record.ts_ns, record.seq))

    def pod_listed(self, record: Record) -> None:
        """Take in an entry of a list."""
        body = record.body
        assert isinstance(body, PodListed)
        self.life.listed(record)
        names = self._stems if body.listed_by == "manifest" else self._names
        names.add(name_key(body.namespace, body.pod))
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        if body.gone or body.listed_by == "manifest" or key is None:
            return
        facts = self.listed.get(key)
        if facts is None:
            facts = self.listed[key] = ListedFacts(since_ns=record.ts_ns)
        facts.since_ns = min(facts.since_ns, record.ts_ns)
        if body.created_ts_ns is not None:
            facts.created_ns = body.created_ts_ns
        facts.mirror = facts.mirror or CONFIG_MIRROR in body.annotations
        node = (body.spec or {}).get("nodeName")
        if isinstance(node, str) and node:
            facts.node = node
        _note_status(facts, body.status or {}, record)

    def answer(self, at: Place, namespace: str, pod: str, uid: str | None) -> Decided | None:
        """How the ADD at a place was decided; None when no record tells."""
        self._sort()
        name = name_key(namespace, pod)
        until = min(self._next_add(name, at, uid), self._next_start(at))
        decided = self._decided.get(name, [])
        for index in range(_behind(decided, at), len(decided)):
            ts_ns, seq, decided_uid, admitted = decided[index]
            if (ts_ns, seq) >= until:
                break
            if not _differ(uid, decided_uid):
                return Decided((ts_ns, seq), admitted)
        return None

    def handed_over(self, at: Place, namespace: str, pod: str, uid: str | None) -> bool:
        """Whether the kubelet process of a place is ever handed the pod."""
        self._sort()
        first = self._next_add(name_key(namespace, pod), self._last_start(at), uid)
        return first < self._next_start(at)

    def rejection(self, offer_key: str, at: Place, who: Who) -> tuple[int, str, str] | None:
        """Record, reason and message of the list that shows a refusal at a place.

        Only until the pod is handed over again: it may be refused once a process.
        """
        self._sort()
        listed = self.listed.get(offer_key)
        namespace, pod, uid = who
        until_ns = self._next_add(name_key(namespace, pod), at, uid)[0]
        since_ns = max(at[0] - _WHOLE_SECONDS_NS, self._last_start(at)[0])
        for ts_ns, seq, reason, message in () if listed is None else listed.rejections:
            if since_ns <= ts_ns < until_ns:
                return seq, reason, message
        return None

    def listed_next(self, ts_ns: int) -> Iterator[tuple[str, ListedFacts]]:
        """Pods that the next list shows, and none before: it shows all that were there.

        Where no list of the kubelet's own follows, those that any list shows later.
        """
        self._sort()
        index = bisect_right(self._by_first_list, ts_ns, key=lambda first: first[0])
        next_ns = self.life.next_list(ts_ns + _WHOLE_SECONDS_NS)
        for since_ns, key in islice(self._by_first_list, index, None):
            if next_ns is not None and since_ns > next_ns:
                break
            yield key, self.listed[key]

    def is_named(self, namespace: str, pod: str) -> bool:
        """Whether a list or a manifest, a decision or a container names such a pod."""
        name = name_key(namespace, pod)
        return (
            name in self._names
            or name in self._decided
            or self.shown_alive(None, namespace, pod) > 0
            or any(name.startswith(stem) for stem in self._stems)
        )

    def shown_alive(self, uid: str | None, namespace: str, pod: str) -> int:
        """The last time at which the pod is shown alive; 0 when nothing shows it."""
        self._sort()
        return self.life.until(uid, namespace, pod)

    def had_before(self, at: Place, namespace: str, pod: str, uid: str | None) -> bool:
        """Whether the pod had been handed over before the ADD at that place."""
        self._sort()
        adds = self._adds.get(name_key(namespace, pod), ())
        return any((ns, seq) < at and not _differ(uid, other) for ns, seq, other in adds)

    @property
    def node(self) -> str | None:
        """The node that most pods are bound to which were let in; None when that is not clear."""
        self._sort()
        return self._node

    def _next_add(self, name: str, at: Place, uid: str | None) -> Place:
        adds = self._adds.get(name, [])
        for index in range(_behind(adds, at), len(adds)):
            ts_ns, seq, added_uid = adds[index]
            if not _differ(uid, added_uid):
                return (ts_ns, seq)
        return _END

    def _last_start(self, at: Place) -> Place:
        index = bisect_right(self._starts, at)
        return self._starts[index - 1] if index else (0, 0)

    def _next_start(self, at: Place) -> Place:
        index = bisect_right(self._starts, at)
        return self._starts[index] if index < len(self._starts) else _END

    def _sort(self) -> None:
        if self._sorted:
            return
        self._sorted = True
        self.life.settle()
        self._by_first_list = sorted((facts.since_ns, key) for key, facts in self.listed.items())
        self._starts.sort()
        for adds in self._adds.values():
            adds.sort(key=lambda entry: entry[:2])
        for decided in self._decided.values():
            decided.sort(key=lambda entry: entry[:2])
        self._node = self._most_named()

    def _most_named(self) -> str | None:
        let_in = {
            uid
            for decided in self._decided.values()
            for _, _, uid, admitted in decided
            if admitted and uid is not None
        }
        named = Counter(
            facts.node for key, facts in self.listed.items() if key in let_in and facts.node
        )
        for name, count in named.most_common(1):
            if count > 1 and 2 * count > named.total():
                return name
        return None


def _behind(entries: Sequence[Any], at: Place) -> int:
    """Index of the first entry behind a place."""
    return bisect_right(entries, at, key=lambda entry: (entry[0], entry[1]))


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _note_status(facts: ListedFacts, status: dict[str, Any], record: Record) -> None:
    if status.get("phase") not in TERMINAL_PHASES:
        return
    ended_ns = max(_times(status), default=record.ts_ns)
    facts.ended_ns = ended_ns if facts.ended_ns is None else min(facts.ended_ns, ended_ns)
    reason, message = status.get("reason"), status.get("message")
    if status.get("phase") != "Failed" or not isinstance(reason, str):
        return
    if reason == "DeadlineExceeded":
        return  # it stands in place of a refusal once the deadline of the pod has passed
    last = facts.rejections[-1][2:] if facts.rejections else None
    if isinstance(message, str) and last != (reason, message):
        facts.rejections.append((record.ts_ns, record.seq, reason, message))


def _times(status: dict[str, Any]) -> Iterator[int]:
    """When its containers ended, and when the kubelet refused it."""
    found = [status.get("startTime") if status.get("reason") not in _WHILE_IT_RAN else None]
    for name in ("containerStatuses", "initContainerStatuses"):
        for entry in objects_of(status.get(name)):
            state = entry.get("state")
            ended = state.get("terminated") if isinstance(state, dict) else None
            found.append(ended.get("finishedAt") if isinstance(ended, dict) else None)
    for text in found:
        if isinstance(text, str):
            with suppress(ValueError):
                yield parse_ts(text) + NS_PER_S  # of whole seconds
