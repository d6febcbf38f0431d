"""The instances that each container of a node ran, in the order in which records show them.

An instance is shown by its start, its end, its kill, or a restart that names it; the event
``Created`` tells of one before its ID is known. Starts and ends come out of the PLEG's relists,
about a second apart, so an instance that ends at once is shown by its end only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import ContainerDied, ContainerStarted
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S

__all__ = ["Container", "Containers", "Instance", "OfContainer", "key_for",
           "subject_of"]  # fmt: skip

_RELIST_NS: Final = NS_PER_S
_LATE_NS: Final = 2 * NS_PER_S
"""An event may be logged so long after what it tells of."""
_KEPT: Final = 4


class OfContainer(Protocol):
    """A body about one container, or (``container`` None) about one of a pod."""

    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def pod(self) -> str: ...  # noqa: D102
    @property
    def pod_uid(self) -> str | None: ...  # noqa: D102
    @property
    def container(self) -> str | None: ...  # noqa: D102


class _OfPod(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def pod(self) -> str: ...
    @property
    def pod_uid(self) -> str | None: ...


def key_for(state: NodeState, body: _OfPod) -> str:
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
        container_id: None until a record tells it.
        seq: of the record that showed it first.
        created_ns: when the event told of its creation; None without one, 0 when it came late.
        started_ns, died_ns: up to a relist late; None when not shown.
        killed_ns: when the kubelet decided to kill it, last; ``first_killed_ns``: first.
        reasons: what a restart after it may name as the reason of its end; empty: not known.
        is_told: its start was told, not only its end.
        count: how often the container had been restarted; None when not known.
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
    is_told: bool = False
    count: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it was killed, or shown to have ended."""
        return self.killed_ns is not None or self.died_ns is not None

    @property
    def ended_from_ns(self) -> int | None:
        """It ended no earlier than this; None: not known.

        A start and an end that are told within a relist waited for the sync loop, and how long
        ago they were is not known.
        """
        killed_ns, died_ns, started_ns = self.first_killed_ns, self.died_ns, self.started_ns
        if killed_ns is not None and (died_ns is None or died_ns >= killed_ns):
            return killed_ns
        if started_ns is None or (died_ns is not None and died_ns - started_ns < _RELIST_NS):
            return self.created_ns
        return started_ns

    def die(self, record: Record, body: ContainerDied) -> None:
        """It was shown to have ended; shown again, nothing changes."""
        if self.died_ns is None:
            self.died_ns, self.died_seq, self.exit_code = record.ts_ns, record.seq, body.exit_code
            # An end follows from a kill: by the kubelet, or else by the kernel.
            self.out_of_memory = record.cause is not None and self.killed_ns is None
            if self.killed_ns is None and (self.started_ns is not None or not self.is_told):
                self.reasons = self.reasons or ("exited",)


class Container(msgspec.Struct):
    """A container over its newest instances.

    Attributes:
        instances: (<= 4,) newest last.
        shown: how many there have been.
        is_first: no instance came before the first of ``instances``, as far as is known.
        was_inherited: the newest was there before this kubelet process.
    """

    key: str
    name: str
    is_first: bool
    instances: list[Instance] = []
    shown: int = 0
    was_inherited: bool = False

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

        Of those that only their ends show it is not told which ran last.
        """
        for instance in self.instances[-2::-1]:
            if instance.container_id == container_id:
                return True
            if instance.is_told:
                return False
        return False

    def push(self, instance: Instance) -> None:
        """Another instance."""
        self.was_inherited = False
        self.shown += 1
        self.instances.append(instance)
        del self.instances[:-_KEPT]


class Containers:
    """The containers of all pods on the node.

    Attributes:
        on_start: is told of each new instance before it is there: its container, the record
            that shows it, and whether that is an event that tells of its creation.
        on_name: is told of each new instance once its ID is known.
    """

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Container]] = {}
        self._added: set[str] = set()
        self._sandboxes: dict[str, int] = {}
        self._relisted_ns: int | None = None
        self.on_start: Callable[[Container, Record, bool], None] = lambda *_: None
        self.on_name: Callable[[Container, Instance], None] = lambda *_: None

    def __iter__(self) -> Iterator[Container]:
        return (each for containers in self._pods.values() for each in containers.values())

    def of_pod(self, key: str) -> dict[str, Container]:
        """Name -> container, of those of a pod that were shown."""
        return self._pods.get(key, {})

    def find(self, key: str, name: str | None) -> Container | None:
        """A container that was shown."""
        return self._pods.get(key, {}).get(name or "")

    def get(self, key: str, name: str) -> Container:
        """A container, made when it is first told of."""
        containers = self._pods.setdefault(key, {})
        if name not in containers:
            containers[name] = Container(key, name, is_first=key in self._added)
        return containers[name]

    def kubelet_started(self) -> None:
        """Another process: what runs was started by the one before."""
        self._added.clear()
        self._relisted_ns = None
        for container in self:
            container.was_inherited = True

    def pod_added(self, key: str) -> None:
        """The first that the present process knows of a pod."""
        self._added.add(key)

    def was_added(self, key: str) -> bool:
        """Whether a config source gave the pod to the present process."""
        return key in self._added

    def lose(self) -> None:
        """Lines are missing: there may be instances that none showed."""
        self._added.clear()
        for container in self:
            container.is_first = False

    def pod_gone(self, key: str) -> None:
        """The pod left the node."""
        self._pods.pop(key, None)
        self._sandboxes.pop(key, None)
        self._added.discard(key)

    def sandboxed_since(self, key: str, ts_ns: int) -> bool:
        """Whether the pod got another sandbox after that."""
        return self._sandboxes.get(key, ts_ns) > ts_ns

    def is_first_relist(self, ts_ns: int) -> bool:
        """Whether a start told then may be one that the process before made.

        The first relist of a process tells of all that runs.
        """
        return self._relisted_ns is None or ts_ns - self._relisted_ns <= _RELIST_NS

    # -- what shows an instance --------------------------------------------------------------

    def created(self, record: Record, key: str, name: str) -> None:
        """The event ``Created``: an instance whose ID is yet to be told."""
        container = self.get(key, name)
        newest = container.at(0)
        if newest is not None and newest.created_ns is None and (
            record.ts_ns - (newest.started_ns or 0) < _LATE_NS
        ):  # fmt: skip
            newest.created_ns = 0
            return
        self.on_start(container, record, True)
        container.push(Instance(None, record.seq, created_ns=record.ts_ns, is_told=True))

    def show(self, record: Record, container: Container, container_id: str | None) -> Instance:
        """The instance of that ID, which is new if no record showed it before."""
        found = container.find(container_id)
        if found is not None:
            return found
        newest = container.at(0)
        if newest is None or newest.container_id is not None:
            self.on_start(container, record, False)
            newest = Instance(None, record.seq)
            container.push(newest)
        newest.container_id = container_id
        self.on_name(container, newest)
        return newest

    def started(self, record: Record, body: ContainerStarted, key: str) -> None:
        """An instance runs; the same one again is nothing new."""
        self._relisted_ns = self._relisted_ns or record.ts_ns
        if body.sandbox:
            self._sandboxes[key] = record.ts_ns
        elif body.container is not None:
            container = self.get(key, body.container)
            instance = self.show(record, container, body.container_id)
            if instance.started_ns is None:
                instance.started_ns, instance.started_seq = record.ts_ns, record.seq
                instance.is_told = True
            if instance is container.at(0):
                container.was_inherited = False

    def died(self, record: Record, body: ContainerDied, key: str) -> None:
        """An instance ended."""
        self._relisted_ns = self._relisted_ns or record.ts_ns
        if body.container is not None and not body.sandbox:
            container = self.get(key, body.container)
            self.show(record, container, body.container_id).die(record, body)
        elif body.sandbox is None:
            # It may have been one from before those that were shown, of any container.
            self._added.discard(key)
            for container in self.of_pod(key).values():
                container.is_first = False
