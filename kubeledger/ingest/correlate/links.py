"""What the assemblers of pods, containers, probes and preemption know together.

A transition leads to a kill, a kill to a restart, a preemption to its victims' kills.
Each assembler notes here what another one will name as a cause. One :class:`PodLink` a
pod instance; the log of 1.36 mostly holds names only, so a link is found by UID or name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeledger.ingest.correlate.holdback import Holdback, Waiting
from kubeledger.ingest.correlate.instances import Instance, index_instances
from kubeledger.ingest.correlate.oom_kills import OomKills
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import ApiEvent, LogLine
from kubeledger.kubelet.lifecycle.disputes import LINES_DISAGREE, Dispute
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence

if TYPE_CHECKING:  # the context holds the links
    from kubeledger.ingest.correlate.context import BundleContext

__all__ = ["ContainerLink", "Links", "PodLink"]


class ContainerLink:
    """One container ID.

    Attributes:
        name: None while no source tells; ``sandbox`` likewise.
        kill: the kill decided for it, if any.
        died: the fact that it died, if it was seen.
        follows: the ID of the instance before, where its kill is the first that is told of it.
        seen_ts_ns: when the PLEG first told of it; None when it did not.
    """

    __slots__ = ("container_id", "died", "follows", "kill", "name", "pod", "sandbox", "seen_ts_ns")

    def __init__(self, container_id: str, pod: PodLink) -> None:
        self.container_id = container_id
        self.pod = pod
        self.name: str | None = None
        self.sandbox: bool | None = None
        self.kill: Fact | None = None
        self.died: Fact | None = None
        self.follows: str | None = None
        self.seen_ts_ns: int | None = None


class PodLink:
    """One pod instance.

    Attributes:
        source: config source of its ADD; None before that.
        added: the fact of its last ADD; ``deleted`` the one of DELETE or REMOVE.
        removed: REMOVE was seen.
        ending: the fact that its worker stops it; of the last kubelet process that did.
        replaces_sandbox: its sandbox was stopped, and no new one is there yet.
        past_deadline: an event says that its deadline passed.
        admitting: its admission is not decided yet.
        rejected: the kubelet refused it.
        victim: the preemption that chose it as a victim.
        preempted: an event says that it was a victim, whoever was chosen by other lines.
        preemptions: what was preempted for it.
        preemption_failure: why nothing was.
        evicting: the eviction manager chose it; ``eviction`` the fact of that.
        phase: of the last pod list so far.
        current: container name -> ID of the last instance seen to start.
        started: container name -> start event that no PLEG line followed yet.
        needs_sandbox: the kubelet is to start one; ``lone`` the ID that came alone behind that, and
            when.
        sandboxes: IDs known to be sandboxes; ``unnamed`` those that may be anything.
        failures: (container, probe type) -> last transition to failure.
        probe_kills: (container, probe type) -> ID last killed because that probe failed.
        backed_off: containers of which the log told a back-off before their restart.
        unstarted: containers of which the log told that they could not be started.
    """

    def __init__(self, ref: PodRef) -> None:
        self.namespace = ref.namespace
        self.name = ref.name
        self.uid = ref.uid
        self.source: str | None = None
        self.added: Fact | None = None
        self.deleted: Fact | None = None
        self.removed = False
        self.ending: Fact | None = None
        self.past_deadline = False
        self.replaces_sandbox = False
        self.admitting = False
        self.rejected: Fact | None = None
        self.victim: Fact | None = None
        self.preempted = False
        self.preemptions: list[Fact] = []
        self.preemption_failure: Fact | None = None
        self.evicting = False
        self.eviction: Fact | None = None
        self.phase: str | None = None
        self.current: dict[str, str] = {}
        self.started: dict[str, Evidence] = {}
        self.needs_sandbox = False
        self.lone: tuple[str, int] | None = None
        self.sandboxes: set[str] = set()
        self.unnamed: set[str] = set()
        self.failures: dict[tuple[str, str], Fact] = {}
        self.probe_kills: dict[tuple[str, str], str] = {}
        self.backed_off: set[str] = set()
        self.unstarted: set[str] = set()

    @property
    def is_static(self) -> bool:
        """Whether it came from a file or a URL."""
        return self.source in ("file", "http")


class Links:
    """Shared by the assemblers of one bundle.

    Attributes:
        queue: all their facts leave through it.
        epoch: kubelet processes seen so far; 0 when the log begins inside one.
        epoch_ts_ns: when the present one entered its sync loop.
        kubelet_exit: what ended the last one, if it did not end by a signal from outside.
        admitting: (n,) pods of the last ADD whose admission is not decided, in its order.
        containers: bare ID -> container.
        oom: kills by the kernel; they leave through a queue of their own.
        removed_images: removals of images so far.
        refused_state: the last state file that the CPU manager or the memory manager refused.
    """

    def __init__(self) -> None:
        self.queue = Holdback()
        self.oom = OomKills()
        self.epoch = 0
        self.epoch_ts_ns: int | None = None
        self.kubelet_exit: Fact | None = None
        self.admitting: list[PodLink] = []
        self.containers: dict[str, ContainerLink] = {}
        self.removed_images: list[Fact] = []
        self.refused_state: Fact | None = None
        self._by_uid: dict[str, PodLink] = {}
        self._by_name: dict[tuple[str, str], PodLink] = {}
        self._instances: dict[str, Instance] | None = None
        self._open_preemptions: list[Waiting] = []
        self._add_line: LogLine | None = None

    def pod(self, context: BundleContext, ref: PodRef, line: LogLine | ApiEvent) -> PodLink:
        """The pod a line or an event names, made when it is new; a UID in the line is learned."""
        if ref.uid is not None:
            context.learn_uid(ref.namespace, ref.name, ref.uid, line.ts_ns, line.evidence)
            return self._by_uid.get(ref.uid) or self._make(ref)
        named = self._by_name.get((ref.namespace, ref.name))
        if named is not None:
            return named
        uid = context.uid_of(ref.namespace, ref.name, line.ts_ns)
        if uid is not None and uid in self._by_uid:
            return self._by_uid[uid]
        return self._make(ref._replace(uid=uid))

    def begin_add(self, line: LogLine) -> None:
        """An ADD: admission of its pods begins. Again for the same line: nothing."""
        if line is not self._add_line:
            self._add_line = line
            self.admitting = []

    def added_pod(self, context: BundleContext, ref: PodRef, line: LogLine) -> PodLink:
        """The pod of an ADD: a new instance when the one of that name was removed.

        Only a static pod comes back with the UID that it had.
        """
        named = self._by_name.get((ref.namespace, ref.name))
        link = None
        if named is not None and named.removed and ref.uid is None:
            del self._by_name[ref.namespace, ref.name]
            known = context.uid_of(ref.namespace, ref.name, line.ts_ns)
            if known == named.uid and not named.is_static:
                link = self._make(ref)
        link = link or self.pod(context, ref, line)
        link.removed, link.deleted = False, None
        return link

    def pod_by_uid(self, context: BundleContext, uid: str) -> PodLink | None:
        """The pod with that UID; None when neither the log nor the bundle names it."""
        link = self._by_uid.get(uid)
        if link is None and uid in context.pods:
            known = context.pods[uid]
            link = self._make(PodRef(known.namespace, known.name, uid))
        return link

    def pods_named(self, namespace: str, name: str) -> list[PodLink]:
        """All instances that had this name (a static pod and its mirror share one)."""
        return [
            link
            for link in self._by_uid.values()
            if link.namespace == namespace and link.name == name
        ]

    def _make(self, ref: PodRef) -> PodLink:
        name = (ref.namespace, ref.name)
        link = self._by_name.get(name)
        if link is None or link.uid is not None:
            static = link
            link = PodLink(ref)
            # The mirror of a static pod has its name, but lines with a name mean the pod.
            if static is None or not static.is_static or static.removed:
                self._by_name[name] = link
        link.uid = ref.uid
        if ref.uid is not None:
            self._by_uid[ref.uid] = link
        return link

    def dispute(
        self, pod: PodLink, ts_ns: int, why: str, here: str, elsewhere: str, *lines: Evidence
    ) -> None:
        """Take down that lines about a pod cannot both be right; the first says ``here``."""
        told = Dispute(f"pod/{pod.namespace}/{pod.name}", why, here, elsewhere).message
        body = FindingReported(finding=LINES_DISAGREE, file=lines[0].file, message=told)
        self.queue.add(Fact(ts_ns, body, lines))

    def container(self, container_id: str, pod: PodLink) -> ContainerLink:
        """The container with that ID, made when it is new."""
        link = self.containers.get(container_id)
        if link is None:
            link = self.containers[container_id] = ContainerLink(container_id, pod)
        return link

    def oom_of(self, context: BundleContext, died: Fact, instance: Instance | None) -> Fact | None:
        """The kernel's kill that a container died of."""
        return self.oom.cause_of_death(context, died, instance)

    def instance(self, context: BundleContext, container_id: str) -> Instance | None:
        """What pod statuses tell of a container ID."""
        return self.instances(context).get(container_id)

    def instances(self, context: BundleContext) -> dict[str, Instance]:
        """Bare container ID -> what pod statuses tell of it."""
        if self._instances is None:
            self._instances = index_instances(context.pods)
        return self._instances

    def begin_epoch(self, ts_ns: int) -> None:
        """Another kubelet process entered its sync loop: what was open stays as it is."""
        self.epoch += 1
        self.epoch_ts_ns = ts_ns
        self.sync_loop_turned()
        for pod in self.admitting:
            pod.admitting = False
        self.admitting = []

    def open_preemption(self, preemption: Waiting) -> None:
        """A preemption whose outcome is awaited; it blocks the sync loop meanwhile."""
        self._open_preemptions.append(preemption)

    def sync_loop_turned(self) -> None:
        """The sync loop took its next turn, so no preemption is under way any more."""
        for preemption in self._open_preemptions:
            preemption.settle()
        self._open_preemptions.clear()
