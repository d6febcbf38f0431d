"""The kubelet's state files: recorded when they changed; and what the readers of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, takes
from kubeledger.ingest.correlate.context import Subject
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Seen, Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import DraManagerState, Fact, PodsState
from kubeledger.kubelet.allocation.state import read_pods_state
from kubeledger.kubelet.dra.claiminfo import read_dra_manager_state
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.model.bodies.cgroups import PodsStateRead
from kubeledger.model.bodies.devicemanager import (
    ClaimPrepared,
    ClaimReleased,
    DraManagerStateRead,
    HeldClaim,
)
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.resourcemanagers import CpuManagerStateRead, MemoryManagerStateRead
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S

StateRead = TypeVar(
    "StateRead", CpuManagerStateRead, DraManagerStateRead, MemoryManagerStateRead, PodsStateRead
)


class StateFile(Seen, Protocol):
    """An item that holds the decoded JSON of a file."""

    @property
    def data(self) -> dict[str, Any]:
        """The decoded JSON."""


class StateFileAssembler(Assembler):
    """Base of assemblers that read state files."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._bodies: dict[str, object] = {}
        self._contents: dict[str, dict[str, Any]] = {}
        self._reported: set[str] = set()

    def read_file(
        self, item: StateFile, read: Callable[[dict[str, Any]], StateRead], which: str = ""
    ) -> StateRead | None:
        """The record of a state file that changed; None where it says nothing new.

        One that is malformed, or whose checksum does not fit, is a finding and not relied on.

        Args:
            read: makes its record.
            which: of several files that an assembler reads.
        """
        if item.data == self._contents.get(which):
            return None
        try:
            body = read(item.data)
        except MalformedCheckpointError as error:
            self._find(item, "malformed_checkpoint", f"not read: {error}")
            return None
        self._contents[which] = item.data
        if body == self._bodies.get(which):
            return None
        self._bodies[which] = body
        self.queue.add(shown(item, body))
        if body.checksum_ok is False:
            message = f"checksum {body.checksum} does not fit the content"
            self._find(item, "checksum_mismatch", message)
            return None
        return body

    def _find(self, item: StateFile, finding: str, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            body = FindingReported(finding=finding, file=item.evidence.file, message=message)
            self.queue.add(shown(item, body))


# What the readers of the CPU manager and of the memory manager share.
#
# Both allocate for one container at a time, under a lock, in lines that follow each other; both
# release without naming the pod; both keep a state file, which shows what lines did not.

_SETTLING_NS = 10 * NS_PER_S
"""A snapshot is named by the second it began in, and takes a while to be made."""

Holder = tuple[str, str]
"""Pod UID and container."""

H = TypeVar("H")


_WRITTEN_NS = 2 * NS_PER_S


class Allocation(msgspec.Struct):
    """An allocation or a release under way: for whom, the lines about it, and since when."""

    subject: Subject
    evidence: tuple[Evidence, ...]
    ts_ns: int

    def ends_with(self, entry: Entry) -> bool:
        """Whether a line of a state that changed is about this; else the own one is lost."""
        return self.subject.uid is not None and entry.ts_ns - self.ts_ns <= _WRITTEN_NS


class _Held(msgspec.Struct, Generic[H]):
    what: H
    since_ns: int


class ResourceManagerAssembler(StateFileAssembler, ABC, Generic[H]):
    """Base of both; ``H`` is what a container holds."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._held: dict[Holder, _Held[H]] = {}
        self._presumed: dict[Holder, Waiting[Body]] = {}

    def subject_of(self, entry: Entry) -> Subject:
        """The container that a line names, with what the bundle knows of its pod."""
        return self.context.completed(entry.subject, entry.ts_ns)

    def names_of(self, holder: Holder) -> dict[str, Any]:
        """The fields that name a container in a body."""
        uid, container = holder
        return Subject(*self.context.name_of(uid), uid, container).names

    def take(self, holder: Holder, what: H, ts_ns: int) -> None:
        """A container holds something from now on, as a line shows."""
        self._held[holder] = _Held(what, ts_ns)
        self._note_logged(holder)

    def held(self, holder: Holder) -> H | None:
        """What a container holds; None for nothing."""
        return self._held[holder].what if holder in self._held else None

    def give_back(self, holder: Holder, entry: Entry, *evidence: Evidence, **more: object) -> None:
        """Lines show that a container gives back what it holds; ``more``: fields of the body."""
        body = msgspec.structs.replace(self.released(holder), **more)
        self.queue.add(Fact(entry.ts_ns, body, (*evidence, entry.evidence)))
        self._held.pop(holder, None)
        self._note_logged(holder)

    def _note_logged(self, holder: Holder) -> None:
        """A line shows what the state file, read in the same moment, has shown before it."""
        presumed = self._presumed.pop(holder, None)
        if presumed is not None:
            presumed.drop()

    def drop_before(self, ts_ns: int) -> None:
        """Nobody held anything then: there was no state file."""
        self._held = {key: held for key, held in self._held.items() if held.since_ns >= ts_ns}

    def compare(self, item: StateFile, entries: Mapping[Holder, H]) -> None:
        """What lines did not show and the state file shows was given or taken back since."""
        gone = sorted(
            holder
            for holder, held in self._held.items()
            if holder not in entries and held.since_ns < item.ts_ns - _SETTLING_NS
        )
        for holder in gone:
            body = self.released(holder, inferred=True)
            del self._held[holder]
            self._presume(item, holder, body)
        for holder, what in entries.items():
            if holder not in self._held:
                self._held[holder] = _Held(what, item.ts_ns)
                self._presume(item, holder, self.given_by_file(holder, what))

    def _presume(self, item: StateFile, holder: Holder, body: Body) -> None:
        self._presumed[holder] = self.queue.hold(shown(item, body), _SETTLING_NS)

    @abstractmethod
    def released(self, holder: Holder, *, inferred: bool = False) -> Body:
        """The decision that takes back what a container holds."""

    @abstractmethod
    def given_by_file(self, holder: Holder, what: H) -> Body:
        """The decision that gave a container what only the state file shows."""


# Claims that are prepared for pods and given back, as ``dra_manager_state`` shows it.

_PodAndClaim = tuple[str, str]
"""UIDs of pod and claim."""


class ClaimsAssembler(StateFileAssembler):
    """The state file, and what changed from one to the next."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._pods = registers.pods
        self._held: dict[_PodAndClaim, HeldClaim] = {}

    @takes(DraManagerState)
    def _state_file(self, item: DraManagerState) -> None:
        body = self.read_file(item, read_dra_manager_state)
        if body is None:
            return
        shows = {(uid, claim.uid): claim for claim in body.claims for uid in claim.pod_uids}
        left = {claim.uid for claim in body.claims}
        changes: list[Body] = []
        gone = [holder for holder in self._held if holder not in shows]
        # Whoever lives on loses a claim as the last; the file does not tell the order.
        for holder in sorted(gone, key=lambda each: (not self._has_ended(each[0]), each)):
            claim = self._held.pop(holder)
            unprepared = claim.uid not in {*left, *(uid for _, uid in self._held)}
            changes.append(self._released(holder, claim, unprepared=unprepared))
        for holder, claim in shows.items():
            known = self._held.get(holder)
            prepared = all(claim.drivers.values())
            if prepared and (known is None or known.drivers != claim.drivers):
                self._held[holder] = claim
                changes.append(self._prepared(holder, claim))
        for change in changes:
            self.queue.add(shown(item, change))

    def _has_ended(self, uid: str) -> bool:
        pod = self._pods.with_uid(uid)
        return pod is None or pod.deleted is not None or pod.phase in ("Failed", "Succeeded")

    def _released(
        self, holder: _PodAndClaim, claim: HeldClaim, *, unprepared: bool
    ) -> ClaimReleased:
        return ClaimReleased(
            namespace=claim.namespace,
            pod=self.context.name_of(holder[0])[1],
            pod_uid=holder[0],
            claim=claim.name,
            claim_uid=claim.uid,
            unprepared=unprepared,
            inferred=True,
        )

    def _prepared(self, holder: _PodAndClaim, claim: HeldClaim) -> ClaimPrepared:
        return ClaimPrepared(
            namespace=claim.namespace,
            pod=self.context.name_of(holder[0])[1],
            pod_uid=holder[0],
            claim=claim.name,
            claim_uid=claim.uid,
            drivers=claim.drivers,
            told_by="state_file",
        )


# What is allocated to pods, and actuated, as the kubelet's state files show it.


class PodsStateAssembler(StateFileAssembler):
    """``allocated_pods_state`` and ``actuated_pods_state``, which their names alone tell apart."""

    @takes(PodsState)
    def _state_file(self, item: PodsState) -> None:
        name = PurePosixPath(item.evidence.file).name
        if name.startswith("actuated"):
            body = self.read_file(item, partial(read_pods_state, which="actuated"), "actuated")
            if body is not None:
                self.registers.actuated = body.pods
        else:
            self.read_file(item, partial(read_pods_state, which="allocated"), "allocated")
