"""What the readers of the CPU manager and of the memory manager share.

Both allocate for one container at a time, under a lock, in lines that follow each other; both
release without naming the pod; both keep a state file, which shows what lines did not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kubeledger.ingest.correlate.assembler import Entry
from kubeledger.ingest.correlate.context import BundleContext, Subject
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.state_files import StateFile, StateFileAssembler
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S

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
    """Base of both; ``H`` is what a container holds.

    Attributes:
        refused_state: the last state file that it refused.
    """

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self.refused_state: Fact | None = None
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
