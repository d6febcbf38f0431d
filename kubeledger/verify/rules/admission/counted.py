"""The pods that an admission sees: those that were handed over before it and still count."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kube.pod import Pod
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.podlife import PodLife
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.admission.adds import PodAdd, PodAdds
from kubeledger.verify.rules.admission.case import CountedPod
from kubeledger.verify.rules.admission.podspecs import as_admitted, extended_of

__all__ = ["Counted", "CountedPods", "PodObject"]

_REMEMBERED_MAX: Final = 4096
_KILLED_NS: Final = 60 * NS_PER_S
"""So long after it was chosen a victim is hardly alive."""


class PodObject(msgspec.Struct, frozen=True):
    """A pod as admission gets it.

    Attributes:
        pod: the object; ``seq`` the record that shows it.
        extended: extended resources that it requests.
    """

    pod: Pod
    seq: int
    extended: tuple[str, ...]


class Counted(msgspec.Struct, frozen=True):
    """The pods that counted for one admission.

    Attributes:
        pods: (n,) in the order of their admission.
        unread: names of those whose specs are not known.
        complete: no other pod can have counted.
    """

    pods: tuple[CountedPod, ...]
    unread: tuple[str, ...]
    complete: bool


class CountedPods:
    """Asks the timeline, and reads the pods' objects."""

    def __init__(self, bench: Bench, adds: PodAdds) -> None:
        self._bench = bench
        self._adds = adds
        self._objects: dict[tuple[ListedPod, str | None], PodObject | None] = {}

    def of(self, add: PodAdd, since_ns: int, until_ns: int, node: str) -> Counted:
        """The pods that counted for an ADD between two times.

        Args:
            add: the pod that is admitted.
            since_ns: its admission did not begin before this.
            until_ns: it was over by then.
            node: the node's name.
        """
        active = self._bench.timeline.active(since_ns, until_ns)
        pods: list[CountedPod] = []
        unread: list[str] = []
        for key, life in active.may.items():
            before = self._adds.comes_before(life, add)
            if key == add.key or before is False or _is_over(life, since_ns, until_ns):
                continue
            doubtful = not (key in active.must or (before and self._was_just_added(life, until_ns)))
            found = self.object_of(since_ns, life, node)
            if found is None:
                unread.append(life.full_name)
                continue
            pods.append(
                CountedPod(
                    name=life.full_name,
                    pod=_told_apart(found.pod, key),
                    seq=found.seq,
                    doubtful=doubtful or before is None or _may_be_refused(life),
                    extended=found.extended,
                    lives=life.seen_ns > until_ns + _KILLED_NS,
                )
            )
        return Counted(tuple(pods), tuple(unread), active.loss is None)

    def _was_just_added(self, life: PodLife, until_ns: int) -> bool:
        """Whether a pod was handed over so shortly before that only its order says it counts."""
        return life.admitted is True and (life.ending_ns is None or life.ending_ns > until_ns)

    def object_of(self, ts_ns: int, life: PodLife, node: str) -> PodObject | None:
        """A pod as admission gets it; None where no list shows it, or no readable one."""
        listed = self._listed(ts_ns, life, node)
        if listed is None:
            return None
        key = (listed, life.source)
        if key not in self._objects:
            if len(self._objects) >= _REMEMBERED_MAX:
                self._objects.clear()
            self._objects[key] = _read(listed, life.source)
        return self._objects[key]

    def _listed(self, ts_ns: int, life: PodLife, node: str) -> ListedPod | None:
        pods = self._bench.pods
        listed = pods.at(ts_ns, life.uid, life.namespace, life.name)
        if listed is None and life.uid is not None:
            listed = pods.at(ts_ns, None, life.namespace, life.name)
            if listed is not None and listed.uid not in (None, life.uid):
                listed = None
        if listed is None and life.source in ("file", "http"):
            # A static pod's name is that of its manifest and the node.
            stem, dash, _ = life.name.partition(f"-{node}")
            listed = pods.at(ts_ns, None, life.namespace, stem) if dash else None
        return listed


def _read(listed: ListedPod, source: str | None) -> PodObject | None:
    try:
        pod = as_admitted(listed.as_(Pod), source)
    except msgspec.ValidationError:
        return None
    return PodObject(pod, listed.seq, tuple(extended_of(pod)))


def _is_over(life: PodLife, since_ns: int, until_ns: int) -> bool:
    """Whether it was refused, or had ended before the admission began."""
    if life.admitted is False and life.decided_ns is not None and life.decided_ns <= until_ns:
        return True
    return life.ended_ns is not None and life.ended_ns <= since_ns


def _may_be_refused(life: PodLife) -> bool:
    """Whether it was handed over and nothing tells how that was decided."""
    return life.add_seq is not None and life.decided_ns is None


def _told_apart(pod: Pod, key: str) -> Pod:
    """A manifest holds no UID, by which preemption tells pods apart."""
    if pod.metadata.uid:
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=key))
