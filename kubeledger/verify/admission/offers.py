"""Pods that config sources handed to this kubelet process, and until when each of them counts.

The sync loop admits pods one after the other: those of one ``SyncLoop ADD`` by creation time.
An admission sees the pods that were admitted before it and are still active. When a pod
stops to be active is known only to within the kill of its containers and the record of its
end; in between it counts as doubtful.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from kubeledger.kube.keys import name_key, pod_key
from kubeledger.lifecycle.records import PodConfigChanged
from kubeledger.lifecycle.state import TERMINAL_PHASES, LifecycleState, PodState
from kubeledger.machine import Record
from kubeledger.verify.admission.foresight import Decided, Foresight, ListedFacts
from kubeledger.verify.admission.ran_out import SETTLING_NS, ran_out
from kubeledger.verify.pods import ListedPod

__all__ = ["Activity", "Offer", "Offers", "activity"]

Activity = Literal["active", "doubtful", "gone"]
"""Whether a pod counts."""


class Offer:
    """One ADD of one pod.

    Attributes:
        added: record of the ADD.
        key: pod key; ``seq``, ``ts_ns``, ``source``: of the ADD.
        batch: number of the sync loop's turn; pods of one line share it.
        created_ns: when the pod was made; None when not known.
        decided: how it was decided, whenever that shows; None when nothing tells.
        misnamed: a decision about it names another pod.
        had_ended: it had ended before, so it was not put through admission.
        turn_ns: the sync loop went on no later than this; None when nothing tells.
        order: number of the topology manager's first record about it; None without one.
        refusals: seq, reason and message of what refused it before the predicates.
        preempted: seq and time of the records of victims killed for it.
        removed_ns, deleted_ns, victim_ns, evicted_ns: when that happened to it.
        survived: the preemption's kill of it failed, or may have.
    """

    __slots__ = (
        "added",
        "batch",
        "created_ns",
        "decided",
        "deleted_ns",
        "evicted_ns",
        "had_ended",
        "key",
        "misnamed",
        "name",
        "namespace",
        "order",
        "preempted",
        "refusals",
        "removed_ns",
        "seq",
        "source",
        "survived",
        "ts_ns",
        "turn_ns",
        "uid",
        "victim_ns",
    )

    def __init__(self, key: str, record: Record, body: PodConfigChanged, batch: int) -> None:
        self.key, self.added = key, record
        self.namespace, self.name, self.uid = body.namespace, body.pod, body.pod_uid
        self.source = body.source
        self.seq, self.ts_ns, self.batch = record.seq, record.ts_ns, batch
        self.created_ns: int | None = None
        self.decided: Decided | None = None
        self.misnamed = self.had_ended = False
        self.turn_ns: int | None = None
        self.order: int | None = None
        self.refusals: list[tuple[int, str, str]] = []
        self.preempted: list[tuple[int, int]] = []
        self.removed_ns: int | None = None
        self.deleted_ns: int | None = None
        self.victim_ns: int | None = None
        self.evicted_ns: int | None = None
        self.survived = False

    @property
    def is_static(self) -> bool:
        """Whether it came from a file or a URL."""
        return self.source in ("file", "http")

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return name_key(self.namespace, self.name)


class Offers:
    """All offers of one kubelet process that may still count."""

    def __init__(self, foresight: Foresight) -> None:
        self._foresight = foresight
        self._by_key: dict[str, Offer] = {}
        self._by_name: dict[str, Offer] = {}
        self._open: dict[Offer, None] = {}
        self._batch = 0
        self._batch_at: tuple[int, object] | None = None

    def clear(self) -> None:
        """Another kubelet process begins."""
        self._by_key.clear()
        self._by_name.clear()
        self._open.clear()
        self._batch_at = None

    def __iter__(self) -> Iterator[Offer]:
        """In the order of the ADDs."""
        return iter(self._by_key.values())

    def find(self, uid: str | None, namespace: str | None, name: str | None) -> Offer | None:
        """The offer of a pod."""
        if uid is not None and uid in self._by_key:
            return self._by_key[uid]
        if namespace is None or name is None:
            return None
        offer = self._by_name.get(name_key(namespace, name))
        if offer is None or (uid is not None and offer.uid is not None and offer.uid != uid):
            return None
        return offer

    def named(self, namespace: str, name: str) -> Offer | None:
        """The newest offer of that name, whatever its UID."""
        return self._by_name.get(name_key(namespace, name))

    def open(self) -> tuple[Offer, ...]:
        """Offers whose decision has not been seen yet."""
        return tuple(self._open)

    def close(self, offer: Offer) -> None:
        """Its decision was seen."""
        self._open.pop(offer, None)

    def config_changed(
        self, record: Record, body: PodConfigChanged, state: LifecycleState
    ) -> Offer | None:
        """Take in a turn of the sync loop; gives the new offer of an ADD."""
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        at = (record.ts_ns, _line_of(record))
        if at != self._batch_at:
            self._batch, self._batch_at = self._batch + 1, at
            for under_way in self._open:
                if under_way.turn_ns is None:
                    under_way.turn_ns = record.ts_ns
        if key is None:
            return None
        if body.operation == "ADD":
            return self._added(key, record, body, state)
        offer = self.find(body.pod_uid, body.namespace, body.pod)
        if offer is not None and (body.source == offer.source or body.source is None):
            if body.operation == "DELETE":
                offer.deleted_ns = offer.deleted_ns or record.ts_ns
            elif body.operation == "REMOVE":
                offer.removed_ns = offer.removed_ns or record.ts_ns
        return None

    def _added(
        self, key: str, record: Record, body: PodConfigChanged, state: LifecycleState
    ) -> Offer | None:
        listed = self._foresight.listed.get(key, ListedFacts())
        other = self._by_name.get(name_key(body.namespace, body.pod))
        if other is not None and other.is_static and body.source == "api":
            return None  # its mirror
        self._forget_ended(record.ts_ns)
        offer = Offer(key, record, body, self._batch)
        if listed.mirror and not offer.is_static:
            return None
        offer.created_ns = listed.created_ns if not offer.is_static else None
        place = (record.ts_ns, record.seq)
        offer.decided = self._foresight.answer(place, body.namespace, body.pod, body.pod_uid)
        if offer.decided is None:
            pod = state.pods.get(key)
            listed_as_ended = listed.ended_ns is not None and listed.ended_ns <= record.ts_ns
            offer.had_ended = listed_as_ended or (pod is not None and pod.ended)
        else:
            self._open[offer] = None
        self._by_key.pop(key, None)
        self._by_key[key] = self._by_name[offer.full_name] = offer
        return offer

    def _forget_ended(self, now_ns: int) -> None:
        """Drop what no admission that is still open, and none to come, will see."""
        if self._open:
            now_ns = min(now_ns, min(offer.ts_ns for offer in self._open))
        gone = [
            offer
            for offer in self._by_key.values()
            if (offer.removed_ns is not None and offer.removed_ns < now_ns)
            or (offer.decided is not None and not offer.decided.admitted)
        ]
        for offer in gone:
            if offer in self._open:
                continue
            del self._by_key[offer.key]
            if self._by_name.get(offer.full_name) is offer:
                del self._by_name[offer.full_name]

    def before(self, offer: Offer) -> Iterator[tuple[Offer, bool]]:
        """Offers before this one, and whether that order is certain.

        In one turn the older pod goes first. Pods of the same age, and static pods, come in
        an order that only the topology manager's records show.
        """
        for other in self._by_key.values():
            if other.batch < offer.batch:
                yield other, True
            elif other.batch == offer.batch and other is not offer:
                earlier = _comes_before(other, offer)
                if earlier is not False:
                    yield other, earlier is True


def _line_of(record: Record) -> object:
    """What tells two lines of the same instant apart."""
    if not record.evidence:
        return None
    return (record.evidence[0].file, record.evidence[0].line)


def _comes_before(other: Offer, offer: Offer) -> bool | None:
    """Whether ``other`` is admitted first in their common turn; None when that is random."""
    if other.order is not None and offer.order is not None:
        return other.order < offer.order
    if other.is_static and offer.is_static:
        return None
    if other.created_ns is None or offer.created_ns is None:
        return None
    if other.created_ns == offer.created_ns:
        return None
    return other.created_ns < offer.created_ns


def activity(
    offer: Offer,
    pod: PodState | None,
    listed: ListedPod | None,
    since_ns: int,
    until_ns: int,
    *,
    workers: bool,
) -> Activity:
    """Whether a pod counted for an admission between two times.

    Args:
        offer: the pod's.
        pod: its state at the second time; None when it is not on the node any more.
        listed: the pod as lists show it, whenever they do; None when none does.
        since_ns: the admission did not begin before this.
        until_ns: it was over by then.
        workers: pod workers know that a pod terminates (since 1.22): it counts until its
            containers are down. Before, one in a final phase did not count.

    Source: v1.20.2 pkg/kubelet/kubelet_pods.go filterOutTerminatedPods; v1.36.2
        filterOutInactivePods
    """
    low, high = _ended(offer, pod, listed, until_ns, workers=workers)
    if high is not None and high <= since_ns:
        return "gone"
    if low is None or low > until_ns:
        return "active"
    return "doubtful" if high is None or high > since_ns else "gone"


def _ended(
    offer: Offer, pod: PodState | None, listed: ListedPod | None, until_ns: int, *, workers: bool
) -> tuple[int | None, int | None]:
    """When it stopped to count, at the earliest and at the latest; None: it did not."""
    ends: list[tuple[int, int | None]] = []
    if offer.removed_ns is not None:
        ends.append((offer.removed_ns, offer.removed_ns))
    if offer.victim_ns is not None:
        known = not (workers and offer.survived)
        ends.append((offer.victim_ns, offer.victim_ns if known else None))
    if offer.evicted_ns is not None:
        ends.append((offer.evicted_ns, None if workers else offer.evicted_ns + SETTLING_NS))
    if pod is None:
        ends.append((offer.ts_ns, offer.removed_ns or until_ns))
    else:
        ends += _ended_by_state(offer, pod, listed, workers=workers)
    if not ends:
        return None, None
    highs = [high for _, high in ends if high is not None]
    return min(low for low, _ in ends), min(highs) if highs else None


def _ended_by_state(
    offer: Offer, pod: PodState, listed: ListedPod | None, *, workers: bool
) -> Iterable[tuple[int, int | None]]:
    if pod.terminated_ts_ns is not None and pod.terminated:
        yield _first_end(pod, pod.terminated_ts_ns), pod.terminated_ts_ns
    if pod.phase in TERMINAL_PHASES and offer.evicted_ns is None:
        last = max((c.finished_ts_ns or 0 for c in pod.containers.values()), default=0)
        yield _first_end(pod, last), last + SETTLING_NS
    if offer.deleted_ns is not None:
        if pod.runs():
            kills = [c.killed_ts_ns for c in pod.containers.values() if c.killed_ts_ns is not None]
            yield max(offer.deleted_ns, min(kills, default=offer.deleted_ns)), None
        else:
            last = max((c.finished_ts_ns or 0 for c in pod.containers.values()), default=0)
            yield offer.deleted_ns, max(offer.deleted_ns, last) + SETTLING_NS
    else:
        yield from ran_out(pod, listed, workers=workers)


def _first_end(pod: PodState, default_ns: int) -> int:
    """The earliest that its containers may all have been down."""
    ends = [c.finished_ts_ns for c in pod.containers.values() if c.finished_ts_ns is not None]
    kills = [c.killed_ts_ns for c in pod.containers.values() if c.killed_ts_ns is not None]
    return min([*ends, *kills, default_ns])
