"""The instances that each container of a node ran, in the order in which records show them.

An instance is shown by its start, its end, its kill, or a restart that names it; the event
``Created`` shows one before its ID is known. Starts and ends come out of the PLEG's relists,
about a second apart, so an instance that ends at once is shown by its end only.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.kubelet.lifecycle.state import key_of
from kubeledger.model.bodies.lifecycle import ContainerDied
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.evidence.times import Times
from kubeledger.verify.rules.back_off import BackOff

_RELIST_NS: Final = NS_PER_S
"""Two relists are so far apart, and what both saw is logged as far apart."""
_KEPT: Final = 4


class OfPod(Protocol):
    """A body about a pod."""

    @property
    def namespace(self) -> str: ...
    @property
    def pod(self) -> str: ...
    @property
    def pod_uid(self) -> str | None: ...


class OfContainer(OfPod, Protocol):
    """A body about one container, or (``container`` None) about one of a pod."""

    @property
    def container(self) -> str | None: ...


def key_for(state: NodeState, body: OfPod) -> str:
    """The key under which the node's state keeps the pod that a body is about."""
    if body.pod_uid:
        return body.pod_uid
    found = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
    return found or pod_key(body.pod_uid, body.namespace, body.pod) or ""


def subject_of(body: OfContainer) -> str:
    """The subject of a finding about a container, as ``why`` takes it."""
    if body.container is None:
        return f"pod/{body.namespace}/{body.pod}"
    return f"container/{body.namespace}/{body.pod}/{body.container}"


class Instance(msgspec.Struct):
    """One run of a container.

    Attributes:
        container_id: None until a record shows it.
        seq: of the record that showed it first.
        created_ns: when the event showed its creation; None without one, 0 when it came late.
        started_ns, died_ns: up to a relist late; None when not shown.
        killed_ns: when the kubelet decided to kill it, last; ``first_killed_ns``: first.
        reasons: what a restart after it may name as the reason of its end; empty: not known.
        is_reported: its start was logged, not only its end.
        count: how often the container had been restarted; None when not known.
        after_ns: a sync had held its start back then; None where none did.
    """

    container_id: str | None
    seq: int
    created_ns: int | None = None
    started_ns: int | None = None
    started_seq: int | None = None
    died_ns: int | None = None
    died_seq: int | None = None
    killed_ns: int | None = None
    first_killed_ns: int | None = None
    killed_seq: int | None = None
    reasons: tuple[str, ...] = ()
    exit_code: int | None = None
    out_of_memory: bool = False
    is_reported: bool = False
    count: int | None = None
    after_ns: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it was killed, or shown to have ended."""
        return self.killed_ns is not None or self.died_ns is not None

    def ended_from_ns(self, times: Times) -> int | None:
        """It ended no earlier than this; None: not known.

        A start and an end that are logged within a relist waited for the sync loop, and how long
        ago they were is not known. What a relist saw to run may have ended while it was told.
        """
        killed_ns, died_ns, started_ns = self.first_killed_ns, self.died_ns, self.started_ns
        if (listed := times.listed_end(self.container_id, died_ns)) is not None:
            return listed.from_ns
        is_killed = killed_ns is not None and (died_ns is None or died_ns >= killed_ns)
        if killed_ns is not None and is_killed and not times.late(killed_ns):
            return killed_ns
        if started_ns is None or (died_ns is not None and died_ns - started_ns < _RELIST_NS):
            known = [ts_ns for ts_ns in (self.created_ns, self.after_ns) if ts_ns]
            return max(known, default=self.created_ns)
        return started_ns - times.late(started_ns)

    def may_have_ended_unseen(self, now_ns: int) -> bool:
        """No relist need have shown its end yet, which a decision may rest on already."""
        is_young = self.started_ns is not None and now_ns - self.started_ns <= _RELIST_NS
        return self.container_id is None or (is_young and not self.has_ended)

    def die(self, record: Record, body: ContainerDied) -> None:
        """It was shown to have ended; shown again, nothing changes."""
        if self.died_ns is None:
            self.died_ns, self.died_seq, self.exit_code = record.ts_ns, record.seq, body.exit_code
            # An end follows from a kill: by the kubelet, or else by the kernel.
            self.out_of_memory = record.cause is not None and self.killed_ns is None
            if self.killed_ns is None and (self.started_ns is not None or not self.is_reported):
                self.reasons = self.reasons or ("exited",)


class Container(msgspec.Struct):
    """A container over its newest instances.

    Attributes:
        back_off: its entry in the back-off map of the present kubelet process.
        instances: (<= 4,) newest last.
        shown: how many there have been.
        is_first: no instance came before the first of ``instances``, as far as is known.
        was_inherited: the newest was there before this kubelet process.
        held_ns: when a sync last held a start back.
    """

    key: str
    name: str
    is_first: bool
    back_off: BackOff
    instances: list[Instance] = []
    shown: int = 0
    was_inherited: bool = False
    held_ns: int | None = None

    def at(self, back: int) -> Instance | None:
        """The newest instance (0), the one before (1), and so on; None where none was shown."""
        return self.instances[-1 - back] if back < len(self.instances) else None

    def find(self, container_id: str | None) -> Instance | None:
        """The instance with that ID, if it is remembered."""
        if container_id is None:
            return None
        return next((i for i in self.instances if i.container_id == container_id), None)

    def may_follow(self, container_id: str) -> bool:
        """Whether that instance may be the last before the newest.

        Where only ends are recorded, it is not known which container ran last.
        """
        for instance in self.instances[-2::-1]:
            if instance.container_id == container_id:
                return True
            if instance.is_reported:
                return False
        return False

    def push(self, instance: Instance) -> None:
        """Another instance."""
        self.was_inherited = False
        instance.after_ns, self.held_ns = self.held_ns, None
        self.shown += 1
        self.instances.append(instance)
        del self.instances[:-_KEPT]
