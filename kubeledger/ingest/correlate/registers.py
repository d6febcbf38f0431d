"""The registers of a bundle, which the assemblers about pods share: what its log tells apart.

The log of 1.36 mostly holds names only, so a pod is found by UID or name. One :class:`Pod` a pod
instance, with what became of it: each of these is noted by one assembler, and read by others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubeledger.ingest.correlate.context import BundleContext, Subject
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback, Seen, Waiting, shown
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.items import Fact, LogLine
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.cgroups import PodResources
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.record import Evidence


class Pod(msgspec.Struct, eq=False):
    """One pod instance, with what the pod configuration showed of it, and what became of it.

    Attributes:
        source: config source of its ADD; None before that.
        added: the fact of its last ADD; ``deleted`` the one of DELETE or REMOVE.
        removed: REMOVE was seen.
        phase: of the last pod list so far.
        rejected: its refusal; None again when it is added again, as all below.
        preempted: the preemption that chose it; ``is_told_victim``: an event says that it was
            one, whichever others other lines name.
        made_room: what was preempted in its admission; ``no_room`` why nothing was.
        evicted: the last eviction for which it was chosen.
        ending: the fact that its worker stops it, of the last kubelet process that did.
        past_deadline: an event says that its deadline passed.
        lacks_sandbox: its sandbox was stopped, and no new one is there yet.
    """

    namespace: str
    name: str
    uid: str | None = None
    source: str | None = None
    added: Fact | None = None
    deleted: Fact | None = None
    removed: bool = False
    phase: str | None = None
    rejected: Fact | None = None
    preempted: Fact | None = None
    is_told_victim: bool = False
    made_room: list[Fact] = []
    no_room: Fact | None = None
    evicted: Fact | None = None
    ending: Fact | None = None
    past_deadline: bool = False
    lacks_sandbox: bool = False

    def begin_anew(self) -> None:
        """It is added again: what was decided about it before is over."""
        self.preempted = self.no_room = self.evicted = None
        self.is_told_victim, self.made_room = False, []

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

    def __init__(self, context: BundleContext, queue: Holdback) -> None:
        self._context = context
        self._queue = queue
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[tuple[str, str], Pod] = {}
        self._disputed: set[PodRef] = set()

    def of(self, entry: Entry) -> Pod | None:
        """The pod that an entry names, be it by its UID alone; None when it names none."""
        ref = entry.pod
        return self.with_uid(entry.get("podUID")) if ref is None else self.named(ref, entry)

    def named(self, ref: PodRef, seen: Seen) -> Pod:
        """The pod a line or an event names, made when it is new; a UID in the line is learned."""
        context = self._context
        if ref.uid is not None:
            context.learn_uid(ref.namespace, ref.name, ref.uid, seen.ts_ns, seen.evidence)
            self._compare(ref, seen)
            return self._by_uid.get(ref.uid) or self._make(ref)
        named = self._by_name.get((ref.namespace, ref.name))
        if named is not None:
            return named
        uid = context.uid_of(ref.namespace, ref.name, seen.ts_ns)
        if uid is not None and uid in self._by_uid:
            return self._by_uid[uid]
        return self._make(ref._replace(uid=uid))

    def _compare(self, ref: PodRef, seen: Seen) -> None:
        """A UID has one name; one that is nobody else's may be hidden, or cut."""
        namespace, name, uid = ref
        known, others = self._context.name_of(uid), self._context.uids_by_name[namespace, name]
        is_others = known != (namespace, name) and any(other != uid for other in others)
        if is_others and ref not in self._disputed:
            self._disputed.add(ref)
            why = f"UID {uid} is told as that of another pod"
            told, true = f"pod {namespace}/{name}", "pod {}/{}".format(*known)
            dispute = Dispute(f"pod/{namespace}/{name}", why, told, true)
            self._queue.add(shown(seen, dispute.in_file(seen.evidence.file)))

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
        killed: the kill of the last one, by the kernel, until another one starts; ``exited``: what
            ended it, if no signal from outside did.
    """

    def __init__(self) -> None:
        self.process = 0
        self.started_ns: int | None = None
        self.killed: Fact | None = None
        self.exited: Fact | None = None
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
        unhealthy: (container, probe type) -> the last transition to failure.
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
    unhealthy: dict[tuple[str, str], Fact] = {}


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
    """Which pods the kubelet is admitting.

    Attributes:
        adding: (n,) pods of the last ADD whose admission is not decided, in its order.
        undecided: the same of all ADDs.
    """

    def __init__(self) -> None:
        self.adding: list[Pod] = []
        self.undecided: dict[Pod, None] = {}
        self._add_line: LogLine | None = None

    def begin_add(self, line: LogLine) -> None:
        """An ADD: admission of its pods begins. Again for the same line: nothing."""
        if line is not self._add_line:
            self._add_line = line
            self.adding = []

    def begin(self, pod: Pod) -> None:
        """A pod of the ADD is put through admission."""
        pod.rejected = None
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


A = TypeVar("A")


class Registers:
    """All that the assemblers of one bundle share.

    Attributes:
        queue: facts about pods, containers and probes, in one order.
        made: the assemblers, by class, each since it was needed first.
        waiting_since: asks each assembler for the time of the oldest fact that it holds back.
        removed_images: removals of images so far.
        actuated: pod UID -> what the runtime was last told, as the newest state file shows it.
        refused_state: the last state file that the CPU or the memory manager refused.
    """

    def __init__(self, context: BundleContext) -> None:
        self.context = context
        self.queue = Holdback()
        self.pods = Pods(context, self.queue)
        self.sync_loop = SyncLoop()
        self.containers = Containers()
        self.admissions = Admissions()
        self.made: dict[type, Any] = {}
        self.waiting_since: list[Callable[[], int | None]] = [self.queue.waiting_since]
        self.removed_images: list[Fact] = []
        self.actuated: dict[str, PodResources] = {}
        self.refused_state: Fact | None = None

    def assembler(self, kind: type[A]) -> A:
        """The one of that class, made if need be."""
        if kind not in self.made:
            make: Callable[[Registers], A] = kind
            self.made[kind] = make(self)
        made: A = self.made[kind]
        return made
