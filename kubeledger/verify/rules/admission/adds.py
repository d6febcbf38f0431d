"""Pods that config sources handed to this kubelet process, in the order of their admission.

The sync loop admits pods one after the other: those of one ``SyncLoop ADD`` by creation time. An
admission sees the pods that were handed over before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubeledger.kube.keys import name_key, pod_key
from kubeledger.lifecycle.records import PodConfigChanged
from kubeledger.machine import Record
from kubeledger.verify.evidence.podlife import PodLife
from kubeledger.verify.evidence.timeline import Timeline

__all__ = ["PodAdd", "PodAdds"]


class PodAdd:
    """One ADD of one pod.

    Attributes:
        added: record of the ADD.
        key: pod key; ``seq``, ``ts_ns``, ``source``: of the ADD.
        batch: number of the sync loop's turn; pods of one line share it.
        created_ns: when the pod was made; None when not known.
        life: the pod's stay that begins with it.
        misnamed: a decision about it names another pod.
        turn_ns: the sync loop went on no later than this; None when nothing tells.
        order: number of the topology manager's first record about it; None without one.
        refusals: seq, reason and message of what refused it before the predicates.
        preempted: times of the records of victims killed for it.
    """

    __slots__ = (
        "added",
        "batch",
        "created_ns",
        "key",
        "life",
        "misnamed",
        "name",
        "namespace",
        "order",
        "preempted",
        "refusals",
        "seq",
        "source",
        "ts_ns",
        "turn_ns",
        "uid",
    )

    def __init__(
        self, key: str, record: Record, body: PodConfigChanged, batch: int, life: PodLife
    ) -> None:
        self.key, self.added, self.life = key, record, life
        self.namespace, self.name, self.uid = body.namespace, body.pod, body.pod_uid
        self.source = body.source
        self.seq, self.ts_ns, self.batch = record.seq, record.ts_ns, batch
        self.created_ns: int | None = None
        self.misnamed = False
        self.turn_ns: int | None = None
        self.order: int | None = None
        self.refusals: list[tuple[int, str, str]] = []
        self.preempted: list[int] = []

    @property
    def is_static(self) -> bool:
        """Whether it came from a file or a URL."""
        return self.source in ("file", "http")

    @property
    def is_decided(self) -> bool:
        """Whether any record tells how it was decided."""
        return self.life.decided_ns is not None

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return name_key(self.namespace, self.name)


class PodAdds:
    """All ADDs of one kubelet process, newest of each pod."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._by_key: dict[str, PodAdd] = {}
        self._by_name: dict[str, PodAdd] = {}
        self._open: dict[PodAdd, None] = {}
        self._batch = 0
        self._batch_at: tuple[int, object] | None = None

    def clear(self) -> None:
        """Another kubelet process begins."""
        self._by_key.clear()
        self._by_name.clear()
        self._open.clear()
        self._batch_at = None

    def find(self, uid: str | None, namespace: str | None, name: str | None) -> PodAdd | None:
        """The ADD of a pod."""
        if uid is not None and uid in self._by_key:
            return self._by_key[uid]
        if namespace is None or name is None:
            return None
        add = self._by_name.get(name_key(namespace, name))
        if add is None or (uid is not None and add.uid is not None and add.uid != uid):
            return None
        return add

    def named(self, namespace: str, name: str) -> PodAdd | None:
        """The newest ADD of that name, whatever its UID."""
        return self._by_name.get(name_key(namespace, name))

    def open(self) -> tuple[PodAdd, ...]:
        """ADDs whose decision has not been seen yet."""
        return tuple(self._open)

    def close(self, add: PodAdd) -> None:
        """Its decision was seen."""
        self._open.pop(add, None)

    def config_changed(self, record: Record, body: PodConfigChanged) -> None:
        """Take in a turn of the sync loop."""
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        at = (record.ts_ns, _line_of(record))
        if at != self._batch_at:
            self._batch, self._batch_at = self._batch + 1, at
            for under_way in self._open:
                if under_way.turn_ns is None:
                    under_way.turn_ns = record.ts_ns
        if key is not None and body.operation == "ADD":
            self._added(key, record, body)

    def _added(self, key: str, record: Record, body: PodConfigChanged) -> None:
        life = self._timeline.life(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if life is None or life.add_seq not in (None, record.seq):
            return  # the mirror of a static pod, or one that was handed over already
        add = PodAdd(key, record, body, self._batch, life)
        pod = self._timeline.pod(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if pod is not None and not add.is_static:
            add.created_ns = pod.created_ns
        if add.is_decided:
            self._open[add] = None
        self._by_key[key] = self._by_name[add.full_name] = add

    def comes_before(self, life: PodLife, add: PodAdd) -> bool | None:
        """Whether a pod is admitted before an ADD; None where that is random or not told.

        In one turn the older pod goes first. Pods of the same age, and static pods, come in
        an order that only the topology manager's records show.
        """
        other = self._by_key.get(life.key)
        if life.add_seq is not None and (other is None or other.seq != life.add_seq):
            return life.add_seq < add.seq  # of a former process, or not handed over yet
        if other is None or other.batch < add.batch:
            return True
        if other.batch > add.batch:
            return False
        if other.order is not None and add.order is not None:
            return other.order < add.order
        if None in (other.created_ns, add.created_ns) or other.created_ns == add.created_ns:
            return None
        return (other.created_ns or 0) < (add.created_ns or 0)

    def turn_of(self, add: PodAdd) -> Iterator[PodAdd]:
        """The others of the same turn of the sync loop."""
        return (
            other
            for other in self._by_key.values()
            if other.batch == add.batch and other is not add
        )


def _line_of(record: Record) -> object:
    """What tells two lines of the same instant apart."""
    if not record.evidence:
        return None
    return (record.evidence[0].file, record.evidence[0].line)
