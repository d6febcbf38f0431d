"""Pods that config sources handed to this kubelet process."""

from __future__ import annotations

from kubeledger.kubelet.kube.keys import name_key, pod_key
from kubeledger.model.bodies.lifecycle import PodConfigChanged
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.record import Record
from kubeledger.verify.evidence.podlife import PodLife
from kubeledger.verify.evidence.timeline import Timeline

__all__ = ["PodAdd", "PodAdds"]


class PodAdd:
    """One ADD of one pod.

    Attributes:
        added: record of the ADD; ``seq`` and ``ts_ns`` are its.
        life: the pod's stay that begins with it.
        decided: the record of its decision was seen.
        misnamed: a decision about it names another pod.
        kills: records of the victims that were killed for it.
    """

    def __init__(self, added: Record, body: PodConfigChanged, life: PodLife) -> None:
        self.added, self.life = added, life
        self.namespace, self.name, self.uid = body.namespace, body.pod, body.pod_uid
        self.full_name = name_key(body.namespace, body.pod)
        self.seq, self.ts_ns = added.seq, added.ts_ns
        self.decided = self.misnamed = False
        self.kills: list[tuple[Record, PodPreempted]] = []


class PodAdds:
    """All ADDs of one kubelet process, newest of each pod."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.clear()

    def clear(self) -> None:
        """Another kubelet process begins."""
        self._by_key: dict[str, PodAdd] = {}
        self._by_name: dict[str, PodAdd] = {}
        self._turn: list[PodAdd] = []
        self._turn_of: object = None

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

    def under_way(self) -> list[PodAdd]:
        """ADDs of the turn that goes on whose decisions are told, but not yet."""
        return [add for add in self._turn if not add.decided and add.life.decided_ns is not None]

    def config_changed(self, record: Record, body: PodConfigChanged) -> None:
        """Take in a turn of the sync loop: pods of one line share it."""
        places = [(piece.file, piece.line) for piece in record.evidence[:1]]
        if (record.ts_ns, places) != self._turn_of:
            self._turn_of, self._turn = (record.ts_ns, places), []
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        if key is None or body.operation != "ADD":
            return
        life = self._timeline.life(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if life is None or life.add_seq not in (None, record.seq):
            return  # the mirror of a static pod, or one that was handed over already
        add = PodAdd(record, body, life)
        self._turn.append(add)
        self._by_key[key] = self._by_name[add.full_name] = add
