"""What the rules of the CPU manager and of the memory manager share.

Both keep a table of what each container has, in memory and in a state file. Lines show its
changes, the file shows the table. A line may be lost, so two things stay open at any time: what a
container got may have been given back, unless something later shows it still; and a container
whose spec asks for it may have got something, unless the ledger says when it did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.podtotals import is_pod_level
from kubeledger.kubelet.lifecycle.state import key_of
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.policy import Hints
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.bodies.resourcemanagers import HintsGenerated
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, compared, lacks, same
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.debts import Missed
from kubeledger.verify.evidence.pod_objects import Spec, specs_in
from kubeledger.verify.evidence.pods import ListedPod, key_of_pod
from kubeledger.verify.finding import Row, Witnesses
from kubeledger.verify.rules.activity import (
    came_back,
    is_active,
    let_go,
    lived,
    misnamed,
    relied_on,
)

Holder = tuple[str, str]
"""Pod key and container."""

OwnHints = Mapping[str, Hints | None]
"""Resource -> what a manager offers the topology manager."""

V = TypeVar("V", bound=Hashable)

NONE_POLICY: Final = "policy_none.go"
"""What decides of CPUs or memory where a variant turns a manager off."""

_FILE_NS = 15 * NS_PER_S
"""A snapshot is named by the second it began in, and may take so long to be made."""
_NOTICED_NS = 5 * NS_PER_S
"""So long after a pod's end, or its own start, a kubelet releases at the next admission."""
_COLLECTED_NS: Final = 5 * NS_PER_S


class Assignment(NamedTuple, Generic[V]):
    """What a container has, the record that showed it, and when, if that was a state file alone.

    Such a time is that of a collection, which reads the file some time after it began.
    """

    value: V
    seq: int
    read_ns: int | None = None


class AssignmentVerifier(RuleVerifier, ABC, Generic[V]):
    """One manager's table of assignments.

    Attributes:
        denied: what it means when the file shows something else than the lines showed.
        released: the kubelet's function that gives back; ``validated`` the one that checks a file.
        grants, releases, shortages, refusals: of containers, and of the state file.
        starts, files: the manager began; its file was read.
        turned_off: setting and value with which nobody has anything of its own.
        settings: what else its hints rest on.
        held: the table; ``complete``: nobody else has anything.
        pending: the pod that was to be admitted last, which kubelets up to 1.31 count as active;
            None where no record shows one.
    """

    manager: ClassVar[str]
    file: ClassVar[str]
    denied: ClassVar[str]
    released: ClassVar[str]
    validated: ClassVar[str]
    grants: ClassVar[type[Body]]
    releases: ClassVar[type[Body]]
    shortages: ClassVar[type[Body]]
    refusals: ClassVar[type[Body]]
    starts: ClassVar[type[Body]]
    turned_off: ClassVar[tuple[str, str]]
    settings: ClassVar[tuple[str, ...]]
    files: ClassVar[type[Body]]
    none: Any

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self.held: dict[Holder, Assignment[V]] = {}
        self.complete = False
        self.pending: str | None = None
        self._was_complete = False
        self._granted_ns = self._started_ns = 0
        self._witnesses: Witnesses[V] = Witnesses(_FILE_NS)
        self._changes: dict[Holder, list[Record]] = {}
        self._readings: dict[Holder, list[tuple[int, V]]] = {}

    def prescans(self) -> Mapping[type[Body], Prescan]:
        return {
            self.grants: self._foresee_change,
            self.releases: self._foresee_change,
            self.files: self.foresee_file,
        }

    def sees(self) -> Mapping[type[Body], See]:
        return {
            self.grants: self._decided,
            self.releases: self._decided,
            self.shortages: self._decided,
            self.refusals: self._refused,
            self.starts: self.started,
            self.files: self._file_read,
            KubeletStarted: self._process_started,
            HintsGenerated: self._hinted,
            PodAdmitted: self._asked,
            PodRejected: self._asked,
        }

    def settle(self, state: NodeState) -> None:
        self._compare(None)

    # -- what each manager says of itself -------------------------------------------------------

    @abstractmethod
    def contents_of(self, body: Any) -> dict[Holder, V]:  # noqa: ANN401 - the manager's file
        """The table of a state file."""

    def compared(self, given: V, reading: V | None) -> V:
        """What a file that shows this, or no entry, says of what was reported."""
        nothing: V = self.none
        return nothing if reading is None else reading

    @abstractmethod
    def text(self, value: V) -> str:
        """What a container has, for people."""

    @abstractmethod
    def given(self, body: Any) -> V:  # noqa: ANN401
        """What a grant gives."""

    def lasts(self, holder: Holder) -> bool:
        """Whether a container has what it has as long as its pod is active."""
        return True

    @abstractmethod
    def is_own(self, resource: str) -> bool:
        """Whether the manager gives hints for a resource."""

    @property
    def is_varied(self) -> bool:
        """Whether a variant's manager may give other hints than the recorded ones."""
        return any(map(self.context.settings.is_varied, self.settings))

    def hints(self, pod: Pod, container: Container | None) -> OwnHints | None:
        """The hints for a container, or (None) a pod, under a variant, too; None: not known."""
        return None

    @abstractmethod
    def started(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401
        """The manager began."""

    def note_file(self, record: Record, body: Any) -> None:  # noqa: ANN401 - the manager's file
        """A state file was read that is relied on."""

    @abstractmethod
    def judge(self, record: Record, holder: Holder, state: NodeState) -> Judgement:
        """Judge a decision about a container by the rules of this version."""

    @abstractmethod
    def judge_file(self, body: Any) -> Judgement:  # noqa: ANN401
        """Judge that a new process refused the state file."""

    # -- decisions ------------------------------------------------------------------------------

    def _decided(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 - any
        self._compare(record.ts_ns)
        key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod) or ""
        holder = key, body.container or ""
        name = f"{body.namespace}/{body.pod}" if body.pod else key
        subject = f"container/{name}/{holder[1]}" if holder[1] and body.pod else f"pod/{name}"
        if self.is_off:
            self.conclude(record, subject, self._never())
            return
        found = self._foreign(record, body)
        if found is None and self.context.profile is None:
            found = lacks([self.context.missing_profile])
        found = found or self.judge(record, holder, state)
        rule = found.rule or (self.released if isinstance(body, self.releases) else self.rule)
        self.conclude(record, subject, found, recorded=compared(record, found), rule=rule)
        if not isinstance(body, self.releases):
            self.pending = key
        if isinstance(body, self.grants):
            self.take(record, holder, self.given(body))
            interval = self.context.timeline.interval(record.ts_ns, key)
            if interval is None or interval.source in (None, "api"):
                self._granted_ns = record.ts_ns
        elif isinstance(body, self.releases):
            self.lose(record, holder)

    def _refused(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 - any
        found = self._never() if self.is_off else self.judge_file(body)
        self.conclude(record, "node", found, rule=found.rule or self.validated)

    def _foreign(self, record: Record, body: Any) -> Judgement | None:  # noqa: ANN401 - any body
        """The judgement of a record whose pod has another name, or no such container."""
        listed = self.context.pods.of(record)
        if (wrong := misnamed(record, listed)) is not None:
            return wrong
        if listed is None or listed.uid != body.pod_uid or body.container is None:
            return None
        versions = self.context.pods.versions(listed)
        names = {spec.container.name for version in versions for spec in specs_in(version)}
        if not names or body.container in names:
            return None
        why = f"the pod has no container {body.container}"
        return same(False, why, inputs=[listed.seq], certain=True)

    def _never(self) -> Judgement:
        """The judgement of a decision that a manager without a policy does not take."""
        why = f"with {' '.join(self.turned_off)} no container has any of its own"
        manager = self.rule.rpartition("/")[0]
        return same(False, why, certain=True, rule=f"{manager}/{NONE_POLICY} Allocate")

    @property
    def is_off(self) -> bool:
        """Whether a variant turns the manager's policy off."""
        setting, value = self.turned_off
        return self.context.variant.settings.get(setting) == value

    def given_back(
        self, record: Record, holder: Holder, state: NodeState, *, asks: bool
    ) -> Judgement:
        """Judge that a container gives back what it has; ``asks``: its spec may ask for some."""
        held, inferred = self.held.get(holder), getattr(record.body, "inferred", False)
        if self.is_of_a_whole(record):
            return lacks(["what its pod has as a whole"])
        if held is not None:
            keeps = self.surely_has(holder, record.ts_ns)
            found = let_go(self.context, state, holder[0], keeps=keeps)
            why = f"{found.why}; {self.text(held.value)} given back"
            return replace(found, why=why, inputs=(held.seq,))
        if self.complete and not inferred and not (asks and self.may_have_got(holder)):
            return same(False, "it had nothing that could be given back")
        return lacks(["what it had before"])

    @property
    def facts(self) -> ResourceManagerFacts:
        """What this version does; only asked where a decision is judged."""
        return self.context.known_profile.resourcemanagers

    # -- the table ------------------------------------------------------------------------------

    def _process_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        """Whether a new process has the same table, only a line of its start says.

        Where the log begins within it, no line says what it had, and did until here.
        """
        self._was_complete = self._was_complete or self.complete
        self.complete = False
        self.pending = None
        self._started_ns = record.ts_ns
        if not body.from_start:
            self.reset()

    def begin(self, restored: bool | None, *, same: bool = True) -> None:
        """The manager began with the table of its file, or (not ``restored``) with none.

        ``same``: nothing denies that the file is what the process before left.
        """
        if restored is False:
            self.reset()
        was_complete = self.complete or self._was_complete
        self.complete = restored is False or (restored is True and same and was_complete)
        self._was_complete = False

    def reset(self) -> None:
        self.held.clear()
        self.complete = self._was_complete = False
        self._witnesses.forget()

    def take(self, record: Record, holder: Holder, value: V) -> None:
        by_file = getattr(record.body, "told_by", "log") == "state_file"
        self.held[holder] = Assignment(value, record.seq, record.ts_ns if by_file else None)
        self._note_change(holder, value, record)

    def lose(self, record: Record, holder: Holder) -> None:
        self.held.pop(holder, None)
        self._note_change(holder, None, record)

    def _note_change(self, holder: Holder, value: V | None, record: Record) -> None:
        text = "" if value is None else f"container {holder[1]} has {self.text(value)}"
        row = Row(self.file, holder, value, record.seq, record.ts_ns, text)
        if self.complete and self._changes.get(holder, [record])[0].seq == record.seq:
            # Nobody else has anything, so until now it had nothing.
            before_ns = record.ts_ns - 2 * _FILE_NS
            self._witnesses.note_change(row._replace(value=self.none, ts_ns=before_ns))
        self._witnesses.note_change(row)

    def _asked(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 - either
        self.pending = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)

    # -- state files ----------------------------------------------------------------------------

    def _foresee_change(self, record: Record, body: Any) -> None:  # noqa: ANN401 - any body
        self._changes.setdefault((key_of_pod(body), body.container), []).append(record)

    def foresee_file(self, record: Record, body: Any) -> None:  # noqa: ANN401 - any file
        if body.checksum_ok is not False:
            for holder, value in self.contents_of(body).items():
                self._readings.setdefault(holder, []).append((record.ts_ns, value))

    def _file_read(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 - file
        self._compare(record.ts_ns)
        if not relied_on(self.context, record, self.file):
            return
        reading = self.contents_of(body)
        self.note_file(record, body)
        # Who has something that no record ever gave shows that the table has gaps.
        self.complete = self.complete and reading.keys() <= self._changes.keys()
        if not self.complete:
            self.adopt(record, reading)
            return
        self._miss_releases(record, reading)
        for holder, held in self.held.items():
            value = reading.get(holder)
            if value is None and not is_active(state, self.context.pods, holder[0])[0]:
                continue  # the line of its release may be lost
            has = "no entry" if value is None else self.text(value)
            text = f"the file has {has} for container {holder[1]}"
            shown = self.compared(held.value, value)
            row = Row(self.file, holder, shown, record.seq, record.ts_ns, text)
            self._witnesses.note_reading(row)
        self.overdue(record, reading.keys(), self._granted_ns)

    def _miss_releases(self, record: Record, reading: Mapping[Holder, V]) -> None:
        """A line that gave back what a file does not show may be lost, if the pod may be gone.

        What changed near the time of the file may not be in it yet, or may not be any more.
        """
        for holder in sorted(self.held.keys() - reading.keys()):
            changes = self._changes.get(holder, ())
            if any(abs(each.ts_ns - record.ts_ns) < _FILE_NS for each in changes):
                continue
            if not self.surely_has(holder, record.ts_ns):
                self.lose(record, holder)

    def adopt(self, record: Record, reading: Mapping[Holder, V]) -> None:
        """Take over a file's table as it was at its time: what lines show then comes later."""
        later = {holder for holder, change in self.meanwhile(record)
                 if isinstance(change.body, self.grants)}  # fmt: skip
        given = {holder: reading[holder] for holder in reading if holder not in later}
        self.held = {holder: Assignment(value, record.seq) for holder, value in given.items()}

    def meanwhile(self, read: Record) -> Iterator[tuple[Holder, Record]]:
        """Changes that lines show between the time of a file and the last one it can be of."""
        for holder, changes in self._changes.items():
            for change in changes:
                is_later = (change.ts_ns, change.seq) > (read.ts_ns, read.seq)
                if is_later and change.ts_ns - read.ts_ns < _FILE_NS:
                    yield holder, change

    def _compare(self, ts_ns: int | None) -> None:
        """Show what files denied, of those that cannot be explained by what came by then."""
        sides: dict[int, list[tuple[int, str]]] = {}
        at_ns = 0
        for given, reading in self._witnesses.passed(ts_ns):
            at_ns = max(at_ns, reading.ts_ns)
            both = sides.setdefault(reading.seq, [(reading.seq, reading.text)])
            both.append((given.seq, given.text))
        for reading_sides in sides.values():
            self.context.contradict(at_ns, "node", self.denied, *reading_sides)

    # -- what is sure, and what is owed ---------------------------------------------------------

    def surely_has(self, holder: Holder, ts_ns: int) -> bool:
        """Whether something later shows that a container kept what it has."""
        held, reading = self.held.get(holder), self._readings.get(holder, ())
        if held is not None and held.read_ns is not None and ts_ns - held.read_ns < _COLLECTED_NS:
            return False  # perhaps it got it only then
        return held is not None and (
            (self.lasts(holder) and lived(self.context, holder[0], ts_ns))
            or any(at_ns > ts_ns and value == held.value for at_ns, value in reading)
        )

    def may_have_got(self, holder: Holder) -> bool:
        """Whether a grant to the container may be in a lost line: no other shows one."""
        changes = self._changes.get(holder, ())
        given = any(isinstance(change.body, self.grants) for change in changes)
        return not given or came_back(self.context, holder[0])

    def overdue(self, record: Record, still: Iterable[Holder], noticed_ns: int) -> None:
        """Say who still has something though the pod had ended when that was looked at.

        Nothing is released before the API server has answered: only its pods are looked at.
        """
        for holder in sorted(self.held.keys() & set(still)):
            ended_ns = self._ended_ns(record.ts_ns, holder[0])
            # The last one that was to be admitted may count as active though it has ended.
            kept = self.context.profile is None or self.facts.pending_admission_pod
            is_pending = kept and self.pending in (None, holder[0])
            if not self.complete or ended_ns is None or is_pending:
                continue
            if noticed_ns - max(ended_ns, self._started_ns) < _NOTICED_NS:
                continue
            value, seq, _ = self.held.pop(holder)
            missed = Missed(
                since=record,
                kind=self.releases.kind,
                subject=f"container/{self.pod(holder)}/{holder[1]}",
                expected={"pod_uid": holder[0], "container": holder[1]},
                why=f"pod {self.pod(holder)} ended, and {self.text(value)} of its container "
                f"{holder[1]} was not given back",
                rule=self.released,
                inputs=(seq,),
            )
            self.context.absent(missed)

    def _ended_ns(self, ts_ns: int, uid: str) -> int | None:
        """When a pod of the API server ended, also in a process before; None: not known to have."""
        intervals = self.context.timeline.history(uid).intervals
        come = (each for each in intervals if each.since_ns <= ts_ns)
        last = max(come, key=lambda each: each.since_ns, default=None)
        return last.terminated_ns if last is not None and last.source == "api" else None

    # -- hints ----------------------------------------------------------------------------------

    def _hinted(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        """Under a variant other hints are merged than the recorded ones."""
        if not (self.is_off or self.is_varied):
            return
        hints = {} if self.is_off else self.own_hints(record, body)
        key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod) or ""
        offer = self.context.alignment.offer(record, key, body)
        others = {name: of for name, of in offer.hints.items() if not self.is_own(name)}
        missing = () if hints is not None else (f"the hints of the {self.manager}",)
        offer = offer._replace(hints={**others, **(hints or {})}, missing=offer.missing + missing)
        self.context.alignment.replace(offer)

    def own_hints(self, record: Record, body: HintsGenerated) -> OwnHints | None:
        """Hints for the container or pod of a record, by each version of its spec if they agree."""
        whole = body.container is None
        firsts = (next(specs_in(version), None) for version in self.versions(record))
        specs = list(filter(None, firsts)) if whole else self.specs(record)
        found = [self.hints(spec.pod, None if whole else spec.container) for spec in specs]
        return found[0] if found and found.count(found[0]) == len(found) else None

    # -- specs and names ------------------------------------------------------------------------

    def is_of_a_whole(self, record: Record) -> bool:
        """Whether the record's pod is given something as a whole, which only the file shows."""
        profile = self.context.profile
        if profile is None or not profile.resourcemanagers.pod_level_managers:
            return False
        return any(is_pod_level(spec.pod.spec.resources) for spec in self._all_specs(record))

    def specs(self, record: Record) -> list[Spec]:
        """The container in each version of its pod's spec; none where no list shows it.

        A pod that was resized has several, and any may be what was asked for.
        """
        name = getattr(record.body, "container", None)
        return [spec for spec in self._all_specs(record) if spec.container.name == name]

    def _all_specs(self, record: Record) -> Iterator[Spec]:
        return (spec for version in self.versions(record) for spec in specs_in(version))

    def versions(self, record: Record) -> Sequence[ListedPod]:
        """The record's pod in each version of its spec; none where it may have had another one."""
        pods, listed = self.context.pods, self.context.pods.of(record)
        if listed is None or pods.changed_unseen(record.ts_ns, listed):
            return ()
        return pods.versions(listed)

    def pod(self, holder: Holder) -> str:
        """The name of a holder's pod, or its UID."""
        listed = self.context.pods.at(0, holder[0])
        return f"{listed.namespace}/{listed.name}" if listed is not None else holder[0]

    def named(self, holder: Holder) -> str:
        """``container c of pod ns/p``."""
        return f"container {holder[1]} of pod {self.pod(holder)}"
