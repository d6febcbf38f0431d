"""What the readers of the CPU manager and of the memory manager share.

Both allocate for one container at a time, under a lock, in lines that follow each other; both
release without naming the pod; both keep a state file, which shows what lines did not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.klog.line_values import split_pod, split_pod_text
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import CpuManagerState, MemoryManagerState
from kubeledger.kubelet.kube.checkpoints import MalformedCheckpointError
from kubeledger.model.bodies.cpumanager import CpuManagerStateRead
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.memorymanager import MemoryManagerStateRead
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["PodName", "ResourceManagerAssembler", "Subject"]

_SETTLING_NS = 10 * NS_PER_S
"""A snapshot is named by the second it began in, and takes a while to be made."""

PodName = tuple[str | None, str | None]
"""Namespace and name."""

StateFile = CpuManagerState | MemoryManagerState
StateRead = TypeVar("StateRead", CpuManagerStateRead, MemoryManagerStateRead)
H = TypeVar("H")


class Subject(msgspec.Struct):
    """The container whose allocation is under way, as far as lines name it."""

    namespace: str | None
    pod: str | None
    uid: str | None
    container: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def names(self) -> dict[str, Any]:
        """The fields that name it in a body."""
        named = {"namespace": self.namespace, "pod": self.pod, "pod_uid": self.uid}
        return {**named, "container": self.container}


class _Held(msgspec.Struct, Generic[H]):
    what: H
    since_ns: int


class ResourceManagerAssembler(Assembler, ABC, Generic[H]):
    """Base of both; ``H`` is what a container holds.

    Attributes:
        refused_state: the last state file that it refused.
    """

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self.refused_state: Fact | None = None
        self._held: dict[tuple[str, str], _Held[H]] = {}
        self._presumed: dict[tuple[str, str], Waiting] = {}
        self._file: CpuManagerStateRead | MemoryManagerStateRead | None = None
        self._content: dict[str, Any] | None = None
        self._reported: set[str] = set()

    def subject_of(self, entry: Entry) -> Subject | None:
        """The container that a line names; None when it names none.

        1.20 writes ``name_namespace(uid)``, 1.19 the pod's name alone.
        """
        container = entry.get("containerName")
        if container is None:
            return None
        text, uid = entry.get("pod"), entry.get("podUID")
        namespace, pod = split_pod(text)
        if pod is None and text is not None:
            namespace, pod, logged_uid = split_pod_text(text)
            pod, uid = pod or text, uid or logged_uid
        if uid is None and namespace and pod:
            uid = self.context.uid_of(namespace, pod, entry.ts_ns)
        known = self.name_of(uid)
        if known != (None, None):
            namespace, pod = known
        return Subject(namespace, pod, uid, container, (entry.evidence,))

    def name_of(self, uid: str | None) -> PodName:
        """Namespace and name of a pod; (None, None) when no source shows it."""
        pod = self.context.pods.get(uid or "")
        return (pod.namespace, pod.name) if pod is not None else (None, None)

    def names_of(self, uid: str, container: str) -> dict[str, Any]:
        """The fields that name a container in a body."""
        return Subject(*self.name_of(uid), uid, container).names

    def take(self, uid: str, container: str, what: H, ts_ns: int) -> None:
        """A container holds something from now on, as a line shows."""
        self._held[uid, container] = _Held(what, ts_ns)
        self._note_logged(uid, container)

    def held(self, uid: str, container: str) -> H | None:
        """What a container holds; None for nothing."""
        found = self._held.get((uid, container))
        return found.what if found is not None else None

    def drop(self, uid: str, container: str) -> None:
        """It holds nothing any more, as a line shows."""
        self._held.pop((uid, container), None)
        self._note_logged(uid, container)

    def _note_logged(self, uid: str, container: str) -> None:
        """A line shows what the state file, read in the same moment, has shown before it."""
        presumed = self._presumed.pop((uid, container), None)
        if presumed is not None:
            presumed.drop()

    def drop_before(self, ts_ns: int) -> None:
        """Nobody held anything then: there was no state file."""
        self._held = {key: held for key, held in self._held.items() if held.since_ns >= ts_ns}

    def read_file(
        self, item: StateFile, read: Callable[[dict[str, Any]], StateRead]
    ) -> StateRead | None:
        """The record of a state file that changed; None where it says nothing new.

        One that is malformed, or whose checksum does not fit, is a finding and not relied on.
        """
        if item.data == self._content:
            return None
        try:
            body = read(item.data)
        except MalformedCheckpointError as error:
            self._find(item, "malformed_checkpoint", f"not read: {error}")
            return None
        self._content = item.data
        if body == self._file:
            return None
        self._file = body
        self.queue.add(Fact(item.ts_ns, body, (item.evidence,)))
        if body.checksum_ok is False:
            message = f"checksum {body.checksum} does not fit the content"
            self._find(item, "checksum_mismatch", message)
            return None
        return body

    def compare(self, item: StateFile, entries: Mapping[tuple[str, str], H]) -> None:
        """What lines did not show and the state file shows was given or taken back since."""
        gone = sorted(
            holder
            for holder, held in self._held.items()
            if holder not in entries and held.since_ns < item.ts_ns - _SETTLING_NS
        )
        for uid, container in gone:
            body = self.released(uid, container, inferred=True)
            del self._held[uid, container]
            self._presume(item, uid, container, body)
        for (uid, container), what in entries.items():
            if self.held(uid, container) is None:
                self._held[uid, container] = _Held(what, item.ts_ns)
                self._presume(item, uid, container, self.given_by_file(uid, container, what))

    def _presume(self, item: StateFile, uid: str, container: str, body: Body) -> None:
        fact = Fact(item.ts_ns, body, (item.evidence,))
        self._presumed[uid, container] = self.queue.hold(fact, _SETTLING_NS)

    @abstractmethod
    def released(self, uid: str, container: str, *, inferred: bool = False) -> Body:
        """The decision that takes back what a container holds."""

    @abstractmethod
    def given_by_file(self, uid: str, container: str, what: H) -> Body:
        """The decision that gave a container what only the state file shows."""

    def _find(self, item: StateFile, finding: str, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            body = FindingReported(finding=finding, file=item.evidence.file, message=message)
            self.queue.add(Fact(item.ts_ns, body, (item.evidence,)))
