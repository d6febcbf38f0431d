"""The registers of a bundle, which the assemblers about pods share: what its log tells apart.

The log of 1.36 mostly holds names only, so a pod is found by UID or name. One :class:`Pod` a pod
instance. What an assembler decides about a pod stays with that assembler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads
from kubeledger.ingest.correlate.context import BundleContext, Subject
from kubeledger.ingest.correlate.holdback import Holdback, Seen, Waiting
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.items import Fact, Facts, LogLine
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.record import Evidence


class Pod(msgspec.Struct, eq=False):
    """One pod instance, with what the pod configuration showed of it.

    Attributes:
        source: config source of its ADD; None before that.
        added: the fact of its last ADD; ``deleted`` the one of DELETE or REMOVE.
        removed: REMOVE was seen.
        phase: of the last pod list so far.
    """

    namespace: str
    name: str
    uid: str | None = None
    source: str | None = None
    added: Fact | None = None
    deleted: Fact | None = None
    removed: bool = False
    phase: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether it came from a file or a URL."""
        return self.source in ("file", "http")

    @property
    def names(self) -> dict[str, Any]:
        """The fields that name it in a body."""
        return {"namespace": self.namespace, "pod": self.name, "pod_uid": self.uid}


class Pods:
    """All pods of one bundle so far."""

    def __init__(self, context: BundleContext) -> None:
        self._context = context
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[tuple[str, str], Pod] = {}

    def of(self, entry: Entry) -> Pod | None:
        """The pod that an entry names, be it by its UID alone; None when it names none."""
        ref = entry.pod
        return self.with_uid(entry.get("podUID")) if ref is None else self.named(ref, entry)

    def named(self, ref: PodRef, seen: Seen) -> Pod:
        """The pod a line or an event names, made when it is new; a UID in the line is learned."""
        context = self._context
        if ref.uid is not None:
            context.learn_uid(ref.namespace, ref.name, ref.uid, seen.ts_ns, seen.evidence)
            return self._by_uid.get(ref.uid) or self._make(ref)
        named = self._by_name.get((ref.namespace, ref.name))
        if named is not None:
            return named
        uid = context.uid_of(ref.namespace, ref.name, seen.ts_ns)
        if uid is not None and uid in self._by_uid:
            return self._by_uid[uid]
        return self._make(ref._replace(uid=uid))

    def known(self, subject: Subject) -> Pod | None:
        """The pod that a line names, if it is here already; nothing is learned of the line."""
        if subject.uid is not None:
            return self._by_uid.get(subject.uid)
        return self._by_name.get((subject.namespace or "", subject.pod or ""))

    def added(self, ref: PodRef, seen: Seen) -> Pod:
        """The pod of an ADD: a new instance when the one of that name was removed.

        Only a static pod comes back with the UID that it had. Another one of a manifest, which is a
        hash, shows that the manifest was changed while no kubelet ran.
        """
        name = ref.namespace, ref.name
        named = self._by_name.get(name)
        pod = None
        if named is not None and ref.uid is None:
            known = self._context.uid_of(*name, seen.ts_ns)
            is_changed = named.is_static and known != named.uid and "-" not in (known or "-")
            if named.removed or is_changed:
                del self._by_name[name]
                if known == named.uid and not named.is_static:
                    pod = self._make(ref)
        pod = pod or self.named(ref, seen)
        if ref.uid is None:
            self._by_name[name] = pod
        pod.removed, pod.deleted = False, None
        return pod

    def with_uid(self, uid: str | None) -> Pod | None:
        """The pod with that UID; None when neither the log nor the bundle names it."""
        pod = self._by_uid.get(uid or "")
        if pod is None and uid in self._context.pods:
            known = self._context.pods[uid]
            pod = self._make(PodRef(known.namespace, known.name, uid))
        return pod

    def all_named(self, namespace: str, name: str) -> list[Pod]:
        """All instances that had this name (a static pod and its mirror share one)."""
        pods = self._by_uid.values()
        return [pod for pod in pods if pod.namespace == namespace and pod.name == name]

    def _make(self, ref: PodRef) -> Pod:
        name = (ref.namespace, ref.name)
        pod = self._by_name.get(name)
        if pod is None or pod.uid is not None:
            static = pod
            pod = Pod(*ref)
            # The mirror of a static pod has its name, but lines with a name mean the pod.
            if static is None or not static.is_static or static.removed:
                self._by_name[name] = pod
        pod.uid = ref.uid
        if ref.uid is not None:
            self._by_uid[ref.uid] = pod
        return pod


class SyncLoop:
    """The kubelet process that writes the log, and the turns of its sync loop.

    Attributes:
        process: kubelet processes seen so far; 0 when the log begins inside one.
        started_ns: when the present one entered its sync loop; None when that is not known.
    """

    def __init__(self) -> None:
        self.process = 0
        self.started_ns: int | None = None
        self._blocked_by: list[Waiting[Any]] = []

    def start(self, ts_ns: int) -> None:
        """Another kubelet process entered its sync loop: what was open stays as it is."""
        self.process += 1
        self.started_ns = ts_ns
        self.iterated()

    def await_iteration(self, blocking: Waiting[Any]) -> None:
        """The loop takes no turn before the outcome of this is known."""
        self._blocked_by.append(blocking)

    def iterated(self) -> None:
        """The loop took its next turn, so nothing blocks it any more."""
        for blocking in self._blocked_by:
            blocking.settle()
        self._blocked_by.clear()


class Sighting(NamedTuple):
    """When a line showed something, and where it stands."""

    ts_ns: int
    evidence: Evidence


class Container(msgspec.Struct, eq=False):
    """One container ID.

    Attributes:
        name: None while no source shows it; ``sandbox`` likewise.
        kill: the kill decided for it, if any.
        died: the fact that it died, if it was seen.
        follows: the ID of the instance before, where its kill is the first that is reported it.
        seen_ts_ns: when the PLEG first reported it; None when it did not.
        began: the event of its start, where a line before has told the ID.
        ran: the PLEG or an event showed it to run; ``failed``: an error that its start failed.
    """

    container_id: str
    pod: Pod
    name: str | None = None
    sandbox: bool | None = None
    kill: Fact | None = None
    died: Fact | None = None
    follows: str | None = None
    seen_ts_ns: int | None = None
    began: Sighting | None = None
    ran: bool = False
    failed: bool = False

    @property
    def is_sandbox(self) -> bool | None:
        """Whether it is a sandbox; None when no source shows it."""
        return False if self.name is not None else self.sandbox

    @property
    def names(self) -> dict[str, Any]:
        """The fields that name it in a body."""
        return {**self.pod.names, "container": self.name, "container_id": self.container_id}

    @property
    def killed_for(self) -> str | None:
        """The reason of its kill; None without one, or when that is not known."""
        body = None if self.kill is None else self.kill.body
        return body.reason if isinstance(body, ContainerKilled) else None

    @property
    def ended_ns(self) -> int:
        """When it died; 0 when it was not seen to."""
        return 0 if self.died is None else self.died.ts_ns


class PodContainers(msgspec.Struct):
    """What is known of the containers of one pod.

    Attributes:
        current: container name -> ID of the last instance seen to start.
        added: container name -> ID that was made for it and has not started yet; ``unseen`` -> what
            has started since, and no relist has seen.
        started: container name -> start event that no PLEG line followed yet.
        needs_sandbox: the kubelet is to start one; ``lone`` the ID that came alone after that, and
            when.
        sandboxes: IDs known to be sandboxes; ``unnamed`` those that may be anything.
        probe_kills: (container, probe type) -> ID last killed because that probe failed.
        backed_off: containers of which the log reported a back-off before their restart.
        unstarted: containers of which the log reported that they could not be started; ``in_vain``
            after an instance was made, whose end is all that a relist will see.
        ran: containers of which an instance ran; ``failures`` of how many the start failed.
    """

    current: dict[str, str] = {}
    added: dict[str, str] = {}
    unseen: dict[str, Container] = {}
    started: dict[str, Sighting] = {}
    needs_sandbox: bool = False
    lone: tuple[str, int] | None = None
    sandboxes: set[str] = set()
    unnamed: set[str] = set()
    probe_kills: dict[tuple[str, str], str] = {}
    backed_off: set[str] = set()
    unstarted: set[str] = set()
    in_vain: set[str] = set()
    ran: set[str] = set()
    failures: dict[str, int] = {}


class Containers:
    """All containers of one bundle so far.

    Attributes:
        any_seen: the log shows what the PLEG sees.
    """

    def __init__(self) -> None:
        self.any_seen = False
        self._by_id: dict[str, Container] = {}
        self._of_pods: dict[Pod, PodContainers] = {}

    def get(self, container_id: str | None) -> Container | None:
        """The container with that ID; None when nothing has reported it."""
        return self._by_id.get(container_id or "")

    def __getitem__(self, container_id: str) -> Container:
        return self._by_id[container_id]

    def make(self, container_id: str, pod: Pod) -> Container:
        """The container with that ID, made when it is new."""
        return self._by_id.setdefault(container_id, Container(container_id, pod))

    def of(self, pod: Pod) -> PodContainers:
        """What is known of the containers of a pod."""
        return self._of_pods.setdefault(pod, PodContainers())

    def pods(self) -> list[Pod]:
        """All pods of which something is known."""
        return list(self._of_pods)

    def like(self, container: Container) -> Iterator[Container]:
        """The other instances of the same container."""
        of = self.named(container.pod, container.name)
        return (other for other in of if other is not container)

    def named(self, pod: Pod, name: str | None) -> Iterator[Container]:
        """All instances of a container."""
        return (each for each in self._by_id.values() if each.pod is pod and each.name == name)

    def current(self, pod: Pod, name: str | None) -> Container | None:
        """The last instance of a container that was seen to start."""
        return self.get(self.of(pod).current.get(name or ""))


class Admissions:
    """Which pods the kubelet is admitting, and which it rejected.

    Attributes:
        adding: (n,) pods of the last ADD whose admission is not decided, in its order.
        undecided: the same of all ADDs.
        rejected: the refusal of a pod; gone when it is added again.
    """

    def __init__(self) -> None:
        self.adding: list[Pod] = []
        self.undecided: dict[Pod, None] = {}
        self.rejected: dict[Pod, Fact] = {}
        self._add_line: LogLine | None = None

    def begin_add(self, line: LogLine) -> None:
        """An ADD: admission of its pods begins. Again for the same line: nothing."""
        if line is not self._add_line:
            self._add_line = line
            self.adding = []

    def begin(self, pod: Pod) -> None:
        """A pod of the ADD is put through admission."""
        self.rejected.pop(pod, None)
        self.adding.append(pod)
        self.undecided[pod] = None

    def decided(self, pod: Pod) -> None:
        self.undecided.pop(pod, None)
        if pod in self.adding:
            self.adding.remove(pod)

    def abandon(self) -> None:
        """The kubelet that was to decide about the last ADD has ended."""
        for pod in self.adding:
            self.undecided.pop(pod, None)
        self.adding = []


class Registers(NamedTuple):
    """Of one bundle. Each is kept by one assembler, ``containers`` by two, and read by others."""

    queue: Holdback
    pods: Pods
    sync_loop: SyncLoop
    containers: Containers
    admissions: Admissions


class PodAssembler(Assembler):
    """An assembler that keeps or reads registers."""

    def __init__(self, context: BundleContext, registers: Registers) -> None:
        super().__init__(context, registers.queue)
        _, self._pods, self._sync_loop, self._containers, self._admissions = registers


A = TypeVar("A", bound=PodAssembler)
OfPod = Callable[[A, Entry, Pod], Facts | None]


def about_pod(*messages: str) -> Callable[[OfPod[A]], Callable[[A, Entry], Facts | None]]:
    """As ``reads``; the method gets the pod, too, and no entry that names none."""

    def declare(method: OfPod[A]) -> Callable[[A, Entry], Facts | None]:
        @reads(*messages)
        @wraps(method)
        def of_pod(self: A, entry: Entry) -> Facts | None:
            pod = self._pods.of(entry)
            return None if pod is None else method(self, entry, pod)

        return of_pod

    return declare
